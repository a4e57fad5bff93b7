"""What is asked of secret sums: tests, each true where one of its comparisons is.

A comparison asks whether a quadratic form of the sums is positive. The form has public whole
coefficients and a public constant:

    T = sum of q_ij x_i x_j  +  sum of c_j x_j  +  constant        T > 0 ?

The x are sums over the sites, in units of a grid that the caller chooses, with public bounds. So
"U^2 > z^2 V + k" is one product, one linear term and a constant; a weighted trace has a product for
every component, "c.x > t" has none. Several tests may ask of the same sums: each is one bit more.

No form wraps. Let l and h be the bounds of T - 1 by interval arithmetic, in exact whole numbers
(each product lies between the least and largest product of the bounds of its two factors, a square
also above 0, and a sum between the sums of its terms' bounds). A comparison of width k computes
modulo 2^k, with the least k so that -2^(k-2) <= l and h < 2^(k-2). Then T - 1 is the one
representative of its residue in that interval. Half of all residues come from no honest sums, which
the range label (`privacy.mpc.words`) detects. T > 0 is T - 1 >= 0: the residue's highest bit.
All of it is computed in 64-bit words: forms whose terms could add up to 2^62 are refused, and
modulo 2^64 is a homomorphism to modulo 2^k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IntegerMatrix, IntegerVector
from cipherdag.errors import ParameterError

LARGEST: Final = 1 << 62  # what no bound, coefficient or form reaches
MOST_COMPARISONS: Final = 1 << 18
"""Of one batch; its dealt keys must also fit into a message."""
MOST_WORDS: Final = 1 << 20
LEAST_WIDTH: Final = 4

Number = TypeVar("Number", np.int64, np.uint64)

_POWERS = np.array([1 << bit for bit in range(63)], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Predicates:
    """The tests of a batch, over the words of the sites' vectors.

    Terms stand in ascending order of comparison and words, each once. ParameterError where a shape,
    order, bound or index is none of these, or a form may reach 2**62.
    """

    lowest: IntegerVector  # least sum of every word over all sites, at most 0, shape (words,)
    highest: IntegerVector  # largest one, at least 0, shape (words,)
    sizes: IntegerVector  # comparisons of every test, at least 1, shape (tests,)
    quadratic: IntegerMatrix  # i, j, k >= j, c: c x_j x_k in comparison i, c not 0, (terms, 4)
    linear: IntegerMatrix  # i, j, c: c x_j in comparison i, c not 0, shape (terms, 3)
    constants: IntegerVector  # of every comparison, shape (comparisons,)

    def __post_init__(self) -> None:
        for name, columns in _COLUMNS.items():
            array = getattr(self, name)
            if array.dtype != np.int64 or array.shape[1:] != columns:
                raise ParameterError(f"'{name}' of the predicates has another shape or type")
        if self.lowest.shape != self.highest.shape or not 1 <= self.n_words <= MOST_WORDS:
            raise ParameterError("every word has two bounds, and there is at least one word")
        if (self.lowest > 0).any() or (self.highest < 0).any():
            raise ParameterError("the bounds of every sum have 0 between them")
        if not 1 <= self.n_comparisons <= MOST_COMPARISONS or not self.n_tests:
            raise ParameterError("a batch has 1 to 262144 comparisons")
        if (self.sizes < 1).any() or self.sizes.sum() != self.n_comparisons:
            raise ParameterError("every test has comparisons, and every comparison one test")
        _check_terms(self.quadratic, self.n_comparisons, self.n_words)
        _check_terms(self.linear, self.n_comparisons, self.n_words)
        if (self.quadratic[:, 1] > self.quadratic[:, 2]).any():
            raise ParameterError("a product names the earlier word first")
        self._check_sizes()

    @classmethod
    def joined(cls, parts: Sequence[Predicates]) -> Predicates:
        """The tests of several parts; the words of each part follow those of the one before."""
        words = np.cumsum([0, *(part.n_words for part in parts)])
        forms = np.cumsum([0, *(part.n_comparisons for part in parts)])
        shifts = list(zip(parts, forms.tolist(), words.tolist(), strict=False))
        return cls(
            np.concatenate([part.lowest for part in parts]),
            np.concatenate([part.highest for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.quadratic + np.array([a, w, w, 0]) for part, a, w in shifts]),
            np.concatenate([part.linear + np.array([a, w, 0]) for part, a, w in shifts]),
            np.concatenate([part.constants for part in parts]),
        )

    @classmethod
    def replicated(
        cls,
        count: int,
        bounds: Sequence[tuple[int, int]],
        kinds: Sequence[Sequence[tuple[Sequence[int], int]]],
    ) -> Predicates:
        """Tests of several kinds, each asked of ``count`` groups of words by the same linear forms.

        ``bounds`` are the least and the largest sum of each word of a group. Every kind of test has
        linear forms: a coefficient for each word of a group, and a constant. A form is true where
        its value is above 0.

        Returns:
            Predicates over the first words of all groups, then the second ones, and so on; and of
            all tests of the first kind, then of the second.
        """
        linear, constants, first = [], [], 0
        group = np.arange(count)
        for lines in kinds:
            factors = np.array([each for each, _ in lines], dtype=np.int64)
            shape = count, *factors.shape
            form = first + np.arange(count * len(lines)).reshape(count, -1, 1)
            word = group[:, None, None] + count * np.arange(len(bounds))
            whole = [np.broadcast_to(each, shape).ravel() for each in (form, word, factors)]
            terms = np.stack(whole, axis=1)
            linear.append(terms[terms[:, 2] != 0])
            constants.append(np.tile(np.array([each for _, each in lines], dtype=np.int64), count))
            first += count * len(lines)
        return cls(
            np.repeat(np.array([low for low, _ in bounds], dtype=np.int64), count),
            np.repeat(np.array([high for _, high in bounds], dtype=np.int64), count),
            np.repeat(np.array([len(lines) for lines in kinds], dtype=np.int64), count),
            np.zeros((0, 4), dtype=np.int64),
            np.concatenate(linear),
            np.concatenate(constants),
        )

    @property
    def n_words(self) -> int:
        """Words of a site's vector."""
        return self.lowest.size

    @property
    def n_tests(self) -> int:
        """Tests; one bit is opened for each."""
        return self.sizes.size

    @property
    def n_comparisons(self) -> int:
        """Comparisons of all tests together."""
        return self.constants.size

    @property
    def starts(self) -> NDArray[np.intp]:
        """Which comparison is the first of every test."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def packed(self) -> tuple[bytes, ...]:
        """All of it as bytes, array by array."""
        columns = (getattr(self, name) for name in _COLUMNS)
        return tuple(column.astype("<i8", copy=False).tobytes() for column in columns)

    def ranges(self) -> tuple[IntegerVector, IntegerVector]:
        """Least and largest value of every form, exact, shape (comparisons,) each."""
        lowest, highest = self.constants.copy(), self.constants.copy()
        for terms, (least, most) in (
            (self.quadratic, self._products()),
            (self.linear, (self.lowest[self.linear[:, 1]], self.highest[self.linear[:, 1]])),
        ):
            ends = terms[:, -1] * least, terms[:, -1] * most
            lowest += self.added_up(terms, np.minimum(*ends))
            highest += self.added_up(terms, np.maximum(*ends))
        return lowest, highest

    def added_up(self, terms: IntegerMatrix, values: NDArray[Number]) -> NDArray[Number]:
        """The terms' values added up by comparison, shape (comparisons,), modulo 2^64."""
        total = np.zeros(self.n_comparisons, dtype=values.dtype)
        if len(terms):
            owner = terms[:, 0]
            first = np.flatnonzero(np.diff(owner, prepend=-1))
            total[owner[first]] = np.add.reduceat(values, first)
        return total

    def widths(self) -> IntegerVector:
        """Bits of the ring that each comparison is computed in, shape (comparisons,); see above."""
        lowest, highest = self.ranges()
        largest = np.maximum(np.maximum(highest - 1, -lowest), 0)
        # how many powers of two are no larger is how many bits a number has
        bits = np.searchsorted(_POWERS, largest, side="right")
        return np.maximum(bits.astype(np.int64) + 2, LEAST_WIDTH)

    def _products(self) -> tuple[IntegerVector, IntegerVector]:
        """Least and largest product of the two words of every quadratic term."""
        left, right = self.quadratic[:, 1], self.quadratic[:, 2]
        corners = np.stack([
            one[left] * other[right]
            for one in (self.lowest, self.highest)
            for other in (self.lowest, self.highest)
        ])  # fmt: skip
        # a square is never below 0, which both bounds of its word have between them
        return np.where(left == right, 0, corners.min(axis=0)), corners.max(axis=0)

    def _check_sizes(self) -> None:
        """Raise ParameterError where words or forms could reach 2**62, so that nothing wraps."""
        largest = np.maximum(-self.lowest.astype(float), self.highest.astype(float))
        total = np.abs(self.constants.astype(float))
        for terms in (self.quadratic, self.linear):
            size = np.abs(terms[:, -1].astype(float))
            for word in terms[:, 1:-1].T:
                size = size * largest[word]
            total += np.bincount(terms[:, 0], weights=size, minlength=total.size)
        # the floats err by far less than what is left between the two limits
        if max(largest.max(), total.max()) >= LARGEST * (1 - 2.0**-20):
            raise ParameterError("a bound, coefficient or form reaches 2**62")


_COLUMNS: Final[dict[str, tuple[int, ...]]] = {
    "lowest": (),
    "highest": (),
    "sizes": (),
    "quadratic": (4,),
    "linear": (3,),
    "constants": (),
}


def _check_terms(terms: IntegerMatrix, n_comparisons: int, n_words: int) -> None:
    """Raise ParameterError for an index out of range, disorder, a repeated or a zero term."""
    if not terms.size:
        return
    owner, words = terms[:, 0], terms[:, 1:-1]
    if owner.min() < 0 or owner.max() >= n_comparisons or words.min() < 0 or words.max() >= n_words:
        raise ParameterError("a term names a comparison or a word that is none")
    step = np.diff(terms[:, :-1], axis=0)
    first = np.argmax(step != 0, axis=1)
    if (step[np.arange(len(step)), first] <= 0).any() or not terms[:, -1].all():
        raise ParameterError("terms are in order, each once, and no coefficient is 0")
