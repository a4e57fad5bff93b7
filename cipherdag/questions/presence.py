"""How many sites a run's sums cover, which changes where a site leaves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Presence:
    """Told to an algorithm beside every sum; `Replay` keeps it.

    Attributes:
        n_sites: How many sites the last sum covers; before the first, how many there are.
    """

    n_sites: int
