"""Finds out which devices operators ran on. Each is asked once, when the library sees the first operator there. This
works for every device that torch has a module for."""

import atexit

from . import binding as types
from . import traits

_kept = []
# torch's names of properties, and ours.
PROPERTIES = (("multi_processor_count", "units"), ("max_compute_units", "units"), ("total_memory", "memory"))


def _said(torch, device):
    """Name, uuid and other properties of a device. What it does not tell is missing."""
    if device.type == "cuda":
        return traits.device_traits(device)
    module = torch.get_device_module(device) if hasattr(torch, "get_device_module") else getattr(torch, device.type)
    found = {}
    try:
        properties = module.get_device_properties(device.index)
        found = {
            key: getattr(properties, attribute, None) for attribute, key in PROPERTIES if hasattr(properties, attribute)
        }
        found.update(name=getattr(properties, "name", None), uuid=getattr(properties, "uuid", None))
    except Exception:  # some backends do not have them
        pass
    if not found.get("name"):
        try:
            found["name"] = module.get_device_name(device.index)
        except Exception:  # noqa: BLE001
            pass
    return found


def facts_of(torch, name):
    """(identity or None, [(key, value)]) for a name such as "cuda:0"."""
    device = torch.device(name)
    said = {key: value for key, value in _said(torch, device).items() if value is not None and value != ""}
    identity = said.pop("uuid", None)
    facts = [(f"device_{key}@{name}", str(value)) for key, value in said.items()]
    if device.type == "cuda":
        allowed = zip(("tf32", "tf32_convolution"), traits.tf32_allowed())
        facts += [(key, "1" if value else "0") for key, value in allowed if value is not None]
    return (None if identity is None else str(identity)), facts


def install(torch, library):
    def seen(name):
        try:
            identity, facts = facts_of(torch, name.decode())
            for key, value in facts:
                library.fact(key.encode(), value.encode())
            if identity:
                library.name_device(name, identity.encode())
        except Exception:  # a device without a name has no peak, and a note says so
            pass

    _kept.append(types.DEVICE_SEEN(seen))
    library.devices(_kept[-1])
    atexit.register(library.devices, types.DEVICE_SEEN(0))
