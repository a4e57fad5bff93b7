"""RFcd-M scores graphs by the description length in bits of data under spline models.

Source: the score of GLOBE (Mian, Marx and Vreeken, AAAI 2021): the model's parents, terms, cut
points and coefficients are written down with a universal code for numbers, the residuals with a
Gaussian one. It is not the same for Markov-equivalent graphs.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector
from cipherdag.errors import TooFewRowsError
from cipherdag.graphs.dags import Family
from cipherdag.sites.compute.device import resolve_device
from cipherdag.sites.compute.rows import log_left_out
from cipherdag.sites.compute.scores.mars import Knots, Spline, fit_splines, make_knots
from cipherdag.sites.compute.scores.scores import Noise, by_size, standardised

NORMALISER = math.log2(2.865064)  # makes the code of the whole numbers complete
DIGITS = 1000.0  # a parameter is written with three to four digits
SMALLEST_PARAMETER = 1e-12  # a smaller parameter counts as 0
FUNCTION_BITS = math.log2(9)  # one of nine kinds of functions for every factor of a term
WIDEST_GAP = 10.01  # resolution if the two smallest values are equal and no gap is narrower
CHUNK_ELEMENTS = 1 << 16


class SplineMdl:
    """Computes description lengths of variables given their parents by splines of degree 2.

    Rows with a NaN are left out, columns standardised; noise is in nats. TooFewRowsError where
    fewer than ten rows are complete.
    """

    def __init__(
        self, values: NDArray[np.float64], *, device: str = "auto", noise: Noise | None = None
    ) -> None:
        complete = values[~np.isnan(values).any(axis=1)]
        log_left_out(len(values), len(complete))
        if len(complete) < 10:  # noqa: PLR2004
            raise TooFewRowsError("splines need ten rows without a missing value")
        columns = np.ascontiguousarray(standardised(complete).T)
        self._resolution = [resolution(column) for column in columns]
        self._columns = torch.from_numpy(columns).to(resolve_device(device))
        self._knots: dict[int, Knots] = {}
        self._noise = noise
        self.n_variables = len(columns)

    def evaluate(self, families: Sequence[Family]) -> FloatVector:
        """Computes the bits of every family, shape (F,)."""
        bits = np.empty(len(families))
        chunk = max(1, CHUNK_ELEMENTS // self._columns.shape[1] // 4)
        for size, index, rows in by_size(families):
            for start in range(0, len(index), chunk):
                part = rows[start : start + chunk]
                splines = self._fit(part)
                models = [model_bits(spline, size, self.n_variables) for spline in splines]
                left = [
                    residual_bits(
                        spline.sse, self._columns.shape[1], self._resolution[int(row[-1])]
                    )
                    for spline, row in zip(splines, part, strict=True)
                ]
                bits[index[start : start + chunk]] = np.array(models) + self._noisy(np.array(left))
        return bits

    def _noisy(self, residuals: FloatVector) -> FloatVector:
        """Adds the noise, which is in nats, to the bits of residuals."""
        if self._noise is None:
            return residuals
        return residuals + self._noise(residuals) / math.log(2.0)

    def _fit(self, rows: NDArray[np.int64]) -> list[Spline]:
        """Fits the splines of families of one size, rows (parents..., variable)."""
        size = rows.shape[1] - 1
        targets = self._columns[torch.from_numpy(rows[:, -1])]
        if size == 0:
            means = targets.mean(dim=1, keepdim=True)
            sse = (targets - means).square().sum(dim=1).tolist()
            return [
                Spline(((),), (mean,), left)
                for mean, left in zip(means[:, 0].tolist(), sse, strict=True)
            ]
        if size not in self._knots:
            self._knots[size] = make_knots(self._columns, size)
        parents = torch.from_numpy(rows[:, :-1].copy()).to(self._columns.device)
        return fit_splines(self._columns, targets, self._knots[size], parents)


def model_bits(spline: Spline, n_parents: int, n_variables: int) -> float:
    """Returns the bits of the parents, the terms and their parameters."""
    bits = parameter_bits(n_parents) + n_parents * math.log2(n_variables)
    bits += parameter_bits(len(spline.terms))
    for factors, coefficient in zip(spline.terms, spline.coefficients, strict=True):
        order = len(factors)
        bits += parameter_bits(coefficient) + sum(parameter_bits(factor.cut) for factor in factors)
        bits += whole_number_bits(order) + order * FUNCTION_BITS
        if order:
            bits += math.log2(math.comb(order + n_parents - 1, order))
    return bits


def residual_bits(sse: float, n_rows: int, gap: float) -> float:
    """Returns the bits of n residuals under a Gaussian of their variance, at resolution ``gap``."""
    variance = sse / n_rows
    if variance <= 0.0:
        return 0.0
    bits = n_rows / (2.0 * math.log(2.0)) + n_rows / 2.0 * math.log2(2.0 * math.pi * variance)
    return max(0.0, bits - n_rows * math.log2(gap))


def parameter_bits(value: float) -> float:
    """Returns the bits of a real parameter: leading digits, number of shifts, and sign."""
    size, shifts = abs(value), 1
    if size <= SMALLEST_PARAMETER:
        return 0.0
    while size < DIGITS:
        size *= 10.0
        shifts += 1
    return whole_number_bits(size) + whole_number_bits(shifts) + 1.0


def whole_number_bits(value: float) -> float:
    """Returns the bits of the next integer in Rissanen's universal code, as GLOBE's program has it.

    It adds up iterated logarithms and the first that is not positive, which Rissanen leaves out.
    """
    if value < 1.0:
        return 0.0
    part = math.log2(math.ceil(value))
    bits = NORMALISER + part
    while part > 0.0:
        part = math.log2(part)
        bits += part
    return bits


def resolution(column: FloatVector) -> float:
    """Returns the smallest gap between two values; at most 10.01 if the two smallest are equal."""
    gaps = np.diff(np.sort(column))
    positive = gaps[gaps > 0.0]
    if len(gaps) and gaps[0] == 0.0:
        positive = np.append(positive, WIDEST_GAP)
    return float(positive.min()) if len(positive) else WIDEST_GAP
