"""Finds the class of transformers that a config means. This is a part of the script that ends with ask_class.py."""

CHOSEN = (
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING",
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING",
    "MODEL_MAPPING",
)
LEFT_OUT = ("quantization_config", "auto_map", "attn_implementation", "_attn_implementation")


def named_class(transformers, config, wanted):
    """The class that is asked for, or else the first that the config names and the library has."""
    named = [wanted] if wanted else [each for each in config.get("architectures") or [] if isinstance(each, str)]
    for each in named:
        found = getattr(transformers, each, None) if each.isidentifier() else None
        if isinstance(found, type) and hasattr(found, "config_class"):
            return found
    if wanted:
        raise Refused(f"transformers {transformers.__version__} has no class {wanted}")
    return None


def find_class(transformers, config, wanted):
    """The class of transformers that a config means, the config as the library reads it, and what was assumed."""
    from transformers.models.auto import configuration_auto

    notes, kind, version = [], config.get("model_type"), transformers.__version__
    found, config_class = named_class(transformers, config, wanted), None
    if isinstance(kind, str) and kind in configuration_auto.CONFIG_MAPPING:
        config_class = configuration_auto.CONFIG_MAPPING[kind]
    elif found is not None and found.config_class is not None:
        config_class = found.config_class
        if kind:
            raise Refused(
                f"model type \"{kind}\" is not one of transformers {version}, though its class {found.__name__} is:"
                f" --assume {config_class.model_type} reads it as that type"
            )
        notes.append(f"the config has no model_type: taken as {config_class.model_type}, by its class {found.__name__}")
    if config_class is None:
        said = f"model type \"{kind}\"" if kind else "a config without model_type, and with no class that it knows"
        code = " It names code of its own (auto_map), which is never run here." if config.get("auto_map") else ""
        raise Refused(f"transformers {version} does not know {said}.{code}")
    if found is not None and not takes(found, config_class):
        if wanted:
            raise Refused(f"{wanted} takes no config of the type {config_class.model_type}")
        notes.append(f"{found.__name__}, which the config names, takes no config of the type {config_class.model_type}")
        found = None
    made = config_class.from_dict({key: value for key, value in config.items() if key not in LEFT_OUT})
    if found is None:
        found = usual_class(made, config_class)
        if found is None:
            raise Refused(f"transformers {version} has no model for \"{made.model_type}\"")
        notes.append(f"the config names no class that is known: counted as {found.__name__}")
    return found, made, notes


def takes(found, config_class):
    """Whether a class takes this config. True if the class does not say."""
    own = found.config_class
    return own is None or issubclass(config_class, own) or issubclass(own, config_class)


def usual_class(made, config_class):
    """The class for which a config without a class is mostly used."""
    from transformers.models.auto import modeling_auto

    both = ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING")
    for mapping in (*(both if getattr(made, "is_encoder_decoder", False) else ()), *CHOSEN):
        table = getattr(modeling_auto, mapping, None)
        if table is not None and config_class in table:
            found = table[config_class]
            return found[0] if isinstance(found, (tuple, list)) else found
    return class_beside(config_class)


def class_beside(config_class):
    """The first model in the file of the library that belongs to this config."""
    import importlib

    try:
        module = importlib.import_module(config_class.__module__.replace("configuration_", "modeling_"))
    except ImportError:
        return None
    models = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and hasattr(each, "_from_config") and not each.__name__.endswith("PreTrainedModel")
    ]
    fitting = [each for each in models if getattr(each, "config_class", None) is config_class] or [
        each for each in models if config_named(each) in (config_class, config_class.__name__)
    ]
    return fitting[-1] if fitting else None


def config_named(model):
    """The class of config in the signature of a model."""
    import inspect

    taken = inspect.signature(model.__init__).parameters.get("config")
    return taken.annotation if taken is not None else None


def part_that_runs(torch, model, notes):
    """The model. If it has no forward pass of its own (it only generates, part by part): its largest part that has."""
    if type(model).forward is not torch.nn.Module.forward:
        return model
    parts = [
        (sum(weight.numel() for weight in each.parameters()), name, each)
        for name, each in model.named_children()
        if hasattr(each, "config") and type(each).forward is not torch.nn.Module.forward
    ]
    if not parts:
        raise Refused(f"{type(model).__name__} has no forward pass")
    _, name, largest = max(parts, key=lambda each: each[0])
    notes.append(f"{type(model).__name__} has no forward pass of its own: FLOPs are those of its {name}")
    return largest


def lenient(found):
    """Packages that only a loss needs are not required, because no loss is computed here."""
    own, losses = sys.modules[found.__module__], ("scipy",)
    asked = getattr(own, "requires_backends", None)
    if asked is not None:
        own.requires_backends = lambda of, names: asked(of, [n for n in listed_names(names) if n not in losses])


def listed_names(names):
    return list(names) if isinstance(names, (list, tuple)) else [names]


def unmasked(model):
    """Switches off the random masking of inputs. Its replacement is a weight, which the model still has."""
    for part in model.modules():
        config = getattr(part, "config", None)
        for name in ("mask_time_prob", "mask_feature_prob"):
            if getattr(config, name, None):
                setattr(config, name, 0.0)
    return model


def remembering(torch, values):
    """A mode that remembers numbers which a class keeps in a tensor, such as the stride of a convolution."""
    from torch.overrides import TorchFunctionMode

    def computed(func, args, kwargs):
        result, given = func(*args, **kwargs), list(tensors_of(torch, args))
        one = isinstance(result, torch.Tensor) and result.numel() == 1 and given
        if one and not values.known(result) and all(each.numel() == 1 and values.known(each) for each in given):
            values.keep(result, values.run(func, args, kwargs))
        return result

    class Numbers(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            plain = func is torch.tensor and not isinstance(args[0] if args else None, torch.Tensor)
            if not plain or torch.device(kwargs.get("device") or "meta").type != "meta":
                return computed(func, args, kwargs)
            real = func(*args, **(kwargs | {"device": "cpu", "requires_grad": False}))
            return values.made(real).requires_grad_(bool(kwargs.get("requires_grad")))

    return Numbers()


def build(transformers, found, config, torch, values):
    for each in configs_of(config):
        each._attn_implementation_internal = "mfu"
        each._experts_implementation_internal = "batched_mm"  # each token runs only the experts that it is sent to
        for name in vars(each):  # no layer is dropped at random
            if "layerdrop" in name or name == "drop_path_rate":
                setattr(each, name, 0.0)
    problems = []
    lenient(found)
    for implementation in ("mfu", "sdpa", "eager"):
        try:
            with torch.device("meta"), remembering(torch, values):
                config._attn_implementation = implementation
                model = found._from_config(config, dtype=torch.float32)
            return unmasked(model.to("meta"))
        except (ValueError, ImportError, KeyError) as error:
            if isinstance(error, ImportError) and package_of(error):
                raise
            problems.append(str(error))
            if (
                not isinstance(error, KeyError)
                and "attn" not in str(error).lower()
                and "attention" not in str(error).lower()
            ):
                break
    raise Refused(f"{found.__name__} cannot be built from this config: {' '.join(problems[-1].split())[:600]}")
