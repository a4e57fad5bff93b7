"""A site's sums of survival analysis: counts in bins of time, log-rank sums, Cox likelihoods.

Where small counts may not leave, counts enter secure comparisons alone (`RoundedTotals`), and they
are exact there. What the log-rank test needs is at exact times, so that its digits would tell of
single rows: expected events and covariances are rounded to a grid, and the covariances multiplied
by keyed noise. A site takes part in the test if no group compared has few events, or few others.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import combinations

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.estimation.hazards import HazardSteps, HazardSums
from cipherdag.questions.estimation.survival import Grouped, LogRankSums, SurvivalCounts, Survived
from cipherdag.sites.compute.models.effect_answer import by_precision
from cipherdag.sites.compute.models.risk_sets import ColumnLookup, RiskSets, SurvivalRows
from cipherdag.sites.compute.noise import CellKeys
from cipherdag.sites.compute.rows import has_levels, smallest_cell
from cipherdag.statistics.newton import pack_step
from cipherdag.statistics.reproducible import LEAST_PIVOT
from cipherdag.statistics.survival import LogRankParts, log_rank_parts

GRID_BITS = 4
"""Below one, of expected events and of their covariances, where small counts may not leave."""
MOST = 30.0  # of the logarithm of a weight that is added over sites
EVENTS_PER_COEFFICIENT = 10
"""A site compares coefficients if it has as many events of each, and twice as many over time."""
LARGEST_KURTOSIS = 0.1
"""Of the sum of a column over the events: with more, it is not close to normal."""
DETERMINED = 1e-6  # how far a product of a matrix and its inverse may be from 1

log = logging.getLogger("cipherdag.site")


def survival_answer(
    question: SurvivalCounts | LogRankSums | HazardSteps | HazardSums,
    categories: tuple[int, ...],
    column: ColumnLookup,
    min_cell_size: int,
    blur: CellKeys | None,
    patients: IndexArray | None = None,
) -> FloatVector:
    """The site's answer about times until an event; ``blur`` perturbs variances.

    ``patients`` says whose each of the site's rows is. MalformedMessageError where it is about
    other columns than the site has, PolicyRefusedError where it asks for sums of counts, and the
    site restricts small ones.
    """
    asked = question.model if isinstance(question, HazardSums) else question
    check_study(asked, categories, column)
    if isinstance(question, SurvivalCounts):
        if min_cell_size > 1:
            raise PolicyRefusedError("counts of times until an event leave this site rounded only")
        return survival_counts(question, column)
    if isinstance(question, LogRankSums):
        noise = 1.0
        if blur is not None:
            key = blur.column(question.time) + blur.column(question.event)
            noise = float(blur.noise([key], [0])[0][0])
        return log_rank_sums(question, column, min_cell_size=min_cell_size, noise=noise)
    if isinstance(question, HazardSums):
        return hazard_sums(question, column, min_cell_size=min_cell_size)
    rows = SurvivalRows.of(question, column, patients)
    return _hazard_step(question, column, rows, min_cell_size=min_cell_size, blur=blur)


def check_study(asked: Survived, categories: tuple[int, ...], column: ColumnLookup) -> None:
    """Raise MalformedMessageError for other columns than the site has; log impossible times."""
    if asked.categories != categories:
        raise MalformedMessageError("times of other columns than the site's schema has")
    if SurvivalRows.of(asked, column).impossible:
        log.warning("a time lies below 0, so that this site tells nothing of times")


def _smallest_count(model: HazardSteps, column: ColumnLookup, rows: SurvivalRows) -> int:
    """The smallest nonzero count of persons of the tables that follow from steps of a Cox model.

    They are those of two among the event and the predictors that have levels; where times are few,
    steps have more numbers than the joint table of all of these, times too, so that it is this one.
    """
    sizes = {v: model.categories[v] for v in model.predictors}
    chosen = {v: column(v)[rows.rows] for v in sizes}
    levels = [values for v, values in chosen.items() if has_levels(values, sizes[v])]
    ended = rows.ended.astype(np.float64)
    if has_levels(rows.time, 0):
        return smallest_cell([rows.time, ended, *levels], rows.patients)
    tables = [[ended], *combinations([ended, *levels], 2)]
    return min(smallest_cell(each, rows.patients) for each in tables)


def counts_up_to(question: SurvivalCounts, column: ColumnLookup) -> IndexArray:
    """Of every group the events, and the rows that end, up to each edge, and the rows, (n_counts,).

    The question lays them out; zeros where a time lies below 0.
    """
    rows = SurvivalRows.of(question, column)
    if rows.impossible:
        return np.zeros(question.n_counts, dtype=np.int64)
    events, gone = _up_to_edges(question, column, rows)
    if question.by_difference:
        gone[0] += gone[1]
    return np.concatenate([events[:, :-1].ravel(), gone[:, :-1].ravel(), gone[:, -1]])


def _up_to_edges(
    question: SurvivalCounts, column: ColumnLookup, rows: SurvivalRows
) -> tuple[IndexArray, IndexArray]:
    """Events and rows that end up to each edge, and in all, by group, shape (groups, bins + 1)."""
    bins = np.searchsorted(question.edge_array(), rows.time, side="left")
    counts = np.zeros((2, question.n_groups, question.n_bins + 1), dtype=np.int64)
    np.add.at(counts, (rows.ended.astype(int), _groups_of(question, column, rows), bins), 1)
    others, events = np.cumsum(counts, axis=2)
    return events, events + others


def survival_counts(question: SurvivalCounts, column: ColumnLookup) -> FloatVector:
    """The answer to `SurvivalCounts`, of a site that restricts no small counts."""
    rows = SurvivalRows.of(question, column)
    test, able, tested = _test_of(question, column, rows, 0)
    able[list(question.compared)] &= tested
    events, gone = _up_to_edges(question, column, rows)
    before = np.pad(gone[:, :-2], ((0, 0), (1, 0)))
    cells = np.diff(events[:, :-1], prepend=0), gone[:, -1:] - before
    parts = [(cell * able[:, None]).ravel() for cell in cells]
    parts += [np.array([rows.impossible]), *_parts(test), able, np.array([tested])]
    return np.concatenate(parts, dtype=np.float64)


def log_rank_sums(
    question: LogRankSums, column: ColumnLookup, *, min_cell_size: int, noise: float = 1.0
) -> FloatVector:
    """The answer to `LogRankSums`; ``noise`` is what covariances are multiplied by, about 1."""
    rows = SurvivalRows.of(question, column)
    test, able, tested = _test_of(question, column, rows, min_cell_size)
    test = coarse(test, noise) if min_cell_size > 1 else test
    observed, expected, upper = _parts(test)
    sums = (observed - expected, upper) if question.compared else ()
    return np.concatenate([[rows.impossible], *sums, able, [tested]], dtype=np.float64)


def _test_of(
    question: Grouped, column: ColumnLookup, rows: SurvivalRows, least: int
) -> tuple[LogRankParts, BoolVector, bool]:
    """The test's sums, which groups have rows and no few events or others, and if all compared."""
    groups = question.n_groups
    nothing = LogRankParts(np.zeros(groups), np.zeros(groups), np.zeros((groups, groups)))
    if rows.impossible:
        return nothing, np.zeros(groups, dtype=bool), False
    member = _groups_of(question, column, rows)
    ends = np.array([np.bincount(member[rows.ended == end], minlength=groups) for end in (1, 0)])
    few = (ends > 0) & (ends < least)
    able: BoolVector = np.asarray(ends.any(axis=0) & ~few.any(axis=0))
    if not question.compared or not able[list(question.compared)].all():
        return nothing, able, False
    there = np.isin(member, question.compared)
    chosen = replace(rows, time=rows.time[there], ended=rows.ended[there])
    return _log_rank(chosen, member[there], groups), able, True


