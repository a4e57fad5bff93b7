"""A site's answer to `EffectSums`: over all rows, over the site alone, or over incomplete rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.estimating import Estimation
from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.findings.effect import AdjustedEffect
from cipherdag.questions.estimation.effect_stages import Contribution, Missing, PerSite
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.sites.compute.device import Device
from cipherdag.sites.compute.models.estimating_functions import summed_functions
from cipherdag.sites.compute.models.refuted_rows import (
    EffectRows,
    no_contribution,
    refuted_answer,
)
from cipherdag.sites.compute.noise import VARIANCE_JITTER, CellKeys

HEAVIEST = 2.0**30
FARTHEST = 2.0**15
"""A weight, and an effect in common units, beyond which a site does not contribute its own."""
EFFECT_NOISE_SE = 0.25
"""Standard errors by which a site that restricts small counts perturbs a number at most.

Exact effects over three sites, of two categories each, have one solution in whole numbers: tables
of the sites.
"""


def effect_answer(
    question: EffectSums,
    codes: NDArray[np.integer] | None,
    values: NDArray[np.float64] | None,
    *,
    min_cell_size: int,
    blur: CellKeys,
    device: Device,
) -> FloatVector:
    """The answer to `EffectSums`.

    Args:
        question: Stage and coefficients.
        codes: Codes, shape (n, p), negative where missing; None if no variable is discrete. In the
            stage `Missing` those of all rows of the site.
        values: Numbers, shape (n, p), NaN where missing; None if no variable is continuous.
        min_cell_size: Smallest count that may leave; where that is more than 1, rows that miss any
            value are left out, so that two questions are of the same ones.
        blur: That of the site's rows, by which it changes them, and where small counts may not
            leave perturbs the effect that they determine alone.
        device: Where to compute.
    """
    rows = EffectRows(codes, values)
    if isinstance(question.stage, Missing):
        return _missing(question, rows, min_cell_size, blur)
    restricted = min_cell_size > 1
    if values is not None and restricted:
        numbers = [v for v in range(values.shape[1]) if not question.categories[v]]
        rows = rows.take(np.flatnonzero(~np.isnan(values[:, numbers]).any(axis=1)))
    if restricted and rows.smallest_cell(question) < min_cell_size:
        return no_contribution(question)
    if restricted and question.site_effect:
        # exact sums within three sites have one solution in whole numbers: their counts
        rows = replace(rows, weights=blur.weights(rows.count))

    def answer(asked: EffectSums, changed: EffectRows = rows) -> FloatVector:
        return summed_functions(asked, changed, min_cell_size, device)

    if isinstance(question.stage, PerSite):
        return _per_site(question, question.stage.reference, answer, blur if restricted else None)
    if question.refutation:
        return refuted_answer(question, rows, blur, answer=answer, min_cell_size=min_cell_size)
    return answer(question)


def _per_site(
    question: EffectSums,
    reference: int,
    answer: Callable[[EffectSums], FloatVector],
    blur: CellKeys | None,
) -> FloatVector:
    """The answer to the stage `PerSite`: the same estimation over the one site.

    Zeros where its rows alone do not determine the models.
    """
    scope = msgspec.structs.replace(question, stage=Contribution())
    facts = Facts(len(question.categories), 1)
    alone = Estimation(scope, facts, reference, leave_out=False, between=False)
    effect_alone = _finished(alone, answer)
    sums = np.zeros((4, question.contrasts))
    if effect_alone.why or not alone.determined:
        return sums.ravel()
    differences = [one for one in effect_alone.contrasts if one.scale == "difference"]
    effect = np.ldexp([one.estimate for one in differences], -question.effect_unit)
    error = np.ldexp([one.error for one in differences], -question.effect_unit)
    if blur is not None:
        pair = (question.treatment, question.outcome)
        given = sorted(blur.column(v) for v in question.adjust)
        noise = blur.uniform(b"".join([*map(blur.column, pair), *given]), (2, len(effect)))
        noise[0] *= blur.sign(*(v for v in pair if question.categories[v]))
        effect += EFFECT_NOISE_SE * noise[0] * error
        error = error * (1.0 + VARIANCE_JITTER * noise[1])
    for contrast in np.flatnonzero((error > HEAVIEST**-0.5) & (abs(effect) < FARTHEST)):
        weight, mean = 1.0 / error[contrast] ** 2, effect[contrast]
        sums[:, contrast] = weight, weight * mean, weight * mean**2, 1.0
    return sums.ravel()


def _finished(alone: Estimation, answer: Callable[[EffectSums], FloatVector]) -> AdjustedEffect:
    asking, sums = alone.run(), None
    while True:
        try:
            question = next(asking) if sums is None else asking.send(sums)
        except StopIteration as finished:
            return finished.value
        sums = answer(question)  # type: ignore[arg-type]


def _missing(
    question: EffectSums, rows: EffectRows, min_cell_size: int, blur: CellKeys
) -> FloatVector:
    """The answer to the stage `Missing`: a permutation test of each variable, as z-statistic.

    Where small counts stay, rows that miss a value of any column are incomplete, as they are left
    out there.

    Source: Agresti, Categorical Data Analysis, 8.4 (the hypergeometric variance).
    """
    sums, restricted = np.zeros((4, 2)), min_cell_size > 1
    columns = range(len(question.categories)) if restricted else question.named
    complete = ~np.logical_or.reduce([np.isnan(rows.column(question, v)) for v in columns])
    for number, variable in enumerate((question.treatment, question.outcome)):
        column, categories = rows.column(question, variable), question.categories[variable]
        present = ~np.isnan(column)
        column, incomplete = column[present], ~complete[present]
        if not categories:
            origin, unit = question.origin_array()[variable], question.unit_array()[variable]
            column = np.ldexp(column - origin, -int(unit))
        n, m = len(column), int(incomplete.sum())
        if not 0 < m < n or _smallest_cell(column, incomplete, categories) < min_cell_size:
            continue
        centred = column - column.mean()
        difference = float(centred[incomplete].sum())
        variance = float(centred @ centred) * m * (n - m) / (n * (n - 1))
        if restricted:
            noise = blur.uniform(b"left out" + blur.column(variable), (2,))
            noise[0] *= blur.sign(variable) if categories else 1.0
            difference += EFFECT_NOISE_SE * float(noise[0]) * variance**0.5
            variance *= 1.0 + VARIANCE_JITTER * float(noise[1])
        if variance > 0.0:
            sums[:, number] = difference, variance, m, 1.0
    return sums.ravel()


def _smallest_cell(column: FloatVector, incomplete: BoolVector, categories: int) -> int:
    """The smallest count but 0 of the table of a variable by who is incomplete."""
    cells = incomplete * max(categories, 1) + (column if categories else 0.0)
    counts = np.bincount(cells.astype(np.int64))
    return int(counts[counts > 0].min())
