"""Finds matrix products that nobody counted: a training step's own gradients prove them.

If the dispatcher does not see a product, its gradient goes through a Function of the program or of a library (torch's
own nodes are counted). In a few backward passes each such node is checked. A product is proved if no counted operator
ran in the node and either

    its gradient for an input, dX, equals G × W, where G is the gradient that it was given and W a trained matrix, or
    its gradient for a matrix, dW, equals Gᵀ × X, where X is an input that it kept.

G was made in this backward, so the product was made here, and its FLOPs are missing. The equations are checked with
fixed vectors (each takes two products of a matrix and a vector). They hold only for products: not for lookups,
elementwise weights, norms, gathered or quantized parameters, or losses with gradients of their own. What is not proved
is not reported.

opaque.py checks the forward of a Function.

Gradients that no backward made (the program put them there) are checked in one step: if no operator wrote their memory,
they were made past the dispatcher, and the coverage is not known. Only programs with such gradients pay for that step.

On a device the result is read when it has arrived. Nothing waits for it.
"""

import threading
import weakref

from . import imports, opaque

WALKS = (0, 1, 2, 8, 64, 512)  # backward passes that are checked
MOST_NODES = 20_000
MOST_LOOKS = 6  # nodes of one kind
MOST_SAID = 8

_state = {"backwards": 0, "capturing": 0, "applied": 0}
_looks = {}
_said = set()
_verdicts = []  # results that have not arrived from a device yet
_reached = {}  # by id: weak references to parameters whose gradients a backward made
_seen_optimizers = []  # weak references to those whose first step was seen
_put = {}  # the step in which gradients that no backward made are watched
MOST_OPTIMIZERS = 16
MOST_STEPS = 16  # steps of other optimizers during such a step


def is_foreign(node):
    """Whether the node is not from torch's generated code, whose names end with a number (AddmmBackward0)."""
    name = node.name()
    if name[-1:].isdigit() or name.endswith(("AccumulateGrad", "GraphRoot", "Error", "Identity")):
        return False
    return (
        "CompiledFunction" not in name
        and "Checkpoint" not in name
        and not name.startswith("torch::autograd::GraphRoot")
    )


def capturing(change):
    """Called when the capture of a CUDA graph begins (+1) or ends (-1). Nothing of ours may run inside."""
    _state["capturing"] += change


def wants_functions():
    """Whether Functions that are applied now may be checked."""
    return _state["backwards"] in WALKS


def function_begins():
    """Called before a Function is applied. Returns whether it may be checked."""
    imports.look(whole=True)  # libraries that it calls are watched from now on
    _state["applied"] += 1
    return not _state["capturing"] and len(_said) < MOST_SAID


def keeps_plainly():
    """Whether tensors that a Function saves for its backward are stored unchanged. With saved-tensor hooks, reading
    them has side effects."""
    try:
        import torch

        return torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    except Exception:  # noqa: BLE001: another torch
        return False


def has_run():
    """Whether a Function was applied, or a backward ran."""
    return bool(_state["applied"] or _state["backwards"])


def applied(result, plain):
    """Called when a Function was applied. Marks its node if we may read its saved tensors."""
    if not plain:
        return
    for each in result if isinstance(result, (tuple, list)) else (result,):
        node = getattr(each, "grad_fn", None)
        if node is not None:
            node._mfu_plain = True


def stepped(optimizer, library):
    """Called when an optimizer has stepped."""
    if _put:
        _end_put(optimizer, library)
    if len(_seen_optimizers) < MOST_OPTIMIZERS and not any(each() is optimizer for each in _seen_optimizers):
        _seen_optimizers.append(weakref.ref(optimizer))
        first_step(optimizer, library)


def _gradients(optimizer):
    """The parameters of an optimizer that have a matrix as their gradient, and the gradients."""
    for group in optimizer.param_groups:
        for each in group["params"]:
            gradient = getattr(each, "grad", None)
            if gradient is None or gradient.dim() < 2 or gradient.is_sparse or not gradient.is_floating_point():
                continue
            yield each, gradient


