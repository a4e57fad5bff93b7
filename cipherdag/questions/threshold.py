"""The threshold rule: a sum is opened only if at least ``min_contributors`` sites contribute to it.

Where one site alone can do a test, the sum over all sites is that site's answer. So the sites first
sum a vector of 0 and 1, which parts they contribute to, and then the question with zeros for the
parts that too few contribute to. A test without degrees of freedom at a site contributes nothing
there. A part is a test, or by the kind of question a stratum (`SiteDifferences`), a column
(descriptions, `Columns`), a group or the test of `SurvivalCounts`, a Cox model, or an effect's arm.
An arm is counted once for all questions of its effect. A site that left in between may have been
counted; sites then leave out parts that may have too few (`Suppressed.without`).

Leaks:
    Of a part to which too few sites contribute: how many do, and not which ones.
"""

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.disclosure import Quantity, sums
from cipherdag.questions.encodings import Encoding
from cipherdag.questions.question import Asking, Question


class ContributorCounts(Question, frozen=True, tag="contributors"):
    """Asks, for each part of a question, whether the site contributes to its sums."""

    discloses = sums(Quantity.SITES)
    resamplable = True
    by_patient = True

    question: Question

    def __post_init__(self) -> None:
        _check_countable(self.question)

    @property
    def label(self) -> str:
        return f"sites that contribute to {self.question.label}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (Encoding(self.question.n_parts, 1.0, self.discloses),)


class Suppressed(Question, frozen=True, tag="covered"):
    """The question with zeros for the parts to which too few sites contribute.

    ``enough`` has a packed bit for each part: whether enough sites do.
    """

    discloses = ()
    resamplable = True
    by_patient = True

    question: Question
    enough: bytes

    def __post_init__(self) -> None:
        _check_countable(self.question)
        if len(self.enough) != -(-self.question.n_parts // 8):
            raise ValueError("not one bit for every test")

    @property
    def label(self) -> str:
        return self.question.label

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return self.question.encodings

    def enough_array(self) -> BoolVector:
        """Whether enough sites contribute, shape (n_parts,)."""
        bits = np.frombuffer(self.enough, dtype=np.uint8)
        return np.unpackbits(bits, count=self.question.n_parts).astype(bool)

    def without(self, answer: FloatVector, lost: BoolVector) -> FloatVector:
        """An answer to this question, with zeros for the lost parts, shape (n_parts,), too."""
        enough = self.enough_array()
        if not (enough & lost).any():
            return answer
        if self.question.indivisible:
            lost = np.ones_like(lost)
        return self.question.suppress(answer, enough & ~lost)


def _check_countable(question: Question) -> None:
    if not question.countable:
        raise ValueError("the sites that contribute to a question of this kind are not counted")


def sum_with_threshold(question: Question, min_contributors: int) -> Asking[FloatVector]:
    """The sums of a question, of the parts that at least ``min_contributors`` sites contribute to.

    Other parts are 0. The count takes one round more; with 1 there is none. The question itself is
    not asked where no part is left.
    """
    if min_contributors <= 1:
        return (yield question)
    counts = yield ContributorCounts(question=question)
    return (yield from open_unsuppressed(question, np.rint(counts) >= min_contributors))


def open_unsuppressed(question: Question, enough: BoolVector) -> Asking[FloatVector]:
    """The sums of the parts with enough contributors, zero for the others.

    No round where there is no such part, unless the question `opens_without_parts`.
    """
    if not enough.any() and not question.opens_without_parts:
        return np.zeros(question.n_values)
    return (yield Suppressed(question=question, enough=np.packbits(enough).tobytes()))
