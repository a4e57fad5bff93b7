"""The kernel test of conditional independence (KCI) tests continuous variables in batches.

Zhang et al. compare K_x, the centred kernel matrix of x and Z together, with K_y, that of y, after
both were regressed on Z by kernel ridge regression: R = e (K_Z + e I)^-1, and the statistic is the
sum of the elementwise product of R K_x R and R K_y R. The two moments that the gamma approximation
needs are sums over the same product: no eigenvalue is computed. On a CPU the matrices come from
low-rank factors (`kernel_factors`), on CUDA full matrices are multiplied (`kernel_matrices`).

Sources: Zhang, Peters, Janzing and Schoelkopf, UAI 2011 (statistic: Eq. 9 and section 3.3; gamma
approximation: section 3.4); Gretton et al., NIPS 20 (2008) (HSIC, which it is for empty Z).
"""

import logging
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatMatrix, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.questions.ci_tests import FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS, CITestSpec
from cipherdag.sites.compute.ci_tests.ci_test import (
    N_COLUMNS,
    CachedCITest,
    ColumnData,
    TestBatch,
    check_numbers,
    computes,
    not_done,
)
from cipherdag.sites.compute.ci_tests.fisherz import LEAST_DEVIATION
from cipherdag.sites.compute.ci_tests.kernel_factors import FactoredKernels, KernelMoments
from cipherdag.sites.compute.device import PROCESSOR, batch_bytes, resolve_device

MEMORY = 512 * 2**20  # bytes of a batch on a processor
CACHE_MEMORY = 64 * 2**20

log = logging.getLogger("cipherdag.site")


