"""Where a site's tensors live, and how many threads compute with them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from cipherdag.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

FEWEST_SHARED = 1 << 17
"""Elements from which on a step's tensors repay a second thread."""


def resolve_device(name: str) -> torch.device:
    """The torch device of this name; ``auto`` is CUDA where there is one, the CPU otherwise.

    Raises:
        ParameterError: Unknown name, or a CUDA device that this machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ParameterError("device must be 'auto', 'cpu', 'cuda' or 'cuda:N'") from error
    if device.type not in ("cpu", "cuda"):
        raise ParameterError("device must be 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ParameterError(f"device '{name}' does not exist on this machine")
    return device


@contextmanager
def threads_for(elements: int) -> Iterator[None]:
    """One thread for tensors of fewer elements than `FEWEST_SHARED`, torch's own number for others.

    Threads that share a small tensor wait for each other longer than they compute, and where other
    programs hold the processors, many times as long.
    """
    before = torch.get_num_threads()
    if elements < FEWEST_SHARED:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
