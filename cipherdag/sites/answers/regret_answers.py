"""A site's regrets: how much worse a graph scores on its rows than the graph it learnt itself.

A regret is a function of the whole numbers of a few tables, and the largest one, which is opened,
is one site's. So a site that restricts small counts joins rare categories, moves likelihoods as
those of `LogLikelihoods` are moved, and tells regrets to a sixteenth.

Leaks:
    Nothing: regrets stay inside the site until they are protected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import (
    BoundExceededError,
    MalformedMessageError,
    MixedTypesError,
)
from cipherdag.graphs.dags import Dag, Family
from cipherdag.questions.likelihoods import COARSE_BITS
from cipherdag.questions.regrets import (
    FamilyRegretExceeds,
    FamilyRegrets,
    GraphRegretExceeds,
    ScoreSpec,
    largest_on_grid,
)
from cipherdag.sites.answers.odd_column import odd_column
from cipherdag.sites.compute.pooled.blur import Blur
from cipherdag.sites.table.site_table import SiteTable

if TYPE_CHECKING:
    from cipherdag.sites.compute.scores.scores import FamilyScore, LocalScores, Moves

RegretQuestion = GraphRegretExceeds | FamilyRegretExceeds | FamilyRegrets


@dataclass(frozen=True, slots=True)
class _Learnt:
    """Scores under one specification, and the graph that the site found with them."""

    scores: LocalScores
    graph: Dag


class Regrets:
    """Answers the questions of RFcd; scores and the site's own graph are kept between rounds.

    Args:
        make_scores: Makes the scores that a question names; `table_scores` for a site's own table.
    """

    def __init__(self, make_scores: Callable[[ScoreSpec], LocalScores]) -> None:
        self._make_scores = make_scores
        self._learnt: dict[ScoreSpec, _Learnt] = {}

    def answer(self, question: RegretQuestion) -> FloatVector:
        """0/1 per threshold, row by row, or one regret per family.

        Raises:
            MalformedMessageError: The packed graphs cannot be read.
            MixedTypesError: The score does not fit the columns' types.
            BoundExceededError: A regret is not a number, or beyond the declared bound.
        """
        learnt = self._of(question.spec)
        if isinstance(question, FamilyRegrets):
            grid = self._families(learnt, question.family_list(), question.grid_bits)
            return np.ldexp(grid.astype(np.float64), -question.grid_bits)
        if isinstance(question, FamilyRegretExceeds):
            grid = self._families(learnt, question.family_list(), question.grid_bits)
        else:
            grid = self._graphs(learnt, question)
        return (grid[:, None] > question.threshold_array()).astype(np.float64).ravel()

    def _of(self, spec: ScoreSpec) -> _Learnt:
        from cipherdag.sites.compute.scores.learners import best_graph

        if spec not in self._learnt:
            scores = self._make_scores(spec)
            self._learnt[spec] = _Learnt(scores, best_graph(scores, spec.learner))
        return self._learnt[spec]

    def _graphs(self, learnt: _Learnt, question: GraphRegretExceeds) -> IndexArray:
        """Regret of every graph on the grid, shape (K,): R_i of Eq. 2."""
        try:
            rows = question.graph_rows()
        except ValueError as error:
            raise MalformedMessageError(str(error)) from error
        own = learnt.scores.evaluate(question.family_list())
        totals = np.zeros(question.n_graphs)
        # variable by variable, so that a graph's sum does not depend on the others asked with it
        for column in rows.T:
            totals += own[column]
        best = 0.0
        for family in enumerate(learnt.graph):
            best += learnt.scores.of(family)
        return on_grid(totals - best, question.grid_bits, learnt.scores.told_bits)

    def _families(self, learnt: _Learnt, families: Sequence[Family], grid_bits: int) -> IndexArray:
        """Regret of every family on the grid, shape (F,)."""
        own = learnt.scores.evaluate(families)
        best = learnt.scores.evaluate([(v, learnt.graph[v]) for v, _ in families])
        return on_grid(own - best, grid_bits, learnt.scores.told_bits)


def on_grid(regrets: FloatVector, grid_bits: int, told_bits: int | None = None) -> IndexArray:
    """The nearest whole multiples of 2**-grid_bits.

    Args:
        regrets: In nats or bits.
        grid_bits: The grid of the question.
        told_bits: The finest that the site tells; None: as is asked.

    Raises:
        BoundExceededError: One is not a number, or beyond the declared bound.
    """
    own_bits = grid_bits if told_bits is None else min(grid_bits, told_bits)
    scaled = np.rint(np.ldexp(regrets, own_bits))
    if not (np.abs(scaled) <= largest_on_grid(own_bits)).all():
        raise BoundExceededError("a regret is not a number or beyond the bound of the question")
    return scaled.astype(np.int64) << (grid_bits - own_bits)


def table_scores(
    table: SiteTable,
    *,
    device: str = "auto",
    spend: Callable[[int], None] | None = None,
    least: int = 0,
    blur: Callable[[], Blur] | None = None,
) -> Callable[[ScoreSpec], LocalScores]:
    """Makes the scores that questions name, over one site's table.

    Args:
        table: The site's aligned data.
        device: ``cpu``, ``cuda`` or ``auto``.
        spend: Told how many families are about to be scored; may refuse.
        least: Rows below which a category counts with another one.
        blur: Makes what moves likelihoods; None: nothing does, and regrets are exact.

    Returns:
        A function from a specification to scores; it raises MixedTypesError where the score does
        not fit the columns' types.
    """

    def make(spec: ScoreSpec) -> LocalScores:
        from cipherdag.sites.compute.scores.scores import LocalScores

        moves = None if blur is None else _moves(spec, blur())
        score = _family_score(table, spec, device, least, moves)
        return LocalScores(score, spend, told_bits=None if moves is None else COARSE_BITS)

    return make


def _moves(spec: ScoreSpec, blur: Blur) -> Moves:
    """What moves likelihoods; those of sets as in `LogLikelihoods`, so that two runs tell one."""
    from cipherdag.sites.compute.pooled.likelihoods import moves

    about = b"description length" if spec.score == "mdl" else b"likelihood"
    return partial(moves, blur, about)


def _joined(codes: NDArray[np.integer], levels: tuple[int, ...], least: int) -> NDArray[np.integer]:
    """Codes of which rare categories count with one beside; rows with a gap stay as they are."""
    from cipherdag.sites.compute.pooled.likelihoods import join_rare

    complete = (codes >= 0).all(axis=1)
    own, found = codes[complete], codes.copy()
    join_rare(own, own, np.array(levels, dtype=np.int64), least)
    found[complete] = own
    return found


def _family_score(
    table: SiteTable, spec: ScoreSpec, device: str, least: int, moves: Moves | None
) -> FamilyScore:
    from cipherdag.sites.compute.scores.scores import DiscreteBic, GaussianBic
    from cipherdag.sites.compute.scores.spline_mdl import SplineMdl

    if table.kind == "mixed":
        raise MixedTypesError(
            f"the score '{spec.score}' takes columns of one kind",
            column=odd_column(table),
            remedy='Cut continuous columns into bins (kind = "binned" in schema.toml), or run '
            "fedpc with --evidence glm, which takes both.",
        )
    if table.codes is not None:
        if spec.score == "mdl":
            raise MixedTypesError(
                "the score 'mdl' takes continuous columns only",
                column=table.schema.variables[0].name,
                remedy="Run with --score bic, which takes discrete columns too.",
            )
        codes = _joined(table.codes, table.cardinalities, least) if least > 1 else table.codes
        return DiscreteBic(codes, table.cardinalities, device=device, moves=moves)
    values: NDArray[np.float64] | None = table.values
    assert values is not None, "a table has codes or values"
    score = SplineMdl if spec.score == "mdl" else GaussianBic
    return score(values, device=device, moves=moves)
