"""Builds a model's class on the meta device and writes down its operators.

A request says phase, batch, sequence, context, encoder_sequence, image, latent, architecture, attention and overrides. One JSON object
goes to standard output: parameters by part, and each different operator once, with how often it ran, in which part, forward or backward.
No weight is made, nothing is fetched, no code of a config is run. class_operators.py comes before it."""

MOST_LAYERS = 4096
MOST_NUMBER = 1 << 40
SECONDS = 240
BYTES = 12 << 30

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", DISABLE_TELEMETRY="1",
                  USE_HUB_KERNELS="0", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false",
                  TRANSFORMERS_NO_ADVISORY_WARNINGS="1", CUDA_VISIBLE_DEVICES="", USE_TF="0", USE_FLAX="0")


def bounded(value, path="", depth=0):
    """Refuses what no model has, before a class builds it."""
    if depth > 32:
        raise Refused("its values are nested more than 32 deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            bounded(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list):
        if len(value) > 100_000:
            raise Refused(f"{path}: a list of {len(value)} values")
        for inner in value:
            bounded(inner, path, depth + 1)
    elif isinstance(value, int) and not isinstance(value, bool):
        last = path.rsplit(".", 1)[-1]
        if abs(value) > MOST_NUMBER:
            raise Refused(f"{path}: {value} is beyond 2^40")
        many = "layer" in last or last in ("depth", "n_blocks", "num_blocks", "num_stages", "num_experts", "num_local_experts", "n_routed_experts")
        if many and not last.endswith(("_size", "_dim", "_id")) and value > MOST_LAYERS:
            raise Refused(f"{path}: {value} is more than the {MOST_LAYERS} that are built at most")
        if value < 0 and (last.startswith("num_") or last.endswith(("_size", "_dim", "_layers", "_heads"))) and last != "num_labels" and value != -1:
            raise Refused(f"{path}: {value} is below 0")


def limited():
    """Time and memory of this process have a bound."""
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


def stamps(*modules):
    """Files that change when a library does: whoever keeps the answer looks at them again."""
    found = []
    for module in modules:
        path = os.path.join(os.path.dirname(module.__file__), "__init__.py")
        seen = os.stat(path)
        found.append({"path": path, "bytes": seen.st_size, "changed_ns": seen.st_mtime_ns})
    return found


def find_class(transformers, config, wanted):
    """The class of transformers that a config means, its config, and what was assumed."""
    from transformers.models.auto import configuration_auto, modeling_auto
    notes, kind = [], config.get("model_type")
    named = ([wanted] if wanted else []) + [each for each in config.get("architectures") or [] if isinstance(each, str)]
    found = next((getattr(transformers, each) for each in named if each.isidentifier() and isinstance(getattr(transformers, each, None), type)
                  and hasattr(getattr(transformers, each), "config_class")), None)
    if wanted and (found is None or found.__name__ != wanted):
        raise Refused(f"transformers {transformers.__version__} has no class {wanted}")
    config_class = None
    if isinstance(kind, str) and kind in configuration_auto.CONFIG_MAPPING:
        config_class = configuration_auto.CONFIG_MAPPING[kind]
    elif found is not None and found.config_class is not None:
        config_class = found.config_class
        if kind:
            raise Refused(f"model type \"{kind}\" is not one of transformers {transformers.__version__}")
        notes.append(f"the config has no model_type: taken as {config_class.model_type}, by its class {found.__name__}")
    if config_class is None:
        said = f"model type \"{kind}\"" if kind else "a config without model_type, and with no class that it knows"
        code = " It names code of its own (auto_map), which is never run here." if config.get("auto_map") else ""
        raise Refused(f"transformers {transformers.__version__} does not know {said}.{code}")
    plain = {key: value for key, value in config.items() if key not in ("quantization_config", "auto_map", "attn_implementation", "_attn_implementation")}
    made = config_class.from_dict(plain)
    if found is None:
        for mapping in ("MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
                        "MODEL_FOR_MASKED_LM_MAPPING", "MODEL_MAPPING"):
            table = getattr(modeling_auto, mapping, None)
            if table is not None and config_class in table:
                found = table[config_class]
                found = found[0] if isinstance(found, (tuple, list)) else found
                break
        found = found or class_beside(config_class)
        if found is None:
            raise Refused(f"transformers {transformers.__version__} has no model for \"{made.model_type}\"")
        notes.append(f"the config names no class that is known: counted as {found.__name__}")
    return found, made, notes


def class_beside(config_class):
    """The first model that stands in the library's own file for this config."""
    import importlib
    try:
        module = importlib.import_module(config_class.__module__.replace("configuration_", "modeling_"))
    except ImportError:
        return None
    fitting = [each for each in vars(module).values() if isinstance(each, type) and getattr(each, "config_class", None) is config_class
               and not each.__name__.endswith("PreTrainedModel")]
    return fitting[-1] if fitting else None


def able(found, question):
    try:
        return bool(getattr(found, question)())
    except Exception:  # of another version, or of no such kind
        return False


def build(transformers, found, config, torch, attention):
    for each in [config, *[getattr(config, name) for name in getattr(config, "sub_configs", {}) if getattr(config, name, None) is not None]]:
        each._attn_implementation_internal = attention
    problems = []
    for implementation in dict.fromkeys((attention, "sdpa", "eager")):
        try:
            with torch.device("meta"):
                config._attn_implementation = implementation
                experts = able(found, "_can_set_experts_implementation")
                if experts:
                    config._experts_implementation = "grouped_mm"  # which multiplies bf16 alone
                model = found._from_config(config, dtype=torch.bfloat16 if experts else torch.float32)
            return model, implementation
        except (ValueError, ImportError, KeyError) as error:
            problems.append(str(error))
            if not isinstance(error, KeyError) and "attn" not in str(error).lower() and "attention" not in str(error).lower():
                break
    raise Refused(f"{found.__name__} cannot be built from this config: {problems[-1][:600]}")


def image_size(config, request):
    if request.get("image"):
        return request["image"]
    for each in (config, getattr(config, "vision_config", None), getattr(config, "backbone_config", None)):
        size = getattr(each, "image_size", None) if each is not None else None
        if isinstance(size, int):
            return [size, size]
        if isinstance(size, (list, tuple)) and len(size) >= 2:
            return list(size[:2])
    raise Refused("its picture has no size in the config: give --image HxW")


def inputs_of(torch, model, request, notes):
    """The tensors that a step of this phase brings."""
    import inspect
    config, batch, sequence = model.config, request["batch"], request["sequence"]
    taken = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    if main not in taken:
        main = next((each for each in ("input_ids", "pixel_values", "input_features", "input_values", "past_values") if each in taken), main)
    ids = lambda rows, length: torch.zeros((rows, length), dtype=torch.long, device="meta")  # noqa: E731
    floats = lambda *sizes: torch.zeros(sizes, dtype=model.dtype, device="meta")  # noqa: E731
    encoder = request.get("encoder_sequence") or sequence
    given = {}
    if main in ("input_ids", "decoder_input_ids") and ("input_ids" in taken or main in taken):
        if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
            given = {"input_ids": ids(batch, encoder), "decoder_input_ids": ids(batch, sequence)}
        else:
            given = {main: ids(batch, sequence)}
        if "pixel_values" in taken and taken["pixel_values"].default is inspect.Parameter.empty:
            given["pixel_values"] = floats(batch, getattr(config, "num_channels", 3), *image_size(config, request))
        vision = getattr(config, "vision_config", None)
        if "pixel_values" in taken and "pixel_values" not in given and (type(model).__name__.endswith("Model") and hasattr(config, "projection_dim")):
            size = image_size(config, request)
            given["pixel_values"] = floats(batch, getattr(vision, "num_channels", 3), *size)
        elif "pixel_values" in taken and "pixel_values" not in given:
            notes.append("no picture: text alone")
        if "bbox" in taken:
            given["bbox"] = torch.zeros((batch, sequence, 4), dtype=torch.long, device="meta")
    elif main == "pixel_values":
        channels = getattr(config, "num_channels", None) or getattr(getattr(config, "vision_config", None), "num_channels", None) or 3
        size = image_size(config, request)
        frames = getattr(config, "num_frames", None)
        given = {"pixel_values": floats(batch, *([frames] if frames and "video" in type(model).__name__.lower() or frames and config.model_type in
                                                 ("timesformer", "videomae", "vivit") else []), channels, *size)}
        if "input_ids" in taken and taken["input_ids"].default is inspect.Parameter.empty:
            given["input_ids"] = ids(batch, sequence)
        if "decoder_input_ids" in taken:
            given["decoder_input_ids"] = ids(batch, sequence)
    elif main == "input_values":
        mel = getattr(config, "num_mel_bins", None)
        if mel and getattr(config, "max_length", None) and config.model_type == "audio-spectrogram-transformer":
            given = {"input_values": floats(batch, config.max_length, mel)}
        else:
            given = {"input_values": floats(batch, sequence)}
            notes.append("--seq counts samples of sound")
        if "decoder_input_ids" in taken:
            given["decoder_input_ids"] = ids(batch, encoder)
    elif main == "input_features":
        mel = getattr(config, "num_mel_bins", None) or getattr(config, "feature_size", None) or getattr(config, "input_feat_per_channel", None) \
            or getattr(config, "hidden_size", 80)
        given = {"input_features": floats(batch, sequence, mel)}
        notes.append("--seq counts frames of sound")
        if "decoder_input_ids" in taken:
            given["decoder_input_ids"] = ids(batch, encoder)
    elif main == "past_values":
        length = getattr(config, "context_length", None) or getattr(config, "seq_length", None) or sequence
        lags = max(getattr(config, "lags_sequence", None) or [0])
        channels = getattr(config, "num_input_channels", None) or getattr(config, "input_size", 1)
        values = [batch, length + lags] + ([channels] if channels > 1 or hasattr(config, "num_input_channels") else [])
        given = {"past_values": floats(*values)}
        if "past_time_features" in taken:
            given["past_time_features"] = floats(batch, length + lags, getattr(config, "num_time_features", 1))
        if "past_observed_mask" in taken:
            given["past_observed_mask"] = floats(*values)
        if "future_values" in taken and hasattr(config, "prediction_length"):
            given["future_values"] = floats(batch, config.prediction_length, *values[2:])
        if "future_time_features" in taken:
            given["future_time_features"] = floats(batch, config.prediction_length, getattr(config, "num_time_features", 1))
    else:
        raise Refused(f"{type(model).__name__} takes {main}: what that looks like is not known here")
    return given, taken


def tensors_in(value, torch, seen=None):
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() and value.grad_fn is not None else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [each for inner in value for each in tensors_in(inner, torch)]
    return []


def watch(model, recorder):
    """Modules say where in the model the loop is."""
    def leave(*_):
        if recorder.stack:
            recorder.stack.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda _module, _arguments, name=name: recorder.stack.append(name))
        module.register_forward_hook(leave, always_call=True)


