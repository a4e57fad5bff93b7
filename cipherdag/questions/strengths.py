"""Comparison of the strengths of dependence of two pairs of variables, and the scale for it."""

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.predicates import Predicates
from cipherdag.questions.combined_evidence import CombinedEvidence, WeightedEvidence
from cipherdag.questions.disclosure import Quantity, bits
from cipherdag.questions.encodings import segments, unpack_integers
from cipherdag.questions.verdicts import SUM_BITS, Verdicts, on_grid

STEPS = 16  # how many steps a power of four has, in which amounts are compared with it
POWERS = 25  # how many powers of four, from 1 on, a sum of weighted strengths is compared with


class StrengthVerdicts(Verdicts, frozen=True, tag="strength-verdicts"):
    """Asks which of two pairs is more dependent over all sites; the difference is not disclosed.

    Each comparison opens a bit; 1 says that the second pair is stronger. With ``WeightedEvidence``
    a strength is n r, over sites whose tests of both pairs are reliable, so that both rest on the
    same rows. With ``CombinedEvidence`` it is -2 ln p, over sites with a test of either pair.

    Attributes:
        question: The pairs, tests given nothing; combined evidence must be ``fisher``.
        largest: Largest size of one site's difference of strengths, on the grid; a larger one is
            cut to it.
        grid_bits: The grid is ``2**-grid_bits``; below 0 it is one of powers of two.
        pairs: The two pairs of every comparison, by index in the question, packed, shape (B, 2).
    """

    discloses = bits(Quantity.STRONGER)

    question: WeightedEvidence | CombinedEvidence
    largest: int
    grid_bits: int
    pairs: bytes

    def __post_init__(self) -> None:
        if isinstance(self.question, CombinedEvidence) and self.question.combination != "fisher":
            raise ValueError("strengths are compared of weighted evidence, or of logarithms of p")
        if len(self.question.counts) != 1 or not -2 * SUM_BITS <= self.grid_bits < SUM_BITS:
            raise ValueError("pairs are compared given nothing, on a grid that sums fit")
        if not 0 < self.largest < 1 << SUM_BITS:
            raise ValueError("differences of strengths have a largest size")
        first, second = self.pair_array().T
        places = np.concatenate([first, second])
        if ((places < 0) | (places >= self.question.counts[0])).any() or (first == second).any():
            raise ValueError("two different pairs of the question are compared")

    @property
    def label(self) -> str:
        return f"{len(self.pairs) // 16:,} comparisons of strengths"

    @property
    def n_verdicts(self) -> int:
        return len(self.pairs) // 16

    def pair_array(self) -> IndexArray:
        """Which pair is compared with which, shape (B, 2)."""
        if len(self.pairs) % 16:
            raise ValueError("packed pairs must be two 64-bit integers each")
        return unpack_integers(self.pairs, (len(self.pairs) // 16, 2))

    def words(self, answer: FloatVector) -> IndexArray:
        """Strength of the second pair less the first's, shape (B,); 0 where not comparable."""
        first, second = self.pair_array().T
        *amounts_of, weight = segments(self.question.encodings, answer)
        if isinstance(self.question, WeightedEvidence):
            strength, valid = amounts_of[1], (weight[first] > 0) & (weight[second] > 0)
        else:
            strength, valid = amounts_of[0], (weight[first] > 0) | (weight[second] > 0)
        amounts = on_grid(strength[second] - strength[first], self.grid_bits, self.largest)
        return np.where(valid, amounts, 0)

    def predicates(self, n_sites: int) -> Predicates:
        """One comparison per pair of pairs: the sum of differences is above 0."""
        most = n_sites * self.largest
        return Predicates.replicated(len(self.pairs) // 16, [(-most, most)], [[((1,), 0)]])


class ScaleVerdicts(Verdicts, frozen=True, tag="scale-verdicts"):
    """Asks for the order of magnitude of the sites' largest n r, summed, as a power of four.

    Each power from 1 on opens a bit; 1 says that the sum is at least as large. Strengths are then
    compared on a grid that fits them: a G2 times rows may be a number of 45 bits.
    """

    discloses = bits(Quantity.SCALE)

    question: WeightedEvidence  # the pairs, tests given nothing

    def __post_init__(self) -> None:
        if len(self.question.counts) != 1:
            raise ValueError("strengths are those given nothing")

    @property
    def label(self) -> str:
        return f"how large strengths of {self.question.counts[0]} pairs are"

    @property
    def n_verdicts(self) -> int:
        return POWERS

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's largest in steps of every power, cut at the power, shape (`POWERS`,)."""
        _, strengths, rows = segments(self.question.encodings, answer)
        largest = strengths.max(initial=0.0) if (rows > 0).any() else 0.0
        steps = np.ceil(STEPS * np.ldexp(largest, -2 * np.arange(POWERS)))
        return np.minimum(steps, STEPS).astype(np.int64)

    def predicates(self, n_sites: int) -> Predicates:
        """One comparison per power: the sum is at least that power."""
        return Predicates.replicated(POWERS, [(0, n_sites * STEPS)], [[((1,), 1 - STEPS)]])
