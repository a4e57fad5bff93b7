"""A site's test that is asked only what its rows can tell: not given what determines x or y.

The sites' half of the rule that `cipherdag.algorithms.evidence.source.WherePossible` has: of votes
and of p-values of a site's own.

Leaks:
    Nothing: the schema that all sites share says which tests these are.
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.graphs.relations import Determined
from cipherdag.sites.compute.ci_tests.ci_test import CITest, Evidence


class PossibleTest:
    """The test, but for what is not to be done.

    Args:
        test: Does the others.
        determined: Which variables follow from others.
    """

    def __init__(self, test: CITest, determined: Determined) -> None:
        self._test = test
        self._determined = determined

    @property
    def n_variables(self) -> int:
        """See `CITest.n_variables`."""
        return self._test.n_variables

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> Evidence:
        """See `CITest.evaluate`; NaN, and no row, where S determines x or y."""
        undone = self._determined.undone(np.column_stack([x, y, given]))
        if not undone.any():
            return self._test.evaluate(x, y, given)
        found = self._test.evaluate(x[~undone], y[~undone], given[~undone])

        def spread(values: FloatVector | float, absent: float = np.nan) -> FloatVector:
            whole = np.full(len(x), absent)
            whole[~undone] = values
            return whole

        rows = np.zeros(len(x), dtype=np.int64)
        rows[~undone] = found.rows
        return Evidence(
            spread(found.p_value),
            spread(found.statistic),
            spread(found.dof),
            spread(found.dependence),
            rows,
        )
