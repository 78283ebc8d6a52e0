"""Tells which module the FLOPs belong to, forward and backward.

At any time a thread is in one module, and what it counts belongs to that module. In the forward, hooks around every
module's call say which. In the backward, marks on autograd nodes do: the node that made a module's output marks where
the module's backward begins, and the node that made its input marks where it ends. Nodes run in the reverse order of
the forward, so the marks come in the right order, whichever thread runs them. Nothing here raises. While torch.compile,
export or jit trace a module, the hooks are removed.
"""

import ctypes
import threading
import weakref
from collections import Counter
from typing import Any, Callable, Dict, Iterable, List, Set, Tuple, cast

GLOBAL = "Global"
Chain = Tuple[str, ...]  # names of modules, outermost first
Place = Tuple[Chain, int]  # with the number of an operator; _ANY means no particular one
_ANY = -1
_MOST_CHANGES = 192


class _State(threading.local):
    """The state of one thread: its current module, and what it had counted on entering it."""

    def __init__(self, tracker: "Tracker") -> None:
        self.stack: List[Chain] = [()]
        # running backward passes: their ids, and the stacks to return to
        self.tasks: List[Tuple[int, List[Chain]]] = []
        self.counts: "Counter[Place]" = Counter()
        self.reading = tracker.types.Thread()
        self.before = (ctypes.c_uint64 * tracker.types.THREAD_STATE)()
        self.changes = (tracker.types.Change * _MOST_CHANGES)()
        tracker.read(self.reading)
        tracker.changes(self.before, self.changes, 0)
        self.last = self.reading.hardware_flop
        with tracker.lock:
            tracker.counts.append(self.counts)


