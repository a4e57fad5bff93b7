"""Steps of regressions over rows that are alike in their discrete variables.

With the response's category known of a group, its rows' logits relative to that category are a
constant and slopes of the group, and their likelihood is a sum of logarithms of 1 + exp. Sums over
rows are of chances and of their products times those of the continuous predictors; what the
discrete predictors make of them is linear.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.sites.compute.pooled.multinomial import (
    LARGEST_LOGIT,
    bounded_logits,
    by_pieces,
    linear_parts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector, IndexArray
    from cipherdag.sites.compute.pooled.alike.rows import AlikeRows

    FloatMatrix = NDArray[np.float64]
    Parts = tuple[float, FloatVector, FloatMatrix]

BLOCK_ELEMENTS = 8192
"""Rows at a time: what is made of them stays in a processor's cache."""
TOGETHER = 8
"""Rows of which one logarithm is taken, that of their totals' product."""
SAFE_LOGIT = 64.0
"""Of smaller ones so many totals have a product."""


def linear_sums(moments: FloatMatrix, design: FloatMatrix) -> Parts:
    """Sums of y y, of x y and of x x'.

    Args:
        moments: Of 1, the continuous predictors and the response by pattern, shape (m, q).
        design: As for `logit_sums`.
    """
    inner = _square(moments, design.shape[1] + 1)
    patterns, count, _ = design.shape
    columns = design.reshape(patterns * count, -1).T
    across = by_pieces(columns, inner[:, :-1, -1].reshape(1, -1))[:, 0]
    among = (inner[:, :-1, :-1] @ design).reshape(patterns * count, -1).T
    return float(inner[:, -1, -1].sum()), across, by_pieces(columns, among)


def logit_sums(
    rows: AlikeRows,
    numbers: Sequence[int],
    design: FloatMatrix,
    response: IndexArray,
    which: IndexArray,
    coefficients: FloatVector,
    count: int,
) -> Parts:
    """Log likelihood, gradient and minus the Hessian of a multinomial logistic model.

    Args:
        rows: The rows.
        numbers: The continuous predictors.
        design: The columns of a pattern's rows are linear in 1, x1, ..., xk: shape (m, 1 + k, d).
        response: The category of every pattern, shape (m,).
        which: The pattern of every group, shape (groups,).
        coefficients: Output by output.
        count: Categories but the first.
    """
    patterns, width, columns = design.shape
    others = (response[:, None] + np.arange(1, count + 1)) % (count + 1)
    levels = np.arange(1, count + 1)
    less = (others[:, :, None] == levels) * 1.0 - (response[:, None, None] == levels)
    # relative logits of a pattern, linear in 1 and x, by the coefficients
    slopes = less[:, :, None, :, None] * design[:, None, :, None, :]
    slopes = slopes.reshape(patterns * count * width, count * columns)
    relative = linear_parts(coefficients[None], slopes.T).reshape(patterns, count, width)
    if relative[:, :, 1:].any():
        value, sums = _over_rows(rows, numbers, relative[which])
        sums = add_up(sums, which)
    else:
        moments = add_up(rows.moments(numbers), which)
        logs, parts = _chances(bounded_logits(relative[:, :, 0].T), safe=False)
        value, sums = float(moments[:, 0] @ logs), parts.T[:, :, None] * moments[:, None]
    gradient = by_pieces(sums[:, :count, :width].reshape(1, -1), slopes.T)[0]
    outer, inner = _pairs(count)[:, :, None, None], _pairs(width)
    among = sums[:, count:][:, outer, inner].swapaxes(2, 3).reshape(patterns, count * width, -1)
    across = among @ slopes.reshape(patterns, count * width, -1)
    return -value, -gradient, by_pieces(slopes.T, across.reshape(len(slopes), -1).T)


def add_up(values: FloatMatrix, which: IndexArray) -> FloatMatrix:
    """Sums over the groups of each pattern, shape (m, ...), of (groups, ...)."""
    order = np.argsort(which, kind="stable")
    first = np.flatnonzero(np.diff(which[order], prepend=-1))
    return np.add.reduceat(values[order], first, axis=0)


