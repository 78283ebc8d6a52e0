"""AOTInductor packages. Their code calls functions of libtorch_cpu past the dispatcher. libmfu_shims.so replaces the
functions that have most of the FLOPs. Other functions that a package calls, and that look like products, are named at
each call. Kernels from inductor's own templates call no function, so such a package is named if its code shows them."""

import functools
import re
import zipfile

# src/torch/shims/shims.cc replaces these.
COUNTED = {
    b"mm_out",
    b"bmm_out",
    b"_int_mm_out",
    b"addmm_out",
    b"baddbmm_out",
    b"_addmm_activation",
    b"convolution",
    b"_scaled_dot_product_flash_attention_for_cpu",
    b"_linear_pointwise",
    b"_mkl_linear",
    b"mkldnn__convolution_pointwise",
}
CALLED = re.compile(rb"aoti_torch_(?:cpu|cuda|xpu|mps)_(\w+)")
HEAVY = re.compile(rb"mm|matmul|linear|conv|attention|rnn|lstm|gru|addmv|cdist|fft")
TEMPLATE = re.compile(rb"(?:cpp_CppMicroGemm|cpp_.{0,40}gemm|triton_tem_fused)\w*")


def unknown_work(path):
    """The names of what the package's code calls and nobody counts."""
    found = set()
    with zipfile.ZipFile(path) as package:
        for name in package.namelist():
            if not name.endswith((".so", ".cubin")):
                continue
            code = package.read(name)
            called = set(CALLED.findall(code))
            found |= {b"aoti_torch::" + each for each in called - COUNTED if HEAVY.search(each)}
            if TEMPLATE.search(code):
                found.add(b"aoti_torch::matmul template")
    return sorted(found)


def install(module, library):
    """torch._inductor.package"""
    load = module.load_package
    active, uncounted = library.active, library.add_uncounted

    def watch(kind):
        if kind.__dict__.get("_mfu_watched"):
            return
        call = kind.__call__

        @functools.wraps(call)
        def watched(self, *args, **kwargs):
            if active():
                for name in self.__dict__.get("_mfu_unknown", ()):
                    uncounted(name, b"called by an AOTInductor package past the dispatcher")
            return call(self, *args, **kwargs)

        kind.__call__, kind._mfu_watched = watched, True

    @functools.wraps(load)
    def watched_load(path, *args, **kwargs):
        result = load(path, *args, **kwargs)
        try:
            watch(type(result))
            result.__dict__["_mfu_unknown"] = unknown_work(path)
        except Exception as error:  # noqa: BLE001
            library.fact(
                b"note", f"an AOTInductor package was not looked into: {type(error).__name__}: {error}".encode()
            )
        return result

    module.load_package = watched_load
    inner = getattr(module, "package", None)
    if getattr(inner, "load_package", None) is load:
        inner.load_package = watched_load
