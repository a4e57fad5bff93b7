"""Low-rank factors of kernel matrices give the moments of kernel tests on a CPU.

A kernel matrix of n rows in few variables has, up to rounding, a rank r far below n: it is L L^T
with L from a pivoted Cholesky decomposition, of shape (n, r). With the columns of L_z centred
and C C^T = L_z^T L_z + e I, the matrix Q of the columns of L_z C^-T and of 1 / sqrt(n) regresses
and centres at once: R H = I - Q Q^T, with R = e (K_Z + e I)^-1 and the centring H. Then

    R H K H R = K - U Q^T - Q U^T,  U = K Q - Q (Q^T K Q) / 2,

4 n r (n + r) operations instead of 4 n^3. Where r > n / 2, R H itself is multiplied. Without Z the
statistic is the squared Frobenius norm of L_x^T L_y. Given Z, the matrices of a set are computed
once for each x and each y, and the sums over the elementwise products of all pairs are one product.

Sources: Zhang, Peters, Janzing and Schoelkopf, UAI 2011, and the authors' program; Fine and
Scheinberg, JMLR 2 (2001) (kernel matrices by pivoted Cholesky decomposition).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray

RIDGE = 1e-3  # ridge penalty (epsilon in the paper) of the kernel ridge regression on Z
SCALE_OF_Z = 0.5  # factor by which Z is scaled in the kernel of x and Z together
WIDTHS = {"marginal": (0.8, 0.5, 0.3), "conditional": (1.2, 0.7, 0.4)}
"""Bandwidths in standard deviations for fewer than 200, fewer than 1200, and more rows."""
WIDTH_ROWS = (200, 1200)
TOLERANCE_OF_Z = 1e-11  # tolerance of the Cholesky decomposition of K_Z, whose diagonal is 1
WORTHWHILE = 0.5  # largest r / n for which the low-rank regression is used
STRIPS = 4  # of rows, in which the upper triangle of a product is computed
TOLERANCE = 1e-13
"""Tolerance of the Cholesky decomposition of one variable's kernel matrix, of diagonal 1."""
CACHE_MEMORY = 32 * 2**20
CACHE_FRACTION = 0.25
"""Most bytes, and largest fraction of the memory, for factors and regressions of later batches."""
WORKING_MATRICES = 4  # temporary ones of a computation given Z
MOST_OF_A_SIDE = 64  # positions of x, and of y, whose matrices are held together, given Z
FACTORS_OF_TILE = 16  # positions of x, and of y, whose factors are held together, without Z


class KernelMoments(Protocol):
    """Interface: computes test statistics and their null moments from one table's kernel matrices.

    Without Z, sum(K_x * K_y) has mean tr(K_x) tr(K_y) / n and variance 2 |K_x|^2 |K_y|^2 / n^2, of
    centred kernel matrices. Given Z, with P the elementwise product of R K_x R and R K_y R, sum(P)
    has mean tr(P) and variance 2 |P|^2. Norms are Frobenius norms (Zhang et al., section 3.4).
    """

    def moments(self, order: IndexArray) -> FloatMatrix:
        """Computes statistics, null means and variances of tests (x, y, z1, ...), shape (3, B)."""


def inverse_square_width(kind: Literal["marginal", "conditional"], n_rows: int) -> float:
    """Returns 1 / w^2, with w the kernel bandwidth for ``n_rows`` rows."""
    return float(WIDTHS[kind][int(np.searchsorted(WIDTH_ROWS, n_rows, side="right"))] ** -2)


