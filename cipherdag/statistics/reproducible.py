"""Linear algebra with the same bits on every processor.

Every site goes through a plan's program for itself, and asks what it comes to: numbers in questions
have to agree to the last bit. A library's products, factors and logarithms do not: they add in the
order that a processor's vectors suggest. Here are single operations of IEEE 754 in a fixed order.

Source of the series: Abramowitz and Stegun, Handbook of Mathematical Functions, 4.1.27, 6.1.41.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector

GRID_BITS = 30
LN_2 = 0.6931471805599453
HALF_LOG_2_PI = 0.9189385332046727
LOG_TERMS = 11
"""Of the series of the logarithm: the next is below 2**-53 of the first."""
MOST_EXPONENT = 709.0
EXP_TERMS = 18
"""Of the series of the exponential, up to half of `LN_2`: the next is below 2**-80."""
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
LEAST_OF_STIRLING = 10
LEAST_PIVOT = 1e-9
"""Of a matrix with unit diagonal: below it a column is a linear combination of others."""


def dot(one: FloatVector, other: FloatVector) -> float:
    """The sum of products, each rounded, and once more at the end."""
    return math.fsum((one * other).tolist())


def product(left: FloatMatrix, right: FloatMatrix) -> FloatMatrix:
    """The matrix product, shape (n, k), of (n, m) and (m, k)."""
    total = np.zeros((left.shape[0], right.shape[1]))
    for inner in range(left.shape[1]):
        total += left[:, inner, None] * right[inner]
    return total


def on_grid(numbers: FloatVector, bits: int = GRID_BITS) -> FloatVector:
    """Multiples of 2**-bits: what a library's functions round otherwise elsewhere is gone."""
    return np.asarray(np.ldexp(np.rint(np.ldexp(numbers, bits)), -bits))


def logarithm(numbers: FloatVector) -> FloatVector:
    """Natural logarithms of positive numbers, of any shape, to a unit or two of the last place."""
    mantissa, exponent = np.frexp(numbers)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.full_like(ratio, 1.0 / (2 * LOG_TERMS + 1))
    for term in range(LOG_TERMS - 1, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return (exponent - low) * LN_2 + 2.0 * ratio * series


def logarithm_of(number: float) -> float:
    """The natural logarithm of a positive number; see `logarithm`."""
    return float(logarithm(np.array([number]))[0])


def exponential_of(number: float) -> float:
    """The exponential of a number, to a unit or two of the last place; infinite beyond 709."""
    if not abs(number) < MOST_EXPONENT:
        return math.inf if number > 0 else 0.0
    twos = round(number / LN_2)
    rest, series = number - twos * LN_2, 1.0
    for term in range(EXP_TERMS, 0, -1):
        series = 1.0 + series * rest / term
    return math.ldexp(series, twos)


def log_gamma(numbers: FloatVector) -> FloatVector:
    """Logarithms of the gamma function of positive numbers, of any shape.

    By Stirling's series above 10; smaller numbers are raised to there by the recurrence.
    """
    small = numbers < LEAST_OF_STIRLING
    factor = np.ones_like(numbers)
    for step in range(LEAST_OF_STIRLING):
        factor = np.where(small, factor * (numbers + step), factor)
    raised = np.where(small, numbers + LEAST_OF_STIRLING, numbers)
    inverse = 1.0 / raised
    square = inverse * inverse
    series = np.full_like(raised, STIRLING[-1])
    for term in reversed(STIRLING[:-1]):
        series = series * square + term
    main = (raised - 0.5) * logarithm(raised) - raised + HALF_LOG_2_PI
    return main + series * inverse - logarithm(factor)


def solve(matrix: FloatMatrix, right: FloatVector, *, least: float) -> tuple[FloatVector, int]:
    """A solution of a positive semidefinite system, and the rank.

    By Gauss-Jordan elimination with the largest diagonal element first; it ends where that is not
    above ``least``, and the unknowns that are left are 0.

    Args:
        matrix: Symmetric, with a diagonal of ones or zeros, shape (m, m).
        right: The right-hand side, shape (m,).
        least: What is left of a column that is a linear combination of others.
    """
    matrix, right = matrix.copy(), right.copy()
    left = np.ones(len(right), dtype=bool)
    for rank in range(len(right)):
        pivots = np.where(left, matrix.diagonal(), -np.inf)
        own = int(pivots.argmax())
        if not pivots[own] > least:
            return np.where(left, 0.0, right), rank
        row, value, column = (
            matrix[own] / pivots[own],
            right[own] / pivots[own],
            matrix[:, own].copy(),
        )
        column[own] = 0.0
        matrix -= column[:, None] * row
        right -= column * value
        matrix[own], right[own], left[own] = row, value, False
    return right, len(right)
