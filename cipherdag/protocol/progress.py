"""What a session says of its rounds and of the sites that left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cipherdag.arrays import BoolMatrix
from cipherdag.questions.question import Question


@dataclass(frozen=True, slots=True)
class DropOut:
    """A site that left the run: in which round, at which step, and why as far as is known.

    ``in_sum`` says whether its answer is in that round's sum; ``n_sites`` sites were left, and
    ``fewest`` are needed.
    """

    site: str
    round: int
    step: str
    reason: str
    in_sum: bool
    n_sites: int
    fewest: int


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One finished round: what was asked, what it cost, and which aggregate came back.

    ``values`` are per site, ``n_sites`` of ``n_cohort`` sites are in the sum, and ``aggregate`` is
    the SHA-256 of the sum in hexadecimal: equal for every protection. ``left`` are the sites that
    left since the round before.
    """

    number: int
    kind: str
    label: str
    values: int
    seconds: float
    bytes_sent_per_site: Mapping[str, int]
    n_sites: int
    n_cohort: int
    aggregate: str
    left: tuple[DropOut, ...] = ()


@runtime_checkable
class Watcher(Protocol):
    """A progress callback that also wants to know when a round begins."""

    def __call__(self, report: RoundReport) -> None:
        """A round is finished."""

    def asked(self, number: int, question: Question, skeleton: BoolMatrix | None) -> None:
        """A round begins: its number, what every site is asked, and the skeleton so far, if any."""
