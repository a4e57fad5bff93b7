"""Questions of which no sum is opened: one bit for every threshold test on the sums."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.predicates import MOST_COMPARISONS, Predicates
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.disclosure import Disclosure, Quantity, bits, decision_at
from cipherdag.questions.encodings import Encoding, segments
from cipherdag.questions.question import Question
from cipherdag.questions.skeleton import EdgeVotes

FEWEST_SITES = 2
"""The secure comparison needs two sites that hold shares.

Where there are only two, the coordinator is the dealer.
"""
MOST_VERDICTS = MOST_COMPARISONS  # verdicts of one question, of one comparison each
VERDICT_VALUES = 100
"""The keys of one comparison take about as many bytes as this many values of an answer."""
SUM_BITS = 35
"""Most bits of a sum; more would change no verdict and lengthen the keys."""


class Verdicts(Question, frozen=True):
    """Base of questions whose sums stay closed: one bit for every threshold test is opened.

    A site answers whole numbers, its words; public `Predicates` say what is asked of their sums,
    and a bit is 1 where a comparison of its test holds. Nobody learns a sum, nor how many sites
    contribute.
    """

    resamplable = True

    @property
    def label(self) -> str:
        return self.question.label

    @property
    def n_verdicts(self) -> int:
        raise NotImplementedError

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (Encoding(self.n_verdicts, 1.0, self._bits, verdict=True),)

    @property
    def _bits(self) -> tuple[Disclosure, ...]:
        """What its bits say."""
        return self.discloses

    @property
    def opens_bits(self) -> bool:
        return True

    def words(self, answer: FloatVector) -> IndexArray:
        """The integers that the site puts into the secure sum.

        They are computed from its answer to the inner question, or from its counts.
        """
        raise NotImplementedError


class EdgeVerdicts(Verdicts, frozen=True, tag="edge-verdicts"):
    """Asks which edges are removed by the sites' votes; one bit for every edge is opened."""

    discloses = bits(Quantity.EDGE_FALLS)

    question: EdgeVotes  # the votes; a site that does not abstain counts as able
    # entry k is the least number of votes that keeps an edge that k sites can test, for k = 0, 1,
    # ..., N; 0 means that it stands anyway. Where sites may abstain, entry k is the least number
    # above one share of k, and entry 0 is 0.
    needed: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.needed) < 2 or not all(  # noqa: PLR2004
            0 <= votes <= able + 1 for able, votes in enumerate(self.needed)
        ):
            raise ValueError("an edge needs from no vote to one more than there are")
        if self.question.abstain:
            self.share()

    @property
    def n_verdicts(self) -> int:
        """One per edge, in the order of the skeleton's edges."""
        return self.question.skeleton.n_edges

    def share(self) -> Fraction:
        """The largest share of votes, among sites with a test, that removes an edge.

        ValueError where the table is not one of more votes than a share.
        """
        first, *rest = self.needed
        share = max(Fraction(votes - 1, able) for able, votes in enumerate(rest, start=1))
        exact = all(share * able < votes for able, votes in enumerate(rest, start=1))
        if first or not exact or share < 0:
            raise ValueError("an edge needs more votes than one share of the sites that can vote")
        return share

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's votes, shape (E,).

        Where sites may abstain, they are followed by which edges it votes on, shape (2 E,).
        """
        return answer.astype(np.int64)

    def predicates(self, n_sites: int) -> Predicates:
        """``votes < needed[able]`` of every edge, as one line.

        Where nobody abstains ``needed`` is a number. Else votes v of a able sites let the edge fall
        iff v <= share * a and a >= 1. With share = n / d and m above any a that is

            (n a - d v) m + a > 0

        since n a - d v is whole: from 0 on the line is at least a, below it is at most a - m.
        """
        n_edges = self.question.skeleton.n_edges
        if not self.question.abstain:
            line = (-1,), self.needed[min(n_sites, len(self.needed) - 1)]
            return Predicates.replicated(n_edges, [(0, n_sites)], [[line]])
        share, most = self.share(), n_sites + 1
        line_of_two = (-share.denominator * most, share.numerator * most + 1), 0
        return Predicates.replicated(n_edges, [(0, n_sites)] * 2, [[line_of_two]])


class EvidenceVerdicts(Verdicts, frozen=True, tag="evidence-verdicts"):
    """Asks for the decisions of combined tests; their statistics stay closed.

    ``weighted_p`` opens one bit per test, B in all; 1 says independent, as the sum of n (p - alpha)
    is above 0. With ``both`` every marginal test has another bit; 1 says dependent, as the sum is
    below 0. Both are 0 where no site has a test.

    ``fisher``: B bits, beyond: -2 ln p, summed over the k sites that have a test, against the
    critical value of a chi-square of 2 k degrees of freedom; and B more: k is above 0. Critical
    values are concave in k at levels up to a half, and convex at others. In the first case the bit
    says dependent, the sum is above the value; in the second independent, it is not. So either is a
    logical OR of comparisons with the lines through neighbouring critical values.
    """

    discloses = bits(Quantity.DECISION, Quantity.ABLE, Quantity.LENIENT)

    question: CombinedEvidence  # the tests, ``fisher`` or ``weighted_p``
    grid_bits: int  # amounts are on a grid of ``2**-grid_bits``
    largest: int  # largest size of one site's amount, on the grid; a larger one is cut to it
    # of ``fisher`` the largest sums that say independent, of 1, 2, ... sites.
    critical: tuple[int, ...] = ()
    both: bool = False  # of ``weighted_p`` whether tests given nothing are asked both ways

    def __post_init__(self) -> None:
        if self.question.combination not in ("fisher", "weighted_p"):
            raise ValueError("only sums of p-values and of their logarithms are compared")
        if not 0 <= self.grid_bits < SUM_BITS or not 0 < self.largest < 1 << SUM_BITS:
            raise ValueError(f"amounts and their grid have less than {SUM_BITS} bits")
        if self._fisher != bool(self.critical) or (self._fisher and self.both):
            raise ValueError("sums of logarithms have critical values, and others both ends")
        if any(
            not 0 <= value <= self.largest * k for k, value in enumerate(self.critical, start=1)
        ):
            raise ValueError("critical values lie in what so many sites can have")

    @property
    def says_dependent(self) -> bool:
        """Whether a first bit of 1 says dependent; else it says independent."""
        return self._fisher and self._concave

    @property
    def n_verdicts(self) -> int:
        """One bit per test, and one more per test (``fisher``) or marginal test (``both``)."""
        return self._n_tests + (self._n_tests if self._fisher else self._n_both)

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's amounts, shape (B,).

        With ``fisher`` they are followed by whether it could do each test, shape (2 B,).
        """
        parts = segments(self.question.encodings, answer)
        if not self._fisher:
            weighted, rows = parts
            excess = weighted - self.question.test.alpha * rows
            return on_grid(excess, self.grid_bits, self.largest)
        logs, informed, _ = parts
        there = informed > 0
        amounts = on_grid(np.where(there, logs, 0.0), self.grid_bits, self.largest)
        return np.concatenate([amounts, there.astype(np.int64)])

    def predicates(self, n_sites: int) -> Predicates:
        """The decision rules of the class as comparisons of sums over ``n_sites`` sites."""
        count, most = self._n_tests, n_sites * self.largest
        if self._fisher:
            bounds = [(0, most), (0, n_sites)]
            return Predicates.replicated(count, bounds, [self._chain(n_sites), [((0, 1), 0)]])
        each, both = np.arange(count), np.arange(self._n_both)
        linear = [
            np.stack([each, each, np.ones_like(each)], axis=1),
            np.stack([count + both, both, -np.ones_like(both)], axis=1),
        ]
        n_bits = count + len(both)
        return Predicates(
            np.full(count, -most),
            np.full(count, most),
            np.ones(n_bits, dtype=np.int64),
            np.zeros((0, 4), dtype=np.int64),
            np.concatenate(linear),
            np.zeros(n_bits, dtype=np.int64),
        )

    @property
    def _bits(self) -> tuple[Disclosure, ...]:
        able = (Quantity.ABLE,) * (self.n_verdicts > self._n_tests)
        return bits(decision_at(self.question.test.alpha), *able)

    @property
    def _fisher(self) -> bool:
        return self.question.combination == "fisher"

    @property
    def _n_tests(self) -> int:
        return sum(self.question.counts)

    @property
    def _n_both(self) -> int:
        return self.question.counts[0] if self.both and self.question.counts else 0

    @property
    def _concave(self) -> bool:
        """Whether the critical values are concave in the number of sites.

        If they are, "dependent" is an exact OR of linear comparisons, and else "independent" is.
        """
        return len(self.critical) < 3 or (  # noqa: PLR2004
            self.critical[1] - self.critical[0] >= self.critical[-1] - self.critical[-2]
        )

    def _chain(self, n_sites: int) -> list[tuple[tuple[int, int], int]]:
        """Lines over (sum, k) whose logical OR is the bit, for k = 1, ..., n_sites.

        Through (i, t_i) and (j, t_j) goes t_i + (t_j - t_i) (k - i) / (j - i).
        """
        points = list(enumerate(self.critical[:n_sites], start=1))
        # independent up to t: above it by the sum itself, not above it by one more than t
        sign, more = (1, 0) if self.says_dependent else (-1, 1)
        lines = []
        for (i, low), (j, high) in chain(points, sign):
            run, rise = j - i, high - low
            lines.append(((sign * run, -sign * rise), sign * (rise * i - run * low) + more * run))
        return lines


