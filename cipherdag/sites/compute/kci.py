"""The kernel test of conditional independence (KCI) on continuous data, in batches.

Zhang et al. compare K_x, the centred kernel matrix of x and Z together, with K_y, that of y, after
both were regressed on Z by kernel ridge regression: R = e (K_Z + e I)^-1, and the statistic is the
sum of the elementwise product of R K_x R and R K_y R. A regressed matrix belongs to a variable and
a conditioning set, so all tests of a batch that share both share it. The two moments that the
gamma approximation needs are sums over the same product: no eigenvalue is computed.

Sources: Zhang, Peters, Janzing and Schoelkopf, UAI 2011 (statistic: Eq. 9 and section 3.3; gamma
approximation: section 3.4); Gretton et al., NIPS 20 (2008) (HSIC, which it is for empty Z).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from cipherdag.algorithms.encodings import FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS
from cipherdag.errors import ParameterError
from cipherdag.sites.compute.cache import (
    N_COLUMNS,
    BoolVector,
    EvidenceCache,
    FloatMatrix,
    TestBatch,
    canonical,
)
from cipherdag.sites.compute.device import resolve_device
from cipherdag.sites.compute.evidence import check_numbers
from cipherdag.sites.compute.fisherz import LEAST_DEVIATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cipherdag.sites.compute.evidence import Evidence, FloatVector, IndexArray

RIDGE = 1e-3
"""e of the kernel ridge regression on Z."""
SHARE_OF_Z = 0.5
"""Z enters the kernel of x and Z multiplied by it."""
MEMORY = {"cpu": 512 * 2**20, "cuda": 8 * 2**30}
CACHE_MEMORY = 64 * 2**20
WIDTHS = {"marginal": (0.8, 0.5, 0.3), "conditional": (1.2, 0.7, 0.4)}
"""Kernel widths in standard deviations for fewer than 200, fewer than 1200, and more rows."""
WIDTH_ROWS = (200, 1200)
PARTS_PER_MATRIX = 4  # a kernel matrix, and what is alive while it is made and multiplied


class KernelTest:
    """KCI over one site's continuous data, with Gaussian kernels.

    Columns are standardised. With one variable the kernel is exp(-d^2 / (2 w^2)), d the distance of
    two rows; with Z of l variables every kernel is exp(-d^2 / (2 l w^2)). Of n rows the width w is
    0.8, 0.5 or 0.3 without Z and 1.2, 0.7 or 0.4 with Z, for n < 200, n < 1200 and more. These and
    e = 0.001 are the authors' own and the defaults of causal-learn, whose p-values (``approx``) it
    has within 0.0001; the difference is that causal-learn drops small eigenvalues. As there, Z
    stands beside the x of smaller position only, so that the order of x and y has no meaning.

    A test takes every row that is complete in its variables; if those are more than ``max_rows``,
    row number floor(i n / max_rows) of these n, for i = 0 to max_rows - 1. A test is not done, so
    that its p-value is NaN and counts as dependent, with fewer than 10 rows, or if x, y or a
    variable of Z is constant in them. Equal tests give equal outcomes up to rounding, whatever
    else is in the batch.

    Args:
        values: Numbers, float64 of shape (n, p); NaN where missing.
        max_rows: Most rows of a test, 10 to 20000; time grows with its cube.
        device: ``auto``, ``cpu`` or ``cuda``.
        memory_bytes: Bounds the kernel matrices of a batch, unless one test needs more; None for
            512 MiB, or 8 GiB on CUDA.

    Raises:
        ParameterError: Values are not a float64 matrix with a row and a column, or another
            parameter is out of its range.
        NotNumericError: A value is infinite.
    """

    def __init__(
        self,
        values: NDArray[np.float64],
        *,
        max_rows: int = 1000,
        device: str = "cpu",
        memory_bytes: int | None = None,
    ) -> None:
        check_numbers(values)
        if not FEWEST_KERNEL_ROWS <= max_rows <= MOST_KERNEL_ROWS:
            raise ParameterError(f"max_rows must lie in {FEWEST_KERNEL_ROWS}..{MOST_KERNEL_ROWS}")
        if memory_bytes is not None and memory_bytes <= 0:
            raise ParameterError("memory_bytes must be positive")
        self._device = resolve_device(device)
        self._memory = memory_bytes or MEMORY[self._device.type]
        self._max_rows = max_rows
        self._values = values
        self._missing: NDArray[np.bool_] = np.isnan(values)
        self._incomplete: BoolVector = np.any(self._missing, axis=0)
        self._cache = EvidenceCache(memory_bytes=CACHE_MEMORY)
        self._whole: tuple[torch.Tensor, NDArray[np.bool_]] | None = None

    @property
    def n_variables(self) -> int:
        """Number of variables, addressed by position 0..n_variables-1."""
        return int(self._values.shape[1])

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> Evidence:
        """Test x[b] against y[b] given the variables given[b], for every b.

        Args:
            x: Positions, shape (B,).
            y: Positions, shape (B,).
            given: Positions, shape (B, l).

        Returns:
            Evidence whose statistic is the sum of products, whose degrees of freedom are twice the
            shape of the gamma distribution, and whose dependence is the statistic per row.

        Raises:
            ParameterError: Shapes or types do not fit, a position is out of range, or a variable
                occurs twice in one test.
        """
        tests = canonical(x, y, given, n_variables=self.n_variables)
        return self._cache.evaluate(tests, self._compute)

    def _compute(self, tests: TestBatch) -> FloatMatrix:
        order = np.column_stack([tests.x, tests.y, tests.given])
        outcomes = np.full((len(order), N_COLUMNS), np.nan)
        outcomes[:, 4] = 0.0
        incomplete = self._incomplete[order].any(axis=1)
        whole = np.flatnonzero(~incomplete)
        if whole.size:
            if self._whole is None:
                everything = np.arange(len(self._values))
                self._whole = self._standardised(np.arange(self.n_variables), everything)
            outcomes[whole] = self._outcomes(*self._whole, order[whole])
        for test in np.flatnonzero(incomplete).tolist():
            complete = np.flatnonzero(~self._missing[:, order[test]].any(axis=1))
            columns, varies = self._standardised(order[test], complete)
            own = np.arange(order.shape[1])[None]
            outcomes[test] = self._outcomes(columns, varies, own)[0]
        return outcomes

    def _standardised(
        self, variables: IndexArray, rows: IndexArray
    ) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """Columns of some variables over at most ``max_rows`` of some rows, and which vary.

        Columns have shape (k, m); incomplete ones have no meaning. With too few rows none varies.
        """
        if len(rows) > self._max_rows:
            rows = rows[np.arange(self._max_rows) * len(rows) // self._max_rows]
        block = np.nan_to_num(self._values[np.ix_(rows, variables)].T)
        if block.shape[1] < FEWEST_KERNEL_ROWS:
            return torch.from_numpy(block), np.zeros(len(block), dtype=bool)
        largest = np.abs(block).max(axis=1, keepdims=True)
        block = block / np.where(largest > 0.0, largest, 1.0)
        block = block - block.mean(axis=1, keepdims=True)
        deviation = block.std(axis=1, ddof=1, keepdims=True)
        varies = deviation > LEAST_DEVIATION
        columns = torch.from_numpy(block / np.where(varies, deviation, 1.0))
        return columns.to(self._device), varies[:, 0]

    def _outcomes(
        self, columns: torch.Tensor, varies: NDArray[np.bool_], order: IndexArray
    ) -> FloatMatrix:
        """Outcomes of tests (x, y, z1, ..., zl) of columns (k, m), shape (B, N_COLUMNS)."""
        n_rows = columns.shape[1]
        outcomes = np.full((len(order), N_COLUMNS), np.nan)
        outcomes[:, 4] = n_rows
        done = np.flatnonzero(varies[order].all(axis=1))
        if done.size:
            matrices = max(self._memory // (8 * PARTS_PER_MATRIX * n_rows**2), 3)
            moments = _marginal if order.shape[1] == 2 else _conditional  # noqa: PLR2004
            statistic, mean, variance = moments(columns, order[done], matrices)
            outcomes[done] = _gamma_outcomes(statistic, mean, variance, n_rows)
        return outcomes


def _gamma_outcomes(
    statistic: FloatVector, mean: FloatVector, variance: FloatVector, n_rows: int
) -> FloatMatrix:
    """Outcomes of tests from the statistic and its moments under independence, shape (B,) each."""
    from scipy.special import gammaincc

    outcomes = np.full((len(statistic), N_COLUMNS), np.nan)
    outcomes[:, 4] = n_rows
    done = (mean > 0.0) & (variance > 0.0)
    statistic, mean, variance = (own[done] for own in (statistic, mean, variance))
    shape, scale = mean**2 / variance, variance / mean
    outcomes[done, 0] = gammaincc(shape, np.maximum(statistic, 0.0) / scale)
    outcomes[done, 1] = statistic
    outcomes[done, 2] = 2.0 * shape
    outcomes[done, 3] = statistic / n_rows
    return outcomes


def _marginal(
    columns: torch.Tensor, order: IndexArray, matrices: int
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Statistic, mean and variance of tests without Z, of which as many matrices fit."""
    n_rows = columns.shape[1]
    scale = _inverse_square_width("marginal", n_rows)
    moments = np.empty((3, len(order)))
    for tile in _tiles(order, matrices // 2):
        (x, at_x), (y, at_y) = (np.unique(own, return_inverse=True) for own in order[tile].T)
        first, second = (
            _centred(_kernel(_squares(columns, own[:, None]), scale)).flatten(1) for own in (x, y)
        )
        traces = [own[:, :: n_rows + 1].sum(1) for own in (first, second)]
        products = (
            first @ second.T,
            torch.outer(*traces) / n_rows,
            2.0 * torch.outer(first.square().sum(1), second.square().sum(1)) / n_rows**2,
        )
        moments[:, tile] = torch.stack(products).cpu().numpy()[:, at_x, at_y]
    return moments[0], moments[1], moments[2]


def _conditional(
    columns: torch.Tensor, order: IndexArray, matrices: int
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Statistic, mean and variance of tests given Z, of which as many matrices fit."""
    moments = np.empty((3, len(order)))
    for part in _parts(order, matrices):
        own = order[part]
        sets, of_set = np.unique(own[:, 2:], axis=0, return_inverse=True)
        (x, at_x), (y, at_y) = (
            np.unique(np.column_stack([own[:, side], of_set.ravel()]), axis=0, return_inverse=True)
            for side in (0, 1)
        )
        first, second = _regressed(columns, sets, x, y)
        at = (torch.from_numpy(place.ravel()).to(columns.device) for place in (at_x, at_y))
        found = [
            _moments(first[i], second[j])
            for i, j in zip(
                *(torch.split(place, max(matrices // 3, 1)) for place in at), strict=True
            )
        ]
        moments[:, part] = torch.cat(found, dim=1).cpu().numpy()
    return moments[0], moments[1], moments[2]


def _regressed(
    columns: torch.Tensor, sets: IndexArray, x: IndexArray, y: IndexArray
) -> tuple[torch.Tensor, torch.Tensor]:
    """The regressed matrices of all (variable, set) of the x side and of the y side.

    Args:
        columns: Shape (p, m).
        sets: Conditioning sets, shape (G, l).
        x: Rows (variable, number of its set), shape (X, 2).
        y: The same for the other side, shape (Y, 2).

    Returns:
        Shapes (X, m, m) and (Y, m, m).
    """
    n_rows = columns.shape[1]
    scale = _inverse_square_width("conditional", n_rows) / sets.shape[1]
    distances = _squares(columns, sets)
    ridge = RIDGE * torch.eye(n_rows, dtype=columns.dtype, device=columns.device)
    factor = torch.linalg.cholesky(_centred(_kernel(distances.clone(), scale)) + ridge)
    residual = RIDGE * torch.cholesky_inverse(factor)
    del factor
    sides = []
    for rows, share in ((x, SHARE_OF_Z**2), (y, 0.0)):
        of_set = torch.from_numpy(rows[:, 1]).to(columns.device)
        squares = _squares(columns, rows[:, :1])
        if share:
            squares += share * distances[of_set]
        own = residual[of_set]
        sides.append(own @ _centred(_kernel(squares, scale)) @ own)
    return sides[0], sides[1]


def _moments(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Statistic, mean and variance of B pairs of matrices, shape (3, B)."""
    product = first * second
    trace = product.diagonal(dim1=1, dim2=2).sum(1)
    return torch.stack([product.sum((1, 2)), trace, 2.0 * product.square().sum((1, 2))])


def _squares(columns: torch.Tensor, variables: IndexArray) -> torch.Tensor:
    """Squared distances of all rows in some variables, (G, l) of them, shape (G, m, m)."""
    places = torch.from_numpy(variables).to(columns.device)
    total: torch.Tensor | None = None
    for place in places.unbind(dim=1):
        own = columns[place]
        square = (own[:, :, None] - own[:, None, :]).square_()
        total = square if total is None else total.add_(square)
    assert total is not None, "there is at least one variable"
    return total


def _kernel(squares: torch.Tensor, scale: float) -> torch.Tensor:
    """Gaussian kernels from squared distances, in their place."""
    return squares.mul_(-0.5 * scale).exp_()


def _centred(kernel: torch.Tensor) -> torch.Tensor:
    """Symmetric matrices (G, m, m) with the means of rows and columns taken off, in their place."""
    mean = kernel.mean(dim=2)
    kernel -= mean[:, None, :]
    kernel -= mean[:, :, None]
    kernel += mean.mean(dim=1)[:, None, None]
    return kernel


def _inverse_square_width(kind: str, n_rows: int) -> float:
    return float(WIDTHS[kind][int(np.searchsorted(WIDTH_ROWS, n_rows, side="right"))] ** -2)


def _tiles(order: IndexArray, side: int) -> Iterator[IndexArray]:
    """Tests grouped by blocks of so many x and so many y."""
    blocks = order[:, :2] // max(side, 1)
    _, tile = np.unique(blocks, axis=0, return_inverse=True)
    tile = tile.ravel()
    for number in range(int(tile.max()) + 1):
        yield np.flatnonzero(tile == number)


def _parts(order: IndexArray, matrices: int) -> Iterator[IndexArray]:
    """Tests in parts that need no more matrices than this; one test needs three.

    Tests with the same conditioning set stand together, and of those the ones with the same x and
    y, in blocks, so that few matrices are made twice.
    """
    side = max(matrices // 3, 1)
    blocks = [order[:, 1], order[:, 0], order[:, 1] // side, order[:, 0] // side]
    waiting: list[int] = []
    made: set[tuple[int, ...]] = set()
    for test in np.lexsort([*blocks, *order[:, 2:].T]).tolist():
        x, y, *members = order[test].tolist()
        needed = {tuple(members), (0, x, *members), (1, y, *members)}
        if waiting and len(made | needed) > matrices:
            yield np.array(waiting)
            waiting, made = [], set()
        waiting.append(test)
        made |= needed
    if waiting:
        yield np.array(waiting)
