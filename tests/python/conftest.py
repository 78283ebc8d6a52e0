"""What this torch can do. Debian's own torch is older than PyPI's and has fewer features."""

import pytest


@pytest.fixture(scope="session")
def torchrun():
    """For tests that start ranks with torchrun, which needs libuv."""
    distributed = pytest.importorskip("torch.distributed", reason="torch is not at hand")
    try:
        distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    except RuntimeError as error:
        if "libuv" in str(error):
            pytest.skip("torchrun is not at hand: this torch was built without libuv")


@pytest.fixture(scope="session")
def grouped_heads_are_plain():
    """Whether this torch runs attention with fewer key heads than query heads as plain matmuls over the full square. Up
    to 2.6 its fused attention on CPUs does not support such heads."""
    torch = pytest.importorskip("torch", reason="torch is not at hand")
    query, key = torch.zeros(1, 4, 8, 16), torch.zeros(1, 2, 8, 16)
    try:
        return torch._fused_sdp_choice(query, key, key, is_causal=True, enable_gqa=True) == 0
    except TypeError:  # it does not know grouped heads, so transformers repeats the keys
        return False
