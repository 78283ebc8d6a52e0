"""Stands in for Triton (triton-lang/triton, python/triton)."""

__version__ = "3.4.0"
