"""Stands in for the modules of Python that newer versions of NVIDIA/apex have around their operators."""
