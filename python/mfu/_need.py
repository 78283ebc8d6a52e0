"""What a model needs: mfu.Model, mfu.flops, mfu.convert."""

import json
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _core
from ._answers import Answer, ConversionAnswer, NeedAnswer, parse
from ._errors import Error, InvalidArgument, file_error

Size = Optional[Tuple[int, int]]  # height and width
Lora = Union[int, Tuple[int, Sequence[str]], None]  # a rank, or a rank and the targets' names
ModelLike = Union["Model", str, "os.PathLike[str]", Mapping[str, Any], Any]


def _check_whole(**values: Any) -> None:
    for name, value in values.items():
        if value is not None and (
            isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= value.__index__() <= 2**40
        ):
            raise InvalidArgument(f"{name}={value!r}: a whole number from 0 to 2^40 was expected")


def _override(value: Any) -> str:
    """The text that --set takes: a string unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


class Model:
    """A model as plain data. It is read once and can answer many questions.

    Model("config.json")                   a config.json, a folder that holds one, .safetensors or .gguf (headers only)
    Model({"model_type": "llama", …})      a config as a dict
    Model(hf_model.config)                 a transformers config, or a model that has one
    Model.of_shape(layers=32, hidden=4096, heads=32, vocab=32000)

    `architecture` counts another class than the config's architectures[0]; `set` overrides fields:
    {"num_hidden_layers": 8}.
    """

    __slots__ = ("_recipe", "_spec")

    def __init__(self, source: ModelLike, *, architecture: str = "", set: Optional[Mapping[str, Any]] = None) -> None:
        overrides = [(str(key), _override(value)) for key, value in (set or {}).items()]
        if isinstance(source, (str, os.PathLike)):
            path = os.fspath(source)
            self._recipe: Tuple[Any, ...] = ("read", path, architecture, overrides)
        else:
            config, name = _config_of(source)
            self._recipe = ("parse", config, name, architecture, overrides)
        self._make()

    @classmethod
    def of_shape(
        cls,
        *,
        layers: int,
        hidden: int,
        heads: int,
        kv_heads: int = 0,
        head_dim: int = 0,
        ffn: int = 0,
        vocab: int = 0,
        experts: int = 0,
        experts_per_token: int = 0,
        mlp: str = "gated",
        tied: bool = False,
    ) -> "Model":
        """A decoder described by its shape alone. 0 means not given (kv_heads: as heads; head_dim: hidden / heads; ffn:
        4 hidden)."""
        if mlp not in ("gated", "plain"):
            raise InvalidArgument(f"mlp {mlp!r}: gated or plain was expected")
        sizes = {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
                 "ffn": ffn, "vocab": vocab, "experts": experts, "experts_per_token": experts_per_token}
        _check_whole(**sizes)
        return _again("of_shape", *sizes.values(), mlp == "gated", tied)

    def _make(self) -> None:
        kind, *arguments = self._recipe
        try:
            self._spec = getattr(_core.Spec, kind)(*arguments)
        except Error as error:
            raise (file_error(error)) from None

    def __reduce__(self) -> Any:
        return (_again, self._recipe)

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def type(self) -> str:
        return self._spec.type

    @property
    def architecture(self) -> str:
        return self._spec.architecture

    @property
    def notes(self) -> List[str]:
        """What was assumed because the config does not say it."""
        return self._spec.notes

    @property
    def parameters(self) -> Answer:
        """total, active, embedding and by_part."""
        count = self._spec.parameters()
        count["by_part"] = Answer(count["by_part"])
        return Answer(count)

    def __repr__(self) -> str:
        return f"mfu.Model({self.name!r}, architecture={self.architecture!r}, parameters={self.parameters['total']})"

    def flops(self, **options: Any) -> NeedAnswer:
        """mfu.flops(self, …)."""
        return flops(self, **options)


def _again(*recipe: Any) -> Model:
    model = Model.__new__(Model)
    model._recipe = recipe
    model._make()
    return model


def _config_of(source: Any) -> Tuple[str, str]:
    """The JSON of a dict, of an object with to_dict() (a transformers config) or with such a `config`; and what to
    call it."""
    if isinstance(source, Mapping):
        return json.dumps(source, default=str), str(source.get("_name_or_path") or source.get("model_type") or "config")
    if hasattr(source, "to_dict"):
        config: Dict[str, Any] = source.to_dict()
        return json.dumps(config, default=str), str(config.get("_name_or_path") or type(source).__name__)
    inner = getattr(source, "config", None)
    if inner is not None and inner is not source:
        text, name = _config_of(inner)
        config = json.loads(text)
        # The config of a model that was made in memory does not name its class.
        config["architectures"] = [type(source).__name__]
        return json.dumps(config), name
    raise InvalidArgument(
        f"{type(source).__name__} is no model: give a path, a dict, a transformers config or model, or"
        " mfu.Model.of_shape(…)"
    )


def _source(source: Any) -> Optional[Tuple[str, str, str]]:
    """A config as (path, JSON, name), with either a path or JSON. None for a file of weights and for a missing file."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        weights = path.endswith((".safetensors", ".gguf", ".index.json"))
        return (path, "", "") if os.path.exists(path) and not weights else None
    return ("", *_config_of(source))


def _model(source: ModelLike) -> Model:
    return source if isinstance(source, Model) else Model(source)


_STEP = "phase batch seq context encoder_seq lengths images image_grid recompute mla mtp".split()


