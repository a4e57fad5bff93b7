"""Log likelihood, score and minus the Hessian of linear and multinomial logistic regressions.

They are summed over rows one by one, or over rows compressed by their discrete variables. The rows
of a group have one response category, and their logits relative to it have a constant and slopes in
common. Their log likelihood is a sum of logarithms of 1 + exp. Over rows only probabilities and
their products are summed, times products of the continuous predictors. The discrete predictors
enter afterwards, by matrix products.
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from cipherdag.arrays import FloatArray, FloatMatrix, FloatVector, IndexArray
from cipherdag.sites.compute.models.compressed_rows import CompressedRows, Patterns
from cipherdag.statistics.array_functions import Array, at_least, full, functions_of, like, maxima

Parts = tuple[Array, Array, Array]
"""Value, gradient and square matrix of a step, on the device of the rows."""

LARGEST_LOGIT = 2.0**30
"""Larger logits, which only a hostile question has, are cut to keep an answer in its bounds."""
PIECE_ROWS = 512
"""Rows of a piece: one thread multiplies a piece of up to 20 columns.

Libraries for matrices share larger products among threads. If other programs hold the processors,
threads wait for each other longer than they compute, and sums depend on their number.
"""
BLOCK_ELEMENTS = 2**16
"""Elements that are computed from a block of rows; they stay in a processor's cache."""
TOGETHER = 8  # rows whose totals are multiplied, so that one logarithm is taken of all
SAFE_LOGIT = 64.0  # if logits are smaller, the product of `TOGETHER` totals does not overflow


def by_pieces(left: Array, right: Array) -> Array:
    """``left @ right.T`` of shapes (a, n) and (b, n), on a processor over pieces of the n rows."""
    if not isinstance(left, np.ndarray):
        return left @ right.T
    whole = left.shape[1] // PIECE_ROWS * PIECE_ROWS
    total: FloatArray = left[:, whole:] @ right[:, whole:].T
    if whole:
        pieces = _pieces(left, whole) @ _pieces(right, whole).swapaxes(1, 2)
        total += pieces.sum(axis=0)
    return total


def linear_parts(coefficients: Array, columns: Array) -> Array:
    """``coefficients @ columns`` of shapes (c, d) and (d, n), on a processor piece by piece."""
    if not isinstance(columns, np.ndarray):
        return coefficients @ columns
    whole = columns.shape[1] // PIECE_ROWS * PIECE_ROWS
    linear = np.empty((len(coefficients), columns.shape[1]))
    np.matmul(coefficients, columns[:, whole:], out=linear[:, whole:])
    if whole:
        np.matmul(coefficients, _pieces(columns, whole), out=_pieces(linear, whole))
    return linear


def _pieces(columns: FloatArray, whole: int) -> FloatArray:
    """The first ``whole`` of n rows as a view of shape (pieces, columns, rows of each)."""
    return columns[:, :whole].reshape(len(columns), -1, PIECE_ROWS).swapaxes(0, 1)


def bounded_logits(logits: Array) -> Array:
    """Logits clipped to magnitudes that only a hostile question exceeds, shape as given."""
    if isinstance(logits, np.ndarray) and np.abs(logits).max(initial=0.0) <= LARGEST_LOGIT:
        return logits
    xp = functions_of(logits)
    return xp.clip(xp.nan_to_num(logits), -LARGEST_LOGIT, LARGEST_LOGIT)


def information(design: Array, chance: Array, rows: Array | float = 1.0) -> Array:
    """Minus the second derivatives, (c, d, c, d), by chances, (n, c), and frequencies of rows."""
    count, columns = chance.shape[1], design.T
    square = full((count, len(columns), count, len(columns)), 0.0, design)
    for first in range(count):
        for second in range(first, count):
            share = float(first == second) - chance[:, second]
            block = by_pieces(columns * (rows * chance[:, first] * share), columns)
            square[first, :, second, :] = block
            square[second, :, first, :] = block.T
    return square


def linear_step(design: Array, response: Array) -> Parts:
    """Sums of y y, of x y and of x x', of a design of shape (n, d)."""
    columns, rows = design.T, response[None]
    square = by_pieces(columns, columns)
    return by_pieces(rows, rows)[0, 0], by_pieces(columns, rows)[:, 0], square


def logit_step(
    design: Array, observed: Array, coefficients: FloatVector, rows: Array | float = 1.0
) -> Parts:
    """A step of a multinomial logistic model.

    ``observed``, (outputs, n), is how often every row has each category but 0, and ``rows`` how
    many equal rows it stands for; coefficients are output by output.
    """
    count, columns = len(observed), design.T
    by_output, xp = like(coefficients.reshape(count, -1), design), functions_of(design)
    logits = bounded_logits(linear_parts(by_output, columns))
    largest = at_least(maxima(logits, 0), 0.0)
    weights = xp.exp(logits - largest)
    rest = xp.exp(-largest)
    total = weights.sum(axis=0) + rest
    chance = weights / total
    likelihood = (observed * logits).sum() - (rows * (largest + xp.log(total))).sum()
    gradient = by_pieces(observed - rows * chance, columns).ravel()
    square = information(design, chance.T, rows).reshape(len(coefficients), -1)
    return likelihood, gradient, square