def tiles(pairs: IndexArray, side: int) -> Iterator[IndexArray]:
    """Yields the indices of the pairs (x, y) in each tile of ``side`` by ``side`` positions."""
    _, tile = np.unique(pairs // max(side, 1), axis=0, return_inverse=True)
    tile = tile.ravel()
    for number in range(int(tile.max()) + 1):
        yield np.flatnonzero(tile == number)


@dataclass(frozen=True, slots=True)
class FactoredRegression:
    """A low-rank regression computes residuals by I - Q Q^T, with Q of shape (n, r + 1)."""

    explained: FloatMatrix

    @property
    def nbytes(self) -> int:
        """The number of bytes of its matrix."""
        return self.explained.nbytes

    def regress(self, kernel: FloatMatrix) -> None:
        """Replaces the upper triangle of a kernel matrix K by that of R H K H R."""
        from scipy.linalg.blas import dsyr2k

        left = kernel @ self.explained
        left -= self.explained @ (0.5 * (self.explained.T @ left))
        transposed = self.explained.T
        dsyr2k(-1.0, left.T, transposed, 1.0, kernel.T, trans=1, lower=1, overwrite_c=1)

    def residual_of(self, factor: FloatMatrix) -> FloatMatrix:
        """Computes R H F of a factor F, (n, r), of K: the residual R H K H R is its Gram matrix."""
        return factor - self.explained @ (self.explained.T @ factor)


@dataclass(frozen=True, slots=True)
class FullRegression:
    """A full-rank regression computes residuals by the matrix R H, symmetric, shape (n, n)."""

    residual: FloatMatrix

    @property
    def nbytes(self) -> int:
        """The number of bytes of its matrix."""
        return self.residual.nbytes

    def regress(self, kernel: FloatMatrix) -> None:
        """Replaces the upper triangle of a kernel matrix K by that of R H K H R."""
        n_rows = len(kernel)
        half = kernel @ self.residual
        for start, stop in pairwise(n_rows * strip // STRIPS for strip in range(STRIPS + 1)):
            kernel[start:stop, start:] = self.residual[start:stop] @ half[:, start:]

    def residual_of(self, factor: FloatMatrix) -> FloatMatrix:
        """Computes R H F of a factor F, (n, r), of K: the residual R H K H R is its Gram matrix."""
        return self.residual @ factor


KernelRegression = FactoredRegression | FullRegression
"""A kernel ridge regression on Z, with a low-rank or a full kernel matrix."""


def regression_on(exponent: FloatMatrix) -> KernelRegression:
    """Makes the regression on Z, whose kernel matrix is exp(exponent), shape (n, n)."""
    n_rows = len(exponent)
    factor = centred_factor(np.exp(exponent), TOLERANCE_OF_Z)
    if factor.shape[1] <= WORTHWHILE * n_rows:
        return FactoredRegression(_explained(factor))
    return FullRegression(_residual(np.exp(exponent)))


def centred_factor(kernel: FloatMatrix, tolerance: float) -> FloatMatrix:
    """Decomposes a kernel matrix, diagonal 1, into L L^T with L centred, overwriting it."""
    from scipy.linalg.lapack import dpstrf

    packed, pivots, rank, _ = dpstrf(kernel.T, tol=tolerance, lower=1, overwrite_a=1)
    factor = np.empty((len(kernel), rank))
    factor[pivots - 1] = np.tril(packed[:, :rank])
    factor -= factor.mean(axis=0)
    return factor


def _explained(factor: FloatMatrix) -> FloatMatrix:
    """Computes Q, shape (n, r + 1), from the centred factor of K_Z, shape (n, r)."""
    from scipy.linalg import cholesky
    from scipy.linalg.blas import dtrsm

    n_rows, rank = factor.shape
    inner = factor.T @ factor
    inner[np.diag_indices(rank)] += RIDGE
    explained = np.empty((n_rows, rank + 1))
    explained[:, :rank] = dtrsm(1.0, cholesky(inner, lower=True), factor.T, lower=1).T
    explained[:, rank] = n_rows**-0.5
    return explained


def _residual(kernel: FloatMatrix) -> FloatMatrix:
    """Computes R H = e (H K_Z H + e I)^-1 - 1 1^T / n from K_Z, overwriting it."""
    from scipy.linalg import cholesky
    from scipy.linalg.lapack import dpotri

    mean = kernel.mean(axis=0)
    kernel -= mean
    kernel -= mean[:, None] - mean.mean()
    kernel[np.diag_indices(len(kernel))] += RIDGE
    inverse, _ = dpotri(cholesky(kernel.T, lower=True, overwrite_a=True), lower=1, overwrite_c=1)
    residual: FloatMatrix = np.tril(inverse)
    residual += np.tril(inverse, -1).T
    residual *= RIDGE
    residual -= 1.0 / len(residual)
    return residual


class FactoredKernels:
    """Computes kernel statistics over standardised columns of one table from low-rank factors."""

    def __init__(self, columns: FloatMatrix, *, memory_bytes: int) -> None:
        self._columns = columns
        self._n_rows = columns.shape[1]
        cache_bytes = min(int(memory_bytes * CACHE_FRACTION), CACHE_MEMORY)
        self._factors: Recent[tuple[int, float], FloatMatrix] = Recent(cache_bytes // 2)
        self._regressions: Recent[tuple[int, ...], KernelRegression] = Recent(cache_bytes // 2)
        matrices = (memory_bytes - cache_bytes) // (8 * max(self._n_rows, 1) ** 2)
        self._side = min((matrices - WORKING_MATRICES) // 2, MOST_OF_A_SIDE)

    def moments(self, order: IndexArray) -> FloatMatrix:
        moments = np.empty((3, len(order)))
        sets, of_set = np.unique(order[:, 2:], axis=0, return_inverse=True)
        by_set = np.argsort(of_set.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(of_set.ravel()))[:-1]
        for members, tests in zip(sets, np.split(by_set, ends), strict=True):
            pairs = order[tests, :2]
            moments[:, tests] = (
                self._conditional(pairs, members) if members.size else self._marginal(pairs)
            )
        return moments

    def _marginal(self, pairs: IndexArray) -> FloatMatrix:
        """Computes the moments of pairs (x, y) without Z, shape (3, B)."""
        scale = inverse_square_width("marginal", self._n_rows)
        moments = np.empty((3, len(pairs)))
        for tile in tiles(pairs, FACTORS_OF_TILE):
            factors = {v: self._factor(v, scale) for v in np.unique(pairs[tile]).tolist()}
            inner = {v: factor.T @ factor for v, factor in factors.items()}
            trace = {v: np.trace(product) for v, product in inner.items()}
            squares = {v: np.vdot(product, product) for v, product in inner.items()}
            for test in tile.tolist():
                x, y = pairs[test].tolist()
                product = factors[x].T @ factors[y]
                moments[:, test] = (
                    np.vdot(product, product),
                    trace[x] * trace[y] / self._n_rows,
                    2.0 * squares[x] * squares[y] / self._n_rows**2,
                )
        return moments

    def _conditional(self, pairs: IndexArray, members: IndexArray) -> FloatMatrix:
        """Computes the moments of pairs (x, y) given one conditioning set, shape (3, B)."""
        from scipy.linalg.blas import dsyrk

        n_rows = self._n_rows
        scale = inverse_square_width("conditional", n_rows) / len(members)
        squares = np.zeros((n_rows, n_rows))
        for column in self._columns[members]:
            squares += _squares(column, scale)
        regression = self._regressions.get(tuple(members.tolist()), lambda: regression_on(-squares))
        squares_of_z = -(SCALE_OF_Z**2) * squares
        moments = np.empty((3, len(pairs)))
        for tile in tiles(pairs, self._side):
            (x, at_x), (y, at_y) = (np.unique(side, return_inverse=True) for side in pairs[tile].T)
            first, second = np.empty((len(x), n_rows, n_rows)), np.zeros((len(y), n_rows, n_rows))
            for variable, matrix in zip(x, first, strict=True):
                np.subtract(squares_of_z, _squares(self._columns[variable], scale), out=matrix)
                regression.regress(np.exp(matrix, out=matrix))
            for variable, matrix in zip(y.tolist(), second, strict=True):
                left = regression.residual_of(self._factor(variable, scale))
                dsyrk(1.0, left.T, c=matrix.T, trans=1, lower=1, overwrite_c=1)
            moments[:, tile] = _pairwise(first, second)[:, at_x, at_y]
        return moments

    def _factor(self, variable: int, scale: float) -> FloatMatrix:
        """Returns the centred factor of one variable's kernel matrix, shape (n, r)."""
        column = self._columns[variable]
        return self._factors.get(
            (variable, scale), lambda: centred_factor(np.exp(-_squares(column, scale)), TOLERANCE)
        )


K = TypeVar("K")
V = TypeVar("V", bound="FloatMatrix | KernelRegression")


class Recent(Generic[K, V]):
    """Caches the most recently used values, as many as the memory holds."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory = memory_bytes
        self._bytes = 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Returns the value of this key, computed if it is not cached."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        made = self._values[key] = make()
        self._bytes += made.nbytes
        while self._bytes > self._memory:
            self._bytes -= self._values.popitem(last=False)[1].nbytes
        return made


def _squares(column: FloatVector, scale: float) -> FloatMatrix:
    """Computes (x_i - x_j)^2 scale / 2 of all pairs of rows, shape (n, n)."""
    scaled = column * np.sqrt(0.5 * scale)
    squares: FloatMatrix = scaled[:, None] - scaled
    squares *= squares
    return squares


def _pairwise(first: FloatMatrix, second: FloatMatrix) -> FloatMatrix:
    """Computes the moments of all pairs of symmetric matrices, (3, X, Y), overwriting them."""
    products, diagonals = _sums(first, second)
    for matrices in (first, second):
        np.square(matrices, out=matrices)
    squares, _ = _sums(first, second)
    return np.stack([products, diagonals, 2.0 * squares])


def _sums(first: FloatMatrix, second: FloatMatrix) -> tuple[FloatMatrix, FloatMatrix]:
    """Computes the sums and the traces of the elementwise products of all pairs, shape (X, Y)."""
    x, y = (matrices.diagonal(axis1=1, axis2=2) for matrices in (first, second))
    diagonals = x @ y.T
    # only upper triangles count: the lower ones of the second are 0
    by_row = first.transpose(1, 0, 2) @ second.transpose(1, 2, 0)  # faster than one long product
    return 2.0 * by_row.sum(axis=0) - diagonals, diagonals
