"""Tests of which too few sites have anything to say are counted first, and then left out.

Where one site alone can do a test, the sum over all sites is that site's answer. So the sites first
say, test by test, whether they contribute; what is opened then covers enough of them, or is zero.
A test without degrees of freedom at a site says nothing there. Of `SiteDifferences` every stratum
counts as a test of its own, and so do the sites' own tests of stratified tables, every column of a
description, and of `Columns` where it is asked for one, every group of `SurvivalCounts` and their
test, and a Cox model; of an effect the arms, once for all its questions. A site that left in
between may have been one of those counted; sites leave out what may then be of too few
(`Covered.without`).

Leaks:
    Of every test, or every edge that is voted on, how many sites say something; not which. Of
    those that enough of them contribute to, what the question itself opens; of the others nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import Encoding, segments
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.estimation.survival import HazardSteps, HazardSums, SurvivalCounts
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.scores.score_sums import ScoreSums
from cipherdag.questions.separators import CandidateScores
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.weighted_evidence import WeightedEvidence

CountedQuestion = (
    WeightedEvidence
    | CombinedEvidence
    | CandidateScores
    | EdgeVotes
    | SiteDifferences
    | ScoreSums
    | Columns
    | ColumnSums
    | ValueCounts
    | SurvivalCounts
    | HazardSteps
    | HazardSums
    | EffectSums
)
Following = SurvivalCounts | HazardSteps | HazardSums
PartByPart = (
    SiteDifferences | Columns | ColumnSums | ValueCounts | Following | EffectSums | ScoreSums
)


class Contributors(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="contributors"):
    """For each test of the question: does the site add anything to its sums?"""

    leaves: ClassVar[str] = "whether its rows tell anything of each part"

    question: CountedQuestion

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"how many sites contribute to {self.question.label}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """0 or 1 per test."""
        return (Encoding(length=n_tests(self.question), bound=1.0),)


class Covered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="covered"):
    """The question, with zeros in the place of tests that too few sites contribute to.

    Attributes:
        question: What is asked.
        enough: One bit per test, packed: whether enough sites contribute.
    """

    leaves: ClassVar[str] = "of parts that enough sites contribute to"

    question: CountedQuestion
    enough: bytes

    def __post_init__(self) -> None:
        if len(self.enough) != -(-n_tests(self.question) // 8):
            raise ValueError("not one bit for every test")

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return self.question.label

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Those of the question."""
        return self.question.encodings

    def enough_array(self) -> BoolVector:
        """Whether enough sites contribute, shape (number of tests,)."""
        bits = np.frombuffer(self.enough, dtype=np.uint8)
        return np.unpackbits(bits, count=n_tests(self.question)).astype(bool)

    def keep(self, answer: FloatVector) -> FloatVector:
        """An answer to the question without the tests that are left out."""
        enough = self.enough_array()
        if isinstance(self.question, PartByPart):
            return np.where(self.question.where(enough), answer, 0.0)
        parts = segments(self.question.encodings, answer)
        signs = isinstance(self.question, CombinedEvidence) and len(parts) > 3  # noqa: PLR2004
        kept = [
            # the first number of joint scores is about all tests alike
            part if signs and number == 0 else np.where(enough[: len(part)], part, 0.0)
            for number, part in enumerate(parts)
        ]
        return np.concatenate([np.zeros(0), *kept])

    def without(self, answer: FloatVector, lost: BoolVector) -> FloatVector:
        """An answer to this question, zero for some tests, shape (number of tests,)."""
        enough = self.enough_array()
        if not (enough & lost).any():
            return answer
        if isinstance(self.question, HazardSteps | HazardSums):
            lost = np.ones_like(lost)  # a step is of all its categories, or of none
        fewer = np.packbits(enough & ~lost).tobytes()
        return msgspec.structs.replace(self, enough=fewer).keep(answer)


def n_tests(question: CountedQuestion) -> int:
    """How many tests, or parts of tests, a question asks about."""
    if isinstance(question, Columns):
        return question.n_variables
    return question.encodings[-1].length


def counted_as(question: CountedQuestion) -> CountedQuestion:
    """The question whose contributors are counted: of an effect one in the place of all stages."""
    return question.scope if isinstance(question, EffectSums) else question


def contributes(question: CountedQuestion, answer: FloatVector) -> FloatVector:
    """1 for each test that the answer weighs, else 0."""
    if isinstance(question, Columns):
        return question.marked(answer).astype(np.float64)
    if isinstance(question, CombinedEvidence):
        return (question.weights(answer) > 0).astype(np.float64)
    return (segments(question.encodings, answer)[-1] > 0).astype(np.float64)


def covered(
    question: CountedQuestion, fewest: int
) -> Generator[Contributors | Covered | CountedQuestion, FloatVector, FloatVector]:
    """The sums of a question, of the tests that at least so many sites contribute to.

    Args:
        question: What is asked.
        fewest: 1 asks it at once.

    Returns:
        The sums, zero for the other tests; one round more, or none of its own where no test is
        left.
    """
    if fewest <= 1:
        return (yield question)
    counts = yield Contributors(question=question)
    return (yield from opened_where(question, np.rint(counts) >= fewest))


def opened_where(
    question: CountedQuestion, enough: BoolVector
) -> Generator[Covered, FloatVector, FloatVector]:
    """The sums of a question of some tests, zero for the others; no round where there is none.

    `Columns` is asked all the same, for rows and categories.
    """
    if not enough.any() and not isinstance(question, Columns):
        return np.zeros(sum(encoding.length for encoding in question.encodings))
    return (yield Covered(question=question, enough=np.packbits(enough).tobytes()))
