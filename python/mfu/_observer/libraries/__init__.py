"""Libraries that call their matmuls past torch's dispatcher (pybind, TVM-FFI, ctypes, Triton): one small file each.

A file's `install(module, book)` is called once its module is there. It wraps the functions that multiply, says which
versions were read (`book.reads`), and leaves every other version alone: then the summary calls MFU a lower bound and
names the library. docs/coverage.md has the table. A program that imports none of them pays nothing.
"""

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
# Put into sys.modules by their package, which no import finder sees; it is looked for when the package has run, and
# whenever anything else is imported.
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
UNCOUNTED = {
    "sageattention": "no formula yet",
    "flash_mla": "no formula yet",
    "mamba_ssm": "its scans are CUDA and Triton kernels",
    "causal_conv1d": "its convolutions are CUDA kernels",
    "natten": "no formula yet",
    "spconv": "no formula yet",
    "MinkowskiEngine": "no formula yet",
    "torchsparse": "no formula yet",
    "marlin": "no formula yet",
    "exllamav2": "no formula yet",
    "tilelang": "its kernels are the program's own",
    "tensorrt": "its engines are closed",
    "torch_tensorrt": "its engines are closed",
    "onnxruntime": "its graphs run in a runtime of their own",
    "jax": "it computes in a runtime of its own",
    "tensorflow": "it computes in a runtime of its own",
    "cupy": "it computes in a runtime of its own",
}


def install(library):
    for host in {host for hosts in HOSTS.values() for host in hosts}:
        imports.when_imported(host, lambda _: None)  # seen from its beginning, so that its end is
    for name, part in WATCHED.items():
        imports.when_imported(name, _installer(name, part, library))
    for name, hosts in BY_HAND.items():
        for host in hosts:
            imports.when_imported(host, _looker(name))
        imports.when_present(name)
    for name, why in UNCOUNTED.items():
        imports.when_imported(name, _named(name, why, library))


def _installer(name, part, library):
    def ready(module, wait=True):
        for host in HOSTS.get(name, ()):
            if wait and imports.is_initializing(host):
                imports.when_imported(host, lambda _: ready(module, wait=False))
                return
        from .wrapping import Book

        book = Book(library, part)
        try:
            from importlib import import_module

            import_module(f"{__name__}.{part}").install(module, book)
        except Exception as error:  # noqa: BLE001: a library that we do not know must still work
            book.unknown(f"its functions were not as expected: {type(error).__name__}: {error}")

    return ready


def _looker(name):
    def ready(_):
        imports.look_for(name)

    return ready


def _named(name, why, library):
    def ready(module):
        from .wrapping import Book

        Book(library, name).tell(str(getattr(module, "__version__", "") or ""), "unknown", why)

    return ready
