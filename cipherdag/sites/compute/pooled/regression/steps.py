"""A site's half of stepwise regressions over all sites, and the same test over its rows alone."""

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
from cipherdag.sites.compute.pooled.regression.compressed_rows import CompressedRows, Patterns
from cipherdag.sites.compute.pooled.regression.design import Expansion
from cipherdag.sites.compute.pooled.regression.likelihoods import (
    Parts,
    compressed_linear_step,
    compressed_logit_step,
    linear_step,
    logit_step,
    triangle,
)
from cipherdag.sites.compute.pooled.regression.proportional_odds import (
    cumulative_step,
    profile_cumulative_step,
)
from cipherdag.sites.compute.pooled.regression.site_intercepts import centred, profile_step
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

MOST_MADE, MOST_SUMS = 2**20, 512
"""Numbers made of all patterns, and sums of every group, up to which compressed rows are used."""


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
    for number in sorted(range(len(order)), key=order.__getitem__):
        model = question.models[number]
        categories = question.categories[model.response]
        if question.site_effect:
            rows, ordered = expand.rows(model), model.ordered
            answers[number] = model_step(
                *rows, parts[number], categories, ordered=ordered, site_effect=True
            )
        else:
            answers[number] = whole_step(expand, model, parts[number], categories)
    return np.concatenate([np.zeros(0), *answers])


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
        """The regression at its maximum, and its rows; cached, as tests share smaller models."""
        if model not in self._fits:
            categories = self._categories[model.response]
            step = partial(whole_step, self._expand, model, categories=categories)
            fit = site_fit(model, self._categories, step, near=self._near(model))
            self._fits[model] = fit, self._expand.complete(model)
        return self._fits[model]

    def _near(self, model: Regression) -> Fit | None:
        """The fit without the last predictor, whatever was fitted before; None over other rows."""
        used = (model.response, *model.predictors, *model.complete_in)
        discrete = self._categories[model.response] > 0
        if not discrete or not model.predictors or model.crossed or self._expand.incomplete(used):
            return None
        return self._fit(replace(model, predictors=model.predictors[:-1]))[0]


def site_fit(
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
    """`model_step` over all complete rows, compressed where that costs less, or block by block."""
    rows = None if model.ordered else expand.compressed(model)
    total = (
        None if rows is None else _compressed_step(expand, rows, model, coefficients, categories)
    )
    if total is not None:
        return pack_step(*total)
    for design, response in expand.blocks(model):
        parts = _parts(design, response, coefficients, categories, ordered=model.ordered)
        total = parts if total is None else tuple(map(operator.add, total, parts))
    assert total is not None, "there is one block at least"
    return pack_step(*total)


def _compressed_step(
    expand: Expansion,
    rows: CompressedRows,
    model: Regression,
    coefficients: FloatVector,
    categories: int,
) -> Parts | None:
    """Value, gradient and square matrix over compressed rows; None where blocks cost less.

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
        return compressed_linear_step(moments, expand.by_pattern(model, patterns.codes))
    design = expand.by_pattern(model, patterns.codes[:, :-1])
    return compressed_logit_step(rows, numbers, design, patterns, coefficients, count)


def _table_step(
    expand: Expansion,
    patterns: Patterns,
    counts: IndexArray,
    model: Regression,
    coefficients: FloatVector,
    categories: int,
) -> Parts:
    """The same where all is discrete, from a table: predictors by response, each a group's rows."""
    codes, response = patterns.codes[:, :-1], patterns.codes[:, -1].astype(np.int64)
    new = np.append(True, (codes[1:] != codes[:-1]).any(axis=1))
    table = np.zeros((int(new.sum()), categories))
    table[np.cumsum(new) - 1, response] = patterns.add_up(counts.astype(np.float64))
    design = expand.by_pattern(model, codes[new])[:, 0]
    return logit_step(design, table[:, 1:].T, coefficients, table.sum(axis=1))


def model_step(
    design: FloatMatrix,
    response: FloatVector,
    coefficients: FloatVector,
    categories: int,
    *,
    ordered: bool = False,
    site_effect: bool = False,
    weights: FloatVector | None = None,
) -> FloatVector:
    """Value, gradient and upper triangle of a step, as `RegressionSteps` lays them out.

    Args:
        design: Columns, the constant first, shape (n, d).
        response: Codes or numbers, shape (n,).
        coefficients: Output by output.
        categories: Of the response; 0 of numbers.
        ordered: Whether they are in an order.
        site_effect: Whether the site profiles its own intercepts out.
        weights: Of the rows, where it does and they differ, shape (n,).
    """
    if site_effect and ordered:
        return profile_cumulative_step(design, response, coefficients, categories)
    if site_effect and categories:
        return profile_step(design, response, coefficients, categories, weights)
    if site_effect:
        design, response = centred(design, response, weights)
    return pack_step(*_parts(design, response, coefficients, categories, ordered=ordered))


def _parts(
    design: FloatMatrix,
    response: FloatVector,
    coefficients: FloatVector,
    categories: int,
    *,
    ordered: bool,
) -> Parts:
    if ordered:
        return cumulative_step(design, response, coefficients, categories)
    if categories:
        observed = response == np.arange(1, outputs(categories) + 1)[:, None]
        return logit_step(design, observed.astype(np.float64), coefficients)
    return linear_step(design, response)
