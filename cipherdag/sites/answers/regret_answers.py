"""A site's regrets: how much worse a graph scores on its rows than the graph it learnt itself.

A regret follows from the counts of a few tables, and the largest regret, which is disclosed, is one
site's. So a site that restricts small counts collapses rare categories, adds noise to likelihoods
that follows from their values, and rounds regrets to multiples of a sixteenth. Sets that split the
rows in the same way, in whichever run, give an attacker one equation and not many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import BoundExceededError, MalformedMessageError, MixedTypesError
from cipherdag.graphs.dags import Dag
from cipherdag.questions.regrets import (
    FamilyRegretExceeds,
    FamilyRegrets,
    GraphRegretExceeds,
    ScoreSpec,
    largest_on_grid,
)
from cipherdag.questions.scores.likelihoods import COARSE_BITS
from cipherdag.sites.answers.registry import answers
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.answers.table_tests import odd_column
from cipherdag.sites.compute.noise import CellKeys
from cipherdag.sites.compute.scores.learners import best_graph
from cipherdag.sites.compute.scores.scores import (
    DiscreteBic,
    FamilyScore,
    GaussianBic,
    LocalScores,
    Noise,
)
from cipherdag.sites.table.site_table import SiteTable

LOGLIK_NOISE_NATS = 1.0
"""Largest noise, either way, that a site which restricts small counts adds to a log likelihood."""
ROUNDED_BITS = 20  # binary places to which likelihoods are rounded before noise is drawn from them
MOST_SPECIFICATIONS = 64  # scores and local algorithms of one run, with what was learnt by each


@dataclass(frozen=True, slots=True)
class _Learnt:
    """Scores under one specification, and the graph that the site learnt with them."""

    scores: LocalScores
    graph: Dag

    @classmethod
    def under(cls, spec: ScoreSpec, view: SiteView) -> _Learnt:
        """Learn the site's best graph under a specification, once a run."""

        def learn() -> _Learnt:
            scores = _scores(view, spec)
            return cls(scores, best_graph(scores))

        return view.remember("regrets", spec, learn, most=MOST_SPECIFICATIONS)

    def regrets(self, question: FamilyRegrets | FamilyRegretExceeds) -> IndexArray:
        """Regret of every family on the grid, shape (F,)."""
        families = question.family_list()
        scores = self.scores.evaluate(families)
        best = self.scores.evaluate([(v, self.graph[v]) for v, _ in families])
        return on_grid(scores - best, question.grid_bits, self.scores.disclosed_bits)

    def graph_regrets(self, question: GraphRegretExceeds) -> IndexArray:
        """Regret of every graph on the grid, shape (K,): R_i of Eq. 2."""
        try:
            rows = question.graph_rows()
        except ValueError as error:
            raise MalformedMessageError(str(error)) from error
        scores = self.scores.evaluate(question.family_list())
        totals = np.zeros(question.n_graphs)
        # variable by variable, so that a graph's sum does not depend on the others asked with it
        for column in rows.T:
            totals += scores[column]
        best = 0.0
        for family in enumerate(self.graph):
            best += self.scores.of(family)
        return on_grid(totals - best, question.grid_bits, self.scores.disclosed_bits)


@answers(FamilyRegrets)
def family_regrets(question: FamilyRegrets, view: SiteView) -> FloatVector:
    """Each family's regret; MixedTypesError for a score that does not fit, else as `on_grid`."""
    grid = _Learnt.under(question.spec, view).regrets(question)
    return np.ldexp(grid.astype(np.float64), -question.grid_bits)


@answers(FamilyRegretExceeds)
@answers(GraphRegretExceeds)
def regret_exceeds(
    question: FamilyRegretExceeds | GraphRegretExceeds, view: SiteView
) -> FloatVector:
    learnt = _Learnt.under(question.spec, view)
    if isinstance(question, GraphRegretExceeds):
        grid = learnt.graph_regrets(question)
    else:
        grid = learnt.regrets(question)
    return (grid[:, None] > question.threshold_array()).astype(np.float64).ravel()


def _scores(view: SiteView, spec: ScoreSpec) -> LocalScores:
    if view.make_scores is not None:
        return view.make_scores(spec)
    if view.table is None or view.parent is not None:
        raise MalformedMessageError("this site scores no graphs")
    return table_scores(
        view.table,
        spec,
        device=view.device_name,
        spend=view.spend,
        min_cell_size=view.min_cell_size,
        cell_keys=view.cell_keys if view.min_cell_size > 1 else None,
    )


