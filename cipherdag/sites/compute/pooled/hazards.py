"""A site's half of Cox models: its own partial likelihood, or its sums over rows at risk.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.survival.hazards import HazardSteps, HazardSums
from cipherdag.sites.compute.pooled.followed import Followed
from cipherdag.statistics.regression_fits import pack_step

MOST = 30.0
"""Of the logarithm of a weight that is added over sites."""
LEAST = 1e-200
"""Of a sum of weights, the largest of which is 1: less is left where a step goes far too far."""


def hazard_step(
    question: HazardSteps, column: Callable[[int], FloatVector], *, least: int, few: bool
) -> FloatVector:
    """The answer to `HazardSteps`; zeros where it tells nothing.

    Args:
        question: Columns and coefficients.
        column: Codes or values of one variable, NaN where missing, shape (rows of the site,).
        least: Smallest number of events that is told of.
        few: Whether a table that this tells of has small counts.
    """
    own = Followed.of(question, column)
    if few or own.impossible or own.ended.sum() < max(least, 1):
        return np.zeros(sum(encoding.length for encoding in question.encodings))
    design = design_of(question, column, own)
    step = own_likelihood(own, design, question.coefficient_array(), efron=question.efron)
    at_risk = own.time >= own.time[own.ended].min()
    return np.concatenate([pack_step(*step), present(question, column, own, at_risk)])


def hazard_sums(
    question: HazardSums, column: Callable[[int], FloatVector], *, least: int
) -> FloatVector:
    """The answer to `HazardSums`; zeros where the site restricts small counts.

    Args:
        question: Columns, coefficients and bins.
        column: As for `hazard_step`.
        least: As for `hazard_step`.
    """
    model, edges = question.model, question.edge_array()
    own = Followed.of(model, column)
    if least > 1 or own.impossible or not len(own.time):
        return np.zeros(sum(encoding.length for encoding in question.encodings))
    design = design_of(model, column, own)
    bins = np.searchsorted(edges, own.time, side="left")
    ended = own.ended & (bins < len(edges))
    # a step that goes this far is a worse one, and is halved
    weights = np.exp(np.minimum(design @ model.coefficient_array(), MOST))
    upper = ~np.tri(design.shape[1], k=-1, dtype=bool)
    squares = (design[:, :, None] * design[:, None])[:, upper]
    each = weights[:, None] * np.column_stack([np.ones(len(design)), design, squares])
    at_risk, tied = np.zeros((2, len(edges) + 1, each.shape[1]))
    np.add.at(at_risk, bins, each)
    np.add.at(tied, bins[ended], each[ended])
    at_risk = np.cumsum(at_risk[::-1], axis=0)[::-1]
    events = np.bincount(bins[ended], minlength=len(edges))
    sums = events, design[ended].sum(axis=0), at_risk[:-1].ravel(), tied[:-1].ravel()
    everybody = np.ones(len(own.time), dtype=bool)  # all rows are at risk in the first bin
    return np.concatenate([*sums, present(model, column, own, everybody)], dtype=np.float64)


def design_of(
    question: HazardSteps, column: Callable[[int], FloatVector], own: Followed
) -> FloatMatrix:
    """The columns of a model, shape (n, m)."""
    columns = []
    scales = zip(question.predictors, question.origin_array(), question.unit_array(), strict=True)
    for v, origin, unit in scales:
        values = column(v)[own.rows]
        if categories := question.categories[v]:
            columns += [(values == code).astype(np.float64) for code in range(1, categories)]
        else:
            columns.append(np.ldexp(values - origin, -unit))
    return np.column_stack(columns)


def present(
    question: HazardSteps,
    column: Callable[[int], FloatVector],
    own: Followed,
    at_risk: BoolVector,
) -> FloatVector:
    """1; and for each category, and each two, whether there are rows of them, as 0 or 1.

    Rows that end before anybody is at risk tell nothing, and do not count.
    """
    each = np.array(
        [(column(v)[own.rows][at_risk] == code).any() for v, code in question.indicated],
        dtype=bool,
    )
    pairs = (each[:, None] & each)[np.triu_indices(len(each))]
    return np.append(1.0, pairs.astype(np.float64))


def own_likelihood(
    own: Followed, design: FloatMatrix, coefficients: FloatVector, *, efron: bool
) -> tuple[float, FloatVector, FloatMatrix]:
    """Logarithm of a site's partial likelihood, its gradient, and minus its Hessian.

    What a row adds to the sums over all risk sets that it is in is one weight, so that no matrix is
    kept per time: with e the mean columns of a risk set, the Hessian is X' diag(q) X - sum e e'.
    """
    order = np.argsort(own.time, kind="stable")
    time, ended, design = own.time[order], own.ended[order], design[order]
    linear = design @ coefficients
    largest = float(linear.max())
    weights = np.exp(linear - largest)
    times, place = np.unique(time[ended], return_inverse=True)
    first = np.searchsorted(time, times, side="left")
    weighted = np.column_stack([weights, weights[:, None] * design])
    at_risk = np.cumsum(weighted[::-1], axis=0)[::-1][first]
    tied = np.zeros_like(at_risk)
    np.add.at(tied, place, weighted[ended])
    count, taken = _tied(place, len(times), efron=efron)
    sums = at_risk[count] - taken[:, None] * tied[count]
    total = np.maximum(sums[:, 0], LEAST)
    means, share = sums[:, 1:] / total[:, None], 1.0 / total
    risk = np.cumsum(np.bincount(count, share, minlength=len(times)))
    reached = np.searchsorted(times, time, side="right")
    factor = np.where(reached > 0, risk[np.maximum(reached - 1, 0)], 0.0)
    factor[ended] -= np.bincount(count, share * taken, minlength=len(times))[place]
    value = linear[ended].sum() - np.log(total).sum() - largest * len(count)
    gradient = design[ended].sum(axis=0) - means.sum(axis=0)
    hessian = design.T @ ((factor * weights)[:, None] * design) - means.T @ means
    return float(value), gradient, hessian


def _tied(place: IndexArray, times: int, *, efron: bool) -> tuple[IndexArray, FloatVector]:
    """Of every event its time, and which share of those tied with it is taken off the risk set."""
    ties = np.bincount(place, minlength=times)
    count = np.repeat(np.arange(times), ties)
    before = np.arange(len(place)) - np.repeat(np.cumsum(ties) - ties, ties)
    taken = before / ties[count] if efron else np.zeros(len(place))
    return count, taken
