"""Steps of regressions over rows that are alike in their discrete variables.

With the response's category known of a group, its rows' logits relative to that category are a
constant and slopes of the group, and their likelihood is a sum of logarithms of 1 + exp. Sums over
rows are of chances and of their products times those of the continuous predictors; what the
discrete predictors make of them is linear.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.sites.compute.pooled.alike.rows import AlikeRows, Patterns
from cipherdag.sites.compute.pooled.multinomial import (
    bounded_logits,
    by_pieces,
    linear_parts,
)

Parts = tuple[float, FloatVector, FloatMatrix]

BLOCK_ELEMENTS = 2**16
"""What is made of some rows at a time: it stays in a processor's cache."""
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
    patterns: Patterns,
    coefficients: FloatVector,
    count: int,
) -> Parts:
    """Log likelihood, gradient and minus the Hessian of a multinomial logistic model.

    Args:
        rows: The rows.
        numbers: The continuous predictors.
        design: The columns of a pattern's rows are linear in 1, x1, ..., xk: shape (m, 1 + k, d).
        patterns: Of the discrete predictors and, last, the response.
        coefficients: Output by output.
        count: Categories but the first.
    """
    m, width, columns = design.shape
    response = patterns.codes[:, -1].astype(np.int64)
    others = (response[:, None] + np.arange(1, count + 1)) % (count + 1)
    levels = np.arange(1, count + 1)
    less = (others[:, :, None] == levels) * 1.0 - (response[:, None, None] == levels)
    # relative logits of a pattern, linear in 1 and x, by the coefficients
    slopes = less[:, :, None, :, None] * design[:, None, :, None, :]
    slopes = slopes.reshape(m * count * width, count * columns)
    relative = linear_parts(coefficients[None], slopes.T).reshape(m, count, width)
    if relative[:, :, 1:].any():
        value, sums = _over_rows(rows, numbers, relative[patterns.which])
        sums = patterns.add_up(sums)
    else:
        moments = patterns.add_up(rows.moments(numbers))
        logs, parts = _chances(relative[:, :, 0].T)
        value, sums = float((moments[:, 0] * logs).sum()), parts.T[:, :, None] * moments[:, None]
    gradient = by_pieces(sums[:, :count, :width].reshape(1, -1), slopes.T)[0]
    outer, inner = _pairs(count)[:, :, None, None], _pairs(width)
    among = sums[:, count:][:, outer, inner].swapaxes(2, 3).reshape(m, count * width, -1)
    across = among @ slopes.reshape(m, count * width, -1)
    return -value, -gradient, by_pieces(slopes.T, across.reshape(len(slopes), -1).T)


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
    value = -float((rows.padding * _chances(relative[:, :, 0].T)[0]).sum())
    of_piece = np.ascontiguousarray(relative[rows.group].transpose(2, 1, 0))[..., None]
    columns = [rows.present, *map(rows.column, numbers)]
    found = np.empty((len(rows.group), triangle(count) + count, triangle(width)))
    size = rows.present.shape[1]
    step = max(BLOCK_ELEMENTS // (sum(found.shape[1:]) * size), 1)
    parts, products = (np.empty((length, step, size)) for length in found.shape[1:])
    for start in range(0, len(rows.group), step):
        part = slice(start, start + step)
        block = slice(len(found[part]))
        own = _products([column[part] for column in columns], products[:, block])
        logits = np.multiply(of_piece[1, :, part], own[1], out=parts[:count, block])
        for k in range(2, width):
            logits += of_piece[k, :, part] * own[k]
        logits += of_piece[0, :, part]
        logs, chances = _chances(logits, parts[:, block], bound=bound)
        value += float(logs.sum())
        np.matmul(chances.swapaxes(0, 1), own.transpose(1, 2, 0), out=found[part])
    return value, rows.by_group(found)


def _products(columns: list[FloatMatrix], out: FloatMatrix) -> FloatMatrix:
    """Those of `AlikeRows.moments`, of 1, x1, ..., xk, shape (q, ...)."""
    for place, own in enumerate(columns):
        out[place] = own
    pairs = combinations_with_replacement(range(1, len(columns)), 2)
    for place, (one, other) in enumerate(pairs, start=len(columns)):
        np.multiply(out[one], out[other], out=out[place])
    return out


def _chances(
    logits: FloatMatrix, parts: FloatMatrix | None = None, *, bound: float = np.inf
) -> tuple[FloatMatrix, FloatMatrix]:
    """Logarithms of totals, and chances with their products.

    Args:
        logits: Against one more category, shape (c, ...).
        parts: Where the chances are to stand; the logits may already.
        bound: Of the logits' magnitudes.

    Returns:
        Logarithms, shape (...), or of some rows together where logits are small; chances p, then
        p (1 - p) and -p q of every two, upper triangle by rows, shape (c + c (c + 1) / 2, ...).
    """
    count, safe = len(logits), bound <= SAFE_LOGIT
    if parts is None:
        parts = np.empty((triangle(count) + count, *logits.shape[1:]))
    if not safe:
        logits = bounded_logits(logits)
    largest = 0.0 if safe else logits.max(axis=0, initial=0.0)
    weights = np.exp(logits if safe else logits - largest, out=parts[:count])
    total = weights.sum(axis=0) + np.exp(-largest)
    weights /= total
    for place, (one, other) in enumerate(combinations_with_replacement(weights, 2), start=count):
        np.multiply(one, 1.0 - one if one is other else -other, out=parts[place])
    if safe:
        total = np.multiply.reduce(total.reshape(TOGETHER, -1), axis=0)
    return largest + np.log(total), parts


def triangle(size: int) -> int:
    """How many pairs there are of so many, each with itself among them."""
    return size * (size + 1) // 2


def _square(triangle: FloatMatrix, size: int) -> FloatMatrix:
    """Symmetric matrices, shape (m, size, size), of upper triangles by rows, (m, q)."""
    return triangle[:, _pairs(size)]


def _pairs(size: int) -> IndexArray:
    """Where every two of so many stand in an upper triangle by rows, shape (size, size)."""
    low, high = (find.outer(*[np.arange(size)] * 2) for find in (np.minimum, np.maximum))
    return low * (2 * size - low - 1) // 2 + high
