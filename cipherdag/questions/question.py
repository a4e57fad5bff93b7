"""Every question a coordinator may ask, and the layout of its answer.

A question holds public parameters only and is the same for every site. Its ``encodings`` declare
how many values a site answers, within which bound and on which grid; the answers of all sites add
up, and the algorithm that asked receives nothing but that sum.

Leaks:
    Every site and whoever carries the messages see the question: the current skeleton by
    identifier, never a name. The coordinator sees the sum of the answers.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.coverage import Contributors, Covered
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import Encoding, pack_integers, subsets
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.estimation.survival import HazardSteps, HazardSums, SurvivalCounts
from cipherdag.questions.likelihoods import LogLikelihoods
from cipherdag.questions.local_beliefs import LocalBeliefs
from cipherdag.questions.pooled_data import PooledQuestion
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.questions.regrets import FamilyRegretExceeds, FamilyRegrets, GraphRegretExceeds
from cipherdag.questions.scores.score_bits import CategorySizes
from cipherdag.questions.scores.score_sums import ScoreSums
from cipherdag.questions.separators import (
    BestIndexPrecedes,
    BestScoreExceeds,
    Candidates,
    CandidateScores,
    SeparatorSearch,
)
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.verdicts import VerdictQuestion
from cipherdag.questions.weighted_evidence import WeightedEvidence

__all__ = [
    "MAX_REPLICATES",
    "Bundle",
    "CITestSpec",
    "Candidates",
    "ColumnSums",
    "CombinedEvidence",
    "EffectSums",
    "Encoding",
    "FamilyRegretExceeds",
    "FamilyRegrets",
    "FloatVector",
    "GraphRegretExceeds",
    "HazardSteps",
    "HazardSums",
    "IndexArray",
    "LocalBeliefs",
    "LogLikelihoods",
    "PoolQuestion",
    "Question",
    "RegressionSteps",
    "Resampled",
    "SeparatorSearch",
    "SingleQuestion",
    "SiteDifferences",
    "Skeleton",
    "SurvivalCounts",
    "ValueCounts",
    "WeightedEvidence",
    "finds_verdicts",
    "pack_integers",
    "question_kinds",
    "subsets",
]

MAX_REPLICATES = 1000
"""Resamples of its rows that a site draws in a run."""


PoolQuestion = (
    PooledQuestion
    | RegressionSteps
    | ScoreSums
    | CategorySizes
    | SiteDifferences
    | LogLikelihoods
    | ColumnSums
    | ValueCounts
    | SurvivalCounts
    | HazardSteps
    | HazardSums
    | EffectSums
)
"""What a site answers from counts and moments of its rows, with no test."""

ResampledQuestion = (
    EdgeVotes
    | BestScoreExceeds
    | BestIndexPrecedes
    | CandidateScores
    | CombinedEvidence
    | PooledQuestion
    | LogLikelihoods
    | RegressionSteps
    | ScoreSums
    | Contributors
    | Covered
    | VerdictQuestion
)


class Resampled(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="resampled"):
    """A question about rows that the site draws from its own, as many, with replacement.

    Which rows it draws depends on the seed, the number of the replicate, the rows themselves and
    the site's key, so nobody but the site knows them. The answer is that of the question.

    Attributes:
        question: What is asked of the rows drawn.
        replicate: 1 for the first.
        seed: Seed of the run.
    """

    leaves: ClassVar[str] = "the same of rows that the site drew from its own"

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
    | SiteDifferences
    | ColumnSums
    | ValueCounts
    | SurvivalCounts
    | HazardSteps
    | HazardSums
    | EffectSums
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
    """The kinds a question is made of: its tag, or the tags of all its parts and of theirs."""
    found = set()
    left: list[object] = list(question.parts if isinstance(question, Bundle) else (question,))
    while left:
        part = left.pop()
        found.add(str(type(part).__struct_config__.tag))  # type: ignore[attr-defined]
        if (inner := getattr(part, "question", None)) is not None:
            left.append(inner)
    return "+".join(sorted(found))


def finds_verdicts(question: Question) -> bool:
    """Whether its sums are not opened, and only verdicts on them are found."""
    return any(encoding.verdict for encoding in question.encodings)