class Tracker:
    """Installs global module hooks while at least one count is open."""

    def __init__(self, torch: Any, library: Any, types: Any) -> None:
        self.torch, self.types = torch, types
        self.read, self.changes, self.operator_name = library.read_thread, library.thread_changes, library.operator_name
        self.lock = threading.Lock()
        self.counts: List["Counter[Place]"] = []  # one per thread
        self.names: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()
        self.open = 0
        self.handles: List[Any] = []
        self.state = _State(self)
        self._set_tracer = _tracer_switch()

    def enter(self) -> None:
        with self.lock:
            self.open += 1
            first = self.open == 1
        if first:
            hooks = self.torch.nn.modules.module
            self.handles = [
                hooks.register_module_forward_pre_hook(self._before),
                hooks.register_module_forward_hook(self._after, always_call=True),
            ]
        self._settle(self.state)

    def leave(self) -> None:
        self._settle(self.state)
        with self.lock:
            self.open -= 1
            last = self.open == 0
        if last:
            for handle in self.handles:
                handle.remove()
            self.handles = []
            self.state.stack[:] = [()]
            self.state.tasks.clear()

    def read_counts(self) -> "Counter[Place]":
        """Counts by chain of modules and by operator, over all threads."""
        self._settle(self.state)
        total: "Counter[Place]" = Counter()
        with self.lock:
            for each in self.counts:
                total.update(dict(each))
        return total

    def _settle(self, state: Any) -> None:
        """Adds what the thread has counted since the last call to its current module."""
        self.read(ctypes.byref(state.reading))
        now = state.reading.hardware_flop
        if now != state.last:
            chain, more = state.stack[-1], (now - state.last) % 2**64
            for change in state.changes[:self.changes(state.before, state.changes, _MOST_CHANGES)]:
                state.counts[chain, change.operator_id] += change.hardware_flop
                more -= change.hardware_flop
            if more:  # a thread without counters of its own, beyond the fortieth
                state.counts[chain, _ANY] += more
            state.last = now

    def names_of(self, operators: Iterable[int]) -> Dict[int, str]:
        return {each: "all" if each == _ANY else self.operator_name(each).decode() for each in operators}

    def name_of(self, module: Any) -> str:
        """The module's name as FlopCounterMode writes it: the class of the outermost module, then attribute names."""
        name = self.names.get(module)
        if name is None:
            inner = getattr(module, "_orig_mod", module)  # torch.compile's wrapper
            name = type(inner).__name__
            for path, each in module.named_modules():
                if path.startswith("_orig_mod"):
                    path = path[len("_orig_mod."):]
                self.names[each] = f"{name}.{path}" if path else name
        return name

    def _quiet(self) -> bool:
        return bool(self.torch.jit.is_tracing())

    def _before(self, module: Any, inputs: Any) -> None:
        # This comes first: the tracer of torch.compile takes it for a constant and does not trace what follows.
        if self.torch.compiler.is_compiling():
            return
        tracer = self._set_tracer(None)
        try:
            if self._quiet():
                return
            state = self.state
            self._settle(state)
            self._mark(inputs, state.stack[-1])
            state.stack.append((*state.stack[-1], self.name_of(module)))
        except Exception:
            pass
        finally:
            self._set_tracer(tracer)

    def _after(self, module: Any, inputs: Any, output: Any) -> None:
        if self.torch.compiler.is_compiling():
            return
        tracer = self._set_tracer(None)
        try:
            if self._quiet():
                return
            state = self.state
            name = self.name_of(module)
            if name not in (chain[-1] for chain in state.stack if chain):
                return
            self._settle(state)
            chain = state.stack.pop()
            while not chain or chain[-1] != name:  # modules that an exception left
                chain = state.stack.pop()
            self._mark(output, chain)
        except Exception:
            pass
        finally:
            self._set_tracer(tracer)

    def _mark(self, values: Any, chain: Chain) -> None:
        """Marks the nodes that made these values: where the backward pass reaches them, it reaches that module. A node
        keeps its first mark, which is that of the innermost module."""
        if not self.torch.is_grad_enabled():
            return
        for tensor in _tensors(values, self.torch.Tensor):
            node = tensor.grad_fn
            if node is not None and "mfu_module" not in node.metadata:
                node.metadata["mfu_module"] = chain
                node.register_prehook(self._arrival(chain))

    def _arrival(self, chain: Chain) -> Any:
        def arrived(gradients: Any) -> None:
            try:
                if self.open:
                    self._arrive(chain)
            except Exception:
                pass

        return arrived

    def _arrive(self, chain: Chain) -> None:
        state = self.state
        self._settle(state)
        task = self.torch._C._current_graph_task_id()
        if task not in (known for known, _ in state.tasks):
            del state.tasks[:-64]  # the thread of a device is never told that a pass has ended
            state.tasks.append((task, list(state.stack)))
            self.torch.autograd.Variable._execution_engine.queue_callback(lambda: self._leave_backward(state, task))
        state.stack[-1:] = [chain]

    def _leave_backward(self, state: Any, task: int) -> None:
        try:
            self._settle(state)
            while task in (known for known, _ in state.tasks):
                _, stack = state.tasks.pop()
                state.stack[:] = stack
        except Exception:
            pass


def _tracer_switch() -> Callable[[Any], Any]:
    """A function that sets the callback with which torch.compile and export trace Python frames, and returns the one
    that was set before. Up to torch 2.6, an export fails if it traces the frames of a hook."""
    try:
        from torch._C._dynamo.eval_frame import set_eval_frame

        return cast(Callable[[Any], Any], set_eval_frame)
    except Exception:
        return lambda tracer: tracer


def _tensors(values: Any, kind: type) -> List[Any]:
    """The tensors inside tuples, lists, dicts and dataclass-like outputs, up to three levels deep."""
    found: List[Any] = []
    level = [values]
    for _ in range(3):
        deeper: List[Any] = []
        for value in level:
            if isinstance(value, kind):
                found.append(value)
            elif isinstance(value, (tuple, list)):
                deeper.extend(value)
            elif isinstance(value, dict):
                deeper.extend(value.values())
        level = deeper
    found.extend(value for value in level if isinstance(value, kind))
    return found


def rolled_up(counts: Dict[Tuple[Chain, str], int]) -> Dict[str, Dict[str, int]]:
    """Counts by module and operator. A module includes the modules that are its attributes or that it calls."""
    found: Dict[str, "Counter[str]"] = {}
    for (chain, operator), flop in counts.items():
        names: Set[str] = set()
        for name in chain:
            parts = name.split(".")
            names.update(".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        for name in names:
            found.setdefault(name, Counter())[operator] += flop
    return {name: dict(found[name]) for name in sorted(found)}
