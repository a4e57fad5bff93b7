"""A site's Newton steps of regressions over all sites, those of ordered responses among them.

The chance of category k or below is the logistic function of a threshold less one linear
combination of the predictors (proportional odds). With site effects the thresholds are the site's,
which maximises over them and answers the profile likelihood, as `site_intercepts` does for other
responses. Sites may then differ in how often they give a category, or never tell two of them apart.

Source: McCullagh, JRSS B 42 (1980) 109-142; Murphy and van der Vaart, JASA 95 (2000) 449-465.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.sites.compute.models.compressed_rows import CompressedRows, Patterns
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.likelihoods import (
    LARGEST_LOGIT,
    Parts,
    bounded_logits,
    compressed_linear_step,
    compressed_logit_step,
    linear_step,
    logit_step,
    triangle,
)
from cipherdag.sites.compute.models.site_intercepts import (
    Derivatives,
    best_intercepts,
    centred,
    profile_step,
)
from cipherdag.statistics.array_functions import (
    Array,
    floats,
    full,
    functions_of,
    host,
    indices,
    like,
)
from cipherdag.statistics.newton import pack_step, step_parts
from cipherdag.statistics.regression_fits import Fit, first_fit
from cipherdag.statistics.regression_models import (
    Regression,
    equal_thresholds,
    largest_share,
    marginal_thresholds,
    outputs,
)

LEAST_WIDTH = 2.0**-24
"""Thresholds that are closer, which only a hostile question has, count as this far apart."""
MOST_WIDTH = 700.0  # whose exponential is finite
MOST_MADE, MOST_SUMS = 2**20, 512
"""Compressed rows are used up to this many entries of all patterns, and sums of a group."""
ROWS_PER_COEFFICIENT = 15
"""A site fits a model of an effect alone if it has as many, of the rarest response."""


@dataclass(frozen=True, slots=True)
class _Derivatives:
    """Log likelihood, gradient, minus second derivatives; ``across`` is thresholds by slopes."""

    value: float
    by_thresholds: FloatVector
    by_slopes: FloatVector
    among_thresholds: FloatMatrix
    across: FloatMatrix
    among_slopes: FloatMatrix


def cumulative_step(
    design: Array, response: Array, coefficients: FloatVector, categories: int
) -> tuple[float, FloatVector, FloatMatrix]:
    """Log likelihood, gradient and minus the Hessian, by thresholds and then slopes."""
    thresholds, slopes = np.split(coefficients, [categories - 1])
    columns = design[:, 1:]
    offsets = columns @ like(slopes, columns)
    at = _derivatives(columns, indices(response), thresholds, offsets)
    hessian = np.block([[at.among_thresholds, at.across], [at.across.T, at.among_slopes]])
    return at.value, np.concatenate([at.by_thresholds, at.by_slopes]), hessian


def profile_cumulative_step(
    design: Array, response: Array, coefficients: FloatVector, categories: int
) -> FloatVector:
    """A step of the profile likelihood, at the site's own best thresholds.

    Packed as `model_step` does; the thresholds given are not used. Their positions hold derivatives
    of another model, without predictors, in which all categories are equally likely. From these the
    rows of each category follow.
    """
    count, columns = categories - 1, design[:, 1:]
    codes, xp = indices(response), functions_of(response)
    offsets = bounded_logits(columns @ like(coefficients[count:], columns))
    level = xp.zeros_like(offsets)
    equal = _derivatives(columns[:, :0], codes, equal_thresholds(categories), level)
    gradient = np.concatenate([equal.by_thresholds, np.zeros(columns.shape[1])])
    hessian = np.zeros((len(gradient), len(gradient)))
    hessian[:count, :count] = np.diag(equal.among_thresholds.diagonal())
    seen, present = xp.unique(codes, return_inverse=True)
    if len(seen) <= 1:
        return pack_step(0.0, gradient, hessian)
    best = _derivatives(columns, present, _best_thresholds(present, offsets), offsets)
    gradient[count:] = best.by_slopes
    inner = np.linalg.pinv(best.among_thresholds, hermitian=True)
    hessian[count:, count:] = best.among_slopes - best.across.T @ inner @ best.across
    return pack_step(best.value, gradient, hessian)


def _best_thresholds(codes: Array, offsets: Array) -> FloatVector:
    """The thresholds of highest likelihood; every code occurs."""
    nothing, middle = full((len(codes), 0), 0.0, offsets), float(offsets.mean())

    def derivatives(rest: Array) -> Derivatives:
        def at(thresholds: FloatVector) -> tuple[float, FloatVector, FloatMatrix]:
            current = _derivatives(nothing, codes, thresholds, rest)
            return current.value, current.by_thresholds, current.among_thresholds

        return at

    start = marginal_thresholds(host(floats(functions_of(codes).bincount(codes))))
    return middle + best_intercepts(offsets - middle, start, derivatives, largest_share)


def _derivatives(
    columns: Array, codes: Array, thresholds: FloatVector, offsets: Array
) -> _Derivatives:
    """Derivatives at nondecreasing thresholds; an infinite one empties the categories beyond."""
    categories, xp = len(thresholds) + 1, functions_of(offsets)
    bounds = np.concatenate([[-np.inf], thresholds, [np.inf]])
    lower, upper = (like(ends, offsets)[codes] for ends in (bounds[:-1], bounds[1:]))
    below = xp.clip(lower - offsets, -LARGEST_LOGIT, LARGEST_LOGIT)
    above = xp.clip(upper - offsets, -LARGEST_LOGIT, LARGEST_LOGIT)
    below[lower == -np.inf], above[upper == np.inf] = -np.inf, np.inf
    zero = full((1,), 0.0, offsets)
    not_above, not_below = xp.logaddexp(zero, -above), xp.logaddexp(zero, below)
    over, under = xp.exp(-above - not_above), xp.exp(below - not_below)
    at_lower, at_upper = under * (1.0 - under), over * (1.0 - over)
    # a category's chance is one below its upper bound, above its lower one, and of its width
    width = _widths(bounds)
    seen = floats(codes[:, None] == like(np.arange(categories), codes))
    rows, odds = host(seen.sum(axis=0)), 1.0 / np.expm1(width)
    curve = rows * odds * (1.0 + odds)
    value = rows @ np.log(-np.expm1(-width)) - float(not_below.sum()) - float(not_above.sum())
    up, low = host(over @ seen) + rows * odds, host(under @ seen) + rows * odds
    square = np.diag((host(at_upper @ seen) + curve)[:-1] + (host(at_lower @ seen) + curve)[1:])
    square -= np.diag(curve[1:-1], k=1) + np.diag(curve[1:-1], k=-1)
    return _Derivatives(
        value=float(value),
        by_thresholds=up[:-1] - low[1:],
        by_slopes=host((under - over) @ columns),
        among_thresholds=square,
        across=-host(
            (seen * at_upper[:, None])[:, :-1].T @ columns
            + (seen * at_lower[:, None])[:, 1:].T @ columns
        ),
        among_slopes=host((columns * (at_lower + at_upper)[:, None]).T @ columns),
    )


def _widths(bounds: FloatVector) -> FloatVector:
    """The width of every category between its bounds, shape (c,)."""
    rising = bounds[1:] > bounds[:-1]  # two infinite bounds have no difference
    width = np.subtract(bounds[1:], bounds[:-1], out=np.zeros(len(rising)), where=rising)
    return np.clip(width, LEAST_WIDTH, MOST_WIDTH)


def regression_steps(question: RegressionSteps, expand: Expansion) -> FloatVector:
    """The answer to `RegressionSteps`, of columns in the question's units."""
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
    """A regression at the maximum over the rows of ``step``, begun from the fit ``near``."""
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
    """A step of a model of discrete variables, from the table of predictors by response."""
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

    The design has the constant first; the response codes, or numbers where ``categories`` is 0.
    With ``site_effect`` the site profiles its intercepts out; only then do ``weights`` count.
    """
    if site_effect and ordered:
        return profile_cumulative_step(design, response, coefficients, categories)
    if site_effect and categories:
        return profile_step(design, response, coefficients, categories, weights)
    if site_effect:
        design, response = centred(design, response, weights)
    return _packed(*_parts(design, response, coefficients, categories, ordered=ordered))


def fit_alone(fit: Fit, design: Array, response: Array, categories: int, weights: Array) -> bool:
    """Fit a model to the rows of one site; whether these are many, and determine it."""
    levels = like(np.arange(max(categories, 1))[:, None], response)
    observed = floats(response == levels) if categories else full((1, len(response)), 1.0, response)
    if host(observed.sum(axis=1)).min() < ROWS_PER_COEFFICIENT * design.shape[1]:
        return False
    roots = functions_of(weights).sqrt(weights)
    while not fit.finished:
        if categories:
            step = logit_step(design, weights * observed[1:], fit.proposed, weights)
        else:
            step = linear_step(design * roots[:, None], response * roots)
        value, gradient, square = step
        count = outputs(categories) if categories else 1
        fit.update(float(value), host(gradient), host(square), count)
    return not fit.diverged and fit.determined


def _packed(value: Array, gradient: Array, square: Array) -> FloatVector:
    return pack_step(float(value), host(gradient), host(square))


def _parts(
    design: Array, response: Array, coefficients: FloatVector, categories: int, *, ordered: bool
) -> Parts:
    if ordered:
        return cumulative_step(design, response, coefficients, categories)
    if categories:
        levels = like(np.arange(1, outputs(categories) + 1)[:, None], response)
        return logit_step(design, floats(response == levels), coefficients)
    return linear_step(design, response)
