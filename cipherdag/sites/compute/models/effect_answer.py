"""A site's answer to `EffectSums`: of all rows, the site alone, incomplete rows, or changed rows.

Changed rows try to refute an effect: a permuted treatment, a random cause, a group left out at a
time. The change is a function of all rows, so only someone who knows them all can compute it.

Sources: Sharma and Kiciman, "DoWhy: an end-to-end library for causal inference", arXiv:2011.04216
(placebo, random cause, subsets); Efron and Tibshirani, An Introduction to the Bootstrap (1993),
chapter 11 (a group left out at a time).
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.estimating import Estimation
from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.findings.effect import AdjustedEffect
from cipherdag.questions.estimation.effect_stages import Contribution, Missing, PerSite
from cipherdag.questions.estimation.effect_sums import FOLDS, EffectSums
from cipherdag.sites.compute.device import Device
from cipherdag.sites.compute.models.estimating_functions import summed_functions
from cipherdag.sites.compute.noise import VARIANCE_JITTER, CellKeys
from cipherdag.sites.compute.patients import Patients
from cipherdag.sites.compute.rows import Rows, has_levels, smallest_cell

HEAVIEST = 2.0**30
FARTHEST = 2.0**15
"""A weight, and an effect in common units, beyond which a site does not contribute its effect."""
EFFECT_NOISE_SE = 0.25
"""Standard errors by which a site that restricts small counts perturbs a number at most.

