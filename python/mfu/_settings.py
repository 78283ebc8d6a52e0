"""The monitor's settings: a YAML file or a dict, keywords before it, one text for the library that knows what each means."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from . import _core
from ._errors import Error
from ._manners import said, short
from ._need import Model

Config = Union[str, "os.PathLike[str]", Mapping[str, Any], None]
_ROOTS = ("monitoring", "monitor")


def is_set(text: Optional[str], wanted: bool) -> bool:
    return text is not None and text.lower() in (("true", "yes", "on") if wanted else ("false", "no", "off"))


def with_sinks(settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Keywords that are settings below `sinks`, and the rest."""
    below = {"jsonl", "csv", "tensorboard", "prometheus", "otlp", "mlflow", "mlflow_run", "console"}
    return {f"sinks.{name}" if name in below else name: value for name, value in settings.items()}


_FILES = {"log_file", "sinks.jsonl", "sinks.csv", "sinks.prometheus"}


def _of_rank(key: str, value: Any, rank: int) -> Any:
    """Two ranks never write one file; a console has one voice."""
    if rank and key in _FILES:
        stem, end = os.path.splitext(str(value))
        return f"{stem}.rank{rank}{end}"
    if rank and key == "sinks.tensorboard":
        return os.path.join(str(value), f"rank{rank}")
    return False if rank and key in ("sinks.console", "console") else value


def merged(config: Config, given: Dict[str, Any], rank: int) -> Tuple[str, List[str]]:
    """One text of settings: keywords first, then the file's or the dict's; and what is wrong with either."""
    problems: List[str] = []
    settings: Dict[str, Any] = {}
    for text, name in ((_json(given), "the keywords of mfu.Monitor"), _text_of(config, problems)):
        try:
            found, wrong = _core.read_monitor_config(_whole(text), name)
        except (Error, TypeError) as error:
            problems.append(f"{said(error)}; its settings are left at their defaults")
            continue
        problems.extend(wrong)
        for key, value in found:
            settings.setdefault(key.split(".", 1)[1], value)
    if rank:
        settings.setdefault("log_file", "training_log.json")
    settings = {key: _of_rank(key, value, rank) for key, value in settings.items()}
    lines = ["monitoring:", *(f"  {_dumped(key)}: {_scalar(value)}" for key, value in settings.items())]
    return "\n".join(lines) + "\n" if settings else "", problems


def read_settings(config: Config) -> Dict[str, str]:
    """What a config says, by key without its root; problems are left to who uses it."""
    text, _ = merged(config, {}, 0)
    return {key.split(".", 1)[1]: value for key, value in _core.read_monitor_config(text, "settings")[0]}


def _scalar(value: Any) -> str:
    """As YAML: what is plain stays plain, since a quoted number is none."""
    text = str(value)
    plain = text.replace(".", "", 1).replace("-", "", 2).replace("+", "", 2)
    return text if plain.isalnum() and text.isascii() else json.dumps(text, ensure_ascii=False)


def _json(settings: Mapping[str, Any]) -> str:
    return _dumped({"monitoring": settings})


def _dumped(value: Any) -> str:
    """As YAML too, whose escapes know no pairs of surrogates: characters stand for themselves."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _whole(text: str) -> str:
    """Without what no text can hold: half a pair of surrogates, as undecodable file names have."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _text_of(config: Config, problems: List[str]) -> Tuple[str, str]:
    if config is None:
        return "", "settings"
    if isinstance(config, (str, os.PathLike)):
        path = os.fspath(config)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read(), path
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}: {getattr(error, 'strerror', None) or error}; settings are left at their defaults")
            return "", path
    found = _mapping(config)
    if found is None:
        problems.append(f"config={short(config)}: a YAML file or a dict was expected; settings are left at their defaults")
        return "", "config"
    if not any(root in found for root in _ROOTS):
        found = {"monitoring": found}
    return _dumped({root: found[root] for root in _ROOTS if root in found}), "config"


def _mapping(config: Any) -> Optional[Dict[str, Any]]:
    """A dict, or what a script's arguments are: an object with attributes (argparse, dataclasses, OmegaConf)."""
    if isinstance(config, Mapping):
        return dict(config)
    if hasattr(config, "items"):
        return dict(config.items())
    return dict(vars(config)) if hasattr(config, "__dict__") and not callable(config) else None


def model_json(model: Model) -> str:
    """The text of its config.json, by which a run directory can be replayed with its FLOPs; "" where it came otherwise."""
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
