"""A site's half of regressions over all sites: likelihood, gradient and Hessian of its own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.regressions import outputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from cipherdag.algorithms.regressions import Regression, RegressionSteps
    from cipherdag.sites.compute.evidence import FloatVector

    FloatMatrix = NDArray[np.float64]

LARGEST_LOGIT = 30.0


def regression_steps(
    question: RegressionSteps, column: Callable[[int], NDArray[np.float64]]
) -> FloatVector:
    """The answer to `RegressionSteps`.

    Args:
        question: Models and coefficients.
        column: Codes or values of one variable, float64 of shape (n,), NaN where missing.
    """
    models = question.models()
    coefficients = question.coefficient_array()
    expand = _Expansion(question, column)
    answers, start = [], 0
    for model, count in zip(models, question.coefficient_counts(models), strict=True):
        own = coefficients[start : start + count]
        start += count
        design, response = expand.rows(model)
        if question.categories[model.response]:
            answers.append(_logits(design, response, own, question.categories[model.response]))
        else:
            answers.append(_moments(design, response))
    return np.concatenate([np.zeros(0), *answers])


class _Expansion:
    """Columns of predictors as a model has them; each is made once per question."""

    def __init__(
        self, question: RegressionSteps, column: Callable[[int], NDArray[np.float64]]
    ) -> None:
        self._categories = question.categories
        self._origins, self._units = question.origin_array(), question.unit_array()
        self._column = column
        self._known: dict[int, tuple[FloatMatrix, FloatVector]] = {}

    def rows(self, model: Regression) -> tuple[FloatMatrix, FloatVector]:
        """Design (n', columns) and response (n',) over the rows that are complete."""
        parts = [self._expanded(v) for v in model.predictors]
        _, response = self._expanded(model.response)
        constant = np.ones((len(response), 1))
        design = np.column_stack([constant, *(columns for columns, _ in parts)])
        used = [response, *(own for _, own in parts)]
        used += [self._expanded(v)[1] for v in model.complete_in]
        complete = ~np.isnan(np.column_stack(used)).any(axis=1)
        if complete.all():
            return design, response
        return design[complete], response[complete]

    def _expanded(self, variable: int) -> tuple[FloatMatrix, FloatVector]:
        """Columns of a predictor, and the variable itself: codes, or values in the common unit."""
        if variable not in self._known:
            own = self._column(variable)
            if self._categories[variable]:
                levels = np.arange(1, self._categories[variable])
                self._known[variable] = ((own[:, None] == levels).astype(np.float64), own)
            else:
                scaled = np.ldexp(own - self._origins[variable], -self._units[variable])
                self._known[variable] = (scaled[:, None], scaled)
        return self._known[variable]


def _moments(design: FloatMatrix, response: FloatVector) -> FloatVector:
    gram = design.T @ design
    upper = gram[np.triu_indices(len(gram))]
    return np.concatenate([[response @ response], design.T @ response, upper])


def _logits(
    design: FloatMatrix, response: FloatVector, coefficients: FloatVector, categories: int
) -> FloatVector:
    """Log likelihood, gradient and minus the Hessian of a multinomial logistic model."""
    count, columns = outputs(categories), design.shape[1]
    logits = design @ coefficients.reshape(count, columns).T
    np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT, out=logits)
    largest = np.maximum(logits.max(axis=1, initial=0.0), 0.0)
    weights = np.exp(logits - largest[:, None])
    total = weights.sum(axis=1) + np.exp(-largest)
    chance = weights / total[:, None]
    seen = (response[:, None] == np.arange(1, count + 1)).astype(np.float64)
    likelihood = (seen * logits).sum() - (largest + np.log(total)).sum()
    gradient = ((seen - chance).T @ design).ravel()
    hessian = np.zeros((count, columns, count, columns))
    for first in range(count):
        for second in range(first, count):
            share = float(first == second) - chance[:, second]
            block = (design * (chance[:, first] * share)[:, None]).T @ design
            hessian[first, :, second, :] = block
            hessian[second, :, first, :] = block.T
    square = hessian.reshape(count * columns, -1)
    return np.concatenate([[likelihood], gradient, square[np.triu_indices(len(square))]])
