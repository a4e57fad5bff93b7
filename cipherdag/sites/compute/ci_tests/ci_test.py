"""What a batch of conditional-independence tests yields, and what every test looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import NotNumericError, ParameterError


@dataclass(frozen=True, slots=True)
class Evidence:
    """Outcome of a batch of B tests, every array of shape (B,).

    Attributes:
        p_value: In [0, 1]; NaN where the test could not be done, which counts as dependent.
        statistic: G2, Pearson chi-square or Fisher's z; NaN where not done.
        dof: Degrees of freedom; NaN for Fisher's z and where not done.
        dependence: Strength of the dependence: G2 (or chi-square), or the absolute partial
            correlation; NaN where not done.
        rows: Rows used, after test-wise deletion of missing values; never leaves a site.
    """

    p_value: FloatVector
    statistic: FloatVector
    dof: FloatVector
    dependence: FloatVector
    rows: IndexArray


def check_numbers(values: NDArray[np.float64]) -> None:
    """Refuse what no test of numbers takes.

    Args:
        values: Numbers, shape (n, p); NaN where missing.

    Raises:
        ParameterError: Not a float64 matrix with a row and a column.
        NotNumericError: A value is infinite.
    """
    if values.ndim != 2 or 0 in values.shape or values.dtype != np.float64:  # noqa: PLR2004
        raise ParameterError("values must be a float64 matrix with at least one row and column")
    if np.isinf(values).any():
        raise NotNumericError("a value is infinite")


class CITest(Protocol):
    """A conditional-independence test over one site's data; results are cached by the test."""

    @property
    def n_variables(self) -> int:
        """Number of variables, addressed by position 0..n_variables-1."""

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> Evidence:
        """Test x[b] against y[b] given the variables given[b], for every b.

        Args:
            x: Positions, shape (B,).
            y: Positions, shape (B,), x[b] != y[b].
            given: Positions, shape (B, l): one conditioning size l per call; l may be 0. No
                repeats and neither x[b] nor y[b] within a row. Order does not matter.
        """