def _step(given: Dict[str, Any]) -> _core.Step:
    """The step that the arguments of a function describe."""
    about = {name: given[name] for name in _STEP}
    _check_whole(**{name: about[name] for name in ("batch", "seq", "context", "encoder_seq", "images")})
    try:
        for name in ("lengths", "image_grid"):
            about[name] = None if about[name] is None else list(about[name])
        return _core.Step(*about.values())
    except TypeError:
        raise InvalidArgument(
            f"lengths={given['lengths']!r}, image_grid={given['image_grid']!r}: whole numbers from 0 on were expected"
        ) from None


def _trained(lora: Lora, frozen: Union[str, Sequence[str]]) -> Tuple[Optional[Tuple[int, List[str]]], List[str]]:
    """The rank and targets of adapters, and the patterns of frozen weights."""
    patterns = [frozen] if isinstance(frozen, str) else list(frozen)
    if lora is None:
        return None, patterns
    rank, targets = (lora, ()) if isinstance(lora, int) else lora
    if rank < 1:
        raise InvalidArgument(f"lora={lora!r}: a rank from 1 on was expected")
    return (rank, list(targets)), patterns


def flops(
    model: ModelLike,
    *,
    phase: str = "train",
    batch: int = 1,
    seq: Optional[int] = None,
    context: int = 0,
    encoder_seq: int = 0,
    lengths: Optional[Sequence[int]] = None,
    images: int = 0,
    image_grid: Optional[Sequence[int]] = None,
    recompute: str = "none",
    mla: str = "auto",
    mtp: bool = False,
    convention: str = "exact",
    lora: Lora = None,
    frozen: Union[str, Sequence[str]] = (),
    params: Optional[int] = None,
    tree: bool = False,
    device: Optional[str] = None,
    dtype: str = "bf16",
    peak: Optional[float] = None,
    devices: int = 1,
    step_seconds: Optional[float] = None,
    tokens_per_second: Optional[float] = None,
    catalog: str = "",
    by_class: bool = False,
    image: Size = None,
    latent: Size = None,
    frames: int = 0,
    python: str = "",
) -> NeedAnswer:
    """What one step of a model needs: FLOPs, parameters and bytes, exactly, by part.

    model          a path, a dict, a transformers config or model, or an mfu.Model (which is read only once)
    phase          train (forward and backward), forward, prefill or decode
    batch, seq     sequences, and new tokens of each (2048; decode 1); or lengths=[512, 1024, …] packed or ragged
    context        tokens of each already in the cache; encoder_seq, images, image_grid as their names say
    convention     how to count: exact, palm, megatron, … or all (mfu.conventions())
    recompute      none, selective or full; lora: a rank, or (rank, targets); frozen: patterns of weight names
    device, peak, devices, dtype, step_seconds or tokens_per_second: MFU, HFU and MBU too
    by_class       ask the class of transformers or diffusers; it is also asked if no family here knows the model
    image, latent  (height, width) of a vision or diffusion model, in pixels or latents; frames of a video, in latents
    python         the interpreter that has the library (default: this one)

    The answer has the keys of `mfu flops --json`: answer.model_flop, answer.flop_by_part["mlp"],
    answer.model.parameters_total, …
    """
    step = _step(locals())
    adapters, patterns = _trained(lora, frozen)
    against = (_core.PeakAsked(device, dtype, peak, catalog), _core.Timing(step_seconds, tokens_per_second, devices))
    _check_whole(frames=frames)
    pictured = bool(image or latent or frames)
    if isinstance(model, Model):
        if by_class or pictured:
            raise InvalidArgument("an mfu.Model is counted by its family: give the config itself to ask its class")
    else:
        source = _source(model)
        if by_class or pictured or (source is not None and not _core.has_family(source)):
            if source is None:
                raise InvalidArgument(f"{model}: a class is asked by a config, not by weights")
            for what, given in (("tree", tree), ("params", params)):
                if given:
                    raise InvalidArgument(f"{what} is not known for a model that is counted by its class")
            asked = (adapters, patterns, image, latent, frames, python or sys.executable)
            text = _core.class_flops(source, step, convention, *asked, *against)
            counted: NeedAnswer = parse(text, NeedAnswer)
            return counted
    text = _core.flops(_model(model)._spec, step, convention, adapters, patterns, params, tree, *against)
    answer: NeedAnswer = parse(text, NeedAnswer)
    return answer


def convert(
    mfu: float,
    model: ModelLike,
    *,
    from_: str = "palm",
    to: str = "exact",
    phase: str = "train",
    batch: int = 1,
    seq: Optional[int] = None,
    context: int = 0,
    encoder_seq: int = 0,
    lengths: Optional[Sequence[int]] = None,
    images: int = 0,
    image_grid: Optional[Sequence[int]] = None,
    recompute: str = "none",
    mla: str = "auto",
    mtp: bool = False,
) -> ConversionAnswer:
    """Converts an MFU from one convention to another, for a model and step: convert(0.452, "config.json",
    to="megatron").mfu_to."""
    spec, step = _model(model)._spec, _step(locals())
    answer: ConversionAnswer = parse(_core.convert(spec, step, mfu, from_, to), ConversionAnswer)
    return answer


def conventions() -> Dict[str, str]:
    """The conventions by name, each with one line on how it differs from `exact`."""
    return dict(_core.conventions())


def model_types() -> List[str]:
    """The model types whose config.json is understood."""
    return _core.model_types()