def first_step(optimizer, library):
    """Reports a doubt if matrices have gradients although no product was counted, or if torch did not allocate a
    gradient's memory. Then nobody knows how the gradients were made. If no backward made them, the next step is
    watched."""
    import torch

    from . import binding as types

    totals = types.Totals()
    library.read_totals(totals)
    counted = totals.hardware_flop_low or totals.hardware_flop_high
    put = []
    for each, gradient in _gradients(optimizer):
        if not counted:
            library.fact(b"doubt", b"matrices were trained, and no product was counted")
            return
        if opaque.is_outside(gradient, library):
            library.fact(b"doubt", b"gradients of matrices were made outside of torch")
            return
        if not was_reached(each) and type(gradient) is torch.Tensor and gradient.layout == torch.strided:
            put.append(weakref.ref(each))
    if put and not _put and not _state["capturing"] and library.counting():
        _put.update(
            optimizer=weakref.ref(optimizer),
            parameters=put,
            seen=opaque.Seen(library, whole_step=True),
            wrapped=opaque.wrapped_calls[0],
            steps=0,
        )


def was_reached(parameter):
    return _reached.get(id(parameter), lambda: None)() is parameter


def _reach(node):
    """Remembers the parameter whose gradient this node adds up."""
    variable = getattr(node, "variable", None)
    if variable is not None:
        _reached[id(variable)] = weakref.ref(variable)


def _end_put(optimizer, library):
    """Ends the watch on gradients that no backward made: at the same optimizer's next step."""
    _put["steps"] += 1
    owner = _put["optimizer"]()
    if owner is not optimizer and owner is not None and _put["steps"] < MOST_STEPS:
        return
    seen, parameters = _put["seen"], [each() for each in _put["parameters"]]
    wrapped = _put["wrapped"] != opaque.wrapped_calls[0]  # a library whose kernels are counted may have written them
    _put.clear()
    if seen.thread != threading.get_ident():
        return  # only its own thread can end the watch, which ends by itself after some time
    try:
        if owner is optimizer and not wrapped and seen.known():
            _judge_put([each for each in parameters if each is not None], seen, library)
    finally:
        seen.leave()


def _judge_put(parameters, seen, library):
    import torch

    if seen.named():
        return  # what may have written them is listed as uncounted
    library.pause(1)
    try:
        with torch.no_grad():
            for each in parameters:
                gradient = each.grad
                if gradient is None or was_reached(each) or not seen.is_hidden(gradient, ()):
                    continue
                _tell_put(each, gradient, library)
                return
    finally:
        library.pause(-1)


def _tell_put(parameter, gradient, library):
    """Reports the gradient, unless it is a copy of one that a backward made: fused kernels copy gradients for
    optimizers that have parameters of their own."""
    import torch

    shape = " × ".join(map(str, gradient.shape))
    what = f"the gradient of {_name_of(parameter)} ({shape}) was made past torch's dispatcher"
    apart = torch.ones((), device=gradient.device)
    own = gradient.reshape(-1).float()
    for reference in list(_reached.values()):
        other = reference()
        for made in (getattr(other, "grad", None), getattr(other, "main_grad", None)):
            if isinstance(made, torch.Tensor) and made.numel() == own.numel() and made.device == own.device:
                cosine = torch.nn.functional.cosine_similarity(own, made.detach().reshape(-1).float(), dim=0)
                apart = torch.minimum(apart, 1 - cosine.abs())
    _when_arrived(apart, lambda value: library.fact(b"doubt", what.encode()) if value > 0.01 else None, library)


def _name_of(parameter):
    """Its name in a model that was seen; else what kind of thing it is."""
    from . import passes

    for reference in list(passes._models.values()):
        model = reference()
        for name, each in model.named_parameters() if model is not None else ():
            if each is parameter:
                return f"{type(model).__name__}.{name}"
    return "a parameter"


def before_backward(outputs, library):
    """Called when a backward begins at these outputs. In the passes of WALKS it checks their nodes."""
    opaque.leave_abandoned()
    if _verdicts:
        _hear(library)
    _state["backwards"] += 1
    if _state["backwards"] - 1 not in WALKS or len(_said) >= MOST_SAID or _state["capturing"] or not library.counting():
        return
    seen, waiting = set(), [each.grad_fn for each in outputs if getattr(each, "grad_fn", None) is not None]
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        following = [each for each, _ in node.next_functions if each is not None]
        waiting.extend(each for each in following if each not in seen)
        # A Function may keep a gradient to itself. Otherwise each parameter behind a node gets one.
        if not is_foreign(node) or not _look(node, library):
            for each in following:
                _reach(each)


