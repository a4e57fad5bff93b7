"""Questions of which no sum is opened: of every sum the sites find one bit, and nothing else.

A verdict is true of a public set of sums (`closed.by_count`): for every number of sites that
contribute the amounts that decide. It is true of none where too few contribute, so that no verdict
is a single site's answer, and nobody learns how many there were.

Leaks:
    Of every sum one bit, to everybody; under the assumptions of `cipherdag.privacy.comparison`.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from cipherdag.questions.closed.by_count import SUM_BITS, ByCount, Sets, compared, joined
from cipherdag.questions.closed.strengths import ScaleVerdicts, StrengthVerdicts
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.encodings import (
    Encoding,
    FloatVector,
    IndexArray,
    segments,
    unpack_integers,
)
from cipherdag.questions.scores.score_weights import ScoreWeights
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.stratified import TableCells

FEWEST_SITES = 3
"""A dealer and two holders of comparison keys."""
MOST_VERDICTS = 250_000
"""Verdicts of one question: keys for more do not fit a message."""
VERDICT_VALUES = 100
"""As many values as the keys of one verdict are long."""
RELIABLE = 1 << 16
"""What stands for a test that is reliable at one site already."""


class EdgeVerdicts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="edge-verdicts"):
    """Which edges fall by the sites' votes? A bit for every edge; of the votes nothing is opened.

    Attributes:
        question: The votes; a site that does not abstain counts as able.
        needed: Least votes that keep an edge, by how many sites can test it: 0, 1, ..., N; 0 where
            it stands anyway.
    """

    leaves: ClassVar[str] = "whether an edge falls by the votes of all sites together"

    question: EdgeVotes
    needed: tuple[int, ...]

    def __post_init__(self) -> None:
        if not all(0 <= votes <= able + 1 for able, votes in enumerate(self.needed)):
            raise ValueError("an edge needs from no vote to one more than there are")
        self.by_count()

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return self.question.label

    @property
    def fewest(self) -> int:
        """How many sites contribute at least where an edge falls."""
        return self.by_count().fewest

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One verdict per edge, in the order of the skeleton's."""
        return (compared(self.question.skeleton.n_edges, self.by_count()),)

    def by_count(self) -> ByCount:
        """The votes that let an edge fall."""
        return ByCount(
            low=(0,) * len(self.needed),
            high=tuple(min(votes - 1, able) for able, votes in enumerate(self.needed)),
            largest=1,
        )

    def numbers(self, answer: FloatVector) -> FloatVector:
        """A site's numbers from its votes, shape (E,)."""
        votes, *able = segments(self.question.encodings, answer)
        return self.by_count().numbers(able[0] if able else np.ones(len(votes)), votes)

    def sets(self, n_sites: int) -> Sets:
        """The sums over so many sites of which each edge falls."""
        return self.by_count().sets(self.question.skeleton.n_edges, n_sites)


class EvidenceVerdicts(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="evidence-verdicts"
):
    """Which tests over all sites say independent? Of their statistics nothing is opened.

    The answer has B bits: independent; with ``fisher`` B more: is there data enough for the test? A
    site whose test has no degrees of freedom counts with the mean of -2 ln p, 2.

    Attributes:
        question: The tests, ``fisher`` or ``weighted_p``.
        amounts: Of which summed amounts a test says independent. An amount is -2 ln p, at most
            ``amounts.largest``, on a grid of ``2**-grid_bits``; or n (p - alpha), to which half of
            ``amounts.largest`` is added.
        grid_bits: The grid.
    """

    leaves: ClassVar[str] = "whether a test over all sites together says independent"

    question: CombinedEvidence
    amounts: ByCount
    grid_bits: int

    def __post_init__(self) -> None:
        if self.question.combination not in ("fisher", "weighted_p"):
            raise ValueError("only sums of p-values and of their logarithms are compared")
        if not 0 <= self.grid_bits < SUM_BITS:
            raise ValueError(f"grid_bits must lie in 0..{SUM_BITS - 1}")
        self._reliable()

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"verdicts, {self.question.label}"

    @property
    def fewest(self) -> int:
        """How many sites contribute at least where a bit is true."""
        return self.amounts.fewest

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One verdict per test; with ``fisher`` another one."""
        total = sum(self.question.counts)
        return tuple(compared(total, own) for own in self._parts())

    def numbers(self, answer: FloatVector) -> FloatVector:
        """A site's numbers from its summands, shape (B,) or (2 B,)."""
        parts = segments(self.question.encodings, answer)
        if self.question.combination == "weighted_p":
            weighted, rows = parts
            half = self.amounts.largest // 2
            excess = np.rint(np.ldexp(weighted - self.question.test.alpha * rows, self.grid_bits))
            return self.amounts.numbers(rows, np.clip(excess, -half, half) + half)
        logs, informed, reliability = parts
        amount = np.rint(np.ldexp(np.where(informed > 0, logs, 2.0), self.grid_bits))
        share = np.rint(reliability * (RELIABLE / self.question.rows_per_cell))
        return np.concatenate(
            [
                self.amounts.numbers(reliability, np.minimum(amount, self.amounts.largest)),
                self._reliable().numbers(reliability, np.minimum(share, RELIABLE)),
            ]
        )

    def sets(self, n_sites: int) -> Sets:
        """The sums over so many sites of which each bit is true."""
        total = sum(self.question.counts)
        return joined([own.sets(total, n_sites) for own in self._parts()])

    def _parts(self) -> tuple[ByCount, ...]:
        fisher = self.question.combination == "fisher"
        return (self.amounts, self._reliable()) if fisher else (self.amounts,)

    def _reliable(self) -> ByCount:
        """As many rows per cell together as are needed; each site's share is rounded once."""
        most = self.amounts.n_sites
        return ByCount(
            low=tuple(RELIABLE - most for _ in range(most + 1)),
            high=tuple(k * RELIABLE if k >= self.fewest else 0 for k in range(most + 1)),
            largest=RELIABLE,
        )


