"""A site's Newton steps of regressions over all sites."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.regression_steps import RegressionSteps
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
from cipherdag.statistics.array_functions import Array, floats, host, like
from cipherdag.statistics.newton import pack_step, step_parts
from cipherdag.statistics.regression_fits import (
    Fit,
    first_fit,
)
from cipherdag.statistics.regression_models import Regression, outputs

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
    fit = first_fit(model, categories, warm_start=near)
    while not fit.finished:
        parts = step_parts(step(fit.proposed), len(fit.coefficients))
        fit.update(*parts, outputs(categories[model.response]))
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
        return _packed(*total)
    for design, response in expand.blocks(model):
        parts = _parts(design, response, coefficients, categories, ordered=model.ordered)
        total = parts if total is None else tuple(map(operator.add, total, parts))
    assert total is not None, "there is one block at least"
    return _packed(*total)


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
    """A step over all-discrete rows from a table: predictors by response, each a group's rows."""
    codes, response = patterns.codes[:, :-1], patterns.codes[:, -1].astype(np.int64)
    new = np.append(True, (codes[1:] != codes[:-1]).any(axis=1))
    table = np.zeros((int(new.sum()), categories))
    table[np.cumsum(new) - 1, response] = patterns.add_up(counts.astype(np.float64))
    design = expand.by_pattern(model, codes[new])[:, 0]
    return logit_step(design, table[:, 1:].T, coefficients, table.sum(axis=1))


def model_step(
    design: Array,
    response: Array,
    coefficients: FloatVector,
    categories: int,
    *,
    ordered: bool = False,
    site_effect: bool = False,
    weights: Array | None = None,
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
    return _packed(*_parts(design, response, coefficients, categories, ordered=ordered))


def _packed(value: Array, gradient: Array, square: Array) -> FloatVector:
    return pack_step(float(value), host(gradient), host(square))


def _parts(
    design: Array,
    response: Array,
    coefficients: FloatVector,
    categories: int,
    *,
    ordered: bool,
) -> Parts:
    if ordered:
        return cumulative_step(design, response, coefficients, categories)
    if categories:
        levels = like(np.arange(1, outputs(categories) + 1)[:, None], response)
        return logit_step(design, floats(response == levels), coefficients)
    return linear_step(design, response)
