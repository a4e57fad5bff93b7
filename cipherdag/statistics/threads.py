"""How many threads compute with tensors of some size.

Leaks:
    Nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

FEWEST_SHARED = 1 << 17
"""Elements from which on a step's tensors repay a second thread."""


@contextmanager
def threads_for(elements: int) -> Iterator[None]:
    """One thread for tensors of fewer elements than `FEWEST_SHARED`, torch's own number for others.

    Threads that share a small tensor wait for each other longer than they compute, and where other
    programs hold the processors, many times as long. Of functions as square roots torch shares
    every 2048 elements.
    """
    before = torch.get_num_threads()
    if elements < FEWEST_SHARED:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
