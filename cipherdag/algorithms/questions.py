"""Every question a coordinator may ask, and the layout of its answer.

A question holds public parameters only and is the same for every site. Its ``encodings`` declare
how many values a site answers, within which bound and on which grid; the answers of all sites add
up, and the algorithm that asked receives nothing but that sum.

Leaks:
    Every site and whoever carries the messages see the question: the current skeleton by
    identifier, never a name. The coordinator sees the sum of the answers.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cipherdag.algorithms.beliefs import LocalBeliefs
from cipherdag.algorithms.combining import CombinedEvidence
from cipherdag.algorithms.encodings import (
    MAX_VARIABLES,
    CITestSpec,
    Encoding,
    FloatVector,
    IndexArray,
    pack_integers,
    subsets,
    unpack_integers,
)
from cipherdag.algorithms.pooling import PooledQuestion
from cipherdag.algorithms.regressions import RegressionSteps
from cipherdag.algorithms.regrets import FamilyRegretExceeds, FamilyRegrets, GraphRegretExceeds
from cipherdag.algorithms.searches import (
    MAX_GRID_BITS,
    Candidates,
    SeparatorSearch,
    Skeleton,
)
from cipherdag.algorithms.testing import WeightedEvidence

__all__ = [
    "MAX_GRID_BITS",
    "MAX_REPLICATES",
    "MAX_VARIABLES",
    "BestIndexPrecedes",
    "BestScoreExceeds",
    "Bundle",
    "CITestSpec",
    "CandidateScores",
    "Candidates",
    "CombinedEvidence",
    "EdgeVotes",
    "Encoding",
    "FamilyRegretExceeds",
    "FamilyRegrets",
    "FloatVector",
    "GraphRegretExceeds",
    "IndexArray",
    "LocalBeliefs",
    "PooledQuestion",
    "Question",
    "RegressionSteps",
    "Resampled",
    "ResampledQuestion",
    "SeparatorSearch",
    "SingleQuestion",
    "Skeleton",
    "WeightedEvidence",
    "pack_integers",
    "question_kinds",
    "subsets",
    "unpack_integers",
]

MAX_REPLICATES = 1000
"""Resamples of its rows that a site draws in a run."""


class EdgeVotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="edge-votes"):
    """FedSkele, one layer: does the site keep each edge? Source: FedPC, section 3.2.1.

    The answer has one 0/1 vote per edge, in the order of ``Skeleton.edges``.

    Attributes:
        order: ``stable``: neighbours are those of the layer's start (the paper's ne(S, X_i));
            ``sequential``: the site edits its graph as it goes (the original code).
    """

    skeleton: Skeleton
    layer: int
    test: CITestSpec
    order: Literal["stable", "sequential"] = "stable"

    def __post_init__(self) -> None:
        if not 0 <= self.layer < MAX_VARIABLES:
            raise ValueError("layer must not be negative")

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"skeleton, |S| = {self.layer}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One vote in {0, 1} per edge."""
        return (Encoding(length=self.skeleton.n_edges, bound=1.0),)