def step(torch, model, request, recorder, given, taken):
    """One step of the phase."""
    phase = request["phase"]
    operators, marks = modes(torch, recorder)
    cached = {"use_cache": phase in ("prefill", "decode")} if "use_cache" in taken else {}
    last = {"logits_to_keep": 1} if phase in ("prefill", "decode") and "logits_to_keep" in taken else {}
    if phase in ("prefill", "decode") and not last and request["sequence"] > 1:
        recorder.assumed.add("the class makes logits of every position, also in prefill: they are counted")
    model.train(phase == "train")
    with operators, marks, torch.device("meta"):
        if phase == "train":
            result = model(**given, **cached)
            outputs = tensors_in(result if isinstance(result, (tuple, list)) else dict(result) if hasattr(result, "items") else [result], torch)
            logits = [each for name, each in (result.items() if hasattr(result, "items") else []) if name in ("logits", "prediction_logits", "sample")]
            outputs = [each for each in logits if isinstance(each, torch.Tensor) and each.grad_fn is not None] or outputs[:1]
            if not outputs:
                raise Refused(f"{type(model).__name__} gives nothing that could be trained")
            torch.autograd.backward(outputs, [torch.empty_like(each) for each in outputs])
            return
        with torch.no_grad():
            if phase == "decode" and request.get("context"):
                if "past_key_values" not in taken and "cache_params" not in taken:
                    raise Refused(f"{type(model).__name__} has no cache: it cannot decode")
                recorder.on = False
                text = "decoder_input_ids" if "decoder_input_ids" in given else next(iter(given))
                before = dict(given)
                before[text] = torch.zeros((request["batch"], request["context"]), dtype=torch.long)
                past = model(**before, use_cache=True)
                recorder.on = True
                kept = getattr(past, "past_key_values", None)
                if kept is None:
                    raise Refused(f"{type(model).__name__} gave no cache: it cannot decode")
                more = {"past_key_values": kept}
                if getattr(past, "encoder_last_hidden_state", None) is not None and "encoder_outputs" in taken:
                    more["encoder_outputs"] = (past.encoder_last_hidden_state,)
                    given = {name: value for name, value in given.items() if name == text}
                model(**given, **more, **cached, **last)
            else:
                model(**given, **cached, **last)


