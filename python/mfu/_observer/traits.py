"""What a device says about itself, and what torch allows fp32 work to use on it."""


def _asked(way):
    try:
        return way()
    except Exception:  # this torch does not have it, or refuses because the program used its other interface
        return None


def tf32_allowed():
    """Whether fp32 matmuls and fp32 convolutions may run on TF32 units. None if torch does not say.

    Since 2.9, torch has a precision for each kind of operator. It includes inherited settings and those of the older
    switches. Once a program has used it, reading the older switches may raise an error.
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
    """Name, architecture, units (multiprocessors or compute units), bytes of memory and uuid of a CUDA or ROCm device.
    None for what torch does not say."""
    import torch

    seen = torch.cuda.get_device_properties(torch.cuda.current_device() if index is None else index)
    architecture = getattr(seen, "gcnArchName", None)
    # In CUDA builds this is the device's name, in ROCm builds the architecture.
    if not (isinstance(architecture, str) and architecture.startswith("gfx")):
        architecture = f"sm_{seen.major}{seen.minor}" if hasattr(seen, "major") else None
    uuid = getattr(seen, "uuid", None)
    return {"name": seen.name, "architecture": architecture, "units": getattr(seen, "multi_processor_count", None),
            "memory": getattr(seen, "total_memory", None), "uuid": None if uuid is None else str(uuid)}


def device_facts(device):
    """The same for the device of a parameter, as lines for the record of the run."""
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
