"""Scores of tests that are compared and never opened, and their variances, which are.

Leaks:
    Every site and whoever carries the messages see which triplets are tested, by position. The
    coordinator sees the sums over the sites that `ScoreWeights` says.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.scores.within_scores import WithinScores

if TYPE_CHECKING:
    from cipherdag.questions.encodings import BoolVector, Encoding, FloatVector, IndexArray


class ScoreWeights(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="score-weights"
):
    """How much scores vary at every site where x and y are independent given S; 0: not done.

    With ``differences`` the answer begins with the scores themselves. Of numbers alone a score is w
    z, and its variance the weight w = n - |S| - 3.

    Leaks:
        The coordinator learns, per score, the sum of the variances over the sites: of numbers about
        how many rows are complete in the test. Of scores, which are never opened, see
        `CellVerdicts`.

    Attributes:
        scores: Of which triplets; ``stouffer`` of correlations, or `WithinScores`.
        differences: Whether scores are answered, too.
    """

    leaves: ClassVar[str] = "how much scores vary where variables are independent"

    scores: CombinedEvidence | WithinScores
    differences: bool = False

    def __post_init__(self) -> None:
        own = self.scores
        if isinstance(own, CombinedEvidence) and not own.adds_correlations:
            raise ValueError("only weighted z of correlations are compared")

    @property
    def max_rows(self) -> int:
        """Declared bound of a site's rows."""
        return self.scores.max_rows

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"weights of {self.scores.label}"

    @property
    def n_tests(self) -> int:
        """Number of triplets, B."""
        return sum(self.scores.counts)

    @cached_property
    def owner(self) -> IndexArray:
        """The triplet of every score, shape (K,)."""
        return self.scores.owner

    @property
    def one_sided(self) -> BoolVector:
        """What is compared to one side only: nothing, shape (K,)."""
        return np.zeros(len(self.owner), dtype=bool)

    def with_differences(self) -> ScoreWeights:
        """The same triplets, with scores."""
        return ScoreWeights(scores=self.scores, differences=True)

    def of(self, answer: FloatVector) -> FloatVector:
        """The answer to this question from that to ``scores``."""
        scores, variances = self.scores.moments(answer)
        return np.concatenate([scores, variances]) if self.differences else variances

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Scores, if asked for, and their variances."""
        scores, variances = self.scores.moment_encodings
        return (scores, variances) if self.differences else (variances,)
