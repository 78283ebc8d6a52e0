"""The monitor's settings, which the library reads unchanged, and the text of a model's config."""

import json
import os
from typing import Any, Mapping, Optional, Union

from ._need import Model

Config = Union[str, "os.PathLike[str]", Mapping[str, Any], None]  # a YAML file, a dict, or an object with attributes


def is_set(text: Optional[str], wanted: bool) -> bool:
    return text is not None and text.lower() in (("true", "yes", "on") if wanted else ("false", "no", "off"))


def model_json(model: Model) -> str:
    """The text of the model's config.json, from which a run directory can be replayed with its FLOPs. "" if the model
    has none."""
    kind, *recipe = model._recipe
    if kind == "of_shape":
        return ""
    if kind == "parse":
        text, _, architecture, overrides = recipe
    else:
        path, architecture, overrides = recipe
        path = os.path.join(path, "config.json") if os.path.isdir(path) else path
        if not path.endswith(".json"):
            return ""
        with open(path, encoding="utf-8") as file:
            text = file.read()
    config = json.loads(text)
    if architecture:
        config["architectures"] = [architecture]
    return "" if overrides else json.dumps(config)
