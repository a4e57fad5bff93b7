"""A site's answers from its columns and their tables, and to questions that wrap other questions.

Source of resampling: Efron, Annals of Statistics 7 (1979); Friedman, Goldszmidt and Wyner, "Data
analysis with Bayesian networks: a bootstrap approach", UAI 1999. Every site draws as many rows as
it holds, so the sites are strata.

Leaks:
    Which rows are drawn follows from all rows of the site and its key, so only the site knows. A
    simulation has no key: whoever guesses all rows can compute it. Were it known, sums over many
    replicates would be equations in single rows.
"""

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.pooled_data import Columns, Moments, SmallCells, Tables, VariableSets
from cipherdag.questions.question import BY_PATIENT, Resampled
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.questions.verdicts import Verdicts
from cipherdag.sites.answers.registry import COUNTS_ROWS, answers
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.descriptions.location_scale_hints import column_hints, moments_of
from cipherdag.sites.compute.descriptions.shares import share_summands
from cipherdag.sites.compute.patients import standard_columns, visit_weights

LEAST_STRATUM = 2  # rows that a site needs to be compared with others
MOST_COUNTED = 256
"""Answers that a site keeps from the count of contributors until the sums are asked for.

It forgets the oldest: if no part has enough contributors, nobody asks. An answer that was forgotten
is computed again.
"""


@answers(Columns)
def kinds(question: Columns, view: SiteView) -> FloatVector:
    p, numbers, min_cell_size = view.n_variables, view.sides == 0, view.min_cell_size
    every = len(view.all_rows)
    rows = max(every, min_cell_size) if question.every else view.rows
    persons = view.table.persons if question.every and view.table else view.persons
    # a site of few patients says nothing, but a bound of all sums needs every row
    shown_rows = rows if persons >= min_cell_size or question.every else 0
    missing = np.array([view.open_rows.missing(v).any() for v in range(p)], dtype=bool)
    hints = np.zeros((5, p))  # location, then spread and size, each with a 1 if there is one
    if question.marks:
        columns = (_hinted(v, view) for v in np.flatnonzero(numbers).tolist())
        hints[:, numbers] = column_hints(columns, min_cell_size)
    shown = hints[:, : p * question.marks]
    restricted = min_cell_size > 1
    counted = [persons if persons >= min_cell_size else 0] if question.visits > 1 else []
    parts = [[1, shown_rows], counted, view.sides, *shown, missing, [restricted]]
    if question.order:
        parts.append(np.isin(np.arange(p), view.ordered))
    parts += [view.few_values] if question.few else []
    return np.concatenate(parts, dtype=np.float64)


def _hinted(variable: int, view: SiteView) -> FloatVector:
    """Numbers of a column; the disclosable ones of all rows if too few rows are complete."""
    column = view.column(variable)
    present = column[~np.isnan(column)]
    if len(present) >= view.min_cell_size or view.parent is not None:
        return present
    disclosable = view.described.column(variable)
    return disclosable[~np.isnan(disclosable)]


@answers(Moments)
def moments(question: Moments, view: SiteView) -> FloatVector:
    positions = question.positions()
    if view.sides[positions].any():
        raise MalformedMessageError("moments of columns that are not continuous at the site")
    view.check_min_rows()
    if not question.centred and view.few_values[positions].any():
        raise PolicyRefusedError("sums of a column of few values are counts")
    assert view.values is not None, "a continuous variable has values"
    view.spend(len(positions) * (len(positions) + 1) // 2)
    weighted = question.centred and view.min_cell_size > 1
    weights = view.cell_keys.weights(view.rows) if weighted else None
    worth = None
    if view.visits > 1:
        if not question.centred:
            raise PolicyRefusedError(COUNTS_ROWS, remedy=BY_PATIENT)
        worth = visit_weights(standard_columns(view.values[:, positions]), view.open_rows.patients)
    return moments_of(question, view.values, weights, view.device, worth)


@answers(SmallCells)
def small_cells(question: SmallCells, view: SiteView) -> FloatVector:
    _check_tables(question, view)
    return _flags([view.withheld(sets) for sets in question.sets()]).astype(np.float64)


@answers(Tables)
def tables(question: Tables, view: SiteView) -> FloatVector:
    _check_tables(question, view)
    small: list[BoolVector] = []
    counted: list[FloatVector] = []
    for sets in question.sets():
        withheld = np.zeros(len(sets), dtype=bool)
        if view.parent is not None:
            withheld |= view.parent.withheld(sets)
        for part, counts in view.counts.whole_tables(sets):
            withheld[part] |= view.has_small_counts(sets[part], counts)
            counted.append(counts.astype(np.float64))
        small.append(withheld)
    view.check_tables(_flags(small))
    return np.concatenate([np.zeros(0), *counted])


def _check_tables(question: VariableSets, view: SiteView) -> None:
    if view.codes is None:
        raise MalformedMessageError("tables of other categories than the site's schema has")
    view.spend(sum(question.counts))


def _flags(each: list[BoolVector]) -> BoolVector:
    return np.concatenate([np.zeros(0, dtype=bool), *each])


@answers(ColumnSums)
@answers(ValueCounts)
def descriptions(question: ColumnSums | ValueCounts, view: SiteView) -> FloatVector:
    view.spend(view.n_variables)
    return view.described.answer(question)


@answers(SiteDifferences)
def differences(question: SiteDifferences, view: SiteView) -> FloatVector:
    view.spend(sum(question.counts))
    return share_summands(
        question,
        view.disclosable_column,
        view.cell_keys,
        min_rows=max(view.min_cell_size, LEAST_STRATUM),
        given=view.min_cell_size <= 1,
        device=view.device,
        tables=view.counts.whole_tables if view.discrete else None,
    )


@answers(ContributorCounts)
def contributions(question: ContributorCounts, view: SiteView) -> FloatVector:
    view.memory.get("counted", {}).pop(question.question, None)
    answer = view.remember(
        "counted", question.question, lambda: view.answer(question.question), most=MOST_COUNTED
    )
    return question.question.contributes(answer).astype(np.float64)


@answers(Suppressed)
def suppressed(question: Suppressed, view: SiteView) -> FloatVector:
    answer = view.memory.get("counted", {}).pop(question.question, None)
    if answer is None:
        answer = view.answer(question.question)
    return question.question.suppress(answer, question.enough_array())


@answers(Resampled)
def resampled(question: Resampled, view: SiteView) -> FloatVector:
    return view.resampled(question.replicate, question.seed).answer(question.question)


@answers(Verdicts)
def words(question: Verdicts, view: SiteView) -> IndexArray:
    return question.words(view.answer(question.question))
