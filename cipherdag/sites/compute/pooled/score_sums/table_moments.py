"""Moments of the squared scores of a table's components, each divided by about its deviation.

Given the margins of a stratum its scores have the covariance n^2 / (n - 1) P x Q, for the
covariances P and Q of the indicators of one row's categories of x and of y. Sigma is the sum over
strata. It is never made: of its square only the trace is needed.

A score U of categories i and j is multiplied by the root of w = 1 / (N p_i q_j), for N rows of all
sites, and the means p_i and q_j of P_ii and Q_jj over the site's rows. They count as at least
1 / sqrt(N), so that what two rare categories have in common is expected about once. All weights
follow from margins, so that the moments given the margins are exact.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatArray, FloatVector, IndexArray
from cipherdag.statistics.array_functions import Array, host, like, segment_sums

AT_ONCE = 1 << 20
"""Products of covariances up to which all tests are done together."""


class Margins(NamedTuple):
    """Rows of the categories of x, (m, U), and of y, (k, U), with components, and of strata, (U,).

    Strata of a test follow one another.
    """

    x: Array
    y: Array
    total: Array

    @classmethod
    def of(cls, counts: Array, rows: int, columns: int) -> Margins:
        """Those of tables, shape (categories of x, of y, U), of so many components."""
        x, y = counts.sum(axis=1), counts.sum(axis=0)
        return cls(x[:rows], y[:columns], x.sum(axis=0))

    @property
    def scale(self) -> Array:
        """What the product of both margins' covariances is multiplied by, shape (U,)."""
        return 1.0 / (self.total * self.total * (self.total - 1.0))


def weighted_moments(
    margins: Margins, sizes: IndexArray, scores: FloatArray, variances: FloatArray, n_rows: int
) -> tuple[FloatArray, FloatVector, FloatVector]:
    """Weighted U, shape (m, k, T), the trace a of Sigma, and f, shape (T,) each.

    f^2 is the trace of Sigma^2, and half of what the fourth cumulants of rare counts add to the
    variance of the form, of which the site states its share of all rows.

    Args:
        margins: Of the strata of all tests.
        sizes: How many of them each test has, shape (T,).
        scores: U summed over strata, shape (m, k, T).
        variances: V, likewise.
        n_rows: Rows of all sites, N.
    """
    rows, least = host(segment_sums(margins.total, sizes)), 1.0 / math.sqrt(n_rows)
    of_x, of_y = (
        1.0 / np.maximum(host(segment_sums(spread, sizes)) / rows, least)
        for spread in (side * (1.0 - side / margins.total) for side in (margins.x, margins.y))
    )
    weights = of_x[:, None] * of_y / n_rows
    weighted = weights * variances
    squared = _squared_covariance(margins, sizes, of_x / n_rows, of_y)
    rare = (weights * weighted).sum(axis=(0, 1)) * (rows / n_rows)
    return np.sqrt(weights) * scores, weighted.sum(axis=(0, 1)), np.sqrt(squared + rare / 2.0)


def _squared_covariance(
    margins: Margins, sizes: IndexArray, of_x: FloatArray, of_y: FloatArray
) -> FloatVector:
    """The trace of Sigma^2 of every test, shape (T,).

    Args:
        margins: Of the strata of all tests.
        sizes: How many of them each test has, shape (T,).
        of_x: Weights of the components of x, shape (m, T).
        of_y: Those of y, shape (k, T).
    """
    x, y = _covariances(margins.x, margins.total), _covariances(margins.y, margins.total)
    x *= margins.scale
    of_x, of_y = _of_pairs(of_x), _of_pairs(of_y)
    if len(x) * len(y) * y.shape[1] <= AT_ONCE:
        products = segment_sums(x[:, None] * y, sizes)
        squares = products * products * like(of_x, x)[:, None] * like(of_y, x)
        return host(squares.sum(axis=(0, 1)))
    total, ends = np.zeros(len(sizes)), np.cumsum(sizes)
    for test, (end, size) in enumerate(zip(ends.tolist(), sizes.tolist(), strict=True)):
        strata = slice(end - size, end)
        left = x[:, strata] * like(np.sqrt(of_x[:, test, None]), x)
        right = y[:, strata] * like(np.sqrt(of_y[:, test, None]), x)
        if size * (len(left) + len(right)) < len(left) * len(right):
            # of few strata the products of every two are fewer
            total[test] = float(((left.T @ left) * (right.T @ right)).sum())
        else:
            total[test] = float(((left @ right.T) ** 2).sum())
    return total


def _covariances(margin: Array, total: Array) -> Array:
    """n^2 times the covariances of a side's components, each pair once, (m (m + 1) / 2, U)."""
    i, j, same = (like(index, margin) for index in _pairs(len(margin)))
    covariances = margin[i] * -margin[j]
    covariances[same] += margin * total
    return covariances


def _of_pairs(weights: FloatArray) -> FloatArray:
    """Products of the weights of two components, twice that of mixed pairs, shape (pairs, T).

    Args:
        weights: Shape (m, T).
    """
    i, j, same = _pairs(len(weights))
    both = 2.0 * weights[i] * weights[j]
    both[same] /= 2.0
    return both


@cache
def _pairs(count: int) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Pairs of components, and which of them are of one."""
    i, j = np.triu_indices(count)
    return i, j, np.flatnonzero(i == j)