def _look(node, library):
    """Has a node checked when its turn comes. Returns whether it is."""
    key = node.name()
    if _looks.get(key, 0) >= MOST_LOOKS or _names(node) in _said:
        return False
    _looks[key] = _looks.get(key, 0) + 1
    held = {}
    current = _asker(node)
    if current is None:
        return False

    def before(gradients):
        try:
            held["seen"] = opaque.Seen(library)
            held["kept"] = _kept(current())
        except Exception:  # noqa: BLE001: never into the program
            if held:
                held["seen"].leave()
            held.clear()

    def after(inputs, outputs):
        try:
            for (following, _), made in zip(current().next_functions, inputs):
                if following is not None and made is not None:
                    _reach(following)
            if held and held["seen"].known():
                _try(current(), inputs, outputs, held["kept"], held["seen"])
        except Exception:  # noqa: BLE001
            pass
        if held:
            held["seen"].leave()
        held.clear()
        for handle in handles:
            handle.remove()

    handles = [node.register_prehook(before), node.register_hook(after)]
    return True


def _asker(node):
    """Gives a hook its node without keeping the node alive. A node that is kept and never reached by a backward would
    keep its whole graph in memory."""
    try:
        return weakref.ref(node)
    except TypeError:  # a node that C++ made
        import torch

        return getattr(torch._C, "_current_autograd_node", None)


def _kept(node):
    """The tensors that the node kept for its backward, in any way."""
    import torch

    found = []
    if getattr(node, "_mfu_plain", False):  # otherwise reading them would run a hook, such as a checkpoint's
        try:
            found.extend(node.saved_tensors)
        except Exception:  # noqa: BLE001: freed, or changed since
            pass
    for value in list(getattr(node, "__dict__", {}).values()):
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if type(each).__module__ == "numpy" and hasattr(each, "__array_interface__"):
                try:
                    each = torch.from_numpy(each)
                except Exception:  # noqa: BLE001: not a type of torch's
                    continue
            found.append(each)
    kind = torch.Tensor
    return [each.detach() for each in found if isinstance(each, kind) and each.is_floating_point() and each.dim() >= 2]


def _matrices(node):
    """The leaf matrices that the node's gradients go to, also through views and casts."""
    found = []
    for each, _ in node.next_functions:
        for _ in range(4):
            if each is None or not each.name().startswith(
                ("TBackward", "Transpose", "View", "ToCopy", "Permute", "Unsafe", "Alias")
            ):
                break
            each = each.next_functions[0][0]
        variable = getattr(each, "variable", None)
        if variable is not None and variable.dim() == 2 and variable.is_floating_point():
            found.append(variable.detach())
    return found


def _try(node, inputs, outputs, kept, seen):
    import torch

    library = seen.library
    gradients = [each for each in outputs if _is_plain(each)]
    results = [each for each in inputs if _is_plain(each)]
    nothing, flop = seen.nothing(), seen.flop()
    if not gradients or not results or not nothing and not flop or seen.named():
        return
    library.pause(1)
    try:
        with torch.no_grad():
            matrices, proved = _matrices(node), []
            for given in gradients:
                g = given.reshape(-1, given.shape[-1])
                for result in results:
                    r = result.reshape(-1, result.shape[-1])
                    verdict = _is_product(g, r, matrices, kept)
                    if verdict is not None:
                        proved.append(verdict)
            if nothing:
                for each in proved:
                    _tell(node, each, library)
                for each in results:
                    trained = any(each.shape == other.shape for other in matrices)
                    if trained and _may_be_product(each, gradients, results, kept) and seen.is_hidden(
                        each, (*gradients, *kept)
                    ):
                        opaque.doubt(_names(node), library)
            # The node made two products of one size, and only one was counted.
            elif len(proved) == 2 and flop == proved[0][2] == proved[1][2]:
                apart = torch.stack([each[0] for each in proved]).amax()
                _tell(node, (apart, *proved[0][1:]), library)
    finally:
        library.pause(-1)


def _may_be_product(result, gradients, others, kept):
    """Whether a matrix's gradient [n, k] can be Gᵀ × X: G has n columns, and another tensor has k columns. If the node
    shows no kept tensors, only the layout of a linear layer is accepted, because the gradient of a lookup has G's
    columns last."""
    if result.dim() != 2 or any(opaque.fits_elementwise(result, given) for given in gradients):
        return False
    widths = {each.shape[-1] for each in (*others, *kept) if each.shape != result.shape}
    n, k = result.shape
    for given in gradients:
        if given.shape[-1] == n and (k in widths or not widths and n != k):
            return True
        if given.shape[-1] == k and n in widths:
            return True
    return False


