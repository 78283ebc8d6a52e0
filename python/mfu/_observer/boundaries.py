"""Tells where steps end, and what else only Python sees: optimizers, skipped steps, saving, ranks."""

import functools
import os
import sys
import threading
import time
import weakref

from . import imports, tripwire, windows


class Leader:
    """Chooses the optimizer whose step() ends a step: the one that stepped first, until it is gone or others go on
    without it."""

    PATIENCE = 64  # steps of another optimizer in a row before it takes over

    def __init__(self):
        self.leader = None
        self.others = 0

    def leads(self, optimizer):
        leader = self.leader() if self.leader is not None else None
        if leader is None or self.others >= self.PATIENCE:
            self.leader = weakref.ref(optimizer)
            leader = optimizer
        if leader is optimizer:
            self.others = 0
            return True
        self.others += 1
        return False


_leader = Leader()
_stepped = 0  # steps that the hook saw, so that a scaler can tell whether it skipped one
_facts_told = False
_LENGTHS = f"{__package__}.libraries.lengths"


def _tell_facts(library, optimizer):
    """Tells the library what is only known once training runs."""
    global _facts_told
    _facts_told = True
    from . import traits

    _tell_machine(library, optimizer)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for key, value in traits.device_facts(parameter.device):
                library.fact(key.encode(), value.encode())
            return


def _tell_machine(library, optimizer):
    """Tells the library what advice needs: the number of threads, and how the optimizer updates its parameters."""
    import torch

    library.fact(b"threads", str(torch.get_num_threads()).encode())
    groups = optimizer.param_groups
    tensors = sum(1 for group in groups for parameter in group["params"] if getattr(parameter, "requires_grad", True))
    on_device = any(parameter.device.type != "cpu" for group in groups for parameter in group["params"][:1])

    def has(name):
        return any(group.get(name) for group in groups)

    # By default torch uses foreach on accelerators only.
    by_itself = on_device and all(group.get("foreach", False) is None for group in groups)
    library.fact(b"optimizer", type(optimizer).__name__.encode())
    library.fact(b"optimizer_tensors", str(tensors).encode())
    way = "fused" if has("fused") else "foreach" if has("foreach") or by_itself else "loop"
    known = all("fused" in group or "foreach" in group for group in groups)
    library.fact(b"optimizer_way", (way if known or way != "loop" else "own").encode())
    library.fact(b"optimizer_can_fuse", b"1" if all("fused" in group for group in groups) else b"0")


def _step(library, optimizer):
    global _stepped
    _stepped += 1
    try:
        if not _facts_told:
            _tell_facts(library, optimizer)
        tripwire.stepped(optimizer, library)
        late = sys.modules.get(_LENGTHS)
        if late is not None:
            late.settle()
    except Exception:  # noqa: BLE001: an optimizer that is not built like torch's; its step still counts
        pass
    try:
        stops = library.optimizer_step(1 if _leader.leads(optimizer) else 0)
    except Exception:  # noqa: BLE001: a step that cannot be marked must not stop training
        return
    if stops:
        windows.leave_if_stopping(library)


def _inside_a_step(optimizer, caller):
    """Whether this step() was called by another step() of the same optimizer, as when a user's class calls the one of
    its base class. Torch's wrapper runs hooks for both."""
    frame = caller.f_back
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code is caller.f_code and frame.f_locals.get("self") is optimizer:
            return True
        frame = frame.f_back
    return False


def install_optimizer(module, library):
    def stepped(optimizer, args, kwargs):
        # Torch's own classes do not call each other's step().
        own = type(optimizer).__module__.startswith("torch.optim.")
        if own or not _inside_a_step(optimizer, sys._getframe(1)):
            _step(library, optimizer)

    skip_in_dynamo(stepped)
    module.register_optimizer_step_post_hook(stepped)
    made = module.Optimizer.__init__

    @functools.wraps(made)
    def watched(self, *args, **kwargs):
        library.optimizer_made()
        imports.look(whole=True)  # training is about to begin
        return made(self, *args, **kwargs)

    module.Optimizer.__init__ = watched


