"""csrc/ops.cu and csrc/grouped_gemm.cu of tgale96/grouped_gemm."""


def gmm(a, b, c, batch_sizes, trans_a, trans_b, /):
    start = 0
    for expert, size in enumerate(batch_sizes.tolist()):
        rows = slice(start, start + size)
        if trans_a:
            c[expert] = a[rows].t() @ b[rows]
        else:
            c[rows] = a[rows] @ (b[expert].t() if trans_b else b[expert])
        start += size
