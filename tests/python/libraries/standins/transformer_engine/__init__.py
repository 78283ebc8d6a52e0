"""Stands in for TransformerEngine (NVIDIA/TransformerEngine, transformer_engine/__init__.py): the version comes
last."""

import os

from . import pytorch  # noqa: F401

__version__ = os.environ.get("STANDIN_VERSION", "2.8.0+abc")
