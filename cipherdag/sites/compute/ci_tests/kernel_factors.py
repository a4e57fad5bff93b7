"""Low-rank factors of kernel matrices give the moments of kernel tests on a CPU.

The kernel matrix K_y of one variable is L L^T up to rounding, with L of few columns, and its
residual after a regression is F F^T, with F the residual of L (`kernel_regression`). Without Z both
kernels are such factors: the statistic is the squared Frobenius norm of L_x^T L_y, and no n x n
matrix is multiplied. Given Z, the matrices of a set are computed once for each x and each y, and
the sums over the elementwise products of all pairs are one matrix product.

Source: Zhang, Peters, Janzing and Schoelkopf, UAI 2011.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.sites.compute.ci_tests.kernel_regression import (
    KernelRegression,
    centred_factor,
    regression_on,
)
from cipherdag.sites.compute.ci_tests.kernels import SCALE_OF_Z, inverse_square_width, tiles

TOLERANCE = 1e-13
"""Tolerance of the Cholesky decomposition of one variable's kernel matrix, of diagonal 1."""
CACHE_MEMORY = 32 * 2**20
CACHE_FRACTION = 0.25
"""Most bytes, and largest fraction of the memory, for factors and regressions of later batches."""
WORKING_MATRICES = 4
MOST_OF_A_SIDE = 64
FACTORS_OF_TILE = 16


class FactoredKernels:
    """Computes kernel statistics over the columns of one table from low-rank factors.

    Args:
        columns: Standardised, shape (k, n).
        memory_bytes: Bounds the matrices of a batch, unless one test needs more.
    """

    def __init__(self, columns: FloatMatrix, *, memory_bytes: int) -> None:
        self._columns = columns
        self._n_rows = columns.shape[1]
        cache_bytes = min(int(memory_bytes * CACHE_FRACTION), CACHE_MEMORY)
        self._factors: Recent[tuple[int, float], FloatMatrix] = Recent(cache_bytes // 2)
        self._regressions: Recent[tuple[int, ...], KernelRegression] = Recent(cache_bytes // 2)
        matrices = (memory_bytes - cache_bytes) // (8 * max(self._n_rows, 1) ** 2)
        self._side = min((matrices - WORKING_MATRICES) // 2, MOST_OF_A_SIDE)

    def moments(self, order: IndexArray) -> FloatMatrix:
        """See `KernelMoments.moments`."""
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
    """Caches the most recently used values, as many as the memory holds.

    Args:
        memory_bytes: Bound on them.
    """

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
