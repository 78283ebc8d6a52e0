"""xformers/ops/fmha/triton_splitk.py of facebookresearch/xformers."""


class FwOp:
    SPLIT_K = None

    @classmethod
    def apply(cls, inp, needs_gradient):
        return inp.query, cls


class FwOp_S1(FwOp):
    SPLIT_K = 1