def _groups_of(question: Grouped, column: ColumnLookup, rows: SurvivalRows) -> IndexArray:
    """The group of every row, shape (n,)."""
    if question.by == -1:
        return np.zeros(rows.time.shape, dtype=np.int64)
    return column(question.by)[rows.rows].astype(np.int64)


def _parts(test: LogRankParts) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Events, those expected, and the upper triangle of covariances by rows."""
    upper = test.covariance[np.triu_indices(len(test.observed))]
    return test.observed, test.expected, upper


def _log_rank(rows: SurvivalRows, member: IndexArray, groups: int) -> LogRankParts:
    """The log-rank sums of a site's rows at the times of its events, by the group of each."""
    times = np.unique(rows.time[rows.ended])
    events, at_risk = np.zeros((2, groups, len(times)))
    for group in range(groups):
        there = np.sort(rows.time[member == group])
        at_risk[group] = len(there) - np.searchsorted(there, times, side="left")
        ended = np.sort(rows.time[rows.ended & (member == group)])
        up_to = np.searchsorted(ended, times, side="right")
        events[group] = np.diff(up_to, prepend=0)
    return log_rank_parts(events, at_risk)


def coarse(parts: LogRankParts, noise: float) -> LogRankParts:
    """The parts on the grid: expected events add up to the events, covariances to 0."""

    def on_grid(numbers: FloatVector) -> FloatVector:
        return np.ldexp(np.rint(np.ldexp(numbers, GRID_BITS)), -GRID_BITS)

    expected = on_grid(parts.expected)
    expected[expected.argmax()] += parts.observed.sum() - expected.sum()
    covariance = np.triu(on_grid(parts.covariance * noise), k=1)
    covariance = covariance + covariance.T
    return LogRankParts(parts.observed, expected, covariance - np.diag(covariance.sum(axis=0)))


