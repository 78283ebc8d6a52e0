"""flashinfer/__init__.py of flashinfer-ai/flashinfer."""

import os

__version__ = os.environ.get("STANDIN_VERSION", "0.4.1")

from .decode import BatchDecodeWithPagedKVCacheWrapper, single_decode_with_kv_cache  # noqa: E402, F401
from .gemm import bmm_fp8, mm_fp4  # noqa: E402, F401
from .prefill import BatchPrefillWithRaggedKVCacheWrapper, single_prefill_with_kv_cache  # noqa: E402, F401
from .mla import BatchMLAPagedAttentionWrapper  # noqa: E402, F401
from .fused_moe import cutlass_fused_moe  # noqa: E402, F401
