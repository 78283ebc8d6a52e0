"""Where steps end, and time that only Python sees: optimizers, skipped steps, saving, ranks."""

import functools
import os
import sys
import time
import weakref


class Leader:
    """Which optimizer's step ends a step: the one that stepped first, until it is gone or others go on without it."""

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
_stepped = 0  # by the hook, so that a scaler can tell whether it skipped
_facts_told = False


def tf32_allowed():
    """Whether fp32 matmuls and fp32 convolutions may run on TF32 units. Older torch has switches, newer a setting for each, and refuses the other's question."""
    import torch

    def asked(*ways):
        for way in ways:
            try:
                return bool(way())
            except Exception:  # noqa: BLE001: not of this torch, or mixed with the other way
                continue
        return False

    backends = torch.backends
    matmul = asked(lambda: torch.get_float32_matmul_precision() != "highest", lambda: backends.cuda.matmul.fp32_precision == "tf32")
    convolution = asked(lambda: backends.cudnn.allow_tf32, lambda: backends.cudnn.conv.fp32_precision == "tf32")
    return matmul, convolution


def _tell_facts(library, optimizer):
    """What is only known once training runs."""
    global _facts_told
    _facts_told = True
    import torch

    for group in optimizer.param_groups:
        for parameter in group["params"]:
            device = parameter.device
            name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
            library.fact(b"device", f"{device} {name}".encode())
            if device.type == "cuda":
                # Two ranks on one GPU are one device, whatever each calls it.
                uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
                if uuid is not None:
                    library.fact(b"device_uuid", str(uuid).encode())
                for name, allowed in zip((b"tf32", b"tf32_convolution"), tf32_allowed()):
                    library.fact(name, b"1" if allowed else b"0")
            return


def _step(library, optimizer):
    global _stepped
    _stepped += 1
    try:
        if not _facts_told:
            _tell_facts(library, optimizer)
        library.optimizer_step(1 if _leader.leads(optimizer) else 0)
    except Exception:  # noqa: BLE001: a step that cannot be marked must not stop training
        pass


def _inside_a_step(optimizer, caller):
    """Whether this step() was called by another of the same optimizer: a class of the user's that calls its base's. Torch's wrapper runs hooks for both."""
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
        if not _inside_a_step(optimizer, sys._getframe(1)):
            _step(library, optimizer)

    skip_in_dynamo(stepped)
    module.register_optimizer_step_post_hook(stepped)


def install_scaler(module, library):
    """A step that GradScaler skips, because gradients overflowed, counts."""
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


def install_save(module, library):
    import torch

    save = module.save

    @functools.wraps(save)
    def watched(*args, **kwargs):
        start = time.perf_counter_ns()
        try:
            return save(*args, **kwargs)
        finally:
            library.add_checkpoint_ns(time.perf_counter_ns() - start)

    module.save = watched
    if getattr(torch, "save", None) is save:
        torch.save = watched


def install_ranks(module, library):
    """Ranks as the launcher says; a program may also name them itself when it joins."""

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
    """The tracer leaves this function's own frame alone; asked of C, so that the tracer is not imported."""
    try:
        from torch._C._dynamo.eval_frame import skip_code

        skip_code(function.__code__)
    except Exception:  # noqa: BLE001: an older torch
        pass


class _Goodbye:
    """What multiprocessing keeps by a weak reference."""

    def __init__(self, library):
        self.library = library


_goodbyes = []


def install_goodbye(module, library):
    """multiprocessing.util: a process made by fork leaves without atexit handlers. Its own list of last things begins empty in the child, and is then filled."""

    def begin(goodbye):
        module.Finalize(None, goodbye.library.goodbye, exitpriority=-1000)

    _goodbyes.append(_Goodbye(library))
    module.register_after_fork(_goodbyes[-1], begin)
