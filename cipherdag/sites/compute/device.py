"""Where a site's arrays live, and how much memory, rows and threads they take at a time.

On a processor arrays are numpy's, and only a few tests, scores and beliefs need torch, which takes
a second and 200 MB to load. On another device all arrays are tensors there, from the columns to the
sums, and batches are as large as its free memory allows.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NewType

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import ParameterError
from cipherdag.statistics.array_functions import Array

Device = NewType("Device", str)
"""The name that torch has for a device of this machine; a processor needs no torch."""

DEFAULT_MEMORY = 256 * 2**20  # bytes
ROW_BLOCK = 8192
"""Rows that are summed at a time; as memory does not change it, sums are always equal."""
IN_CACHE = 2**15 - 1  # elements of a batch on a processor, few enough to stay in its cache
DEVICES = ("cpu", "cuda")
PROCESSOR = Device("cpu")
BATCH_SHARE = 8
"""A batch takes one eighth of a card's free memory; temporary arrays need more of it."""
MOST_INDEXED = 2**30  # elements of a tensor that every kernel of a card can address
LEAST_BATCH = 2**24  # bytes of a batch on a card whose memory is filled by other programs
FEWEST_SHARED = 1 << 17  # elements from which on a step's tensors repay a second thread


def resolve_device(name: str) -> Device:
    """The device of a name, CUDA before the CPU for ``auto``; ParameterError if it is not there."""
    if name == PROCESSOR or (name == "auto" and not _has_driver()):
        return PROCESSOR
    import torch

    if name == "auto":
        return Device("cuda") if torch.cuda.is_available() else PROCESSOR
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ParameterError("device must be 'auto', 'cpu', 'cuda' or 'cuda:N'") from error
    if device.type not in DEVICES:
        raise ParameterError("device must be 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ParameterError(
            f"device '{name}' does not exist on this machine",
            remedy="Take 'auto': it uses what this machine has.",
        )
    return PROCESSOR if device.type == PROCESSOR else Device(str(device))


def _has_driver() -> bool:
    """Whether this machine has a driver of cards; without one, slow torch need not be loaded."""
    if Path("/dev/kfd").exists():  # of AMD's, which torch calls CUDA too
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def placed(values: NDArray[Any], device: Device) -> Array:
    """The values on a device: themselves on a processor, a tensor elsewhere."""
    if device == PROCESSOR:
        return values
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def most_elements(device: Device, affordable: int, on_processor: int) -> int:
    """Elements of a batch: ``affordable``, but on a processor ``on_processor`` at most."""
    return min(affordable, on_processor if device == PROCESSOR else MOST_INDEXED)


def batch_bytes(device: Device) -> int:
    """Bytes of a batch: by the free memory of a card, `DEFAULT_MEMORY` elsewhere."""
    if not device.startswith("cuda"):
        return DEFAULT_MEMORY
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return max(free // BATCH_SHARE, LEAST_BATCH)


@contextmanager
def threads_for(elements: int) -> Iterator[None]:
    """Use one thread for tensors of fewer than `FEWEST_SHARED` elements, torch's number for others.

    Threads that share a small tensor wait for each other longer than they compute, and many times
    as long where other programs hold the processors. For functions such as square roots torch
    starts another thread after 2048 elements.
    """
    import torch

    before = torch.get_num_threads()
    if elements < FEWEST_SHARED:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
