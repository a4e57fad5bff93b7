"""The settings of FedBOSS's scores, and the scores that a run opens."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.evidence.pooled_moments import open_correlations
from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.algorithms.fedboss.report import FedBOSSOutcome
from cipherdag.algorithms.fedboss.set_families import Budget
from cipherdag.algorithms.fedboss.set_sources import LikelihoodScores, SetPenalty, TableScores
from cipherdag.algorithms.parameters import require, row_bound, within
from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError
from cipherdag.findings.graph import LearntGraph
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.pooled_data import MAX_CELLS, ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.questions.scores.likelihoods import LARGEST_DISCOUNT
from cipherdag.statistics.reproducible import logarithm_of
from cipherdag.statistics.set_scores import SetScore, grid_bits, least_consistent_prior

Scores = MomentScores | TableScores | LikelihoodScores
Opening = Generator[Question, FloatVector, Scores]

MOST_PARENTS = 12
PARENTS_OF_SETS = 8
ROWS_PER_PARENT = 10
"""With fewer rows for every parent, a regression explains its sample alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreSettings(Algorithm[FedBOSSOutcome, LearntGraph]):
    """How graphs are scored.

    Attributes:
        scores: What is scored: ``pooled``: the moments or tables of all sites together; ``sites``:
            the sites' own likelihoods, of which sums are opened and no table.
        score: How a family is scored: ``auto``: numbers by ``bic``, categories by ``qnml``; columns
            of both kinds have the sum of both. ``bdeu`` takes categories only.
        penalty: How many times ln(n) / 2 a free parameter costs in the ``bic`` of numbers.
        table_penalty: The same in the ``bic`` of categories.
        prior_rows: Equivalent sample size of ``bdeu``.
        per_parent: How many times the structure prior's cost a parent has: ln(p) where there are
            categories; of numbers alone the least with which the extended BIC is consistent,
            ln(p) - ln(n) / 2, and nothing up to the root of n variables.
        within_sites: Whether differences between sites are no evidence: numbers are taken from
            each site's own mean, of spreads that differ in units of its own deviation, and
            categories scored as with `scores` ``sites``. Without it, a difference between sites in
            two columns is a dependence between them.
        withheld: What becomes of tables where some site restricts small counts: ``sites``: all
            scores come from the sites' own likelihoods; ``leave-out``: tables are asked for, and
            what needs one that a site withholds is no candidate. So it is with ``bdeu``. Both need
            `within_sites` to be false.
        discount: With likelihoods of the sites: how many times what chance alone explains at a
            site is taken off.
        max_parents: Most parents that are looked for; None: 8, but from covariances as many as
            there are, up to one for ten rows.
        max_cells: Largest contingency table that is asked for.
        max_rounds: Rounds of the search, after which it goes on with what is known; None for no
            limit.
        max_values: Values that a site answers in the search, likewise; a comparison counts as one.
        max_rows: Most rows that a site may have, a power of two.
    """

    scores: Literal["pooled", "sites"] = "pooled"
    score: Literal["auto", "bic", "bdeu", "qnml"] = "auto"
    penalty: float = within(2.0, 0, 100, above=True)
    table_penalty: float = within(1.0, 0, 100, above=True)
    prior_rows: float = within(1.0, 0, 1e6, above=True)
    per_parent: float = within(1.0, 0, 100)
    within_sites: bool = True
    withheld: Literal["sites", "leave-out"] = "sites"
    discount: int = within(3, 0, LARGEST_DISCOUNT)
    max_parents: int | None = within(None, 1, MOST_PARENTS)
    max_cells: int = within(1024, 4, MAX_CELLS)
    max_rounds: int | None = within(200, 1)
    max_values: int | None = within(5_000_000, 1)
    max_rows: int = row_bound()

    @property
    def in_place_of_tables(self) -> bool:
        """Whether likelihoods replace tables where a site restricts small counts."""
        return self.withheld != "leave-out" and self.score != "bdeu"

    @property
    def closable(self) -> bool:
        """Whether scores can be compared with none of them opened."""
        return self.within_sites and self.scores == "pooled"

    @property
    def parents_of_sets(self) -> int:
        """Most parents, where every set of variables is asked for."""
        return self.max_parents or PARENTS_OF_SETS

    def open_scores(self, columns: ColumnKinds, n_sites: int, budget: Budget) -> Opening:
        """The source of scores that the columns and the parameters ask for.

        Rounds: one for moments or for all pairs, one more where a site restricts small counts.
        """
        discrete = columns.categories > 0
        mixed = discrete.any() and not discrete.all()
        few = not self.within_sites and columns.few.any()  # their sums would be counts
        by_site = self.scores == "sites" or columns.incomplete.any() or few or mixed
        if discrete.any():
            restricted = columns.restricted and self.in_place_of_tables
            if not (by_site or self.within_sites or restricted):
                return (yield from self._from_tables(columns, budget))
        elif not by_site:
            return (yield from self._from_moments(columns, n_sites))
        return (yield from self._from_likelihoods(columns, budget))

    def _from_moments(self, columns: ColumnKinds, n_sites: int) -> Opening:
        require(
            self.score in ("auto", "bic"),
            f"score {self.score} takes categories, and these are numbers",
        )
        rows, correlations = yield from open_correlations(
            columns,
            np.arange(len(columns.categories)),
            max_rows=self.max_rows,
            n_sites=n_sites if self.within_sites else None,
        )
        require_possible("moments", "other rows than there are", holds=rows == columns.rows)
        return MomentScores(
            correlations,
            rows - n_sites * self.within_sites,
            penalty=self.penalty,
            per_parent=self._prior(columns, rows),
            max_parents=self.max_parents or max(rows // ROWS_PER_PARENT, PARENTS_OF_SETS),
        )

    def _from_tables(self, columns: ColumnKinds, budget: Budget) -> Opening:
        tables = PooledTables(columns, max_rows=self.max_rows)
        alone = np.arange(len(columns.categories))[:, None]
        pairs = np.argwhere(np.triu(np.ones((len(alone),) * 2, dtype=bool), k=1))
        pairs = pairs[tables.cells(pairs) <= self.max_cells]
        yield from tables.find_withheld([alone, pairs])
        yield from tables.ask([alone, pairs])
        levels = columns.categories.copy()
        for variable in np.flatnonzero(tables.available(alone)).tolist():
            levels[variable] = max(int((tables.marginal(variable) > 0).sum()), 1)
        score = self.set_score(columns.rows)
        settings = self.search_settings(score, columns)
        scores = TableScores(tables, levels.tolist(), score, budget, **settings)
        yield from scores.learn_pairs()
        return scores

    def _from_likelihoods(self, columns: ColumnKinds, budget: Budget) -> Opening:
        require_rows(columns)
        require(
            self.score != "bdeu",
            "score bdeu takes tables of all rows: categories that miss no value and no numbers; "
            "use score qnml or bic",
        )
        score = self.set_score(columns.rows)
        scores = LikelihoodScores(
            np.maximum(columns.categories, 1).tolist(),
            score,
            SetPenalty(columns.categories, score, self.penalty),
            budget,
            discount=self.discount,
            max_rows=self.max_rows,
            **self.search_settings(score, columns),
        )
        yield from scores.learn_pairs()
        return scores

    def set_score(self, rows: int) -> SetScore:
        """The score of categories, of so many rows."""
        return SetScore(
            name="qnml" if self.score == "auto" else self.score,
            rows=rows,
            penalty=self.table_penalty,
            prior_rows=self.prior_rows,
            bits=grid_bits(rows),
        )

    def _prior(self, columns: ColumnKinds, rows: int) -> float:
        """What the structure prior takes for every parent, in nats."""
        p = len(columns.categories)
        discrete = columns.categories.any()
        return self.per_parent * (logarithm_of(p) if discrete else least_consistent_prior(p, rows))

    def search_settings(self, score: SetScore, columns: ColumnKinds) -> dict[str, int]:
        """What `SetFamilies` also takes."""
        return {
            "bits": score.bits,
            "per_parent": int(score.on_grid(np.array([self._prior(columns, score.rows)]))[0]),
            "max_cells": self.max_cells,
            "max_parents": self.parents_of_sets,
        }


def require_rows(columns: ColumnKinds) -> None:
    """Raise DataError where no site has rows that miss no value."""
    if not columns.rows:
        raise DataError(
            "no site has rows enough that miss no value",
            remedy="Leave out columns that miss many values, or run fedpc, which tests what "
            "rows each test has.",
        )
