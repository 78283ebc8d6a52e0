"""Counts compiled graphs. In some modes their kernels bypass the dispatcher (cpp_wrapper, templates, CUDA graphs). So a
graph is described once, when inductor compiles it, and each call is counted by that description. What the dispatcher
sees during the call is not counted.

The description is plain data and is stored with the compiled graph in inductor's own caches, so that a second process
with a warm cache has it too. A graph that was compiled without mfu has no description; the key of the caches therefore
includes mfu. Sizes may be expressions of symbols, whose values are read from the inputs of each call.
"""

import ctypes
import functools

from . import binding as types
from . import masks
from .boundaries import skip_in_dynamo

MARK = "_mfu_graph"
VERSION = 3
# Operators that contain a graph of their own.
SUBGRAPHS = {"invoke_subgraph"}
# These run another operator with its own random state, which is saved in the forward and restored for recomputation.
# The number is the position of that operator in the arguments.
SEEDED = {"run_and_save_rng_state": 0, "run_with_rng_state": 1, "graphsafe_run_with_rng_state": 0}
# These wrap an operator that writes to its arguments or whose order matters. The number is its position in the
# arguments.
WRAPPED = {"auto_functionalized": 0, "auto_functionalized_v2": 0, "with_effects": 1}
# Operators for which inductor generates kernels. It calls all others by their names.
OWN = {"aten", "prims", "prim", "inductor", "rngprims", "quantized_decomposed", "_c10d_functional", "c10d"}
# Operators whose work is known only to a kernel template or to the user's own kernel.
OPAQUE = {
    "flex_attention": "attention with a mask made of code",
    "flex_attention_backward": "attention with a mask made of code",
    "triton_kernel_wrapper_mutation": "a Triton kernel of the program's own",
    "triton_kernel_wrapper_functional": "a Triton kernel of the program's own",
    "while_loop": "a loop inside a compiled graph",
    "scan": "a loop inside a compiled graph",
    "cond": "a branch inside a compiled graph",
}


def _expression(value):
    """An int, or an expression of symbols as text."""
    if isinstance(value, int):
        return value
    expression = value.node.expr
    return int(expression) if expression.is_Integer else str(expression)