def install_scaler(module, library):
    """Counts steps that GradScaler skips because gradients overflowed."""
    scaler = module.GradScaler
    maybe = scaler._maybe_opt_step

    @functools.wraps(maybe)
    def watched(self, optimizer, *args, **kwargs):
        before = _stepped
        result = maybe(self, optimizer, *args, **kwargs)
        if _stepped == before:
            _step(library, optimizer)
        return result

    scaler._maybe_opt_step = watched


_saves = threading.local()


def _saving(save, library):
    """Times saving. One way to save may call another; only the outermost call is timed."""

    @functools.wraps(save)
    def watched(*args, **kwargs):
        if getattr(_saves, "under_way", False):
            return save(*args, **kwargs)
        start = time.perf_counter_ns()
        _saves.under_way = True
        library.saving(1)
        try:
            return save(*args, **kwargs)
        finally:
            _saves.under_way = False
            library.saving(-1)
            library.add_checkpoint_ns(time.perf_counter_ns() - start)

    return watched


def install_save(module, library):
    import torch

    save = module.save
    module.save = _saving(save, library)
    if getattr(torch, "save", None) is save:
        torch.save = module.save


def install_file_save(module, library):
    """Times safetensors.torch, with which transformers and diffusers save."""
    module.save_file = _saving(module.save_file, library)


def install_shard_save(module, library):
    """Times torch.distributed.checkpoint.state_dict_saver."""
    module.save = _saving(module.save, library)


def install_ranks(module, library):
    """Tells the rank that the launcher gave, or the one that the program names when it joins its process group."""

    def told(names):
        values = [os.environ.get(name, "") for name in names]
        return [int(value) if value.isdigit() else -1 for value in values]

    library.set_rank(*told(("RANK", "WORLD_SIZE", "LOCAL_RANK")))
    initialise = getattr(module, "init_process_group", None)
    if initialise is None:
        return

    @functools.wraps(initialise)
    def watched(*args, **kwargs):
        result = initialise(*args, **kwargs)
        try:
            library.set_rank(module.get_rank(), module.get_world_size(), told(("LOCAL_RANK",))[0])
        except Exception:  # noqa: BLE001
            pass
        return result

    module.init_process_group = watched
    import torch.distributed

    if getattr(torch.distributed, "init_process_group", None) is initialise:
        torch.distributed.init_process_group = watched


def skip_in_dynamo(function):
    """Makes the tracer skip this function's own frame. This goes through C, so that the tracer is not imported."""
    try:
        from torch._C._dynamo.eval_frame import skip_code

        skip_code(function.__code__)
    except Exception:  # noqa: BLE001: an older torch
        pass


class _Goodbye:
    """An object for multiprocessing, which keeps only a weak reference to it."""

    def __init__(self, library):
        self.library = library


_goodbyes = []


def install_goodbye(module, library):
    """multiprocessing.util: a process made by fork ends without running atexit handlers, but it runs multiprocessing's
    own finalizers. That list is empty when the child starts, so it is filled then."""

    def begin(goodbye):
        module.Finalize(None, goodbye.library.goodbye, exitpriority=-1000)

    _goodbyes.append(_Goodbye(library))
    module.register_after_fork(_goodbyes[-1], begin)


def install_signal(module, library):
    """signal: a server that was asked to end closes its doors, gives the signal back its default meaning, and raises
    it again (uvicorn). The process is dead then, without atexit handlers."""
    raise_signal = module.raise_signal
    deadly = {module.SIGTERM, module.SIGINT, module.SIGHUP, module.SIGQUIT}

    @functools.wraps(raise_signal)
    def told(number, /):
        try:
            if number in deadly and module.getsignal(number) is module.SIG_DFL:
                library.last_step()
                library.read_phases(1, None, 0)
        except Exception:  # noqa: BLE001: the program's signal is raised all the same
            pass
        return raise_signal(number)

    module.raise_signal = told
