"""Every class of the families' types: its parameters are as the library counts them, or the class is asked."""

import importlib
import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
import model_families as families  # noqa: E402
import model_probe  # noqa: E402
from small import shrunk  # noqa: E402

pytestmark = pytest.mark.skipif(model_probe.find_probe() is None, reason="mfu_model_probe is not built")
transformers.logging.set_verbosity_error()
TOWERS = ("whisper", "clip", "siglip")
MANY = (families.CAUSAL, families.ENCODERS, families.VISION, families.SEQUENCE_TO_SEQUENCE, TOWERS)
# Default configs that no checkpoint has: tokens that visit no experts; a width that the heads do not divide.
WITHOUT_DEFAULTS = {"deepseek_v2", "glm4_moe"}


def classes_of(kind):
    """The library's public models of a type, with its default config made small."""
    own = transformers.CONFIG_MAPPING[kind]
    told = json.loads(json.dumps(own().to_dict(), default=str)) | {"model_type": kind}
    module = importlib.import_module(own.__module__.replace("configuration_", "modeling_"))
    for name in getattr(module, "__all__", []):
        found = getattr(module, name)
        if isinstance(found, type) and getattr(found, "config_class", None) is own and "pretrained" not in name.lower():
            yield found, shrunk(told)


def built(found, config):
    try:
        with torch.device("meta"):
            return found._from_config(found.config_class.from_dict(dict(config)), dtype=torch.float32)
    except Exception:  # a class that needs more than the type's defaults
        return None


def test_every_class_of_a_family_is_counted_as_the_library_does_or_left_to_it():
    kinds = sorted({kind for some in MANY for kind in some if kind in transformers.CONFIG_MAPPING} - WITHOUT_DEFAULTS)
    requests, expected = [], []
    for kind in kinds:
        for found, config in classes_of(kind):
            model = built(found, config)
            if model is not None:
                requests.append({"config": config, "architecture": found.__name__, "seq": 4})
                expected.append(model.num_parameters())
    wrong = []
    for request, count, answer in zip(requests, expected, model_probe.ask(requests)):
        if "is not known here: its class can be asked" in answer.get("error", ""):
            continue
        got = answer.get("parameters", 0)
        if count not in (got, got - answer.get("by_part", {}).get("router_bias", 0)):
            wrong.append((request["architecture"], count, answer.get("error", got)))
    assert not wrong and len(requests) > 200, (len(requests), wrong)
