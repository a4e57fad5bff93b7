"""The test with the largest p-value of every pair, and the tests that were skipped."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.edge_evidence import FOLLOWS, EffectSize, TestsOfEdge
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.presence import Measured
from cipherdag.statistics.outcome_cache import Keys, keys_of_tests

Pair = tuple[int, int]

MARGINAL_COLUMNS = 2  # of a test given nothing: its two variables
NOT_TOGETHER = "no site measured both"
TOO_FEW_SITES = "too few sites have rows that tell"
TOO_FEW_ROWS = "rows are too few, or do not vary"


@dataclass(frozen=True, slots=True)
class MaxPValueTest:
    """The test in which an edge had its largest p-value: p, conditioning set and effect."""

    p_value: float
    given: tuple[int, ...]
    effect: EffectSize | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TestedPairs:
    """Pairs x < z, ascending; iteration yields each with its set and p-value.

    The arrays have shape (K,); ``sets`` has the conditioning sets that are not empty.
    """

    __test__ = False  # pytest takes every class named Test... for a test case

    x: IndexArray
    z: IndexArray
    p_values: FloatVector
    sets: dict[Pair, tuple[int, ...]]

    def __iter__(self) -> Iterator[tuple[Pair, tuple[int, ...], float]]:
        pairs = list(zip(self.x.tolist(), self.z.tolist(), strict=True))
        sets = map(self.sets.get, pairs, repeat(()))
        return zip(pairs, sets, self.p_values.tolist(), strict=True)


class MaxPValueTests:
    """The test of largest p-value of each pair (x, z), x < z, and its set; the first wins a tie.

    For a separated pair it is the test that separated it. A pair whose edge stayed was dependent
    in every test; its largest p-value says how narrowly (pMax of the R package pcalg).
    """

    def __init__(self, n_variables: int) -> None:
        # upper triangle: the entry of (x, z) is at x * (2 * p - x - 1) / 2 + z - x - 1
        self._n_variables = n_variables
        self._p_values = np.full(n_variables * (n_variables - 1) // 2, -np.inf)
        self._sets: dict[Pair, tuple[int, ...]] = {}

    def on_result(self, rows: IndexArray, p_values: FloatVector) -> None:
        """Take tests, shape (B, 2 + l), and their p-values; NaN is left out."""
        tests = np.flatnonzero(~np.isnan(p_values))
        pair = self._indices(*np.sort(rows[tests, :2], axis=1).T)
        if (pair[1:] <= pair[:-1]).any():  # some pair may have several tests
            # by pair, then p-value; of equal ones the first test comes last
            order = np.lexsort((-tests, p_values[tests], pair))
            largest = order[np.append(np.diff(pair[order]) > 0, True)]
            tests, pair = tests[largest], pair[largest]
        better = p_values[tests] > self._p_values[pair]
        tests, pair = tests[better], pair[better]
        self._p_values[pair] = p_values[tests]
        if rows.shape[1] > MARGINAL_COLUMNS or self._sets:
            pairs = ((min(x, z), max(x, z)) for x, z in rows[tests, :2].tolist())
            sets = map(tuple, np.sort(rows[tests, 2:]).tolist())
            self._sets.update(zip(pairs, sets, strict=True))

    def of(self, pairs: BoolMatrix) -> TestedPairs:
        """The tested ones of the pairs that are True in a matrix of shape (p, p)."""
        x, z = np.nonzero(np.triu(pairs, k=1))
        p_values = self._p_values[self._indices(x, z)]
        tested = p_values > -np.inf
        return TestedPairs(x[tested], z[tested], p_values[tested], dict(self._sets))

    def summed(self) -> FloatVector:
        """For every variable the exact sum of its pairs' p-values, shape (p,)."""
        sums = np.zeros(self._n_variables)
        variables = np.arange(self._n_variables)
        for v in variables.tolist():
            before, itself, after = np.split(variables, [v, v + 1])
            indices = [self._indices(before, itself), self._indices(itself, after)]
            p_values = self._p_values[np.concatenate(indices)]
            sums[v] = math.fsum(p_values[p_values > -np.inf].tolist())
        return sums

    def _indices(self, x: IndexArray, z: IndexArray) -> IndexArray:
        return x * (2 * self._n_variables - x - 1) // 2 + z - x - 1


