"""The likelihood-ratio test of mixed columns over all sites, by Newton steps on summed gradients.

Of x and y the one with fewer categories is the response (the first if equally many, continuous ones
last): a linear, logistic or multinomial logistic regression on S, and once more with the other
variable. Twice the gain in log likelihood is chi-square with as many degrees of freedom as the
other variable adds. At the maximum nothing tells the fit from one on all rows in one place.

Source: Agresti, Categorical Data Analysis, sections 5.4 and 8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms import evidence
from cipherdag.algorithms.evidence import PValues, RememberedTests, Tests
from cipherdag.algorithms.pooled_moments import common_origins, common_units
from cipherdag.algorithms.pooled_tables import PooledTables
from cipherdag.algorithms.questions import FloatVector, pack_integers
from cipherdag.algorithms.regressions import (
    Regression,
    RegressionSteps,
    coefficient_count,
    outputs,
    pack_models,
    step_length,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from cipherdag.algorithms.pooling import ColumnKinds
    from cipherdag.algorithms.questions import IndexArray, Question

    Fitting = Generator[Question, FloatVector, dict[Regression, "Fit"]]

FloatMatrix = NDArray[np.float64]

FEWEST_PER_COEFFICIENT = 5
STEPS = 40
HALVINGS = 12
CONVERGED = 1e-11
LEAST_EIGENVALUE = 1e-9
"""Of a Hessian with unit diagonal: below it a column is a linear combination of others."""
LEAST_REST = 1e-9


@dataclass(slots=True)
class Fit:
    """A regression on its way to the maximum.

    Attributes:
        model: What is fitted.
        discrete: Whether the response is.
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
        if self._move is None:
            self._survey(gradient, hessian, count)
        elif value < self.value - CONVERGED * (1.0 + abs(self.value)) and self._share > (
            0.5**HALVINGS
        ):
            self._share /= 2.0
            return
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


