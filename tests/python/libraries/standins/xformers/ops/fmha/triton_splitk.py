"""xformers/ops/fmha/triton_splitk.py of facebookresearch/xformers."""


class FwOp:
    @classmethod
    def apply(cls, inp, needs_gradient):
        return inp.query, cls