Exact effects over three sites, of variables with two categories, have one solution in whole
numbers: the sites' tables.
"""
ROWS_PER_COEFFICIENT = 4
"""Every arm of a fold needs this many rows per coefficient; sums over fewer could disclose rows."""
LEAST_CHANCE = 2.0**-53
"""Probabilities are cut at this distance from 0 and 1, so that normal numbers are finite."""


def effect_answer(
    question: EffectSums, rows: Rows, *, min_cell_size: int, blur: CellKeys, device: Device
) -> FloatVector:
    """The answer to `EffectSums`.

    If small counts are restricted, rows that miss any number are left out, so that two questions
    use the same rows. ``blur`` perturbs the effect of the site alone, and draws the changes of
    rows. In the stage `Missing` the rows are all of the site.
    """
    if isinstance(question.stage, Missing):
        return _missing(question, rows, min_cell_size, blur)
    restricted = min_cell_size > 1
    if rows.values is not None and restricted:
        rows = rows.take(rows.complete(v for v, size in enumerate(rows.categories) if not size))
    if restricted and _smallest_cell(_levelled(question, rows), rows) < min_cell_size:
        return np.zeros(question.n_values)
    if restricted and question.site_effect:
        # exact sums within three sites have one solution in whole numbers: their counts
        rows = replace(rows, weights=blur.weights(len(rows)))

    def answer(asked: EffectSums, changed: Rows = rows) -> FloatVector:
        return summed_functions(asked, changed, min_cell_size, device)

    if isinstance(question.stage, PerSite):
        return _per_site(question, question.stage.reference, answer, blur if restricted else None)
    if question.refutation:
        return _refuted(question, rows, blur, answer, min_cell_size)
    return answer(question)


def _per_site(
    question: EffectSums,
    reference: int,
    answer: Callable[[EffectSums], FloatVector],
    blur: CellKeys | None,
) -> FloatVector:
    """The answer to `PerSite`, the same over one site; zeros if its rows determine too little."""
    scope = msgspec.structs.replace(question, stage=Contribution())
    facts = Facts(len(question.categories), 1)
    alone = Estimation(scope, facts, reference, leave_out=False, between=False)
    effect_alone = _finished(alone, answer)
    if effect_alone.why or not alone.determined:
        return np.zeros(4 * question.contrasts)
    differences = [one for one in effect_alone.contrasts if one.scale == "difference"]
    effect = np.ldexp([one.estimate for one in differences], -question.effect_unit)
    error = np.ldexp([one.error for one in differences], -question.effect_unit)
    noise = None
    if blur is not None:
        pair = (question.treatment, question.outcome)
        given = sorted(blur.column(v) for v in question.adjust)
        noise = blur.uniform(b"".join([*map(blur.column, pair), *given]), (2, len(effect)))
        noise[0] *= blur.sign(*(v for v in pair if question.categories[v]))
    return by_precision(effect, error, noise)


def by_precision(effect: FloatVector, error: FloatVector, noise: FloatMatrix | None) -> FloatVector:
    """1 over the variance of each effect, that times it, and times its square; then 1; or zeros.

    Effects of one site are in common units, shape (k,), their errors not finite or 0 where there is
    none. ``noise``, from -1 to 1, perturbs both, shape (2, k).
    """
    if noise is not None:
        effect = effect + EFFECT_NOISE_SE * noise[0] * error
        error = error * (1.0 + VARIANCE_JITTER * noise[1])
    there = (error > HEAVIEST**-0.5) & (abs(effect) < FARTHEST)
    weight, mean = there / np.where(there, error, 1.0) ** 2, np.where(there, effect, 0.0)
    return np.concatenate([weight, weight * mean, weight * mean**2, there])


def _finished(alone: Estimation, answer: Callable[[EffectSums], FloatVector]) -> AdjustedEffect:
    asking, sums = alone.run(), None
    while True:
        try:
            question = next(asking) if sums is None else asking.send(sums)
        except StopIteration as finished:
            return finished.value
        sums = answer(question)  # type: ignore[arg-type]


def _missing(question: EffectSums, rows: Rows, min_cell_size: int, blur: CellKeys) -> FloatVector:
    """The answer to the stage `Missing`: a permutation test of each variable, as z-statistic.

    Where small counts are restricted, rows that miss a value of any column count as
    incomplete.

    Source: Agresti, Categorical Data Analysis, 8.4 (the hypergeometric variance).
    """
    sums, restricted = np.zeros((4, 2)), min_cell_size > 1
    columns = range(len(question.categories)) if restricted else question.named
    complete = rows.complete(columns)
    for number, variable in enumerate((question.treatment, question.outcome)):
        column, categories = rows.column(variable), question.categories[variable]
        present = ~np.isnan(column)
        column, incomplete = column[present], ~complete[present]
        if not categories:
            origin, unit = question.origin_array()[variable], question.unit_array()[variable]
            column = np.ldexp(column - origin, -int(unit))
        n, m = len(column), int(incomplete.sum())
        patients = None if rows.patients is None else rows.patients[present]
        cells = [incomplete.astype(np.float64), *([column] if categories else [])]
        least = smallest_cell(cells, patients)
        if not 0 < m < n or least < min_cell_size:
            continue
        centred = column - column.mean()
        difference = float(centred[incomplete].sum())
        variance = float(centred @ centred) * m * (n - m) / (n * (n - 1))
        if rows.patients is not None:
            terms = (centred * (incomplete - m / n))[:, None]
            by_patient = Patients(rows.patients[present]).repeats().sums(terms)
            variance += float(by_patient.beyond(np.array([variance]))[0])
        if restricted:
            noise = blur.uniform(b"left out" + blur.column(variable), (2,))
            noise[0] *= blur.sign(variable) if categories else 1.0
            difference += EFFECT_NOISE_SE * float(noise[0]) * variance**0.5
            variance *= 1.0 + VARIANCE_JITTER * float(noise[1])
        if variance > 0.0:
            sums[:, number] = difference, variance, m, 1.0
    return sums.ravel()


def _levelled(question: EffectSums, rows: Rows) -> list[int]:
    """The variables named that have categories, or numbers of few values."""
    held = (v for v in question.named if v < len(rows.categories))  # no random cause that is added
    return [v for v in held if has_levels(rows.column(v), rows.categories[v])]


def _smallest_cell(levelled: list[int], rows: Rows) -> int:
    """The smallest nonzero count in the joint table of some variables."""
    columns = [np.zeros(len(rows)), *map(rows.column, levelled)]
    return smallest_cell(columns, rows.patients)


def _smallest_arm(question: EffectSums, rows: Rows) -> int:
    """The rows of the smallest arm of the treatment that has any; all rows for a number."""
    if rows.codes is None or not question.categories[question.treatment]:
        return len(rows)
    counts = np.bincount(rows.codes[:, question.treatment])
    return int(counts[counts > 0].min(initial=len(rows)))


def _refuted(
    question: EffectSums,
    rows: Rows,
    blur: CellKeys,
    answer: Callable[[EffectSums, Rows], FloatVector],
    min_cell_size: int,
) -> FloatVector:
    """The answer of changed rows; zeros where their small counts may not leave."""
    last = len(question.categories) - 1
    named = [v for v in question.named if question.refutation != "random-cause" or v != last]
    rows = rows.take(rows.complete(named))
    levelled = _levelled(question, rows)
    strict = min_cell_size > 1 and len(levelled) < len(named)
    if question.refutation == "random-cause":
        return answer(question, with_random_cause(rows, blur))
    if question.refutation == "placebo":
        changed = placebo(rows, question.treatment, question.named, blur)
        if strict and _smallest_cell(levelled, changed) < min_cell_size:
            return np.zeros(question.n_values)
        return answer(question, changed)
    fold = fold_numbers(rows, question.named, blur)
    if rows.patients is not None:
        # a patient is left out whole, as the first of his rows says
        _, first, whose = np.unique(rows.patients, return_index=True, return_inverse=True)
        fold = fold[first][whose.ravel()]
    folds = [rows.take(fold == number) for number in range(FOLDS)]
    size = ROWS_PER_COEFFICIENT * max(map(question.size, question.needed), default=0)
    if strict and any(
        _smallest_cell(levelled, part) < min_cell_size or _smallest_arm(question, part) < size
        for part in folds
    ):
        return np.zeros(question.n_values)
    rest = answer(question, rows.take(fold != question.fold))
    in_every_fold = np.min([answer(question.counted_as, part) for part in folds], axis=0)
    return np.concatenate([rest[: len(rest) - len(in_every_fold)], in_every_fold])


def fold_numbers(rows: Rows, named: tuple[int, ...], blur: CellKeys) -> FloatVector:
    """The random fold of every row, from 0, shape (n,)."""
    return np.floor((_uniform(rows, b"parts of rows", named, blur) + 1.0) * (FOLDS / 2.0))


def placebo(rows: Rows, treatment: int, named: tuple[int, ...], blur: CellKeys) -> Rows:
    """The rows with the treatment permuted."""
    drawn = _uniform(rows, b"placebo %d" % treatment, named, blur)
    order = np.argsort(drawn, kind="stable")
    codes = None if rows.codes is None else rows.codes.copy()
    values = None if rows.values is None else rows.values.copy()
    for columns in (codes, values):
        if columns is not None:
            columns[:, treatment] = columns[order, treatment]
    return replace(rows, codes=codes, values=values)


def _uniform(rows: Rows, purpose: bytes, named: tuple[int, ...], blur: CellKeys) -> FloatVector:
    """A number from -1 to 1 for every row, shape (n,).

    Questions on other variables get other numbers: equal ones would disclose a joint table.
    """
    return blur.uniform(purpose + np.array(named, dtype="<i8").tobytes(), (len(rows),))


def with_random_cause(rows: Rows, blur: CellKeys) -> Rows:
    """The rows with one more column, of standard normal numbers."""
    from scipy.special import ndtri

    chance = (blur.uniform(b"random cause", (len(rows),)) + 1.0) / 2.0
    cause = ndtri(np.clip(chance, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    values = rows.values
    if values is None:
        values = np.full((len(rows), len(rows.categories)), np.nan)
    values = np.column_stack([values, cause])
    return replace(rows, values=values, categories=(*rows.categories, 0))
