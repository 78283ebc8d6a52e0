"""Sets which weights of a class are trained. This is a part of the script that ends with ask_class.py.

The cost of a frozen weight or an adapter follows from autograd, which runs only what is needed."""

import difflib
import fnmatch


def train_some(torch, model, request, recorder):
    """Freezes weights and adds adapters, as asked. Returns how many parameters are trained (None: all) and how many of
    them are in adapters."""
    frozen, lora = request.get("frozen") or [], request.get("lora")
    if not frozen and not lora:
        return None, 0
    if lora:
        for weight in model.parameters():
            weight.requires_grad_(False)
        adapters = sum(adapt(torch, module, lora["rank"], recorder) for module in adapted(torch, model, lora, recorder))
        return adapters, adapters
    for pattern in frozen:
        names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        fitting = {name for name in names if freezes(pattern, name)}
        if not fitting:
            raise Refused(unmatched("frozen pattern", pattern, names, model))
        for name, weight in model.named_parameters(remove_duplicate=False):
            if name in fitting:
                weight.requires_grad_(False)
    return sum(each.numel() for each in model.parameters() if each.requires_grad), 0


def bare_name(name):
    return name.removesuffix(".weight").removesuffix(".bias")


def freezes(pattern, name):
    """Whether a pattern matches a name. It is a glob, one of our parts, or the beginning of a name."""
    pattern, bare = bare_name(pattern), bare_name(name)
    glob = pattern.replace("[", "[[]")
    return pattern == part_of(name) or fnmatch.fnmatchcase(bare, glob) or bare.startswith(pattern + ".")


def unmatched(what, pattern, names, model):
    known = sorted({*(bare_name(name) for name in names), *(bare_name(name).rsplit(".", 1)[-1] for name in names)})
    near = difflib.get_close_matches(pattern, known, 3)
    told = f"{what} \"{pattern}\" fits no weight of {type(model).__name__}"
    return told + (f"; near: {', '.join(near)}" if near else "")


def linear_sizes(torch, module):
    """The input and output width of a linear layer. None for anything else."""
    if isinstance(module, torch.nn.Linear):
        return module.in_features, module.out_features
    if type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None and module.weight.dim() == 2:
        return tuple(module.weight.shape)
    return None


def adapted(torch, model, lora, recorder):
    """The layers that get adapters: the named ones, or every projection in the layers of the text model."""
    linear = [(name, module) for name, module in model.named_modules() if linear_sizes(torch, module)]
    targets = lora["targets"]
    if targets and not targets[0].startswith("all"):
        for target in targets:
            if not any(name == target or name.endswith("." + target) for name, _ in linear):
                raise Refused(unmatched("LoRA target", target, [name for name, _ in linear], model))
        return [module for name, module in linear if any(name == t or name.endswith("." + t) for t in targets)]
    if any(part_of(name) == "experts" and weight.dim() == 3 for name, weight in model.named_parameters()):
        recorder.assumed.add("experts that are no linear layers carry no adapter")
    chosen = [
        module
        for name, module in linear
        if any(word.isdigit() for word in name.split(".")) and part_of(name) not in ("router", "vision", "lm_head")
    ]
    if not chosen:
        raise Refused(f"{type(model).__name__} has no linear layer that could carry an adapter")
    return chosen


def adapt(torch, module, rank, recorder):
    """Adds B·A·x to the output of a layer. Returns how many parameters that takes."""
    wide, out = linear_sizes(torch, module)
    down = torch.nn.Parameter(torch.empty(rank, wide, device="meta", dtype=module.weight.dtype))
    up = torch.nn.Parameter(torch.empty(out, rank, device="meta", dtype=module.weight.dtype))

    def add(_module, arguments, result):
        recorder.stack.append(ADAPTER)
        try:
            linear = torch.nn.functional.linear
            return result + linear(linear(arguments[0], down), up)
        finally:
            recorder.stack.pop()

    module.register_parameter("adapter_down", down)
    module.register_parameter("adapter_up", up)
    module.register_forward_hook(add)
    return down.numel() + up.numel()


def mark_layers(torch, model, recorder):
    """Marks the layers that activation checkpointing runs again: those that the library checkpoints, else those in its
    lists of layers."""
    marked = [
        each
        for each in model.modules()
        if any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(each).__mro__)
    ] or [
        inner
        for name, each in model.named_modules()
        if isinstance(each, torch.nn.ModuleList) and not any(word.isdigit() for word in name.split("."))
        for inner in each
    ]

    def enter(module, arguments, named):
        given = [*tensors_of(torch, arguments), *tensors_of(torch, named.values())]
        reached = any(each.requires_grad for each in itertools.chain(given, module.parameters()))
        recorder.layers.append(torch.is_grad_enabled() and reached)

    def leave(*_):
        if recorder.layers:
            recorder.layers.pop()

    for each in marked:
        each.register_forward_pre_hook(enter, with_kwargs=True)
        each.register_forward_hook(leave, always_call=True)
