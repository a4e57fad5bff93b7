"""Small tensors are computed by one thread, and large ones by several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

FEWEST_SHARED = 1 << 17
"""Elements from which on a step's tensors repay a second thread."""


@contextmanager
def threads_for(elements: int) -> Iterator[None]:
    """Use one thread for tensors of fewer than `FEWEST_SHARED` elements, torch's number for others.

    Threads that share a small tensor wait for each other longer than they compute, and where other
    programs hold the processors, many times as long. Of functions as square roots torch shares
    every 2048 elements.
    """
    import torch

    before = torch.get_num_threads()
    if elements < FEWEST_SHARED:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
