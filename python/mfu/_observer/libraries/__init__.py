"""Libraries that call their matmuls past torch's dispatcher (pybind, TVM-FFI, ctypes, Triton): one small file each.

A file's `install(module, book)` is called once its module is imported. It wraps the functions that multiply and says
for which versions it was written (`book.reads`). Other versions are left alone; the summary then calls MFU a lower
bound and names the library. docs/coverage.md has the table. A program that imports none of them pays nothing.
"""

import atexit
import sys
import threading

from .. import imports

_APEX = ("fused_weight_gradient_mlp_cuda", "fused_dense_cuda", "mlp_cuda", "fast_multihead_attn", "fmhalib")
# Newer versions of Apex have a module of Python around each of its extensions.
_APEX_MODULES = (*_APEX, *(f"apex._extensions.{each}" for each in _APEX))

# Modules that are waited for, each with the file here that knows it.
WATCHED = {
    "transformer_engine_torch": "transformer_engine",
    **dict.fromkeys(_APEX_MODULES, "apex"),
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
# Modules that their package puts into sys.modules by hand, which no import finder sees. They are looked for when the
# package has run.
BY_HAND = {"transformer_engine_torch": ("transformer_engine", "transformer_engine.pytorch")}
# Extensions whose version is that of a package. They are looked at once that package has run.
HOSTS = {
    "transformer_engine_torch": ("transformer_engine",),
    "flash_attn_2_cuda": ("flash_attn",),
    "grouped_gemm_backend": ("grouped_gemm",),
    **dict.fromkeys(_APEX_MODULES, ("apex",)),
    "flash_attn.cute.interface": ("flash_attn.cute",),
    "xformers.ops.fmha.triton_splitk": ("xformers",),
    "unsloth.kernels.utils": ("unsloth",),
}
# Libraries that compute past the dispatcher and that nothing here counts.
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


_over = []  # not empty once the program's own code has run


def install(library):
    for host in {host for hosts in HOSTS.values() for host in hosts}:
        imports.when_imported(host, lambda _: None)  # its import is watched from its beginning, so that its end is seen
    for name, part in WATCHED.items():
        imports.when_imported(name, _installer(name, part, library))
    for name, hosts in BY_HAND.items():
        for host in hosts:
            imports.when_imported(host, _looker(name))
    for name, why in UNCOUNTED.items():
        imports.when_imported(name, _named(name, why, library))
    # The program may put any of them into sys.modules itself.
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
    """Whether other code ran before a module was found that was put into sys.modules by hand. Then it may have been
    called already."""
    from .. import binding as types
    from .. import tripwire

    totals = types.Totals()
    library.read_totals(totals)
    return bool(_over or totals.calls or totals.uncounted_calls or tripwire.has_run())


def _installer(name, part, library):
    def ready(module):
        # If its package made it during its own import, nobody has called it yet.
        hosts = (*HOSTS.get(name, ()), *BY_HAND.get(name, ()))
        found, made_now = imports.was_found(name), any(map(imports.is_initializing, hosts))
        from .wrapping import Book

        book = Book(library, part, module)
        try:
            from importlib import import_module

            import_module(f"{__name__}.{part}").install(module, book)
        except Exception as error:  # noqa: BLE001: a library that we do not know must still work
            book.unknown(f"its functions were not as expected: {type(error).__name__}: {error}")
        if found:
            if not made_now and _came_late(library):
                book.unknown("it was there before mfu watched: what it computed until then is not counted")
            elif book.taken():
                book.unknown("its functions were taken from it before mfu watched: such calls are not counted")
        # Its package may say its version later. Wrapped by then, because the package takes functions under other names.
        for host in HOSTS.get(name, ()):
            if host not in sys.modules or imports.is_initializing(host):
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
