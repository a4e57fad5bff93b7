"""A device that stands in for a card: it computes on the processor, and refuses what a card would.

Its tensors are no numpy arrays, and an operation with one of them and a tensor of the processor is
an error, as on a card. All operations and copies are written down.
"""

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute import device as devices

NAME = "lazy"
"""A kind of device that every build of torch has a name for."""
INDEXED = ("aten::index", "aten::index_put_", "aten::_index_put_impl_")
"""Takes positions from the processor on a card too."""


class StandIn(torch.Tensor):
    """A tensor of the stand-in."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=NAME
        )

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, _types, args=(), kwargs=None):
        return _computed(func, args, kwargs or {})[0]


@dataclass
class Record:
    """Of every kind of question what was computed on the stand-in, and copied.

    Attributes:
        operations: How many operations were there, by name.
        fetched: The number of elements of every copy to the processor.
        rows: The most rows that a site asked had.
    """

    operations: Counter = field(default_factory=Counter)
    fetched: list[int] = field(default_factory=list)
    rows: int = 0


class _Written(TorchDispatchMode):
    def __init__(self, record):
        super().__init__()
        self._record = record

    def __torch_dispatch__(self, func, _types, args=(), kwargs=None):
        result, there, fetched = _computed(func, args, kwargs or {})
        if there:
            self._record.operations[func.name()] += 1
        if fetched:
            self._record.fetched.append(fetched)
        return result


def _computed(func, args, kwargs):
    """The result, whether it was computed on the stand-in, and elements that left it."""
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    here = [x for x in tensors if isinstance(x, StandIn)]
    copies = func.name() in ("aten::_to_copy", "aten::copy_")
    if here and not copies and not func.name().startswith(INDEXED):
        others = [x for x in tensors if not isinstance(x, StandIn) and x.dim()]
        assert not others, f"{func} of tensors on two devices"
    target = kwargs.get("device")
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    wrappers = {id(x.held): x for x in here}
    plain = tree_map(lambda x: x.held if isinstance(x, StandIn) else x, (args, kwargs))
    result = func(*plain[0], **plain[1])
    there = bool(here) if target is None else torch.device(target).type == NAME

    def wrapped(x):
        if not isinstance(x, torch.Tensor) or not there:
            return x
        same = wrappers.get(id(x))
        return StandIn(x) if same is None else same

    fetched = sum(x.numel() for x in here) if copies and here and not there else 0
    return tree_map(wrapped, result), there and not copies, fetched


@contextmanager
def written_down():
    """The stand-in's records by kind of question, while sites compute on it."""
    records: dict[str, Record] = {}
    answer = SiteView._answer

    def recorded(view, question):
        record = records.setdefault(type(question).__name__, Record())
        record.rows = max(record.rows, view.rows)
        with _Written(record):
            return answer(view, question)

    with (
        patch.object(devices, "DEVICES", (*devices.DEVICES, NAME)),
        patch.object(SiteView, "_answer", recorded),
        _Written(Record()),
    ):
        yield records
