"""What a run scores families from: moments, pooled tables, or the sites' likelihoods.

Leaks:
    What `Columns` says, once; then what the source says: see `Moments`, `TableScores` and
    `LikelihoodScores`.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.pooled_moments import open_correlations
from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.algorithms.fedboss.budget import Budget
from cipherdag.algorithms.fedboss.likelihood_scores import Likelihoods, LikelihoodScores
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.algorithms.fedboss.table_scores import TableScores
from cipherdag.algorithms.parameters import require
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import DataError, MixedTypesError
from cipherdag.graphs.dags import members
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.question import Question
from cipherdag.statistics.reproducible import logarithm_of
from cipherdag.statistics.set_scores import SetScore

if TYPE_CHECKING:
    from cipherdag.algorithms.fedboss.algorithm import FedBOSS

Scores = MomentScores | TableScores | LikelihoodScores
Opening = Generator[Question, FloatVector, Scores]
Opened = Generator[Question, FloatVector, tuple[Scores, ColumnKinds]]


def open_scores(own: FedBOSS, facts: Facts, budget: Budget) -> Opened:
    """The source of scores that the columns and the parameters ask for.

    Returns:
        The source, and what is known of the columns. Rounds: one for the kinds of
        columns, one for moments or for all pairs, one more where a site restricts small counts.

    Raises:
        MixedTypesError: The columns are of both types.
    """
    question = Columns(n_variables=facts.n_variables, max_rows=own.max_rows, few=True)
    kinds = question.read((yield question))
    discrete = kinds.categories > 0
    if discrete.any() and not discrete.all():
        raise MixedTypesError(
            "FedBOSS scores columns of one type, and these are discrete and continuous",
            remedy='Cut continuous columns into bins (kind = "binned" in schema.toml), or run '
            "fedpc, which takes both.",
        )
    scores = yield from _of_columns(own, facts, budget, kinds)
    return scores, kinds


def _of_columns(own: FedBOSS, facts: Facts, budget: Budget, kinds: ColumnKinds) -> Opening:
    discrete = kinds.categories > 0
    few = not own.within_sites and kinds.few.any()  # their sums would be counts
    apart = own.scores == "sites" or kinds.incomplete.any() or few
    if discrete.any():
        if apart or own.within_sites or (kinds.restricted and own.in_place_of_tables):
            return (yield from _from_likelihoods(own, kinds, budget))
        return (yield from _from_tables(own, kinds, budget))
    if apart:
        return (yield from _from_likelihoods(own, kinds, budget))
    require(
        own.score in ("auto", "bic"), f"score {own.score} takes categories, and these are numbers"
    )
    return (yield from _from_moments(own, kinds, facts.n_sites))


def _from_moments(own: FedBOSS, kinds: ColumnKinds, n_sites: int) -> Opening:
    rows, correlations = yield from open_correlations(
        kinds,
        np.arange(len(kinds.categories)),
        max_rows=own.max_rows,
        centred=own.within_sites,
    )
    require_possible("moments", "other rows than there are", holds=rows == kinds.rows)
    return MomentScores(
        correlations,
        rows - n_sites * own.within_sites,
        penalty=own.penalty,
        max_parents=own.max_parents,
    )


def _from_tables(own: FedBOSS, kinds: ColumnKinds, budget: Budget) -> Opening:
    tables = PooledTables(kinds, max_rows=own.max_rows)
    alone = np.arange(len(kinds.categories))[:, None]
    pairs = np.argwhere(np.triu(np.ones((len(alone),) * 2, dtype=bool), k=1))
    pairs = pairs[tables.cells(pairs) <= own.max_cells]
    yield from tables.settle([alone, pairs])
    yield from tables.ask([alone, pairs])
    levels = kinds.categories.copy()
    for variable in np.flatnonzero(tables.known(alone)).tolist():
        levels[variable] = max(int((tables.alone(variable) > 0).sum()), 1)
    score = own.set_score(kinds.rows)
    scores = TableScores(
        tables, levels.tolist(), score, budget, **own.search_settings(score, levels)
    )
    yield from scores.learn_pairs()
    return scores


def _from_likelihoods(own: FedBOSS, kinds: ColumnKinds, budget: Budget) -> Opening:
    if not kinds.rows:
        raise DataError(
            "no site has rows enough that miss no value",
            remedy="Leave out columns that miss many values, or run fedpc, which tests what rows "
            "each test has.",
        )
    levels = np.maximum(kinds.categories, 1)
    score = own.set_score(kinds.rows)
    scores = LikelihoodScores(
        levels.tolist(),
        _likelihoods(own, levels, score, numbers=not kinds.categories.any()),
        budget,
        **own.search_settings(score, levels),
    )
    yield from scores.learn_pairs()
    return scores


def _likelihoods(own: FedBOSS, levels: IndexArray, score: SetScore, numbers: bool) -> Likelihoods:
    """Likelihoods with the penalty of all rows."""
    half = 0.5 * own.penalty * logarithm_of(max(score.rows, 2)) * 2.0**score.bits

    def cost(mask: int) -> int:
        if numbers:
            size = mask.bit_count()
            return -round(half * (size * (size - 1) // 2))
        cells = math.prod(int(levels[v]) for v in members(mask))
        return int(score.of_shape(np.array([float(cells)]))[0])

    return Likelihoods(len(levels), score, cost, discount=own.discount, max_rows=own.max_rows)