class _Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shared by the comparisons: ``arity - 1`` thresholds for every pair, packed by rows."""

    search: SeparatorSearch
    thresholds: bytes

    def __post_init__(self) -> None:
        self.threshold_array()

    def threshold_array(self) -> IndexArray:
        """Thresholds of shape (G, m)."""
        groups = self.search.n_groups
        columns = len(self.thresholds) // 8 // groups if groups else 0
        return unpack_integers(self.thresholds, (groups, columns))

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One comparison per pair and threshold."""
        return (Encoding(length=len(self.thresholds) // 8, bound=1.0, comparison=True),)


class BestScoreExceeds(_Thresholds, frozen=True, tag="best-score-exceeds"):
    """Is the site's best candidate score of each pair larger than each threshold?

    A score is ``1 + floor(measure * 2**grid_bits)`` for a candidate that the site finds
    independent, and 0 where it has none.
    """

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"separating sets of {self.search.n_groups} pairs, best score"


class BestIndexPrecedes(_Thresholds, frozen=True, tag="best-index-precedes"):
    """Among candidates that attain ``peaks``: is the site's smallest index below each threshold?

    Attributes:
        peaks: Packed best scores over all sites, shape (G,), as found before.
    """

    peaks: bytes

    def __post_init__(self) -> None:
        self.threshold_array()
        self.peak_array()

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"separating sets of {self.search.n_groups} pairs, which one"

    def peak_array(self) -> IndexArray:
        """Best scores over all sites, shape (G,)."""
        return unpack_integers(self.peaks, (self.search.n_groups,))


class CandidateScores(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="scores"):
    """Scores of a slice of all candidates, the pairs' candidates one after the other.

    Attributes:
        first: Where the slice starts.
        count: How many candidates it has.
        score: ``mean``: n p and n, where n is the site's rows and 0 for an unreliable test
            (FedPC, section 5, first strategy); ``vote``: 1 where the site finds independence
            (second strategy).
        max_rows: Declared bound of n for ``mean``.
    """

    search: SeparatorSearch
    first: int
    count: int
    score: Literal["mean", "vote"]
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        if self.first < 0 or self.count < 0 or not 1 <= self.max_rows <= 1 << 40:
            raise ValueError("a slice must not be negative, and max_rows must lie in 1..2**40")

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"separating sets, {self.score} of {self.count} candidates"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """``vote``: one vote each; ``mean``: all n p on a 2**-20 grid, then all n."""
        if self.score == "vote":
            return (Encoding(length=self.count, bound=1.0),)
        rows = float(self.max_rows)
        return (
            Encoding(length=self.count, bound=rows, resolution_bits=20),
            Encoding(length=self.count, bound=rows),
        )


ResampledQuestion = (
    EdgeVotes
    | BestScoreExceeds
    | BestIndexPrecedes
    | CandidateScores
    | CombinedEvidence
    | PooledQuestion
    | RegressionSteps
)


class Resampled(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="resampled"):
    """A question about rows that the site draws from its own, as many, with replacement.

    Which rows it draws depends on the seed, the number of the replicate and the rows themselves,
    so nobody but the site knows them. The answer is that of the question.

    Attributes:
        question: What is asked of the rows drawn.
        replicate: 1 for the first.
        seed: Seed of the run.
    """

    question: ResampledQuestion
    replicate: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.replicate <= MAX_REPLICATES:
            raise ValueError(f"replicate must lie in 1..{MAX_REPLICATES}")
        if not 0 <= self.seed < 1 << 64:
            raise ValueError("seed must be a whole number of 64 bits")

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"{self.question.label}, replicate {self.replicate}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Those of the question."""
        return self.question.encodings


SingleQuestion = (
    ResampledQuestion
    | Resampled
    | WeightedEvidence
    | GraphRegretExceeds
    | FamilyRegretExceeds
    | FamilyRegrets
    | LocalBeliefs
)


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="bundle"):
    """Questions of many concurrent searches, asked in one round; the answers are concatenated."""

    parts: tuple[SingleQuestion, ...]

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        drawn = sum(isinstance(part, Resampled) for part in self.parts)
        if drawn and drawn == len(self.parts) - 1 and not isinstance(self.parts[0], Resampled):
            return f"{self.parts[0].label}, {drawn} replicates"
        return f"{len(self.parts)} questions at once"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The encodings of all parts in order."""
        return tuple(encoding for part in self.parts for encoding in part.encodings)


Question = SingleQuestion | Bundle


def question_kinds(question: Question) -> str:
    """The kinds a question is made of: its tag, or the tags of all its parts."""
    parts: list[SingleQuestion] = []
    for part in question.parts if isinstance(question, Bundle) else (question,):
        parts += [part, part.question] if isinstance(part, Resampled) else [part]
    return "+".join(sorted({str(type(part).__struct_config__.tag) for part in parts}))
