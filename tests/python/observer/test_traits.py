"""What torch allows fp32 work to use, by both of its settings, and what devices say of themselves."""

import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

from mfu._observer import traits

PACKAGE = str(Path(__file__).resolve().parents[3] / "python")
NEW = hasattr(torch.backends.cuda.matmul, "fp32_precision")
NEWER = pytest.mark.skipif(not NEW, reason="a newer torch is not at hand")

ASK = """
import sys
sys.path.insert(0, {package!r})
import torch
b = torch.backends
{setting}
from mfu._observer import traits
print(*traits.tf32_allowed())
"""


@pytest.mark.parametrize(
    "setting, matmul, convolution",
    [
        ("pass", False, True),  # cudnn.allow_tf32 is true unless the program changes it
        ("torch.set_float32_matmul_precision('high')", True, True),
        ("torch.set_float32_matmul_precision('medium')", True, True),
        ("torch.set_float32_matmul_precision('highest')", False, True),
        ("b.cuda.matmul.allow_tf32 = True", True, True),
        ("b.cudnn.allow_tf32 = False", False, False),
        ("b.cuda.matmul.allow_tf32 = True; b.cudnn.allow_tf32 = False", True, False),
        pytest.param(
            "b.cuda.matmul.fp32_precision = 'tf32'", True, True, marks=NEWER
        ),
        pytest.param(
            "b.cuda.matmul.fp32_precision = 'ieee'",
            False,
            True,
            marks=NEWER,
        ),
        pytest.param(
            "b.cudnn.conv.fp32_precision = 'ieee'",
            False,
            False,
            marks=NEWER,
        ),
        pytest.param(
            "b.cuda.matmul.fp32_precision = 'tf32'; b.cudnn.conv.fp32_precision = 'ieee'",
            True,
            False,
            marks=NEWER,
        ),
        pytest.param("b.fp32_precision = 'tf32'", True, True, marks=NEWER),
        pytest.param(
            "b.fp32_precision = 'ieee'", False, False, marks=NEWER
        ),
    ],
)
def test_tf32_is_known_by_both_of_torchs_settings(setting, matmul, convolution):
    asked = subprocess.run(
        [sys.executable, "-c", ASK.format(package=PACKAGE, setting=setting)], capture_output=True, text=True, check=True
    )
    assert asked.stdout.split() == [str(matmul), str(convolution)]


def test_a_torch_that_answers_no_question_leaves_tf32_unknown(monkeypatch):
    class Mute:
        def __getattr__(self, name):
            raise RuntimeError(f"{name}: use the other interface")

    monkeypatch.setattr(torch, "backends", Mute())
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: Mute().anything)
    assert traits.tf32_allowed() == (None, None)


PROPERTIES = {
    "rocm": (
        dict(
            name="AMD Radeon Graphics",
            gcnArchName="gfx1151",
            major=11,
            minor=5,
            total_memory=110 << 30,
            multi_processor_count=20,
            uuid="58580000",
        ),
        [
            ("device", "cuda:0 AMD Radeon Graphics"),
            ("device_uuid", "58580000"),
            ("device_architecture", "gfx1151"),
            ("device_units", "20"),
            ("device_memory", str(110 << 30)),
        ],
    ),
    "cuda": (
        dict(
            name="NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb",
            gcnArchName="NVIDIA H100 80GB HBM3",
            major=9,
            minor=0,
            total_memory=40 << 30,
            multi_processor_count=16,
            uuid="ab",
        ),
        [
            ("device", "cuda:0 NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"),
            ("device_uuid", "ab"),
            ("device_architecture", "sm_90"),
            ("device_units", "16"),
            ("device_memory", str(40 << 30)),
        ],
    ),
    "older torch": (
        dict(name="Tesla V100-SXM2-16GB", major=7, minor=0, total_memory=16 << 30, multi_processor_count=80),
        [
            ("device", "cuda:0 Tesla V100-SXM2-16GB"),
            ("device_architecture", "sm_70"),
            ("device_units", "80"),
            ("device_memory", str(16 << 30)),
        ],
    ),
}


@pytest.mark.parametrize("kind", PROPERTIES)
def test_a_device_is_told_by_all_it_says_of_itself(kind, monkeypatch):
    properties, facts = PROPERTIES[kind]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(**properties))
    monkeypatch.setattr(traits, "tf32_allowed", lambda: (True, None))
    assert traits.device_facts(torch.device("cuda:0")) == [*facts, ("tf32", "1")]
    assert traits.device_facts(torch.device("cpu")) == [("device", "cpu cpu")]
