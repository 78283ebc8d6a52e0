"""Builds a model's class on the meta device and writes down its operators.

A request has phase, steps (batch and sequence of each), context, encoder_sequence, image, latent, frames, frozen, lora,
architecture and overrides. One JSON object goes to standard output: parameters by part, and each different operator
once, with how often it ran, in which part, forward or backward.

No weight is allocated, nothing is downloaded, and no code from a config runs. The build puts the class_*.py in front of
this file."""

MOST_LAYERS = 4096
MOST_NUMBER = 1 << 40
SECONDS = 240
BYTES = 12 << 30

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    DISABLE_TELEMETRY="1",
    USE_HUB_KERNELS="0",
    TRANSFORMERS_VERBOSITY="error",
    TOKENIZERS_PARALLELISM="false",
    TRANSFORMERS_NO_ADVISORY_WARNINGS="1",
    CUDA_VISIBLE_DEVICES="",
    USE_TF="0",
    USE_FLAX="0",
)


def bounded(value, path="", depth=0):
    """Refuses sizes that no model has, before a class is built."""
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
        many = (
            last.endswith(("layers", "n_layer", "depth", "depths", "blocks", "stages", "per_block", "per_stage"))
            or "experts" in last
            and last.startswith(("num_", "n_", "moe_num"))
        )
        if many and value > MOST_LAYERS:
            raise Refused(f"{path}: {value} is more than the {MOST_LAYERS} that are built at most")
        if (
            value < 0
            and (last.startswith("num_") or last.endswith(("_size", "_dim", "_layers", "_heads")))
            and last != "num_labels"
            and value != -1
        ):
            raise Refused(f"{path}: {value} is below 0")


def limited():
    """Limits the time and memory of this process."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


def stamps(*modules):
    """The files that change when a library is updated. A stored answer is valid as long as they stay the same."""
    found = []
    for module in modules:
        path = os.path.join(os.path.dirname(module.__file__), "__init__.py")
        seen = os.stat(path)
        found.append({"path": path, "bytes": seen.st_size, "changed_ns": seen.st_mtime_ns})
    return found


def tensors_in(value, torch, seen=None):
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() and value.grad_fn is not None else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [each for inner in value for each in tensors_in(inner, torch)]
    return []


def outputs_of(model):
    """The names of the modules that make logits, according to the class."""
    try:
        head = model.get_output_embeddings()
    except Exception:  # a class that has none
        return []
    return [name for name, each in model.named_modules() if each is head and name]


def watch(torch, model, recorder):
    """Lets modules say which part of the model is running."""
    mark_layers(torch, model, recorder)

    def leave(*_):
        if recorder.stack:
            recorder.stack.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda _module, _arguments, name=name: recorder.stack.append(name))
        module.register_forward_hook(leave, always_call=True)


LEARNT = """
    logits pred sample boxes reconstruct spectrogram waveform scores start end depth mask
""".split()
PASSED_ON = tuple("""
    past_key_values hidden_states attentions cross_attentions encoder_ decoder_hidden vision_model_output
    text_model_output
