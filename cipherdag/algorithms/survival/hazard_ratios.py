"""A Cox model over all sites, by Newton steps on sums.

With a hazard of each site's own nothing is opened but a value, a gradient and a Hessian per step;
with one hazard of all sites, sums over the rows at risk in every bin of time.
"""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.evidence.effects import LARGEST_LOG
from cipherdag.algorithms.evidence.pooled_moments import common_origins, common_units
from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.findings.effect import BetweenSites
from cipherdag.findings.survival import HazardModel, HazardRatio
from cipherdag.questions.encodings import pack_integers, require_possible, segments
from cipherdag.questions.estimation.hazards import HazardSteps, HazardSums, column_count
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.questions.regression_steps import values_per_step
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed, sum_with_threshold
from cipherdag.statistics.newton import step_parts
from cipherdag.statistics.p_values import WIDTH
from cipherdag.statistics.survival import HazardFit, RiskSums, partial_likelihood, quadratic_form

Fitting = Generator["Question", "FloatVector", "Fitted"]
Step = tuple[float, "FloatVector", "NDArray[np.float64]"]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A Cox model at its maximum."""

    first: HazardSteps  # the question of its first step: rows, predictors and scales
    fit: HazardFit | None  # the maximum; None where too few sites tell
    sites: int  # how many sites tell
    site_hazards: bool  # whether each site has a hazard of its own
    # of which categories, position and code, too few sites have rows
    few: tuple[tuple[int, int], ...] = ()
    # sums over sites of what each one's rows tell alone, as `HazardSteps` has them; empty where
    # nothing was asked
    by_site: FloatVector = field(default_factory=lambda: np.zeros(0))


def first_step(
    kinds: ColumnKinds, adjust: tuple[int, ...], rows: Mapping[str, Any], *, efron: bool
) -> HazardSteps:
    """The question of the first step, of the predictors ``adjust``; rows are as in `Survived`."""
    chosen = np.array(adjust)
    discrete = kinds.categories[chosen] > 0
    origins = np.where(discrete, 0.0, common_origins(kinds)[chosen])
    columns = column_count(adjust, rows["categories"])
    return HazardSteps(
        **rows,
        predictors=adjust,
        origins=np.ascontiguousarray(origins, dtype="<f8").tobytes(),
        units=pack_integers(np.where(discrete, 0, common_units(kinds)[chosen])),
        coefficients=np.zeros(columns, dtype="<f8").tobytes(),
        efron=efron,
    )


def fitted(
    first: HazardSteps, edges: bytes | None, min_contributors: int, *, repeats: bool = False
) -> Fitting:
    """Fit a model; two rounds per step, or one where one site alone may answer.

    Where hazards are stratified by site, one step more asks how sites differ; where patients have
    several rows (``repeats``), one asks how patients do.

    ``first`` is the question of the first step, whose coefficients are 0. Edges of bins are packed;
    None where hazards are stratified. ``min_contributors`` sites must contribute, overall and to
    every category and pair of categories that one has: gradient and Hessian are of these alone.
    """
    fit, sites = HazardFit(first.coefficient_array()), 0
    while not fit.finished:
        coefficients = np.ascontiguousarray(fit.proposed, dtype="<f8").tobytes()
        model = msgspec.structs.replace(first, coefficients=coefficients)
        question = model if edges is None else HazardSums(model=model, edges=edges)
        if min_contributors <= 1:
            sums = yield question
        else:
            counts = np.rint((yield ContributorCounts(question=question)))
            if few := _few(model, counts, min_contributors):
                return Fitted(first, None, 0, edges is None, few)
            sums = yield from open_unsuppressed(question, counts >= min_contributors)
        sites = int(segments(question.encodings, sums)[-1][0])
        if not sites:
            return Fitted(first, None, 0, edges is None)
        step = (
            _summed(question, sums) if isinstance(question, HazardSums) else _of_sites(model, sums)
        )
        fit.update(*step)
    if edges is not None or fit.separated.any():
        return Fitted(first, fit, sites, edges is None)
    at_best = np.ascontiguousarray(fit.coefficients, dtype="<f8").tobytes()
    if repeats:
        asked = msgspec.structs.replace(first, coefficients=at_best, of_patients=True)
        sums = yield from sum_with_threshold(asked, min_contributors)
        products, telling = segments(asked.encodings, sums)
        products = square(products, first.n_columns)
        holds = int(telling[0]) == sites and (products.diagonal() >= 0.0).all()
        require_possible(asked.label, "other sites tell, or squares below 0", holds=bool(holds))
        fit.spread(products)
    alone = msgspec.structs.replace(first, coefficients=at_best, by_site=True)
    by_site = yield from sum_with_threshold(alone, min_contributors)
    return Fitted(first, fit, sites, site_hazards=True, by_site=by_site)


def _few(model: HazardSteps, counts: FloatVector, needed: int) -> tuple[tuple[int, int], ...]:
    """The categories that few sites have rows of, or of which and another few have, if sites tell.

    ``counts`` has how many sites tell, and have rows of each category, and of each two; so many as
    ``needed`` have to, unless none does.
    """
    if counts[0] < needed:
        return ()
    named = model.indicated
    rows = np.zeros((len(named),) * 2)
    rows[np.triu_indices(len(named))] = counts[1:]
    few = (rows > 0) & (rows < needed)
    alone = few.diagonal().copy()
    # of two the pair is told only where neither is one of few sites by itself
    pairs = few & ~alone & ~alone[:, None]
    return tuple(named[k] for k in np.flatnonzero(alone | pairs.any(axis=0) | pairs.any(axis=1)))


def _of_sites(model: HazardSteps, sums: FloatVector) -> Step:
    return step_parts(segments(model.encodings, sums)[0], model.n_columns)


def _summed(question: HazardSums, sums: FloatVector) -> Step:
    model, bins = question.model, len(question.edges) // 8
    events, rest, _ = segments(question.encodings, sums)
    of_events, by_bin = np.split(rest, [model.n_columns])
    at_risk, tied = by_bin.reshape(2, bins, values_per_step(model.n_columns))
    sums_at_risk = RiskSums(events, of_events, at_risk, tied)
    return partial_likelihood(sums_at_risk, model.coefficient_array(), efron=model.efron)


def model_of(model: Fitted, names: Sequence[str]) -> HazardModel:
    """The model by name."""
    fit, first = model.fit, model.first
    ratios = tuple(_ratios(model, names))
    if fit is None:
        few = tuple((names[v], code) for v, code in model.few)
        return HazardModel(sites=0, site_hazards=model.site_hazards, ratios=ratios, few=few)
    tested = fit.rank > 0 and not fit.separated.any()
    gained = max(2.0 * (fit.value - fit.null), 0.0)
    if tested and len(fit.covariance):
        gained, _ = quadratic_form(fit.coefficients, fit.covariance)
    return HazardModel(
        sites=model.sites,
        site_hazards=model.site_hazards,
        efron=first.efron,
        ratios=ratios,
        value=fit.value,
        null=fit.null,
        statistic=gained if tested else None,
        dof=fit.rank,
        p_value=_tail(gained, fit.rank) if tested else None,
    )


def _ratios(model: Fitted, names: Sequence[str]) -> Iterator[HazardRatio]:
    """The hazard ratios of every column of the model, per unit of the data."""
    first, columns = model.first, list[tuple[str, int | None, int]]()
    for v, unit in zip(first.predictors, first.unit_array().tolist(), strict=True):
        codes = range(1, first.categories[v])
        each = [(names[v], code, 0) for code in codes]
        columns += each if first.categories[v] else [(names[v], None, unit)]
    scales = [math.ldexp(1.0, -unit) for _, _, unit in (*columns, *columns)]
    sums = model.by_site if len(model.by_site) else np.zeros(4 * len(scales))
    of_sites = BetweenSites.all_of(sums, [None] * len(scales), scales)
    halves = of_sites[: len(columns)], of_sites[len(columns) :]
    for at, (column, steps, over_time) in enumerate(zip(columns, *halves, strict=True)):
        ratio, between = _ratio(*column, model.fit, at), steps
        if steps is not None and ratio.log_ratio is not None:
            between = replace(steps, estimate=ratio.log_ratio + steps.estimate)
        yield replace(ratio, between=between, over_time=over_time)


def _ratio(
    name: str, category: int | None, unit: int, fit: HazardFit | None, at: int
) -> HazardRatio:
    if fit is None:
        return HazardRatio(column=name, category=category, fault="withheld")
    log = math.ldexp(float(fit.coefficients[at]), -unit)
    deviation = math.ldexp(float(fit.deviations[at]), -unit)
    if fit.separated[at]:
        fault = "endless down" if fit.coefficients[at] < 0.0 else "endless up"
        return HazardRatio(column=name, category=category, fault=fault)
    if deviation == 0.0 or abs(log) + WIDTH * deviation > LARGEST_LOG:
        return HazardRatio(column=name, category=category, fault="not determined")
    ratio, low, high = (math.exp(log + sign * WIDTH * deviation) for sign in (0.0, -1.0, 1.0))
    return HazardRatio(
        column=name,
        category=category,
        log_ratio=log,
        deviation=deviation,
        ratio=ratio,
        low=low,
        high=high,
        p_value=math.erfc(abs(log) / deviation / math.sqrt(2.0)),
    )


def square(upper: FloatVector, size: int) -> FloatMatrix:
    """The symmetric matrix of an upper triangle by rows."""
    whole = np.zeros((size, size))
    whole[np.triu_indices(size)] = upper
    return whole + np.triu(whole, k=1).T


def _tail(statistic: float, dof: int) -> float:
    from scipy.special import gammaincc

    return float(gammaincc(dof / 2.0, statistic / 2.0))