def _argument(value):
    """One argument of a node as plain data; the first letter says what it is."""
    if hasattr(value, "meta") and hasattr(value, "users"):  # another node
        value = value.meta.get("val")
    if value is None:
        return ("a",)
    if isinstance(value, bool):
        return ("b", int(value))
    if isinstance(value, float):
        return ("n", value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return ("t", str(value.dtype), tuple(_expression(size) for size in value.shape))
    if isinstance(value, int) or type(value).__name__ == "SymInt":
        return ("i", _expression(value))
    if isinstance(value, (list, tuple)):
        items = [_argument(item) for item in value]
        if all(item[0] in "ib" for item in items):
            return ("l", tuple(item[1] for item in items))
    return ("o",)


def _arguments(target, args, kwargs):
    """All arguments in the order of the schema, with defaults filled in."""
    result = []
    for index, argument in enumerate(target._schema.arguments):
        if index < len(args):
            result.append(_argument(args[index]))
        else:
            result.append(_argument(kwargs.get(argument.name, argument.default_value)))
    return tuple(result)


def _runs_again(node, is_backward):
    """Whether this is a forward node that the partitioner also put into the backward graph."""
    if not is_backward:
        return False
    tag = node.meta.get("partitioner_tag")
    if tag is not None:
        return tag not in ("is_backward", "must_be_in_backward")
    return node.meta.get("recompute") is not None


def _flex_attention(node):
    """The two products of a flex_attention whose mask is one block: the whole rectangle, as in eager mode. None if it
    may leave blocks out, because only values tell which."""
    if (
        getattr(node.target, "_name", "") != "flex_attention"
        or len(node.args) < 5
        or not isinstance(node.args[4], (list, tuple))
    ):
        return None
    query, key, value = (_argument(each) for each in node.args[:3])
    # shape of the indices: batch, heads, rows, blocks in a row
    blocks = [each for each in map(_argument, node.args[4]) if each[0] == "t" and len(each[2]) == 4]
    if (
        not blocks
        or blocks[0][2][2:] != (1, 1)
        or any(each[0] != "t" or len(each[2]) != 4 for each in (query, key, value))
    ):
        return None
    batch, heads, rows, width = query[2]
    columns, depth = key[2][2], value[2][3]
    both = batch * heads if isinstance(batch, int) and isinstance(heads, int) else f"({batch})*({heads})"
    kind = query[1]
    scores = (("t", kind, (both, rows, width)), ("t", kind, (both, width, columns)))
    return scores, (("t", kind, (both, rows, columns)), ("t", kind, (both, columns, depth)))


def _walk(module, is_backward, library, found):
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        name = getattr(node.target, "__name__", "")
        if name in SUBGRAPHS and node.args and hasattr(node.args[0], "target"):
            _walk(getattr(module, node.args[0].target), is_backward, library, found)
        elif name in SEEDED and len(node.args) > SEEDED[name] and hasattr(node.args[SEEDED[name]], "_schema"):
            _record(node.args[SEEDED[name]], node.args[SEEDED[name] + 1 :], node.kwargs, is_backward, library, found)
        elif name in WRAPPED and len(node.args) > WRAPPED[name] and hasattr(node.args[WRAPPED[name]], "_schema"):
            found["opened"].add(_full_name(node.args[WRAPPED[name]]))
        elif products := _flex_attention(node):
            found["nodes"] += [("aten::bmm", arguments, _runs_again(node, is_backward)) for arguments in products]
        elif name in OPAQUE or getattr(node.target, "_name", "") in OPAQUE:
            found["unknown"].append(
                (f"torch::{name or node.target._name}", OPAQUE.get(name) or OPAQUE[node.target._name])
            )
        elif hasattr(node.target, "_schema"):
            count = len(found["nodes"])
            _record(node.target, node.args, node.kwargs, _runs_again(node, is_backward), library, found)
            mask = masks.mask_of(node.target, node.args, node.kwargs) if len(found["nodes"]) > count else None
            if mask is not None:
                found["masks"][count] = masks.share_of(mask, module, is_backward, library)


def _full_name(target):
    schema = target._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def _record(target, args, kwargs, again, library, found):
    schema, full = target._schema, _full_name(target)
    if schema.name == "aten::embedding":
        if not found["backward"]:  # in a backward graph the lookup runs again for its gradient, without new tokens
            found["lookups"].append((*_arguments(target, args, kwargs)[:2], found["places"].get(args[0])))
    elif library.cost_of(full.encode(), None, 0, types.Cost()) != 1:
        found["nodes"].append((full, _arguments(target, args, kwargs), again))
    elif schema.name.split("::")[0] not in OWN:
        found["opened"].add(full)


def describe(module, is_backward, library):
    """What a graph will count at each call, as plain data."""
    found = {
        "version": VERSION,
        "nodes": [],
        "lookups": [],
        "unknown": [],
        "opened": set(),  # operators that the graph calls by name; what they call inside is unknown
        "symbols": {},
        "backward": is_backward,
        "device": None,
    }
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    found["masks"] = {}  # by position of an attention's node: (attended, all) elements of its mask
    masks.begin(is_backward)
    found["places"] = {node: place for place, node in enumerate(inputs)}
    _walk(module, is_backward, library, found)
    del found["places"]
    found["opened"] = sorted(found["opened"])
    for place, node in enumerate(inputs):
        value = node.meta.get("val")
        if type(value).__name__ == "SymInt":
            found["symbols"].setdefault(str(value.node.expr), (place, None))
        elif hasattr(value, "shape"):
            for dimension, size in enumerate(value.shape):
                if type(size).__name__ == "SymInt":
                    found["symbols"].setdefault(str(size.node.expr), (place, dimension))
            if found["device"] is None or value.device.type != "cpu":
                found["device"] = place
    found["symbols"] = {name: where for name, where in found["symbols"].items() if name.isidentifier()}
    return found


# The functions in sympy's expressions of sizes.
FUNCTIONS = {
    "Max": max,
    "Min": min,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "floor": int,
    "ModularIndexing": lambda a, b, c: a // b % c,
    "CeilDiv": lambda a, b: -(-a // b),
    "CeilToInt": lambda a: -int(-a // 1),
    "TruncToInt": int,
}


class _Rows(ctypes.Structure):
    _fields_ = [("operator_id", ctypes.c_uint32), ("type_id", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("calls", "hardware_flop", "model_flop", "recomputed_flop")
    ] + [("leading", ctypes.c_int64), ("device", ctypes.c_int64)]


class Graph:
    """A description that is ready to count. It keeps one set of numbers for each set of symbol values."""

    def __init__(self, description, library):
        self.description, self.library = description, library
        self.symbols = sorted(description["symbols"].items())
        self.known = {}
        self.device = None
        opened = description.get("opened", ())
        closed = [name for name in opened if not library.open_operator(name.encode())]
        self.unknown = description["unknown"] + [(name, "a compiled graph calls it unseen") for name in closed]
        self.opens = int(bool(opened))
        self.empty = not (description["nodes"] or description["lookups"] or self.unknown)

    def numbers(self, inputs):
        if self.device is None:
            self.device = _device_number(inputs, self.description["device"])
        key = tuple(
            int(inputs[place] if dimension is None else inputs[place].shape[dimension])
            for _, (place, dimension) in self.symbols
        )
        found = self.known.get(key)
        if found is None:
            if len(self.known) > 4096:  # drop shapes that may never come again
                self.known.clear()
            found = self.known[key] = self._evaluate(dict(zip((name for name, _ in self.symbols), key)))
        return found

    def _evaluate(self, values):
        rows, unknown, leading, kept = {}, list(self.unknown), 0, []
        shares = self.description.get("masks", {})
        if None in shares.values():
            self.library.fact(b"note", masks.NOTE)
        for place, (name, arguments, again) in enumerate(self.description["nodes"]):
            given = (types.Argument * len(arguments))(*(self._argument(each, values, kept) for each in arguments))
            cost = types.Cost()
            status = self.library.cost_of(name.encode(), given, len(arguments), cost)
            if status == 2:
                unknown.append((cost.name.decode(), cost.reason.decode()))
            if status != 0:
                continue
            left = arguments[_left(name)]  # the rows of a product with a weight
            if not leading and "bmm" not in name and left[0] == "t" and left[2]:
                leading = _value(left[2][0], values)
            row = rows.setdefault((cost.name, cost.type), [0, 0, 0, 0])
            row[0] += 1
            row[1] += cost.hardware_flop
            attended, elements = shares.get(place) or (1, 1)
            row[2] += 0 if again else cost.model_flop * attended // elements
            row[3] += cost.hardware_flop if again else 0
        lookups = []
        for *arguments, place in self.description["lookups"]:
            table, indices = ([_value(size, values) for size in each[2]] for each in arguments)
            tokens = 1
            for size in indices:
                tokens *= size
            lookups.append((place, table[0], tokens, *(indices + [0, 0])[:2]))
        array = (_Rows * len(rows))()
        for place, ((name, kind), row) in enumerate(rows.items()):
            array[place] = _Rows(self.library.operator_id(name), self.library.type_id(kind), *row, leading, self.device)
        return array, len(rows), lookups, unknown, sum(row[1] for row in rows.values()), self.opens

    @staticmethod
    def _argument(argument, values, kept):
        kind = argument[0]
        if kind == "t":
            sizes = [_value(size, values) for size in argument[2]]
            kept.append((ctypes.c_int64 * len(sizes))(*sizes))
            return types.Argument(1, argument[1].encode(), kept[-1], len(sizes), 0)
        if kind in "lib":
            items = [_value(item, values) for item in (argument[1] if kind == "l" else argument[1:])]
            kept.append((ctypes.c_int64 * len(items))(*items))
            return types.Argument({"l": 2, "i": 3, "b": 5}[kind], None, kept[-1], len(items), 0)
        if kind == "n":
            return types.Argument(4, None, None, 0, argument[1])
        return types.Argument(0 if kind == "a" else 6, None, None, 0, 0)


def _device_number(inputs, place):
    """The device as the library expects it: c10's number of the type, and the index."""
    try:
        device = inputs[place].device
        kinds = {"cpu": 0, "cuda": 1, "xla": 9, "xpu": 12, "mps": 13, "hpu": 18, "privateuseone": 20}
        return kinds[device.type] << 8 | ((-1 if device.index is None else device.index) & 0xFF)
    except Exception:  # noqa: BLE001: then the device of the operators before it is used
        return -1


def _storage(inputs, place):
    """The key by which the library knows an embedding table."""
    try:
        return inputs[place].untyped_storage()._cdata
    except Exception:  # noqa: BLE001: then the library goes by its size
        return 0


def _left(name):
    """The position of an operator's input. Operators such as addmm have the summand first."""
    return 1 if name.split("::")[-1].startswith(("addmm", "baddbmm", "addmv", "_addmm")) else 0


def _value(size, values):
    if isinstance(size, int):
        return size
    return int(
        eval(size, {"__builtins__": {}}, {**FUNCTIONS, **values})
    )  # noqa: S307: the text comes from _expression


def install_compiler(module, library):
    """torch._inductor.compile_fx: describes what is compiled. What the compiler runs itself (tuning, folding) is not
    counted as work of the program."""
    generate, compile_all = module.fx_codegen_and_compile, module.compile_fx

    @functools.wraps(generate)
    def watched(gm, *args, **kwargs):
        description = None
        try:
            description = describe(gm, bool(kwargs.get("is_backward")), library)
        except Exception as error:  # noqa: BLE001: a graph that cannot be described is named when it runs
            library.fact(b"note", f"a compiled graph was not described: {type(error).__name__}: {error}".encode())
        library.pause(1)
        try:
            result = generate(gm, *args, **kwargs)
        finally:
            library.pause(-1)
        if description is not None and hasattr(result, "__dict__") and not isinstance(result, type):
            try:
                setattr(result, MARK, description)
            except Exception:  # noqa: BLE001
                pass
        return result

    @functools.wraps(compile_all)
    def quiet(*args, **kwargs):
        library.pause(1)
        try:
            return compile_all(*args, **kwargs)
        finally:
            library.pause(-1)

    module.fx_codegen_and_compile, module.compile_fx = watched, quiet


def install_caches(module, library):
    """torch._inductor.codecache: a graph that was compiled without mfu is compiled again, once. Its kernels come from
    their own caches."""
    details = getattr(module, "FxGraphHashDetails", None)
    if details is not None:
        begin = details.__init__

        @functools.wraps(begin)
        def named(self, *args, **kwargs):
            begin(self, *args, **kwargs)
            self.mfu = VERSION

        details.__init__ = named
    install_graphs(module, library)


def install_graphs(module, library):
    """Counts calls of CompiledFxGraph. In every mode it is called once for each compiled forward and backward. It is in
    torch._inductor.output_code, and before torch 2.6 in codecache."""
    graph = getattr(module, "CompiledFxGraph", None)
    if graph is None or getattr(graph, "_mfu_watched", False):
        return
    call = graph.__call__
    active, enter, leave, lookup, uncounted, read_thread = (
        library.active,
        library.enter_graph,
        library.leave_graph,
        library.add_lookup,
        library.add_uncounted,
        library.read_thread,
    )

    def numbers_of(self, inputs):
        ready = self.__dict__.get("_mfu_ready")
        if ready is None:
            description = self.__dict__.get(MARK)
            if description is None or description.get("version") != VERSION:
                reason = b"compiled before mfu watched: clear the compiler's cache to have it counted"
                uncounted(b"torch.compile graph", reason)
                return None
            ready = Graph(description, library)
            self.__dict__["_mfu_ready"] = ready
        return None if ready.empty else ready.numbers(inputs)

    def watched(self, inputs):
        if not active():
            return call(self, inputs)
        try:
            numbers = numbers_of(self, inputs)
        except Exception as error:  # noqa: BLE001: it is reported, never raised
            uncounted(b"torch.compile graph", f"its sizes were not understood: {type(error).__name__}".encode())
            numbers = None
        if numbers is None:
            return call(self, inputs)
        rows, count, lookups, unknown, _, opens = numbers
        if unknown:
            return partly(self, inputs, numbers)
        for place, *each in lookups:  # a pass begins with its embedding lookups
            lookup(_storage(inputs, place), *each)
        enter(rows, count, opens)
        try:
            result = call(self, inputs)
        except BaseException:
            leave(None, 0)
            raise
        leave(rows, count)
        return result

    def partly(self, inputs, numbers):
        """Counts a call of which some work is unknown: the dispatcher counts, and known work that it did not see is
        added."""
        rows, count, lookups, unknown, hardware_flop, _ = numbers
        before, after = types.Thread(), types.Thread()
        for place, *each in lookups:
            lookup(_storage(inputs, place), *each)
        read_thread(before)
        result = call(self, inputs)
        read_thread(after)
        seen = after.hardware_flop - before.hardware_flop
        if seen == 0 and hardware_flop:
            enter(None, 0, 0)
            leave(rows, count)
        elif seen < hardware_flop:
            library.add(b"torch.compile kernels", b"unknown", hardware_flop - seen, hardware_flop - seen, 0)
        if after.calls == before.calls or any(name.startswith("torch::") for name, _ in unknown):
            for name, reason in unknown:
                uncounted(name.encode(), reason.encode())
        return result

    for function in (watched, partly, numbers_of):
        skip_in_dynamo(function)
    graph.__call__ = functools.wraps(call)(watched)
    graph._mfu_watched = True
    serialise = getattr(graph, "prepare_for_serialization", None)
    if serialise is not None:

        @functools.wraps(serialise)
        def without_numbers(self, *args, **kwargs):
            self.__dict__.pop("_mfu_ready", None)  # it holds pointers of this process
            return serialise(self, *args, **kwargs)

        graph.prepare_for_serialization = without_numbers