def chain(
    points: Sequence[tuple[int, int]], sign: int
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The ends of the fewest lines that lie on or above all points, or with sign -1 on or below."""
    hull: list[tuple[int, int]] = []
    for x, y in points:
        while len(hull) > 1:
            (a, low), (b, high) = hull[-2:]
            if sign * ((high - low) * (x - a) - (y - low) * (b - a)) > 0:
                break
            hull.pop()
        hull.append((x, y))
    if len(hull) == 1:
        (x, y), *_ = hull
        return [((x, y), (x + 1, y))]
    return list(pairwise(hull))


def on_grid(values: FloatVector, bits: int, largest: int) -> IndexArray:
    """Round values to steps of ``2**-bits``, and clip them at ``largest`` steps either way."""
    steps = np.rint(np.ldexp(values, bits))
    return np.clip(steps, -largest, largest).astype(np.int64)


def finest_grid_that_fits(
    largest: Callable[[int], int], n_sites: int, otherwise: str, *, most: int = SUM_BITS - 1
) -> tuple[int, int]:
    """A site's largest amount on the finest grid whose sums have `SUM_BITS` bits, and the grid.

    ``largest`` says what it is on a grid of ``2**-bits``, of at most ``most`` bits. ParameterError,
    saying ``otherwise``, where no grid is coarse enough.
    """
    for grid_bits in range(most, -1, -1):
        amount = largest(grid_bits)
        if amount * n_sites < 1 << SUM_BITS - 1:
            return amount, grid_bits
    raise ParameterError(otherwise)
