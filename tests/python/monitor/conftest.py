import gc
import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
pytest.importorskip("mfu")

SMALL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
}


@pytest.fixture
def small():
    return dict(SMALL)


@pytest.fixture
def lines():
    import json

    def read(path):
        return [json.loads(line) for line in open(path, encoding="utf-8")]

    return read


@pytest.fixture
def no_collector():
    """Turns the garbage collector off. An exception that a signal handler raises inside a finalizer is lost in any
    program, and garbage of other tests has finalizers."""
    gc.disable()
    yield
    gc.enable()
