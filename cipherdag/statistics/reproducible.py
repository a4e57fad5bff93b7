"""Linear algebra and logarithms are computed with the same bits on every processor.

Every site runs a plan's program itself, and numbers in its questions have to agree to the last bit.
Products, factors and logarithms of libraries do not, since they add in an order that depends on the
processor. These functions use single operations of IEEE 754 in a fixed order.

Source of the series: Abramowitz and Stegun, Handbook of Mathematical Functions, 4.1.27, 6.1.41.
"""

import math

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector

GRID_BITS = 30
LN_2 = 0.6931471805599453
INVERSE_ODD = tuple(1.0 / odd for odd in range(1, 24, 2))
"""Coefficients of the logarithm's series: the next is below 2**-53 of the first."""
MOST_EXPONENT = 709.0
EXP_TERMS = 18
"""Terms of the exponential's series, up to half of `LN_2`: the next is below 2**-80."""
LEAST_PIVOT = 1e-9
"""Pivot of a matrix with unit diagonal below which a column is a linear combination of others."""


def dot(one: FloatVector, other: FloatVector) -> float:
    """Compute the sum of products, each of which is rounded; the sum is rounded once."""
    return math.fsum((one * other).tolist())


def product(left: FloatMatrix, right: FloatMatrix) -> FloatMatrix:
    """Compute the matrix product, shape (n, k), of (n, m) and (m, k)."""
    total = np.zeros((left.shape[0], right.shape[1]))
    for inner in range(left.shape[1]):
        total += left[:, inner, None] * right[inner]
    return total


def on_grid(numbers: FloatVector, bits: int = GRID_BITS) -> FloatVector:
    """Round to multiples of 2**-bits, which removes differences between libraries' functions."""
    return np.asarray(np.ldexp(np.rint(np.ldexp(numbers, bits)), -bits))


def logarithm(numbers: FloatVector) -> FloatVector:
    """Compute natural logarithms of positive numbers to a unit or two of the last place."""
    mantissa, exponent = np.frexp(numbers)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.full_like(ratio, INVERSE_ODD[-1])
    for term in INVERSE_ODD[-2::-1]:
        series = series * square + term
    return (exponent - low) * LN_2 + 2.0 * ratio * series


def logarithm_of(number: float) -> float:
    """Compute the natural logarithm of a positive number as `logarithm` does, bit for bit."""
    return float(logarithm(np.array([number], dtype=np.float64))[0])


def exponential_of(number: float) -> float:
    """Compute the exponential of a number to a unit or two of the last place; inf beyond 709."""
    if not abs(number) < MOST_EXPONENT:
        return math.inf if number > 0 else 0.0
    twos = round(number / LN_2)
    rest, series = number - twos * LN_2, 1.0
    for term in range(EXP_TERMS, 0, -1):
        series = 1.0 + series * rest / term
    return math.ldexp(series, twos)


def solve(matrix: FloatMatrix, right: FloatVector, *, least: float) -> tuple[FloatVector, int]:
    """Solve a semidefinite system, diagonal of ones or zeros; return a solution and the rank.

    Gauss-Jordan elimination takes the largest diagonal element first and ends where that is not
    above ``least``; the remaining unknowns are 0.
    """
    matrix, right = matrix.copy(), right.copy()
    left = np.ones(len(right), dtype=bool)
    for rank in range(len(right)):
        pivots = np.where(left, matrix.diagonal(), -np.inf)
        index = int(pivots.argmax())
        if not pivots[index] > least:
            return np.where(left, 0.0, right), rank
        pivot = pivots[index]
        row, value, column = matrix[index] / pivot, right[index] / pivot, matrix[:, index].copy()
        column[index] = 0.0
        matrix -= column[:, None] * row
        right -= column * value
        matrix[index], right[index], left[index] = row, value, False
    return right, len(right)