""".split())
CACHES = ("past_key_values", "cache_params", "state", "past_buckets_states")


def learnt(torch, model, result):
    """The outputs from which a loss is made: everything that the class predicts, or else its first output."""
    named = (
        list(result.items())
        if hasattr(result, "items")
        else [(str(i), each) for i, each in enumerate(result if isinstance(result, (tuple, list)) else [result])]
    )
    named = [(name, each) for name, each in named if not name.startswith(PASSED_ON)]
    outputs = [
        each for name, inner in named if any(word in name for word in LEARNT) for each in tensors_in(inner, torch)
    ]
    outputs = outputs or [each for _, inner in named for each in tensors_in(inner, torch)][:1]
    if not outputs:
        raise Refused(f"{type(model).__name__} gives nothing that could be trained")
    return outputs


def encoded(model, past, given):
    """The output of the encoder, as its own class gives it. If it cannot be asked alone, its last states."""
    from transformers.modeling_outputs import BaseModelOutput

    try:
        return model.get_encoder()(**given)
    except Exception:  # an encoder that needs more than the model's own arguments
        return BaseModelOutput(last_hidden_state=past.encoder_last_hidden_state)


def next_sizes(sizes, request):
    """The sizes of the tokens after a context. They have the layout of the context, maybe with several codebooks."""
    sizes = list(sizes)
    place = max(i for i, size in enumerate(sizes) if size == request["context"])
    return (*sizes[:place], request["sequence"], *sizes[place + 1 :])


def step(torch, model, request, recorder, inputs, modes_of):
    """Runs one step of the phase. Returns what the model was given."""
    phase, taken = request["phase"], inputs.taken
    operators, marks = modes_of
    caches = phase in ("prefill", "decode")
    cached = {"use_cache": caches} if "use_cache" in taken else {}
    kept = 1 if phase == "prefill" else request["sequence"]  # drafted tokens are verified by their logits
    last = {"logits_to_keep": kept} if caches and "logits_to_keep" in taken else {}
    if phase == "prefill" and not last and request["sequence"] > 1 and OUTPUTS:
        recorder.assumed.add("the class makes logits of every position, also in prefill: they are counted")
    model.train(phase == "train")

    def call(given, **more):
        recorder.again()
        return model(**given, **more)

    with operators, marks, torch.device("meta"):
        if phase == "train":
            given, result = inputs.tried(lambda given: call(given, **cached))
            outputs = learnt(torch, model, result)
            torch.autograd.backward(outputs, [torch.empty_like(each) for each in outputs])
            return given
        with torch.no_grad():
            if phase != "decode" or not request.get("context"):
                return inputs.tried(lambda given: call(given, **cached, **last))[0]
            name = next((each for each in CACHES if each in taken), None)
            if name is None:
                raise Refused(f"{type(model).__name__} has no cache: it cannot decode")
            recorder.on = False
            before = Inputs(
                torch,
                model,
                request | {"sequence": request["context"], "encoder_sequence": inputs.encoder},
                inputs.values,
                inputs.notes,
                recorder,
            )
            given, past = before.tried(lambda given: call(given, use_cache=True))
            kept = getattr(past, name, None)
            if kept is None:
                raise Refused(f"{type(model).__name__} gave no cache: it cannot decode")
            more = {name: kept}
            text = next((each for each in ("decoder_input_ids", "input_ids") if each in given), None)
            if text is None:
                raise Refused(f"{type(model).__name__} takes no tokens: it cannot decode")
            if getattr(past, "encoder_last_hidden_state", None) is not None and "encoder_outputs" in taken:
                more["encoder_outputs"] = encoded(model, past, {each: given[each] for each in given if each != text})
            elif text == "decoder_input_ids":
                more |= {each: given[each] for each in given if each != text}
            given = {text: inputs.tensor((next_sizes(given[text].shape, request), "id"))}
            recorder.on = True
            call(given, **more, **cached, **last)
            return given


def parameters(torch, model):
    """Parameters by part, each tensor once. Persistent buffers that routers learn without a gradient count too."""
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


def answer(config, request):
    import torch

    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    autocast = torch.autocast.__init__
    torch.autocast.__init__ = lambda self, kind, *args, **kwargs: autocast(
        self, "cpu" if kind == "meta" else kind, *args, **kwargs
    )
    notes, recorder = [], Recorder(torch)
    values = Values(torch, recorder.assumed)
    request |= dict(zip(("batch", "sequence"), request["steps"][0]))
    if isinstance(config.get("_class_name"), str) and "model_type" not in config:
        library, model, inputs_of = diffusion_model(torch, config, request, values, notes, recorder)
        kind, runs = type(model).__name__, model
    else:
        import transformers

        transformers.logging.set_verbosity_error()
        library = transformers
        found, made, said = find_class(transformers, config, request.get("architecture"))
        notes.extend(said)
        request["known"] = True
        masks(torch, transformers, recorder, values)
        model = build(transformers, found, made, torch, values)
        kind = made.model_type
        runs = part_that_runs(torch, model, notes)
        inputs_of = lambda asked: Inputs(torch, runs, asked, values, notes, recorder)  # noqa: E731
    OUTPUTS.update(outputs_of(model))
    notes.extend(tied_anyway(model, config))
    total, parts = parameters(torch, model)
    active = active_parameters(model.config, total, parts)
    if active is None:
        notes.append("how many experts a token visits is not in the config: all parameters are called active")
    trained, adapters = train_some(torch, model, request, recorder)
    watch(torch, model, recorder)
    tokens = 0
    for batch, sequence in request["steps"]:
        asked = request | {"batch": batch, "sequence": sequence}
        inputs = inputs_of(asked)
        given = step(torch, runs, asked, recorder, inputs, modes(torch, recorder, values))
        if len(request["steps"]) > 1 and not any(each in given for each in TEXT):
            raise Refused(f"{type(model).__name__} takes no text: its sequences have no lengths of their own")
        tokens += inputs.tokens(given)
        recorder.done()
    if "input_ids" in given and "pixel_values" in inputs.taken and "pixel_values" not in given:
        notes.append("no picture: text alone")
    notes.extend(sorted(recorder.assumed))
    flat = [
        pair
        for name, each in given.items()
        for pair in (
            [(name, each)] if not isinstance(each, dict) else [(f"{name}.{key}", value) for key, value in each.items()]
        )
    ]
    shapes = {name: list(each.shape) for name, each in flat if isinstance(each, torch.Tensor)}
    notes.append("its inputs: " + ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items()))
    notes.append(
        f"counted by {library.__name__} {library.__version__} on torch {torch.__version__}, from the operators that"
        f" {type(model).__name__} runs; built without weights, network or code of the config (trust_remote_code is off)"
    )
    return {
        "library": library.__name__,
        "version": library.__version__,
        "torch": str(torch.__version__),
        "type": kind,
        "architecture": type(model).__name__,
        "parameters": total,
        "active": active or total,
        "parts": parts,
        "trained": trained,
        "adapters": adapters,
        "tokens": tokens,
        "notes": notes,
        "inputs": shapes,
        "operators": list(recorder.kept.values()),
        "stamps": stamps(library, torch),
    }


def tied_anyway(model, config):
    """Adds a note if the class ties its head to its embedding although the config says that it does not."""
    if config.get("tie_word_embeddings") is not False:
        return []
    try:
        head, table = model.get_output_embeddings(), model.get_input_embeddings()
    except Exception:  # a class that has none
        return []
    weight = getattr(head, "weight", None)
    if weight is None or weight is not getattr(table, "weight", None):
        return []
    return [
        "the class ties its head to the embedding, though the config says otherwise: a checkpoint with a head of its"
        f" own holds {weight.numel()} parameters more"
    ]


def overridden(config, changes):
    """Applies --set KEY=VALUE. Dots lead to fields inside other fields."""
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
    """The parameters without the experts that a token does not use. None if the config does not say how many it uses.
    """
    experts = parts.get("experts", 0)
    if not experts:
        return total
    for each in (config, getattr(config, "text_config", None)):
        used = next(
            (
                getattr(each, name)
                for name in ("num_experts_per_tok", "moe_k", "num_experts_per_token", "moe_topk", "top_k_experts")
                if isinstance(getattr(each, name, None), int)
            ),
            None,
        )
        held = next(
            (
                getattr(each, name)
                for name in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
                if isinstance(getattr(each, name, None), int)
            ),
            None,
        )
        if used and held:
            return total - experts + experts * used // held
    return None


def package_of(problem):
    """The package that an import is missing. Also understands the messages of transformers, which imports some packages
    only when it needs them."""
    asked = re.search(r"requires the (?:following )?`?([\w.-]+)`? librar", str(problem))
    return asked[1].lower() if asked else (problem.name or "").split(".")[0]


def main(config_text, request_text):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not part of the answer
    request = {}
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
    except ImportError as problem:
        missing = package_of(problem)
        said = {
            "missing": missing,
            "problem": f"{sys.executable} has no {missing}: install it there (pip install {missing}), or name another"
            " Python (--python)"
            if missing
            else f"the class cannot be imported: {brief(problem, 400)}",
        }
    except MemoryError:
        said = {"problem": f"building it takes more than {BYTES >> 30} GB of memory"}
    except RecursionError:
        said = {"problem": "its values are nested too deep"}
    except Exception as problem:  # what a class says of a config that it cannot use
        said = {"problem": f"the class refuses it: {brief(problem, 400)}"}
    print(json.dumps(said | ({"known": True} if request.get("known") else {})), file=out, flush=True)
    os._exit(0)