@computes("kci")
class KernelTest(CachedCITest):
    """KCI tests conditional independence over one site's continuous data by Gaussian kernels.

    Columns are standardised. With one variable the kernel is exp(-d^2 / (2 w^2)), d the distance of
    two rows; with Z of l variables every kernel is exp(-d^2 / (2 l w^2)). Of n rows the width w is
    0.8, 0.5 or 0.3 without Z and 1.2, 0.7 or 0.4 with Z, for n < 200, n < 1200 and more. These and
    e = 0.001 are the authors' and the defaults of causal-learn, whose p-values (``approx``) it
    reproduces within 0.0001; the difference is that causal-learn drops small eigenvalues. As there,
    Z joins the kernel of the x of smaller position only, so that the order of x and y is ignored.

    A test takes every row that is complete in its variables; if those are more than ``max_rows``,
    10 to 20000, row number floor(i n / max_rows) of these n, for i = 0 to max_rows - 1. A test is
    not done, so that its p-value is NaN and counts as dependent, with fewer than 10 rows, or if x,
    y or a variable of Z is constant in them. Equal tests give equal outcomes up to rounding,
    whatever else is in the batch. The degrees of freedom of its evidence are twice the shape of the
    gamma distribution, the dependence is the statistic per row.

    Values have shape (n, p), NaN where missing. Time grows with the square to the cube of rows.
    Memory, 512 MiB or a part of a card's free one, bounds a batch unless one test needs more. Full
    matrices on a CPU agree within 1e-6, several times slower. Raises as `check_numbers`.
    """

    def __init__(
        self,
        values: NDArray[np.float64],
        *,
        max_rows: int = 1000,
        device: str = "cpu",
        memory_bytes: int | None = None,
        full_matrices: bool = False,
    ) -> None:
        check_numbers(values)
        if not FEWEST_KERNEL_ROWS <= max_rows <= MOST_KERNEL_ROWS:
            raise ParameterError(f"max_rows must lie in {FEWEST_KERNEL_ROWS}..{MOST_KERNEL_ROWS}")
        if memory_bytes is not None and memory_bytes <= 0:
            raise ParameterError("memory_bytes must be positive")
        super().__init__(values.shape[1], cache_bytes=CACHE_MEMORY)
        self._device = resolve_device(device)
        on_processor = self._device == PROCESSOR
        self._memory = memory_bytes or (MEMORY if on_processor else batch_bytes(self._device))
        self._factored = self._device == PROCESSOR and not full_matrices
        self._max_rows = max_rows
        self._values = values
        self._missing: NDArray[np.bool_] = np.isnan(values)
        self._incomplete: BoolVector = np.any(self._missing, axis=0)
        self._whole: tuple[KernelMoments, BoolVector, int] | None = None

    @classmethod
    def of_table(cls, table: ColumnData, spec: CITestSpec, name: str, device: str) -> Self:
        del name
        if table.rows > spec.kernel_rows:
            log.info("kernel tests look at %d rows, evenly spaced, of more", spec.kernel_rows)
        return cls(table.numbers(), max_rows=spec.kernel_rows, device=device)

    def _compute(self, tests: TestBatch) -> FloatMatrix:
        order = np.column_stack([tests.x, tests.y, tests.given])
        outcomes = np.empty((len(order), N_COLUMNS))
        incomplete = self._incomplete[order].any(axis=1)
        whole = np.flatnonzero(~incomplete)
        if whole.size:
            if self._whole is None:
                everything = np.arange(len(self._values))
                self._whole = self._kernels(np.arange(self.n_variables), everything)
            outcomes[whole] = _outcomes(*self._whole, order[whole])
        for test in np.flatnonzero(incomplete).tolist():
            complete = np.flatnonzero(~self._missing[:, order[test]].any(axis=1))
            every_column = np.arange(order.shape[1])[None]
            outcomes[test] = _outcomes(*self._kernels(order[test], complete), every_column)[0]
        return outcomes

    def _kernels(
        self, variables: IndexArray, rows: IndexArray
    ) -> tuple[KernelMoments, BoolVector, int]:
        """Makes the kernels of some variables over at most ``max_rows`` of some rows."""
        columns, varies = self._standardised(variables, rows)
        kernels: KernelMoments
        if self._factored:
            kernels = FactoredKernels(columns, memory_bytes=self._memory)
        else:
            import torch

            from cipherdag.sites.compute.ci_tests.kernel_matrices import FullKernels

            tensor = torch.from_numpy(columns).to(self._device)
            kernels = FullKernels(tensor, memory_bytes=self._memory)
        return kernels, varies, columns.shape[1]

    def _standardised(
        self, variables: IndexArray, rows: IndexArray
    ) -> tuple[FloatMatrix, BoolVector]:
        """Standardises columns, (k, m), and tells which vary; incomplete ones are arbitrary."""
        if len(rows) > self._max_rows:
            rows = rows[np.arange(self._max_rows) * len(rows) // self._max_rows]
        block = np.nan_to_num(self._values[np.ix_(rows, variables)].T)
        if block.shape[1] < FEWEST_KERNEL_ROWS:
            return block, np.zeros(len(block), dtype=bool)
        largest = np.abs(block).max(axis=1, keepdims=True)
        block = block / np.where(largest > 0.0, largest, 1.0)
        block = block - block.mean(axis=1, keepdims=True)
        deviation = block.std(axis=1, ddof=1, keepdims=True)
        varies = deviation > LEAST_DEVIATION
        return block / np.where(varies, deviation, 1.0), varies[:, 0]


def _outcomes(
    kernels: KernelMoments, varies: BoolVector, n_rows: int, order: IndexArray
) -> FloatMatrix:
    """Computes outcomes of tests (x, y, z1, ..., zl) over ``n_rows``, shape (B, N_COLUMNS)."""
    outcomes = not_done(np.full(len(order), n_rows))
    done = np.flatnonzero(varies[order].all(axis=1))
    if done.size:
        outcomes[done] = _gamma_outcomes(kernels.moments(order[done]), n_rows)
    return outcomes


def _gamma_outcomes(moments: FloatMatrix, n_rows: int) -> FloatMatrix:
    """Computes p-values by the gamma approximation from statistics and null moments, (3, B)."""
    from scipy.special import gammaincc

    outcomes = not_done(np.full(moments.shape[1], n_rows))
    done = (moments[1:] > 0.0).all(axis=0)
    statistic, mean, variance = moments[:, done]
    shape, scale = mean**2 / variance, variance / mean
    outcomes[done, 0] = gammaincc(shape, np.maximum(statistic, 0.0) / scale)
    outcomes[done, 1] = statistic
    outcomes[done, 2] = 2.0 * shape
    outcomes[done, 3] = statistic / n_rows
    return outcomes