@dataclass(slots=True)
class DecisiveTests:
    """Counts the distinct tests of every pair, and those that were skipped.

    Every test of an edge is decisive: had it said independent, the edge would be gone. A skipped
    test counts as dependent, so an edge may stand only because one of its tests was skipped.
    """

    n_variables: int
    _asked: dict[int, list[tuple[IndexArray, Keys]]] = field(default_factory=dict)
    _skipped: dict[Pair, dict[tuple[int, ...], None]] = field(default_factory=dict)

    def on_result(self, rows: IndexArray, p_values: FloatVector) -> None:
        """Take tests, shape (B, 2 + l), and their p-values; NaN where one was skipped.

        Marginal tests are noted only where skipped, since every pair has one.
        """
        if rows.shape[1] > MARGINAL_COLUMNS:
            keys, first = np.unique(keys_of_tests(rows), return_index=True)
            low, high = np.sort(rows[first, :2], axis=1).T
            codes = low * self.n_variables + high
            self._asked.setdefault(rows.shape[1], []).append((codes, keys))
        for x, z, *given in rows[np.isnan(p_values)].tolist():
            sets = self._skipped.setdefault((min(x, z), max(x, z)), {})
            sets[tuple(sorted(given))] = None

    def of(
        self,
        skeleton: BoolMatrix,
        required: BoolMatrix,
        source: FederatedCITest,
        measured: Measured,
        determined: Determined = NOTHING,
    ) -> dict[Pair, TestsOfEdge[int]]:
        """The tests of every skeleton edge x < z that knowledge does not require, shapes (p, p).

        A test whose variables no site measured together is not counted. A pair that no site
        measured together counts as one test, which was skipped.
        """
        edges = np.argwhere(np.triu(skeleton & ~required))
        asked = self._counted(edges @ np.array([self.n_variables, 1]))
        tests = {}
        for (x, z), count in zip(edges.tolist(), asked.tolist(), strict=True):
            skipped = self._skipped.get((x, z), {})
            possible = [given for given in skipped if measured.has([x, z, *given])]
            n_tests = count - len(skipped) + len(possible)
            given = min(possible, key=len, default=())
            why = _why((x, z, *given), source, determined) if possible else ""
            if not measured.has([x, z]):
                n_tests, possible, why = 1, [()], NOT_TOGETHER
            tests[x, z] = TestsOfEdge(n_tests, len(possible), given, why)
        return tests

    def _counted(self, pairs: IndexArray) -> IndexArray:
        """How many distinct tests each of E pairs had, shape (E,); coded x * p + z, ascending."""
        counts = np.ones(len(pairs), dtype=np.int64)  # the marginal test
        for of_size in self._asked.values() if len(pairs) else ():
            codes, keys = (np.concatenate(part) for part in zip(*of_size, strict=True))
            index = np.minimum(np.searchsorted(pairs, codes), len(pairs) - 1)
            wanted = pairs[index] == codes
            distinct = np.unique(keys[wanted], return_index=True)[1]
            counts += np.bincount(index[wanted][distinct], minlength=len(pairs))
        return counts


def _why(test: Sequence[int], source: FederatedCITest, determined: Determined) -> str:
    """Why a test was skipped, in words."""
    if determined.undone(np.array([test], dtype=np.int64)).any():
        return FOLLOWS
    x, y, *given = test
    triplets = np.array([(x, y, s) for s in given], dtype=np.int64).reshape(-1, 3)
    return TOO_FEW_SITES if source.skipped_tests(triplets).any() else TOO_FEW_ROWS