def _over_rows(
    rows: AlikeRows, numbers: Sequence[int], relative: FloatMatrix
) -> tuple[float, FloatMatrix]:
    """Logarithms of totals, added up, and by group the sums of chances, and of their products.

    Args:
        rows: The rows.
        numbers: The continuous predictors, one at least.
        relative: Constant and slopes of every group's logits, shape (groups, c, 1 + k).

    Returns:
        The second of shape (groups, c + c (c + 1) / 2, (1 + k) (2 + k) / 2), each times the
        products of `AlikeRows.moments`.
    """
    count, width = relative.shape[1:]
    sizes = np.array([1.0, *map(rows.largest, numbers)])
    bound = float((np.abs(relative) @ sizes).max())
    safe = bound <= SAFE_LOGIT
    logs, _ = _chances(bounded_logits(relative[:, :, 0].T), safe=False)
    value = -float(rows.padding @ logs)
    of_piece = np.ascontiguousarray(relative[rows.group].transpose(2, 1, 0))[..., None]
    columns = [rows.present, *map(rows.column, numbers)]
    pairs = list(combinations_with_replacement(range(width), 2))[width:]
    found = np.empty((len(rows.group), count + count * (count + 1) // 2, len(pairs) + width))
    step = max(BLOCK_ELEMENTS // rows.present.shape[1], 1)
    for start in range(0, len(rows.group), step):
        part = slice(start, start + step)
        products = np.empty((found.shape[2], *columns[0][part].shape))
        for k, own in enumerate(columns):
            products[k] = own[part]
        for k, (one, other) in enumerate(pairs, start=width):
            np.multiply(products[one], products[other], out=products[k])
        logits = of_piece[1, :, part] * products[1]
        for k in range(2, width):
            logits += of_piece[k, :, part] * products[k]
        logits += of_piece[0, :, part]
        if not bound <= LARGEST_LOGIT:
            logits = bounded_logits(logits)
        logs, parts = _chances(logits, safe=safe)
        value += float(logs.sum())
        np.matmul(parts.swapaxes(0, 1), products.transpose(1, 2, 0), out=found[part])
    return value, rows.by_group(found)


def _chances(logits: FloatMatrix, *, safe: bool) -> tuple[FloatMatrix, FloatMatrix]:
    """Logarithms of totals, and chances with their products.

    Args:
        logits: Against one more category, shape (c, ...).
        safe: Whether no logit is so large that `TOGETHER` totals have no product.

    Returns:
        Logarithms, shape (...), or of so many rows together; chances p, then p (1 - p) and -p q of
        every two, upper triangle by rows, shape (c + c (c + 1) / 2, ...).
    """
    count = len(logits)
    largest = 0.0 if safe else logits.max(axis=0, initial=0.0)
    weights = np.exp(logits - largest)
    total = weights.sum(axis=0) + np.exp(-largest)
    parts = np.empty((count + count * (count + 1) // 2, *logits.shape[1:]))
    chance = np.divide(weights, total, out=parts[:count])
    place = count
    for first in range(count):
        np.multiply(chance[first], 1.0 - chance[first], out=parts[place])
        for second in range(first + 1, count):
            place += 1
            np.multiply(chance[first], -chance[second], out=parts[place])
        place += 1
    if safe:
        total = np.multiply.reduce(total.reshape(TOGETHER, -1), axis=0)
    return largest + np.log(total), parts


def _square(triangle: FloatMatrix, size: int) -> FloatMatrix:
    """Symmetric matrices, shape (m, size, size), of upper triangles by rows, (m, q)."""
    return triangle[:, _pairs(size)]


def _pairs(size: int) -> IndexArray:
    """Where every two of so many stand in an upper triangle by rows, shape (size, size)."""
    low, high = (find.outer(*[np.arange(size)] * 2) for find in (np.minimum, np.maximum))
    places: IndexArray = low * (2 * size - low - 1) // 2 + high
    return places
