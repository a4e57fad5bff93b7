"""What a session says of its rounds and of the sites that left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One finished round: what was asked, what it cost, and which aggregate came back.

    ``values`` are per site, ``n_sites`` of ``n_cohort`` sites are in the sum, and ``aggregate`` is
    the SHA-256 of the sum in hexadecimal: equal for every protection.
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


@dataclass(frozen=True, slots=True)
class DropOut:
    """A site that left the run: in which round, at which step, and why as far as is known."""

    site: str
    round: int
    step: str
    reason: str
    in_sum: bool