def _names(node):
    """The names of the Function behind a node and of its module."""
    kind, name = type(node), node.name()
    module = getattr(getattr(kind, "_forward_cls", None), "__module__", None) or (
        "C++" if "::" in name else kind.__module__
    )
    return name[: -len("Backward")] if name.endswith("Backward") else name, str(module)


def _is_plain(tensor):
    import torch

    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or tensor.dim() < 2:
        return False
    return tensor.layout == torch.strided and tensor.device.type != "meta" and min(tensor.shape) > 0


def _is_product(g, r, matrices, kept):
    """(agreement as a tensor, sizes, FLOPs) of the first equation whose sizes fit; None if no sizes fit."""
    for matrix in matrices + [each.reshape(-1, each.shape[-1]) for each in kept]:
        if matrix.device != g.device or min(matrix.shape) < 2:
            continue
        for w in (matrix, matrix.t()):
            # [tokens, n] × [n, k]
            if w.shape[0] == g.shape[1] and w.shape[1] == r.shape[1] and g.shape[0] == r.shape[0] and g.shape[0] >= 1:
                return _agreement(g, w, r), *_sizes(g.shape[0], *w.shape)
    for x in kept:
        x = x.reshape(-1, x.shape[-1])
        if x.device != g.device or x.shape[0] != g.shape[0] or g.shape[0] < 2:
            continue
        for result in (r, r.t()):
            if result.shape == (g.shape[1], x.shape[1]) and min(result.shape) >= 2:
                return _agreement(g.t(), x, result), *_sizes(g.shape[1], g.shape[0], x.shape[1])
    return None


def _sizes(m, k, n):
    """The sizes as text, in an order that products of one layer share, and the FLOPs."""
    return f"{m} × {k} × {n}", 2 * m * k * n


def _agreement(a, b, product):
    """How far a × b is from `product`, measured with three fixed vectors. It is small if the two are equal. It is large
    if there is nothing to compare, or if b is close to a multiple of the identity, which proves nothing."""
    import torch

    steps = torch.arange(b.shape[1], device=b.device, dtype=torch.float32) % 4096
    vectors = torch.stack(
        [torch.cos(steps * 1.7 + 0.3), torch.sin(steps * 12.9898 + 1.1), torch.cos(steps * 0.9 + 2)], 1
    )
    # This uses the operands' own types, so that no large matrix is copied.
    through = (b @ vectors.to(b.dtype)).float()
    wanted, found = (a @ through.to(a.dtype)).float(), (product @ vectors.to(product.dtype)).float()
    apart = (wanted - found).norm(dim=0) / found.norm(dim=0).clamp_min(1e-30)
    apart = torch.where(found.norm(dim=0) > 0, apart, torch.full_like(apart, 9.0)).amax()
    if b.shape[0] == b.shape[1]:
        scale = (through * vectors).sum(0) / (vectors * vectors).sum(0)
        rest = (through - scale * vectors).norm(dim=0) / through.norm(dim=0).clamp_min(1e-30)
        apart = torch.where(rest.amax() < 0.3, torch.full_like(apart, 9.0), apart)
    return apart


def _tell(node, verdict, library):
    told(_names(node), verdict[1], verdict[0], library)


def told(names, sizes, apart, library):
    """Reports a product in the named Function if `apart` is small."""
    entry = (*names, sizes)
    _when_arrived(apart, lambda value: _judge(entry, value, library), library)


def _when_arrived(apart, judge, library):
    """Calls `judge` with the number once it is in host memory."""
    if apart.device.type == "cpu":
        judge(float(apart))
        return
    from .libraries.lengths import _event
    from .libraries.wrapping import device_of

    device = device_of(apart)
    if library.may_ask(device):
        copy = apart.new_empty((), device="cpu").copy_(apart, non_blocking=True)
        _verdicts.append((judge, copy, _event(apart), device))


def _hear(library):
    for each in list(_verdicts):
        judge, copy, event, device = each
        if library.may_ask(device) and event.query():
            _verdicts.remove(each)
            judge(float(copy))


def _judge(entry, apart, library):
    if apart < 0.1 and entry[:2] not in _said:
        _said.add(entry[:2])
        library.fact(b"unseen", "\t".join(entry).encode())