class CellVerdicts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="cell-verdicts"):
    """Which cells of tables hold about as many rows as independence has? Of how many, nothing.

    A bit for every cell that is compared: the sum of its differences lies within its limit. A
    score is compared as the difference of a cell is, or is not above its limit where it is
    ``one_sided``.

    Attributes:
        question: The cells, with differences.
        amounts: Every amount of sites enough: a difference on a grid of ``2**-grid_bits``, to which
            half of ``amounts.largest`` is added.
        grid_bits: The grid.
        cells: Which cells are compared, packed integers, ascending, shape (K,).
        able: At how many sites each of them varies, as counted before of all ``amounts.n_sites``.
        limits: How far each sum of differences may lie from 0, on the grid.
    """

    leaves: ClassVar[str] = (
        "whether a cell of a table, or a score, stands out over all sites together"
    )

    question: TableCells | ScoreWeights
    amounts: ByCount
    grid_bits: int
    cells: bytes
    able: bytes
    limits: bytes

    def __post_init__(self) -> None:
        cells, able, limits = map(self._told, (self.cells, self.able, self.limits))
        if not self.question.differences or not 0 <= self.grid_bits < SUM_BITS:
            raise ValueError("differences are compared, on a grid that sums fit")
        if (np.diff(cells) <= 0).any() or not ((cells >= 0) & (cells < self._n_cells)).all():
            raise ValueError("cells ascend, and are some of the question's")
        if ((able < 0) | (able > self.amounts.n_sites) | (limits < 0)).any():
            raise ValueError("as many sites vary as there are, and limits are not below 0")

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"verdicts, {self.question.label}"

    @property
    def fewest(self) -> int:
        """How many sites contribute at least where a bit is true."""
        return self.amounts.fewest

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One verdict per cell that is compared."""
        return (compared(len(self.cells) // 8, self.amounts),)

    def numbers(self, answer: FloatVector) -> FloatVector:
        """A site's numbers from its differences and variances, shape (K,)."""
        cells, half = self._told(self.cells), self.amounts.largest // 2
        variance = answer[self._n_cells :][cells]
        steps = np.rint(np.ldexp(answer[cells], self.grid_bits))
        return self.amounts.numbers(variance, np.clip(steps, -half, half) + half)

    def sets(self, n_sites: int) -> Sets:
        """The sums over so many sites of which each bit is true: of as many as were counted.

        Each site that has left since may have been one of them, or not.
        """
        able, limits = self._told(self.able), self._told(self.limits)
        left = max(self.amounts.n_sites - n_sites, 0)
        sites = able - np.arange(left, -1, -1)[:, None]
        half = self.amounts.largest // 2
        there = (sites >= self.fewest) & (sites <= n_sites)
        middle, limit = sites * (self.amounts.width + half), np.minimum(limits, sites * half)
        most = np.full(len(able), n_sites * self.amounts.bound, dtype=np.int64)
        reach = np.where(self.question.one_sided[self._told(self.cells)], sites * half, limit)
        return np.where(there, middle - reach, 1), np.where(there, middle + limit, 0), most

    @property
    def _n_cells(self) -> int:
        return len(self.question.owner)

    def _told(self, packed: bytes) -> IndexArray:
        return unpack_integers(packed, (len(self.cells) // 8,))


VerdictQuestion = EdgeVerdicts | EvidenceVerdicts | CellVerdicts | StrengthVerdicts | ScaleVerdicts