def parameters(torch, model):
    """By part; each tensor once. Persistent buffers that routers learn without a gradient are parameters of ours."""
    parts, total, seen = {}, 0, set()
    for name, weight in model.named_parameters(remove_duplicate=True):
        part = part_of(name)
        parts[part] = parts.get(part, 0) + weight.numel()
        total += weight.numel()
    kept = set(model.state_dict(keep_vars=True))
    for name, buffer in model.named_buffers():
        if part_of(name) == "router_bias" and name in kept:
            parts["router_bias"] = parts.get("router_bias", 0) + buffer.numel()
            total += buffer.numel()
    return total, parts


def diffusers_inputs(torch, model, request, notes):
    import inspect
    config, batch = model.config, request["batch"]
    taken = inspect.signature(model.forward).parameters
    size = request.get("latent")
    if not size and request.get("image"):
        size = [request["image"][0] // 8, request["image"][1] // 8]
        notes.append("a latent is an eighth of the picture in each direction")
    if not size:
        sample = config.get("sample_size")
        size = [sample, sample] if isinstance(sample, int) else list(sample)[-2:] if isinstance(sample, (list, tuple)) else None
    if not size:
        raise Refused("its picture has no size in the config: give --image HxW or --latent HxW")
    channels, text = config.get("in_channels", 4), request.get("encoder_sequence") or 77
    floats = lambda *sizes: torch.zeros(sizes, dtype=model.dtype, device="meta")  # noqa: E731
    patch = config.get("patch_size", 1)
    patch = patch[-1] if isinstance(patch, (list, tuple)) else patch
    given = {}
    wide = config.get("joint_attention_dim") or config.get("cross_attention_dim") or config.get("caption_channels") or config.get("text_embed_dim") or config.get("text_dim")
    wide = wide[0] if isinstance(wide, (list, tuple)) else wide
    name = type(model).__name__
    packed = "img_ids" in taken or name.startswith("QwenImage")
    main = next((each for each in ("hidden_states", "sample", "x") if each in taken), None)
    if main is None:
        raise Refused(f"{name} takes {', '.join(taken)}: what that looks like is not known here")
    frames = request.get("frames")
    if packed:
        rows = (size[0] // 2) * (size[1] // 2)
        given[main] = floats(batch, rows, channels)
        if "img_ids" in taken:
            given["img_ids"] = floats(rows, 3)
            given["txt_ids"] = floats(text, 3)
    elif "3D" in name or "Video" in name or name.startswith(("Wan", "Mochi", "LTX", "CogVideo", "Allegro")):
        frames = frames or 1
        given[main] = floats(batch, frames, channels, *size) if name.startswith("CogVideo") else floats(batch, channels, frames, *size)
    else:
        given[main] = floats(batch, channels, *size)
    if "timestep" in taken:
        given["timestep"] = torch.zeros(batch, dtype=torch.long if "UNet" in name else model.dtype, device="meta")
    if "encoder_hidden_states" in taken and wide:
        given["encoder_hidden_states"] = floats(batch, text, wide)
        notes.append(f"{text} text tokens (--encoder-seq)")
    if "pooled_projections" in taken and config.get("pooled_projection_dim"):
        given["pooled_projections"] = floats(batch, config["pooled_projection_dim"])
    if "class_labels" in taken and (config.get("num_embeds_ada_norm") or config.get("num_class_embeds")) and "encoder_hidden_states" not in given:
        given["class_labels"] = torch.zeros(batch, dtype=torch.long, device="meta")
    if "guidance" in taken and config.get("guidance_embeds"):
        given["guidance"] = floats(batch)
    if config.get("addition_embed_type") == "text_time":
        dim = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
        given["added_cond_kwargs"] = {"text_embeds": floats(batch, dim), "time_ids": floats(batch, 6)}
    elif "added_cond_kwargs" in taken and config.get("use_additional_conditions"):
        given["added_cond_kwargs"] = {"resolution": floats(batch, 2), "aspect_ratio": floats(batch, 1)}
    elif "added_cond_kwargs" in taken:
        given["added_cond_kwargs"] = {"resolution": None, "aspect_ratio": None}
    if "encoder_attention_mask" in taken and taken["encoder_attention_mask"].default is inspect.Parameter.empty:
        given["encoder_attention_mask"] = floats(batch, text)
    if name.startswith("QwenImage"):
        given["img_shapes"] = [[(1, size[0] // 2, size[1] // 2)]] * batch
        given["encoder_hidden_states_mask"] = torch.ones((batch, text), dtype=torch.long, device="meta")
        given["txt_seq_lens"] = [text] * batch
    rows = size[0] * size[1] // (patch * patch) if not packed else (size[0] // 2) * (size[1] // 2)
    return given, taken, batch * rows * (frames or 1)


def answer(config, request):
    import torch
    torch.set_num_threads(1)
    notes = []
    recorder = Recorder(torch)
    if isinstance(config.get("_class_name"), str) and "model_type" not in config:
        import diffusers
        library, name = diffusers, config["_class_name"]
        found = getattr(diffusers, name, None) if name.isidentifier() else None
        if not isinstance(found, type) or not hasattr(found, "from_config") or not issubclass(found, torch.nn.Module):
            raise Refused(f"diffusers {diffusers.__version__} has no model {name}")
        if request["phase"] in ("prefill", "decode"):
            raise Refused(f"{name} has no cache: --phase train or forward")
        with torch.device("meta"):
            model = found.from_config({key: value for key, value in config.items() if key != "quantization_config"})
        given, taken, tokens = diffusers_inputs(torch, model, request, notes)
        kind, attention = name, "sdpa"
    else:
        import transformers
        transformers.logging.set_verbosity_error()
        library = transformers
        found, made, notes = find_class(transformers, config, request.get("architecture"))
        masks(torch, transformers, recorder)
        model, attention = build(transformers, found, made, torch, request.get("attention") or "mfu")
        given, taken = inputs_of(torch, model, request, notes)
        tokens = next(iter(given.values())).shape
        tokens = request["batch"] * request["sequence"] if len(tokens) == 2 else request["batch"]
        kind = made.model_type
    if attention == "eager" and request.get("attention") != "eager":
        notes.append("the class has no fused attention: its scores are counted over the whole square")
    total, parts = parameters(torch, model)
    active = active_parameters(model.config, total, parts)
    if active is None:
        notes.append("how many experts a token visits is not in the config: all parameters are called active")
    watch(model, recorder)
    step(torch, model, request, recorder, given, taken)
    notes.extend(sorted(recorder.assumed))
    notes.append(f"counted by {library.__name__} {library.__version__} on torch {torch.__version__}, from the operators that {type(model).__name__} "
                 "runs; built without weights, network or code of the config (trust_remote_code is off)")
    return {"library": library.__name__, "version": library.__version__, "torch": str(torch.__version__), "type": kind,
            "architecture": type(model).__name__, "parameters": total, "active": active or total, "parts": parts, "tokens": tokens, "notes": notes,
            "operators": list(recorder.rows.values()), "stamps": stamps(library, torch)}


def overridden(config, changes):
    """--set KEY=VALUE, with dots for what is inside."""
    for key, text in changes:
        at, words = config, key.split(".")
        for word in words[:-1]:
            at = at.setdefault(word, {})
            if not isinstance(at, dict):
                raise Refused(f"--set {key}: {word} is no section")
        try:
            at[words[-1]] = json.loads(text)
        except ValueError:
            at[words[-1]] = text


def active_parameters(config, total, parts):
    """Without the experts that a token does not visit; none where the config does not say how many it visits."""
    experts = parts.get("experts", 0)
    if not experts:
        return total
    for each in (config, getattr(config, "text_config", None)):
        used = next((getattr(each, name) for name in ("num_experts_per_tok", "moe_k", "num_experts_per_token", "moe_topk", "top_k_experts")
                     if isinstance(getattr(each, name, None), int)), None)
        held = next((getattr(each, name) for name in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
                     if isinstance(getattr(each, name, None), int)), None)
        if used and held:
            return total - experts + experts * used // held
    return None


def main(config_text, request_text):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        config, request = json.loads(config_text), json.loads(request_text)
        if not isinstance(config, dict):
            raise Refused("a JSON object was expected")
        overridden(config, request["overrides"])
        bounded(config)
        limited()
        said = answer(config, request)
    except Refused as problem:
        said = {"problem": str(problem)}
    except ModuleNotFoundError as problem:
        missing = problem.name in ("torch", "transformers", "diffusers")
        said = {"problem": f"{sys.executable} has no {problem.name}: install it there, or name another Python (--python)" if missing
                else f"the class needs a package that is not there: {problem.name or str(problem).splitlines()[0][:300]}"}
    except MemoryError:
        said = {"problem": f"building it takes more than {BYTES >> 30} GB of memory"}
    except RecursionError:
        said = {"problem": "its values are nested too deep"}
    except Exception as problem:  # what a class says of a config that it cannot use
        first = str(problem).strip().splitlines() or [""]
        said = {"problem": f"the class refuses it: {type(problem).__name__}: {first[0][:400]}"}
    print(json.dumps(said), file=out, flush=True)
    os._exit(0)
