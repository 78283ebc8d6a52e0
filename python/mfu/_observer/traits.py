"""What a device says of itself, and what torch lets fp32 work do on it."""


def _asked(way):
    try:
        return way()
    except Exception:  # noqa: BLE001: not of this torch, or it refuses the question of its other interface
        return None


def tf32_allowed():
    """Whether fp32 matmuls and fp32 convolutions may run on TF32 units; None where torch does not say.

    Since 2.9 torch has a precision for each kind of operator, which includes what is inherited and what the older
    switches set. Once it was used, the older questions may raise.
    """
    import torch

    backends = torch.backends

    def allowed(precision, *switches):
        new = _asked(precision)
        if new == "tf32":
            return True
        if new not in (None, "none"):
            return False
        older = [answer for answer in map(_asked, switches) if answer is not None]
        if older:
            return any(older)
        return None if new is None else False

    matmul = allowed(
        lambda: backends.cuda.matmul.fp32_precision,
        lambda: torch.get_float32_matmul_precision() != "highest",
        lambda: bool(backends.cuda.matmul.allow_tf32),
    )
    convolution = allowed(lambda: backends.cudnn.conv.fp32_precision, lambda: bool(backends.cudnn.allow_tf32))
    return matmul, convolution


def device_traits(index=None):
    """Name, architecture, units (multiprocessors, compute units), bytes of memory and uuid of a CUDA or ROCm device;
    None for what torch does not say."""
    import torch

    seen = torch.cuda.get_device_properties(torch.cuda.current_device() if index is None else index)
    architecture = getattr(seen, "gcnArchName", None)
    # CUDA builds give the name there, ROCm builds the architecture.
    if not (isinstance(architecture, str) and architecture.startswith("gfx")):
        architecture = f"sm_{seen.major}{seen.minor}" if hasattr(seen, "major") else None
    uuid = getattr(seen, "uuid", None)
    return {"name": seen.name, "architecture": architecture, "units": getattr(seen, "multi_processor_count", None),
            "memory": getattr(seen, "total_memory", None), "uuid": None if uuid is None else str(uuid)}


def device_facts(device):
    """The same of a parameter's device as lines for the run's record."""
    if device.type != "cuda":
        return [("device", f"{device} {device.type}")]
    seen = device_traits(device)
    facts = [("device", f"{device} {seen['name']}")]
    for key in ("uuid", "architecture", "units", "memory"):
        if seen[key] is not None:
            facts.append((f"device_{key}", str(seen[key])))
    for key, allowed in zip(("tf32", "tf32_convolution"), tf32_allowed()):
        if allowed is not None:
            facts.append((key, "1" if allowed else "0"))
    return facts