def compressed_linear_step(moments: FloatMatrix, design: FloatMatrix) -> Parts:
    """The sums of `linear_step` from moments of 1, numbers and the response by pattern, (m, q)."""
    inner = moments[:, _pairs(design.shape[1] + 1)]
    patterns, count, _ = design.shape
    columns = design.reshape(patterns * count, -1).T
    across = by_pieces(columns, inner[:, :-1, -1].reshape(1, -1))[:, 0]
    among = (inner[:, :-1, :-1] @ design).reshape(patterns * count, -1).T
    return float(inner[:, -1, -1].sum()), across, by_pieces(columns, among)


def compressed_logit_step(
    rows: CompressedRows,
    numbers: Sequence[int],
    design: FloatMatrix,
    patterns: Patterns,
    coefficients: FloatVector,
    count: int,
) -> Parts:
    """The step of `logit_step` over compressed rows.

    The columns of a pattern's rows are linear in 1, x1, ..., xk: ``design`` has shape (m, 1 + k,
    d). ``patterns`` are of the discrete predictors and, last, the response; ``count`` are its
    categories but the first.
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
    rows: CompressedRows, numbers: Sequence[int], relative: FloatMatrix
) -> tuple[float, FloatMatrix]:
    """The sum of totals' logarithms, and by group sums of probabilities and of their products.

    ``relative`` are constant and slopes of every group's logits, shape (groups, c, 1 + k). The sums
    have shape (groups, c + c (c + 1) / 2, (1 + k) (2 + k) / 2), each times the products of
    `CompressedRows.moments`.
    """
    count, width = relative.shape[1:]
    sizes = np.array([1.0, *map(rows.largest, numbers)])
    bound = float((np.abs(relative) @ sizes).max())
    value = -float((rows.padding * _chances(relative[:, :, 0].T)[0]).sum())
    of_piece = np.ascontiguousarray(relative[rows.group].transpose(2, 1, 0))[..., None]
    columns = [rows.present, *map(rows.column, numbers)]
    sums = np.empty((len(rows.group), triangle(count) + count, triangle(width)))
    size = rows.present.shape[1]
    step = max(BLOCK_ELEMENTS // (sum(sums.shape[1:]) * size), 1)
    parts, products = (np.empty((length, step, size)) for length in sums.shape[1:])
    for start in range(0, len(rows.group), step):
        part = slice(start, start + step)
        block = slice(len(sums[part]))
        terms = _products([column[part] for column in columns], products[:, block])
        logits = np.multiply(of_piece[1, :, part], terms[1], out=parts[:count, block])
        for k in range(2, width):
            logits += of_piece[k, :, part] * terms[k]
        logits += of_piece[0, :, part]
        logs, chances = _chances(logits, parts[:, block], bound=bound)
        value += float(logs.sum())
        np.matmul(chances.swapaxes(0, 1), terms.transpose(1, 2, 0), out=sums[part])
    return value, rows.by_group(sums)


def _products(columns: list[FloatMatrix], out: FloatMatrix) -> FloatMatrix:
    """Products of every two of 1, x1, ..., xk, as `CompressedRows.moments` sums, shape (q, ...)."""
    for k, column in enumerate(columns):
        out[k] = column
    pairs = combinations_with_replacement(range(1, len(columns)), 2)
    for k, (one, other) in enumerate(pairs, start=len(columns)):
        np.multiply(out[one], out[other], out=out[k])
    return out


def _chances(
    logits: FloatMatrix, parts: FloatMatrix | None = None, *, bound: float = np.inf
) -> tuple[FloatMatrix, FloatMatrix]:
    """Logarithms of totals, and probabilities with their products.

    Logits are against one more category, shape (c, ...), of magnitudes below ``bound``. Logarithms
    have shape (...), or are of `TOGETHER` rows each where logits are small. The second array holds
    p, then p (1 - p) and -p q as an upper triangle by rows, shape (c + c (c + 1) / 2, ...).
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
    for k, (one, other) in enumerate(combinations_with_replacement(weights, 2), start=count):
        np.multiply(one, 1.0 - one if one is other else -other, out=parts[k])
    if safe:
        total = np.multiply.reduce(total.reshape(TOGETHER, -1), axis=0)
    return largest + np.log(total), parts


def triangle(size: int) -> int:
    """The length of the upper triangle, diagonal included, of a square matrix."""
    return size * (size + 1) // 2


def _pairs(size: int) -> IndexArray:
    """The position of each pair in an upper triangle stored by rows, shape (size, size)."""
    low, high = (find.outer(*[np.arange(size)] * 2) for find in (np.minimum, np.maximum))
    return low * (2 * size - low - 1) // 2 + high