def on_grid(regrets: FloatVector, grid_bits: int, disclosed_bits: int | None = None) -> IndexArray:
    """Round regrets to the coarser of two grids; BoundExceededError for one beyond the bound."""
    rounded_bits = grid_bits if disclosed_bits is None else min(grid_bits, disclosed_bits)
    scaled = np.rint(np.ldexp(regrets, rounded_bits))
    if not (np.abs(scaled) <= largest_on_grid(rounded_bits)).all():
        raise BoundExceededError("a regret is not a number or beyond the bound of the question")
    return scaled.astype(np.int64) << (grid_bits - rounded_bits)


def table_scores(
    table: SiteTable,
    spec: ScoreSpec,
    *,
    device: str = "auto",
    spend: Callable[[int], None] | None = None,
    min_cell_size: int = 0,
    cell_keys: CellKeys | None = None,
) -> LocalScores:
    """The scores that a question names, over one site's table.

    MixedTypesError where they do not fit the columns' types. Categories of fewer rows than
    ``min_cell_size`` are collapsed; without ``cell_keys`` regrets are exact.
    """
    noise: Noise | None = None
    if cell_keys is not None:
        about = b"description length" if spec.score == "mdl" else b"likelihood"
        noise = partial(likelihood_noise, cell_keys, about)
    score = _family_score(table, spec, device, min_cell_size, noise)
    return LocalScores(score, spend, disclosed_bits=None if noise is None else COARSE_BITS)


def _collapsed(
    codes: NDArray[np.integer], levels: tuple[int, ...], min_cell_size: int
) -> NDArray[np.integer]:
    """Codes with rare categories collapsed into neighbours; rows with a gap stay as they are."""
    complete = (codes >= 0).all(axis=1)
    collapsed = codes.copy()
    for v, size in enumerate(levels):
        column = codes[complete, v]
        counts = np.bincount(column, minlength=size)
        collapsed[complete, v] = collapse_rare_categories(counts, min_cell_size)[column]
    return collapsed


def collapse_rare_categories(counts: IndexArray, min_cell_size: int) -> IndexArray:
    """Recode each category of few rows into the one below, and the lowest into the one above."""
    left, into = counts.copy(), np.arange(len(counts))
    for code in range(len(counts) - 1, 0, -1):
        if 0 < left[code] < min_cell_size:
            left[code - 1] += left[code]
            left[code] = 0
            into[into == code] = code - 1
    above = np.flatnonzero(left[1:]) + 1
    if 0 < left[0] < min_cell_size and len(above):
        into[into == 0] = above[0]
    return into


def likelihood_noise(cell_keys: CellKeys, about: bytes, likelihoods: FloatVector) -> FloatVector:
    """Noise of up to `LOGLIK_NOISE_NATS` nats; equal exact likelihoods have equal noise."""
    rounded = np.rint(np.ldexp(likelihoods, ROUNDED_BITS)).astype("<i8")
    _, drawn = cell_keys.noise([about + one.tobytes() for one in rounded], [1] * len(rounded))
    return LOGLIK_NOISE_NATS * drawn


def _family_score(
    table: SiteTable, spec: ScoreSpec, device: str, min_cell_size: int, noise: Noise | None
) -> FamilyScore:
    if table.kind == "mixed":
        raise MixedTypesError(
            f"the score '{spec.score}' takes columns of one kind",
            column=odd_column(table),
            remedy='Cut continuous columns into bins (kind = "binned" in schema.toml), or run '
            'fedpc with --evidence glm (Python: evidence="glm"), which takes both.',
        )
    if table.codes is not None:
        if spec.score == "mdl":
            raise MixedTypesError(
                "the score 'mdl' takes continuous columns only",
                column=table.schema.variables[0].name,
                remedy='Run with --score bic (Python: score="bic"), which takes discrete '
                "columns too.",
            )
        codes = table.codes
        if min_cell_size > 1:
            codes = _collapsed(codes, table.cardinalities, min_cell_size)
        return DiscreteBic(codes, table.cardinalities, device=device, noise=noise)
    values: NDArray[np.float64] | None = table.values
    assert values is not None, "a table has codes or values"
    if spec.score != "mdl":
        return GaussianBic(values, device=device, noise=noise)
    from cipherdag.sites.compute.scores.spline_mdl import SplineMdl  # loads torch

    return SplineMdl(values, device=device, noise=noise)
