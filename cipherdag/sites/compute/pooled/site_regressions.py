"""A site's half of regressions over all sites, and the same test over its own rows alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.sites.compute.ci_tests.cache import DEFAULT_MEMORY, TestBatch
from cipherdag.sites.compute.ci_tests.cached_test import CachedTest, half, not_done
from cipherdag.sites.compute.pooled.alike.rows import AlikeRows, Patterns
from cipherdag.sites.compute.pooled.alike.steps import linear_sums, logit_sums, triangle
from cipherdag.sites.compute.pooled.cumulative import cumulative_step, own_thresholds_step
from cipherdag.sites.compute.pooled.expansion import Expansion
from cipherdag.sites.compute.pooled.multinomial import (
    bounded_logits,
    by_pieces,
    information,
    linear_parts,
)
from cipherdag.sites.compute.pooled.site_intercepts import centred, profile_step
from cipherdag.statistics.contingency import chi_square_tail
from cipherdag.statistics.regression_fits import (
    FEWEST_PER_COEFFICIENT,
    Fit,
    first_fit,
    likelihood_ratio,
    pack_step,
    step_parts,
)
from cipherdag.statistics.regression_models import Regression, nested_models, outputs, too_large

Parts = tuple[float, FloatVector, FloatMatrix]

MOST_MADE, MOST_SUMS = 2**20, 512
"""Numbers made of all patterns, and sums of every group, up to which rows alike are taken so."""


def regression_steps(question: RegressionSteps, expand: Expansion) -> FloatVector:
    """The answer to `RegressionSteps`.

    Args:
        question: Models and coefficients.
        expand: The site's columns, in the question's units.
    """
    starts = np.cumsum([0, *question.coefficient_counts])
    parts = np.split(question.coefficient_array(), starts[1:-1])
    answers = [np.zeros(0)] * len(question.models)
    # models of the same discrete variables one after the other, as they need rows in one order
    order = [expand.by_type((m.response, *m.predictors))[0] for m in question.models]
    for place in sorted(range(len(order)), key=order.__getitem__):
        model = question.models[place]
        answers[place] = _answer(question, expand, model, parts[place])
    return np.concatenate([np.zeros(0), *answers])


def _answer(
    question: RegressionSteps, expand: Expansion, model: Regression, coefficients: FloatVector
) -> FloatVector:
    categories = question.categories[model.response]
    if not question.site_effect:
        return whole_step(expand, model, coefficients, categories)
    if categories:
        step = own_thresholds_step if model.ordered else profile_step
        return step(*expand.rows(model), coefficients, categories)
    rows = centred(*expand.rows(model))
    return model_step(*rows, coefficients, categories, ordered=False)


class RegressionTest(CachedTest):
    """Likelihood-ratio test of nested regressions over one site's columns of any type.

    As `likelihood_ratio` says, with the statistic as dependence. Rows with a missing value in one
    of a test's variables are left out of that test. One with more than 4096 coefficients is not
    done: it has no row.

    Args:
        categories: Number of categories of every variable, 0 for a continuous one.
        column: Codes or values of one variable, float64 of shape (n,), NaN where missing.
        ordered: Variables with three or more categories in an order.
        interactions: Whether the variables that are conditioned on interact.
        fewest: Rows per coefficient below which a test is not done.
    """

    def __init__(
        self,
        categories: tuple[int, ...],
        column: Callable[[int], NDArray[np.float64]],
        ordered: tuple[int, ...] = (),
        *,
        interactions: bool = False,
        fewest: float = FEWEST_PER_COEFFICIENT,
    ) -> None:
        super().__init__(len(categories), cache_bytes=half(DEFAULT_MEMORY))
        self._categories, self._ordered = categories, frozenset(ordered)
        self._interactions, self._fewest = interactions, fewest
        self._expand = Expansion.of_site(categories, column)
        self._fits: dict[Regression, tuple[Fit, int]] = {}

    def _compute(self, tests: TestBatch) -> FloatMatrix:
        outcomes = not_done(np.zeros(len(tests), dtype=np.int64))
        for test, row in enumerate(np.column_stack([tests.x, tests.y, tests.given]).tolist()):
            left_out = self._expand.incomplete(row)
            small, large = nested_models(
                row,
                self._categories,
                left_out=left_out,
                ordered=self._ordered,
                interactions=self._interactions,
            )
            if too_large(large, self._categories):
                continue
            (before, _), (after, rows) = self._fit(small), self._fit(large)
            ratio, dof = likelihood_ratio(before, after, self._categories, fewest=self._fewest)
            outcomes[test, 1] = outcomes[test, 3] = ratio
            outcomes[test, 2], outcomes[test, 4] = dof, rows
        done = ~np.isnan(outcomes[:, 1])
        outcomes[done, 0] = chi_square_tail(outcomes[done, 1], outcomes[done, 2])
        return outcomes

    def _fit(self, model: Regression) -> tuple[Fit, int]:
        """The regression at its maximum, and its rows; kept, as tests share smaller models."""
        if model not in self._fits:
            own = self._categories[model.response]
            step = partial(whole_step, self._expand, model, categories=own)
            fit = own_fit(model, self._categories, step, near=self._near(model))
            self._fits[model] = fit, self._expand.complete(model)
        return self._fits[model]

    def _near(self, model: Regression) -> Fit | None:
        """The fit without the last predictor, whatever was fitted before; None over other rows."""
        used = (model.response, *model.predictors, *model.complete_in)
        discrete = self._categories[model.response] > 0
        if not discrete or not model.predictors or model.crossed or self._expand.incomplete(used):
            return None
        return self._fit(replace(model, predictors=model.predictors[:-1]))[0]


def own_fit(
    model: Regression,
    categories: tuple[int, ...],
    step: Callable[[FloatVector], FloatVector],
    *,
    near: Fit | None = None,
) -> Fit:
    """A regression over one site's rows at its maximum.

    Args:
        model: What is fitted.
        categories: Number of categories of every variable, 0 for a continuous one.
        step: What `model_step` gives at coefficients, over those rows.
        near: A fit over those rows that it begins from.
    """
    fit = first_fit(model, categories, near=near)
    while not fit.finished:
        parts = step_parts(step(fit.proposed), len(fit.coefficients))
        fit.hear(*parts, outputs(categories[model.response]))
    return fit


def whole_step(
    expand: Expansion, model: Regression, coefficients: FloatVector, categories: int
) -> FloatVector:
    """`model_step` over all complete rows: those that are alike at once, or block by block."""
    rows = None if model.ordered else expand.alike(model)
    found = None if rows is None else _alike_step(expand, rows, model, coefficients, categories)
    if found is not None:
        return pack_step(*found)
    for design, response in expand.blocks(model):
        parts = _parts(design, response, coefficients, categories, ordered=model.ordered)
        found = parts if found is None else tuple(map(operator.add, found, parts))
    assert found is not None, "there is one block at least"
    return pack_step(*found)


def _alike_step(
    expand: Expansion,
    rows: AlikeRows,
    model: Regression,
    coefficients: FloatVector,
    categories: int,
) -> Parts | None:
    """Value, gradient and square matrix of a step over rows in groups; None where blocks cost less.

    What is made of every pattern stays small, and so do the matrices that are multiplied at a time,
    so that no product is shared among threads.
    """
    discrete, numbers = expand.by_type(model.predictors)
    patterns = rows.patterns(discrete if not categories else [*discrete, model.response])
    if categories and not numbers:
        return _table_step(expand, patterns, rows.counts, model, coefficients, categories)
    count, width = outputs(categories) if categories else 1, 1 + len(numbers)
    made = len(patterns.codes) * count * width * len(coefficients)
    if made > MOST_MADE or triangle(count + 1) * triangle(width) > MOST_SUMS:
        return None
    if not categories:
        moments = patterns.add_up(rows.moments([*numbers, model.response]))
        return linear_sums(moments, expand.by_pattern(model, patterns.codes))
    design = expand.by_pattern(model, patterns.codes[:, :-1])
    return logit_sums(rows, numbers, design, patterns, coefficients, count)


def _table_step(
    expand: Expansion,
    patterns: Patterns,
    counts: IndexArray,
    model: Regression,
    coefficients: FloatVector,
    categories: int,
) -> Parts:
    """The same where all is discrete, from a table: what predictors have by the response.

    Args:
        expand: The columns.
        patterns: Of the predictors, ascending, and the response.
        counts: Rows of every group.
        model: The model.
        coefficients: Output by output.
        categories: Of the response.
    """
    own, response = patterns.codes[:, :-1], patterns.codes[:, -1].astype(np.int64)
    new = np.append(True, (own[1:] != own[:-1]).any(axis=1))
    table = np.zeros((int(new.sum()), categories))
    table[np.cumsum(new) - 1, response] = patterns.add_up(counts.astype(np.float64))
    design = expand.by_pattern(model, own[new])[:, 0]
    return _logits(design, table[:, 1:].T, coefficients, table.sum(axis=1))


def model_step(
    design: FloatMatrix,
    response: FloatVector,
    coefficients: FloatVector,
    categories: int,
    *,
    ordered: bool,
) -> FloatVector:
    """Value, gradient and upper triangle as `RegressionSteps` lays them out."""
    return pack_step(*_parts(design, response, coefficients, categories, ordered=ordered))


def _parts(
    design: FloatMatrix,
    response: FloatVector,
    coefficients: FloatVector,
    categories: int,
    *,
    ordered: bool,
) -> Parts:
    """Value, gradient and square matrix of a step."""
    if ordered:
        return cumulative_step(design, response, coefficients, categories)
    if categories:
        seen = response == np.arange(1, outputs(categories) + 1)[:, None]
        return _logits(design, seen.astype(np.float64), coefficients)
    columns, own = design.T, response[None]
    square = by_pieces(columns, columns)
    return float(by_pieces(own, own)[0, 0]), by_pieces(columns, own)[:, 0], square


def _logits(
    design: FloatMatrix,
    seen: FloatMatrix,
    coefficients: FloatVector,
    rows: FloatVector | float = 1.0,
) -> Parts:
    """Log likelihood, gradient and minus the Hessian of a multinomial logistic model.

    Args:
        design: Columns, shape (n, columns).
        seen: How often every row has each category but 0, shape (outputs, n).
        coefficients: Output by output.
        rows: How often every row is there, shape (n,), or the same for all.
    """
    count, columns = len(seen), design.T
    logits = bounded_logits(linear_parts(coefficients.reshape(count, -1), columns))
    largest = logits.max(axis=0, initial=0.0)
    weights = np.exp(logits - largest)
    rest = np.exp(-largest)
    total = weights.sum(axis=0) + rest
    chance = weights / total
    likelihood = float((seen * logits).sum() - (rows * (largest + np.log(total))).sum())
    gradient = by_pieces(seen - rows * chance, columns).ravel()
    square = information(design, chance.T, rows).reshape(len(coefficients), -1)
    return likelihood, gradient, square
