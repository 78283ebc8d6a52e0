"""Values that are known on the meta device. This is a part of the script that ends with ask_class.py.

Positions, masks, lengths and grids decide what a class computes. They follow from the shapes of the inputs. If the
values of a meta storage are known, it has a twin in memory. An operator whose inputs are all known also runs on the
twins. Views and changes in place then need no further work, because twins have the same memory layout as their tensors.
"""

MOST_KNOWN = 1 << 24  # most values of one tensor
MOST_KNOWN_BYTES = 1 << 30  # most bytes of all tensors together

RANDOM = ("rand", "bernoulli", "dropout", "multinomial", "normal", "uniform", "exponential", "poisson")
PICKED = ("topk", "argmax", "argmin", "max", "min", "sort", "argsort")
FILLED = {"zeros_like": 0, "new_zeros": 0, "ones_like": 1, "new_ones": 1}


def tensors_of(torch, values):
    for each in values:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from tensors_of(torch, each)


class Values:
    def __init__(self, torch, assumed):
        from torch.multiprocessing.reductions import StorageWeakRef

        self.torch, self.twins, self.held, self.assumed, self.weak = torch, {}, 0, assumed, StorageWeakRef
        self.picked = False  # whether something was chosen by activations

    def known(self, tensor):
        return (
            tensor.device.type != "meta" or self.twins.get(tensor.untyped_storage()._cdata, (None, None))[1] is not None
        )

    def of(self, tensor):
        """A tensor in memory with the values of this one. None if they are not known."""
        if tensor.device.type != "meta":
            return tensor.detach()
        twin = self.twins.get(tensor.untyped_storage()._cdata, (None, None))[1]
        if twin is None:
            return None
        made = self.torch.empty(0, dtype=tensor.dtype, device="cpu")
        return made.set_(twin, tensor.storage_offset(), tensor.size(), tensor.stride())

    def keep(self, tensor, twin):
        """Remembers that the tensor has these values. The storage is kept, so that no other one gets its address."""
        storage = tensor.untyped_storage()
        if self.held + storage.nbytes() > MOST_KNOWN_BYTES:
            for place in [each for each, (kept, _) in self.twins.items() if kept.expired()]:
                twin = self.twins.pop(place)[1]
                self.held -= twin.nbytes() if twin is not None else 0
        if self.held + storage.nbytes() > MOST_KNOWN_BYTES:
            return
        made = self.torch.zeros(storage.nbytes() // tensor.element_size(), dtype=tensor.dtype, device="cpu")
        view = made.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        if 0 in tensor.stride() and tensor.numel() > 1:
            return  # a fresh tensor never overlaps itself
        view.copy_(twin)
        self.held += storage.nbytes()
        self.twins[storage._cdata] = (self.weak(storage), made.untyped_storage())

    def forget(self, tensor):
        storage = tensor.untyped_storage()
        kept, twin = self.twins.get(storage._cdata, (None, None))
        if twin is not None:
            self.held -= twin.nbytes()
            self.twins[storage._cdata] = (kept, None)

    def swapped(self, value):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            return self.of(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.swapped(each) for each in value) if type(value) in (list, tuple) else value
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value

    def run(self, func, args, kwargs):
        return func(
            *[self.swapped(each) for each in args], **{name: self.swapped(each) for name, each in kwargs.items()}
        )

    def follow(self, func, name, args, kwargs, result):
        """Called after an operator ran on meta. If the values of its inputs are known, those of its result are too."""
        torch = self.torch
        given = list(tensors_of(torch, args)) + list(tensors_of(torch, kwargs.values()))
        written = [
            arg
            for arg, spec in zip(args, func._schema.arguments)
            if spec.alias_info is not None and spec.alias_info.is_write
        ]
        known = all(self.known(each) for each in given)
        if written:
            if not known or any(word in name for word in RANDOM):
                for each in tensors_of(torch, written):
                    self.forget(each)
            elif any(each.device.type == "meta" for each in tensors_of(torch, written)):
                self.run(func, args, kwargs)
            return
        fresh = [
            each
            for each in tensors_of(torch, result if isinstance(result, (tuple, list)) else (result,))
            if each.device.type == "meta"
        ]
        if not fresh or any(each.numel() > MOST_KNOWN for each in fresh):
            return
        if any(spec.alias_info is not None for spec in func._schema.returns):
            if given and given[0].device.type == "meta":
                return  # a view
        short = name.removeprefix("aten::")
        if short in FILLED and len(fresh) == 1:
            if fresh[0].untyped_storage()._cdata not in self.twins:
                self.keep(fresh[0], torch.full((), FILLED[short], dtype=fresh[0].dtype, device="cpu"))
            return
        if not known and short in PICKED:
            return self.pick(short, args, kwargs, fresh)
        if not known or any(word in name for word in RANDOM) or (given and short.startswith("empty")):
            return
        try:
            twin = self.run(func, args, kwargs)
        except Exception:  # an operator that has no kernel in memory, for example for this type
            return
        for meta, real in zip(fresh, tensors_of(torch, twin if isinstance(twin, (tuple, list)) else (twin,))):
            if meta.shape == real.shape:
                self.keep(meta, real)

    def pick(self, short, args, kwargs, fresh):
        """Positions that activations would choose, such as experts. They are chosen in turn, so that their number is
        right."""
        torch, places = self.torch, fresh[-1]
        axis = kwargs.get("dim", args[2 if short == "topk" else 1] if len(args) > (2 if short == "topk" else 1) else -1)
        if places.dtype != torch.long or not isinstance(axis, int) or args[0].dim() == 0:
            return
        axis, every = axis % args[0].dim(), args[0].shape
        each = 1 if short in ("argmax", "argmin", "max", "min") else places.shape[axis] if places.dim() else 0
        if not every[axis] or not places.numel():
            return
        rows = places.numel() // max(1, each)
        turn = torch.arange(rows, device="cpu")[:, None] * (0 if each == every[axis] else each)
        found = (turn + torch.arange(each, device="cpu")) % every[axis]
        around = [size for i, size in enumerate(every) if i != axis]
        self.keep(places, found.reshape(*around, each).movedim(-1, axis).reshape(places.shape))
        self.picked = True

    def rescue(self, func, name, args, kwargs, problem):
        """Runs an operator whose result's size depends on values with these values, if they are known."""
        torch = self.torch
        given = list(tensors_of(torch, args)) + list(tensors_of(torch, kwargs.values()))
        if given and all(self.known(each) for each in given):
            if self.picked:
                self.assumed.add("what the class picks by its activations, such as experts, is picked in turn")
            real = self.run(func, args, kwargs)
            many = isinstance(real, (tuple, list))
            made = [self.made(each) if isinstance(each, torch.Tensor) else each for each in (real if many else (real,))]
            return type(real)(made) if many and type(real) in (tuple, list) else tuple(made) if many else made[0]
        if name in ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"):
            places = []
            for each in args[1]:
                if each is not None and each.dtype in (torch.bool, torch.uint8):
                    mask = self.of(each)
                    if mask is None:
                        break
                    places.extend(self.made(axis) for axis in mask.nonzero(as_tuple=True))
                else:
                    places.append(each)
            else:
                return func(args[0], places, *args[2:], **kwargs)
        if name == "aten::masked_select" and self.known(args[1]):
            return args[0].new_empty(
                int(self.of(args[1]).expand(torch.broadcast_shapes(args[0].shape, args[1].shape)).sum())
            )
        if name in ("aten::repeat_interleave",) and self.known(kwargs.get("repeats", args[0])):
            return None
        if any(
            word in name for word in ("nonzero", "masked_select", "unique", "index", "bincount", "repeat_interleave")
        ):
            raise Refused(
                f"it picks rows by the values of its activations ({name}): without weights their number is not known"
            ) from None
        raise problem

    def made(self, real):
        """A meta tensor with these values."""
        tensor = self.torch.empty_like(real, device="meta", memory_format=self.torch.contiguous_format)
        if real.numel() <= MOST_KNOWN:
            self.keep(tensor, real)
        return tensor
