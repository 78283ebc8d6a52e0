"""Stands in for flash-attn (Dao-AILab/flash-attention, flash_attn/__init__.py)."""

import os

__version__ = os.environ.get("STANDIN_VERSION", "2.6.3")

import flash_attn_2_cuda  # noqa: E402, F401