def _hazard_step(
    question: HazardSteps,
    column: ColumnLookup,
    rows: SurvivalRows,
    *,
    min_cell_size: int,
    blur: CellKeys | None,
) -> FloatVector:
    """The answer to `HazardSteps`.

    Zeros where few persons have the event, few have rows at all, or tables have small counts.
    """
    small = min_cell_size > 1 and _smallest_count(question, column, rows) < min_cell_size
    few = rows.persons_ended < max(min_cell_size, 1) or not rows.repeats.enough(question.n_columns)
    if small or few or rows.impossible:
        return np.zeros(sum(encoding.length for encoding in question.encodings))
    design, at, efron = (
        _design(question, column, rows),
        question.coefficient_array(),
        question.efron,
    )
    if question.by_site:
        return _by_site(question, rows, design, blur)
    sets = RiskSets.of(rows, design, at, efron=efron)
    if question.of_patients:
        opened = rows.repeats.sums(sets.residuals()).squares[np.triu_indices(len(at))]
    else:
        opened = pack_step(*sets.likelihood())
    at_risk = rows.time >= rows.time[rows.ended].min()
    return np.concatenate([opened, _categories_at_risk(question, column, rows, at_risk)])


def _by_site(
    question: HazardSteps, rows: SurvivalRows, design: FloatMatrix, blur: CellKeys | None
) -> FloatVector:
    """One step over the site's rows alone, of each coefficient and of its change over time."""
    at, efron = question.coefficient_array(), question.efron
    sets = [RiskSets.of(rows, design, at, efron=efron, power=power) for power in range(3)]
    (_, score, square), (_, change, across), (_, _, changes) = (each.likelihood() for each in sets)
    count, products, repeats = len(at), None, rows.repeats
    if len(repeats.rows):
        terms = np.hstack([each.residuals() for each in sets[:2]])
        products = repeats.sums(terms).squares
    fixed = _one_step(score, square, products)
    moving = _one_step(
        np.concatenate([score, change]), np.block([[square, across], [across, changes]]), products
    )
    step, error = np.concatenate([fixed, moving[:, count:]], axis=1)
    least = EVENTS_PER_COEFFICIENT * count * np.repeat([1, 2], count)
    events = rows.persons_ended
    fourth = rows.ended.sum() * ((design - design.mean(axis=0)) ** 4).mean(axis=0)
    skewed = fourth > LARGEST_KURTOSIS * square.diagonal() ** 2
    error = np.where((events < least) | np.tile(skewed, 2), 0.0, error)
    noise = None
    if blur is not None:
        names = [*map(blur.column, (question.time, question.event, *question.predictors))]
        noise = blur.uniform(b"hazards" + b"".join(names), (2, 2 * count))
        noise[0] *= blur.sign(question.event)
    return by_precision(step, error, noise)


def _one_step(score: FloatVector, square: FloatMatrix, products: FloatMatrix | None) -> FloatMatrix:
    """A Newton step and its standard errors, 0 where nothing is determined, shape (2, m).

    Where patients have several rows, ``products`` of their parts of the score begin with those of
    its m values; else its variance is the Hessian.
    """
    scale = np.sqrt(np.maximum(square.diagonal(), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    scaled = square / (scale[:, None] * scale)
    inverse = np.linalg.pinv(scaled, rcond=LEAST_PIVOT, hermitian=True)
    determined = abs((inverse @ scaled).diagonal() - 1.0) < DETERMINED
    spread = inverse
    if products is not None:
        m = len(score)
        spread = inverse @ (products[:m, :m] / (scale[:, None] * scale)) @ inverse
    variance = np.where(determined, np.maximum(spread.diagonal(), 0.0), 0.0)
    return np.stack([inverse @ (score / scale), np.sqrt(variance)]) / scale


def hazard_sums(question: HazardSums, column: ColumnLookup, *, min_cell_size: int) -> FloatVector:
    """The answer to `HazardSums`; zeros where the site restricts small counts."""
    model, edges = question.model, question.edge_array()
    rows = SurvivalRows.of(model, column)
    if min_cell_size > 1 or rows.impossible or not len(rows.time):
        return np.zeros(sum(encoding.length for encoding in question.encodings))
    design = _design(model, column, rows)
    bins = np.searchsorted(edges, rows.time, side="left")
    ended = rows.ended & (bins < len(edges))
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
    everybody = np.ones(len(rows.time), dtype=bool)  # all rows are at risk in the first bin
    present = _categories_at_risk(model, column, rows, everybody)
    return np.concatenate([*sums, present], dtype=np.float64)


def _design(question: HazardSteps, column: ColumnLookup, rows: SurvivalRows) -> FloatMatrix:
    columns = []
    scales = zip(question.predictors, question.origin_array(), question.unit_array(), strict=True)
    for v, origin, unit in scales:
        values = column(v)[rows.rows]
        if categories := question.categories[v]:
            columns += [(values == code).astype(np.float64) for code in range(1, categories)]
        else:
            columns.append(np.ldexp(values - origin, -unit))
    return np.column_stack(columns)


def _categories_at_risk(
    question: HazardSteps, column: ColumnLookup, rows: SurvivalRows, at_risk: BoolVector
) -> FloatVector:
    """1; and for each category, and each two, whether rows at risk have them, as 0 or 1.

    Rows that end before anybody has the event do not count.
    """
    each = np.array(
        [(column(v)[rows.rows][at_risk] == code).any() for v, code in question.indicated],
        dtype=bool,
    )
    pairs = (each[:, None] & each)[np.triu_indices(len(each))]
    return np.append(1.0, pairs.astype(np.float64))
