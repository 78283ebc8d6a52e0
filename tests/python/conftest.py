"""What the torch at hand can do. Debian's own is older than PyPI's and built with less."""

import pytest


@pytest.fixture(scope="session")
def torchrun():
    """For tests that start ranks with torchrun, which keeps its ranks together by libuv."""
    distributed = pytest.importorskip("torch.distributed", reason="torch is not at hand")
    try:
        distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    except RuntimeError as error:
        if "libuv" in str(error):
            pytest.skip("torchrun is not at hand: this torch was built without libuv")


@pytest.fixture(scope="session")
def grouped_heads_are_plain():
    """Whether this torch runs attention with fewer key heads than query heads as plain matmuls over the full square: up
    to 2.6 its fused attention on CPUs knows none."""
    torch = pytest.importorskip("torch", reason="torch is not at hand")
    query, key = torch.zeros(1, 4, 8, 16), torch.zeros(1, 2, 8, 16)
    try:
        return torch._fused_sdp_choice(query, key, key, is_causal=True, enable_gqa=True) == 0
    except TypeError:  # it knows no grouped heads, and transformers repeats them
        return False
