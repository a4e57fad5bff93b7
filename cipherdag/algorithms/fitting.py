"""Fitting nested regressions step by step from sums, and their likelihood ratio.

The coordinator feeds it sums over the sites, and a site its own, so that both test alike. Of x and
y the one with fewer categories is the response (the first if equally many, continuous ones last):
a linear, logistic or multinomial logistic regression on S, and once more with the other variable.
Twice the gain in log likelihood is chi-square with as many degrees of freedom as the other variable
adds.

Source: Agresti, Categorical Data Analysis, sections 5.4 and 8.1; Vittinghoff and McCulloch,
American Journal of Epidemiology 165 (2007) 710-718, for the rows per coefficient.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.regressions import Regression, outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.algorithms.encodings import FloatVector

FloatMatrix = NDArray[np.float64]

FEWEST_PER_COEFFICIENT = 5
STEPS = 40
HALVINGS = 12
CONVERGED = 1e-8
"""Gain of a step, as a share of the likelihood, that is not worth a round.

Near a maximum the next gain is the square of it; where categories are separated, a third of it.
"""
ROUNDING = 1e-11
LEAST_EIGENVALUE = 1e-9
"""Of a Hessian with unit diagonal: below it a column is a linear combination of others."""
LEAST_REST = 1e-9


@dataclass(slots=True)
class Fit:
    """A regression on its way to the maximum.

    Attributes:
        model: What is fitted.
        discrete: Whether the response is.
        site_effect: Whether the constants are the sites' own and have no derivative.
        coefficients: The last accepted ones, shape (m,).
        value: Log likelihood there; of a linear model n / 2 times minus the logarithm of the
            residual squares.
        rank: Number of coefficients that the data determine.
        scarce: Rows outside the response's most frequent category; all rows of a linear model.
        undone: Whether the predictors leave nothing of a linear response.
        finished: Whether no step is left.
    """

    model: Regression
    discrete: bool
    coefficients: FloatVector
    site_effect: bool = False
    value: float = -np.inf
    rank: int = 0
    scarce: float = 0.0
    undone: bool = False
    finished: bool = False
    _move: FloatVector | None = None
    _gain: float = 0.0
    _share: float = 1.0
    _left: int = STEPS

    @property
    def proposed(self) -> FloatVector:
        """The coefficients to ask about."""
        if self._move is None:
            return self.coefficients
        return self.coefficients + self._share * self._move

    def hear(self, value: float, gradient: FloatVector, hessian: FloatMatrix, count: int) -> None:
        """Take in the sums at `proposed`; ``count`` outputs."""
        if not self.discrete:
            self._solve(value, gradient, hessian)
            return
        worse = value < self.value - ROUNDING * (1.0 + abs(self.value))
        if self._move is None:
            self._survey(gradient, hessian, count)
        elif worse and self._share > 0.5**HALVINGS:
            self._share /= 2.0
            return
        if self.site_effect:
            gradient, hessian = _without_constants(gradient, hessian, count)
        self.coefficients, self.value = self.proposed, value
        self._move, rank = _step(hessian, gradient)
        self.rank = max(self.rank, rank)
        self._share, self._gain, self._left = (
            1.0,
            float(gradient @ self._move) / 2.0,
            self._left - 1,
        )
        if self._gain <= CONVERGED * (1.0 + abs(value)) or self._left == 0:
            self.value += max(self._gain, 0.0)
            self.finished = True

    def _survey(self, gradient: FloatVector, hessian: FloatMatrix, count: int) -> None:
        """Rows by category: at coefficients of 0 all categories are equally likely."""
        columns = len(gradient) // count
        chance = 1.0 / (count + 1)
        rows = hessian[0, 0] / (chance * (1.0 - chance))
        seen = gradient[::columns] + rows * chance
        self.scarce = float(rows - max(seen.max(), rows - seen.sum()))

    def _solve(self, squares: float, products: FloatVector, gram: FloatMatrix) -> None:
        self.coefficients, self.rank = _step(gram, products)
        rows = float(gram[0, 0])
        about_mean = squares - products[0] ** 2 / max(rows, 1.0)
        residual = squares - float(products @ self.coefficients)
        least = float(np.finfo(np.float64).eps) * max(squares, np.finfo(np.float64).tiny)
        self.undone = residual <= LEAST_REST * about_mean
        self.value = -rows / 2.0 * float(np.log(max(residual, least)))
        self.scarce, self.finished = rows, True


def nested_models(
    row: Sequence[int], categories: Sequence[int], *, left_out: bool
) -> tuple[Regression, Regression]:
    """The model without and the model with the other variable, on the same rows.

    Args:
        row: x, y, s1, ..., sl.
        categories: Number of categories of every variable, 0 for a continuous one.
        left_out: Whether rows may be incomplete in the test's variables.
    """
    x, y, *given = row
    flip = categories[y] > 0 and (categories[x] == 0 or categories[y] < categories[x])
    response, other = (y, x) if flip else (x, y)
    small = Regression(response, tuple(given), (other,) if left_out else ())
    return small, Regression(response, (*given, other))


def likelihood_ratio(small: Fit, large: Fit, categories: Sequence[int]) -> tuple[float, float]:
    """Twice the gain in log likelihood, and its degrees of freedom; NaN where not done.

    A test is not done with fewer than 5 rows (of a discrete response: outside its most frequent
    category) per coefficient of an output, if the other variable adds nothing that S does not have,
    or if S leaves nothing of a continuous response.
    """
    dof = large.rank - small.rank
    columns = len(large.coefficients) // outputs(categories[large.model.response])
    enough = large.scarce >= FEWEST_PER_COEFFICIENT * columns
    if dof <= 0 or not enough or small.undone:
        return np.nan, np.nan
    return max(2.0 * (large.value - small.value), 0.0), float(dof)


def step_parts(step: FloatVector, count: int) -> tuple[float, FloatVector, FloatMatrix]:
    """Value, gradient, and the whole symmetric Hessian."""
    hessian = np.zeros((count, count))
    hessian[np.triu_indices(count)] = step[1 + count :]
    return float(step[0]), step[1 : 1 + count], hessian + np.triu(hessian, k=1).T


def _without_constants(
    gradient: FloatVector, hessian: FloatMatrix, count: int
) -> tuple[FloatVector, FloatMatrix]:
    """The same with nothing in the places of the constants, so that no step moves them."""
    constants = np.arange(0, len(gradient), len(gradient) // count)
    gradient, hessian = gradient.copy(), hessian.copy()
    gradient[constants] = 0.0
    hessian[constants] = hessian[:, constants] = 0.0
    return gradient, hessian


def _step(hessian: FloatMatrix, gradient: FloatVector) -> tuple[FloatVector, int]:
    """Newton's step within what the data determine, and the rank of that."""
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    kept = values > LEAST_EIGENVALUE
    inner = np.where(kept, vectors.T @ (gradient / scale) / np.where(kept, values, 1.0), 0.0)
    return (vectors @ inner) / scale, int(kept.sum())
