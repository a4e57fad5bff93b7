"""What changes during a run beside its questions: the sites that are there, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cipherdag.questions.encodings import BoolMatrix


@dataclass(slots=True)
class Presence:
    """Told to an algorithm beside every sum; `Replay` keeps it.

    Attributes:
        n_sites: How many sites the last sum covers; before the first, how many there are.
        skeleton: The skeleton so far, shape (p, p), where the algorithm shows one to those who
            watch it; nothing is decided by it.
    """

    n_sites: int
    skeleton: BoolMatrix | None = None
