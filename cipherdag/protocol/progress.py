"""A session's reports: its finished rounds, the sites that left, and where ledgers ended."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from cipherdag.arrays import FloatVector
from cipherdag.errors import AggregateRangeError, ForgedSumError, SiteUnreachableError
from cipherdag.protocol.plan import Plan
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Question


@dataclass(frozen=True, slots=True)
class DropOut:
    """A site that left the run: in which round, at which step, and why as far as is known.

    ``in_sum``: its answer is in that round's sum; ``n_sites`` were left, ``fewest`` are needed.
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

    @classmethod
    def of(cls, question: Question, values: FloatVector, **about: Any) -> Self:
        """The report of a question's sum, with the other attributes."""
        aggregate = hashlib.sha256(values.tobytes()).hexdigest()
        kind, label = question.kind, question.label
        return cls(kind=kind, label=label, values=len(values), aggregate=aggregate, **about)


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The head of a ledger: number of records, hash of the last, and the site."""

    records: int
    hash: str
    site: str
    identity: str


@runtime_checkable
class Watcher(Protocol):
    """A progress callback that also wants to know when a round begins."""

    def __call__(self, report: RoundReport) -> None:
        """A round is finished."""

    def asked(self, number: int, question: Question, shown: Presence | None) -> None:
        """A round begins: its number, what every site is asked, and what the program shows."""


class DropOuts:
    """The sites that left one run, ``all`` in order, and whether those that are left are enough."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.all: list[DropOut] = []

    def record(self, position: int, number: int, step: str, reason: str, *, in_sum: bool) -> None:
        """Record that a site left in a step of a round; once for each site."""
        name = self._plan.cohort[position].name
        if any(dropout.site == name for dropout in self.all):
            return
        self.all.append(
            DropOut(
                site=name,
                round=number,
                step=step,
                reason=reason,
                in_sum=in_sum,
                n_sites=len(self._plan.cohort) - len(self.all) - 1,
                fewest=self._plan.min_survivors,
            )
        )

    def require(self, present: Sequence[int], number: int, step: str) -> None:
        """Raise SiteUnreachableError where fewer sites are left than a sum has to cover."""
        fewest = self._plan.min_survivors
        if len(present) >= fewest:
            return
        gone = [dropout for dropout in self.all if dropout.round == number] or self.all
        names = ", ".join(f"'{dropout.site}' ({dropout.reason})" for dropout in gone)
        raise SiteUnreachableError(
            f"round {number}, {step}: no answer from {names}; {len(present)} of "
            f"{len(self._plan.cohort)} sites remain, {fewest} are needed",
            site=gone[0].site if gone else None,
        )


@contextmanager
def attributed_to_round(number: int, names: Iterable[str], before: int) -> Iterator[None]:
    """Adds to an error about a sum its round, and the names of sites whose answers the sum covers.

    Nobody can tell a lying site from an honest one, nor from a lying coordinator: the sum is all
    that anybody sees. A remedy is to ask disjoint groups of the sites. ``before`` sums were opened
    before it, all of them in order. The errors are AggregateRangeError, where the sum is none that
    the sites can produce, and ForgedSumError, where it is not that of their answers.
    """
    try:
        yield
    except (AggregateRangeError, ForgedSumError) as error:
        sites = ", ".join(f"'{name}'" for name in names)
        past = f"sums in order before it: {before}"
        message = f"round {number} over {sites}: {error.message}; {past}"
        raise type(error)(message, site=error.site, remedy=error.remedy) from error
