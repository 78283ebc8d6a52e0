"""Libraries that call their matmuls past torch's dispatcher (pybind, TVM-FFI, ctypes, Triton): one small file each.

A file's `install(module, book)` is called once its module is there. It wraps the functions that multiply, says which
versions were read (`book.reads`), and leaves every other version alone: then the summary calls MFU a lower bound and
names the library. docs/coverage.md has the table. A program that imports none of them pays nothing.
"""

import atexit
import sys
import threading

from .. import imports

# Module that is waited for: the file here that knows it.
WATCHED = {
    "transformer_engine_torch": "transformer_engine",
    "fused_weight_gradient_mlp_cuda": "apex",
    "fused_dense_cuda": "apex",
    "mlp_cuda": "apex",
    "fast_multihead_attn": "apex",
    "fmhalib": "apex",
    "flash_attn_2_cuda": "flash_attn_2",
    "flash_attn.cute.interface": "flash_attn_4",
    "grouped_gemm_backend": "grouped_gemm",
    "deep_gemm": "deep_gemm",
    "flashinfer": "flashinfer",
    "xformers.ops.fmha.triton_splitk": "xformers",
    "unsloth.kernels.utils": "unsloth",
    "triton.runtime.jit": "triton",
    "triton.runtime.interpreter": "triton",
    "triton.runtime.autotuner": "triton",
}
# Put into sys.modules by their package, which no import finder sees; it is looked for when the package has run.
BY_HAND = {"transformer_engine_torch": ("transformer_engine", "transformer_engine.pytorch")}
# Whose version holds for an extension: it is looked at once that package has run.
HOSTS = {
    "transformer_engine_torch": ("transformer_engine",),
    "flash_attn_2_cuda": ("flash_attn",),
    "grouped_gemm_backend": ("grouped_gemm",),
    "fused_weight_gradient_mlp_cuda": ("apex",),
    "fused_dense_cuda": ("apex",),
    "mlp_cuda": ("apex",),
    "fast_multihead_attn": ("apex",),
    "fmhalib": ("apex",),
    "flash_attn.cute.interface": ("flash_attn.cute",),
    "xformers.ops.fmha.triton_splitk": ("xformers",),
    "unsloth.kernels.utils": ("unsloth",),
}
# Known to compute past the dispatcher, with nothing here that counts them.
_NO_FORMULA, _OWN = "no formula yet", "it computes in a runtime of its own"
UNCOUNTED = {
    **dict.fromkeys(
        "sageattention flash_mla natten spconv MinkowskiEngine torchsparse marlin exllamav2 exllamav2_ext"
        " exllama_kernels awq_ext awq_inference_engine autogptq_cuda_64 autogptq_cuda_256 bitblas eetq fused_dense_lib"
        " ft_attention flash_attn_3_cuda flashattn_hopper_cuda tinycudann nvmath block_sparse_attn_cuda magi_attention"
        " turbomind".split(),
        _NO_FORMULA,
    ),
    "mamba_ssm": "its scans are CUDA and Triton kernels",
    "causal_conv1d": "its convolutions are CUDA kernels",
    "tilelang": "its kernels are the program's own",
    "tensorrt": "its engines are closed",
    "torch_tensorrt": "its engines are closed",
    "tensorrt_llm": "its engines are closed",
    "onnxruntime": "its graphs run in a runtime of their own",
    **dict.fromkeys(("jax", "tensorflow", "cupy"), _OWN),
}


_over = []  # not empty: the program's own code has run


def install(library):
    for host in {host for hosts in HOSTS.values() for host in hosts}:
        imports.when_imported(host, lambda _: None)  # seen from its beginning, so that its end is
    for name, part in WATCHED.items():
        imports.when_imported(name, _installer(name, part, library))
    for name, hosts in BY_HAND.items():
        for host in hosts:
            imports.when_imported(host, _looker(name))
    for name, why in UNCOUNTED.items():
        imports.when_imported(name, _named(name, why, library))
    # Any of them may be put into sys.modules by hand.
    for name in (*WATCHED, *UNCOUNTED):
        imports.when_present(name)
    try:
        threading._register_atexit(_look_last)  # before handlers that import something
    except (AttributeError, RuntimeError):
        atexit.register(_look_last)


def _look_last():
    _over.append(True)
    imports.look(whole=True)


def _came_late(library):
    """Whether something ran before a module was found that was put there by hand: it may have been called already."""
    from .. import binding as types
    from .. import tripwire

    totals = types.Totals()
    library.read_totals(totals)
    return bool(_over or totals.calls or totals.uncounted_calls or tripwire.has_run())


def _installer(name, part, library):
    def ready(module, wait=True):
        # One that its package makes while it is imported was called by nobody.
        hosts = (*HOSTS.get(name, ()), *BY_HAND.get(name, ()))
        found = wait and imports.was_found(name) and not any(map(imports.is_initializing, hosts))
        for host in HOSTS.get(name, ()):
            if wait and imports.is_initializing(host):
                imports.when_imported(host, lambda _: ready(module, wait=False))
                return
        from .wrapping import Book

        book = Book(library, part, module)
        try:
            from importlib import import_module

            import_module(f"{__name__}.{part}").install(module, book)
        except Exception as error:  # noqa: BLE001: a library that we do not know must still work
            book.unknown(f"its functions were not as expected: {type(error).__name__}: {error}")
        if found:
            if _came_late(library):
                book.unknown("it was there before mfu watched: what it computed until then is not counted")
            elif book.taken():
                book.unknown("its functions were taken from it before mfu watched: such calls are not counted")
        # Its package may say its version later.
        for host in HOSTS.get(name, ()):
            if host not in sys.modules:
                imports.when_imported(host, lambda _: book.version_told())

    return ready


def _looker(name):
    def ready(_):
        imports.look_for(name, seen=True)

    return ready


def _named(name, why, library):
    def ready(module):
        from .wrapping import Book

        Book(library, name, module).tell(str(getattr(module, "__version__", "") or ""), "unknown", why)

    return ready