class RegressionTests(RememberedTests):
    """Likelihood-ratio tests of any columns.

    A test is not done, so that its p-value is NaN, with fewer than 5 rows (of a discrete response:
    outside its most frequent category) per coefficient, if the other variable adds nothing that S
    does not have, or if some site withholds the table of its discrete variables (tallied).

    Leaks:
        See `RegressionSteps`.

    Args:
        kinds: The columns.
        max_rows: Declared bound of a site's rows.
    """

    def __init__(self, kinds: ColumnKinds, *, max_rows: int) -> None:
        super().__init__()
        self._kinds = kinds
        self._categories = tuple(kinds.categories.tolist())
        self._tables = PooledTables(kinds, max_rows=max_rows)
        discrete = kinds.categories > 0
        origins = np.where(discrete, 0.0, common_origins(kinds))
        units = np.where(discrete, 0, common_units(kinds))
        self._origins = np.ascontiguousarray(origins, dtype="<f8").tobytes()
        self._units = pack_integers(units)
        self._max_rows = max_rows

    def _ask(self, tests: Tests) -> PValues:
        """One round per Newton step, at most 40, and one before where a site restricts counts."""
        rows = [tuple(row) for block in tests for row in block.tolist()]
        given = yield from self._permitted(rows)
        pairs = [self._models(row) for row, ok in zip(rows, given, strict=True) if ok]
        fits = yield from self._fit(sorted({m for pair in pairs for m in pair}, key=_order))
        self.tally["regression"] += len(pairs)
        if len(pairs) < len(rows):
            self.tally["withheld: none"] += len(rows) - len(pairs)
        found = np.full(len(rows), np.nan)
        found[given] = [self._p_value(fits[small], fits[large]) for small, large in pairs]
        return np.split(found, np.cumsum([len(block) for block in tests])[:-1])

    def _permitted(
        self, rows: list[tuple[int, ...]]
    ) -> Generator[Question, FloatVector, NDArray[np.bool_]]:
        """Which tests use no table of discrete variables that some site withholds."""
        if not self._kinds.restricted:
            return np.ones(len(rows), dtype=bool)
        sets = [tuple(sorted(v for v in row if self._categories[v])) for row in rows]
        largest = max((len(own) for own in sets), default=0)
        blocks: list[IndexArray] = []
        for size in range(1, largest + 1):
            chosen = [own for own in sets if len(own) == size]
            blocks.append(np.array(chosen, dtype=np.int64).reshape(-1, size))
        yield from self._tables.settle(blocks)
        withheld = [len(own) > 0 and self._tables.withheld(np.array([own]))[0] for own in sets]
        return ~np.array(withheld, dtype=bool)

    def _models(self, row: tuple[int, ...]) -> tuple[Regression, Regression]:
        """The model without and the model with the other variable, on the same rows."""
        x, y, *given = row
        sides = self._kinds.categories
        flip = sides[y] > 0 and (sides[x] == 0 or sides[y] < sides[x])
        response, other = (y, x) if flip else (x, y)
        left_out = bool(self._kinds.incomplete[list(row)].any())
        small = Regression(response, tuple(given), (other,) if left_out else ())
        return small, Regression(response, (*given, other))

    def _p_value(self, small: Fit, large: Fit) -> float:
        from scipy.special import gammaincc

        dof = large.rank - small.rank
        columns = len(large.coefficients) // outputs(self._categories[large.model.response])
        enough = large.scarce >= FEWEST_PER_COEFFICIENT * columns
        if dof <= 0 or not enough or small.undone:
            return float("nan")
        ratio = max(2.0 * (large.value - small.value), 0.0)
        return float(gammaincc(dof / 2.0, ratio / 2.0))

    def _fit(self, models: list[Regression]) -> Fitting:
        counts = {model: coefficient_count(model, self._categories) for model in models}
        fits = {
            model: Fit(model, self._categories[model.response] > 0, np.zeros(counts[model]))
            for model in models
        }
        active = models
        while active:
            for part in _rounds(active, counts):
                lengths, members = pack_models(part)
                proposed = np.concatenate([fits[model].proposed for model in part])
                sums = yield RegressionSteps(
                    categories=self._categories,
                    origins=self._origins,
                    units=self._units,
                    lengths=lengths,
                    members=members,
                    coefficients=np.ascontiguousarray(proposed, dtype="<f8").tobytes(),
                    max_rows=self._max_rows,
                )
                start = 0
                for model in part:
                    step = sums[start : start + step_length(counts[model])]
                    start += len(step)
                    fits[model].hear(*_parts(step, counts[model]), self._outputs(model))
            active = [model for model in active if not fits[model].finished]
        return fits

    def _outputs(self, model: Regression) -> int:
        return outputs(self._categories[model.response])


def _rounds(models: list[Regression], counts: dict[Regression, int]) -> Iterator[list[Regression]]:
    """Models cut into rounds of about `evidence.ROUND_VALUES` values."""
    part: list[Regression] = []
    values = 0
    for model in models:
        values += step_length(counts[model])
        if part and values > evidence.ROUND_VALUES:
            yield part
            part, values = [], step_length(counts[model])
        part.append(model)
    if part:
        yield part


def _parts(step: FloatVector, count: int) -> tuple[float, FloatVector, FloatMatrix]:
    """Value, gradient, and the whole symmetric Hessian."""
    hessian = np.zeros((count, count))
    hessian[np.triu_indices(count)] = step[1 + count :]
    return float(step[0]), step[1 : 1 + count], hessian + np.triu(hessian, k=1).T


def _step(hessian: FloatMatrix, gradient: FloatVector) -> tuple[FloatVector, int]:
    """Newton's step within what the data determine, and the rank of that."""
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    kept = values > LEAST_EIGENVALUE
    inner = np.where(kept, vectors.T @ (gradient / scale) / np.where(kept, values, 1.0), 0.0)
    return (vectors @ inner) / scale, int(kept.sum())


def _order(model: Regression) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    return model.response, model.predictors, model.complete_in
