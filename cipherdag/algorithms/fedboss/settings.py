"""The settings of FedBOSS's scores, and the choice of a run's source of scores."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.evidence.pooled_moments import open_correlations
from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.algorithms.fedboss.report import FedBOSSOutcome
from cipherdag.algorithms.fedboss.set_families import Budget
from cipherdag.algorithms.fedboss.set_sources import LikelihoodScores, SetPenalty, TableScores
from cipherdag.algorithms.parameters import PENALTIES, row_bound, settings, within
from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError, PolicyRefusedError
from cipherdag.findings.graph import LearntGraph
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.statistics.reproducible import logarithm_of
from cipherdag.statistics.set_scores import SetScore, grid_bits, least_consistent_prior

GraphScores = MomentScores | TableScores | LikelihoodScores
Opening = Generator[Question, FloatVector, GraphScores]

MOST_PARENTS = 12
PARENTS_OF_SETS = 8
ROWS_PER_PARENT = 10  # with fewer rows for every parent, a regression explains its sample alone
MOST_STARTS = 1000
LARGEST_TABLE = 1024  # most cells of a contingency table that is asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """How graphs are scored, and how far they are searched.

    Attributes:
        penalty: How many times ln(n) / 2 a free parameter of numbers costs.
        max_parents: Most parents that the search gives a variable; None: 8, or from covariances one
            for every ten rows if these are more. If set, tests add nothing to the best graph.
        restarts: How often the search by ``sums`` starts again from the best graph so far, with
            some variables placed at random. From covariances: how many restarts in a row may find
            no better graph before it ends; three times as many up to 100 variables.
        max_rounds: Rounds of the search, after which it goes on with what is known; None for no
            limit.
        max_values: Values that a site answers in the search, likewise; a comparison counts as one.
    """

    penalty: float = within(2.0, 0, 100, above=True, steps=PENALTIES)
    max_parents: int | None = within(None, 1, MOST_PARENTS)
    restarts: int = within(5, 0, MOST_STARTS)
    max_rounds: int | None = within(200, 1)
    max_values: int | None = within(5_000_000, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreSettings(Algorithm[FedBOSSOutcome, LearntGraph]):
    """What is scored: numbers by BIC, categories by qNML, columns of both kinds by the sum of both.

    A structure prior adds to the cost of a parent. With categories: ln(p), and a nat for every site
    but one where the sites' likelihoods are added up. For numbers alone: ln(p) - ln(n) / 2, the
    least with which the extended BIC is consistent, or nothing where p is at most the root of n.

    Attributes:
        within_sites: Whether differences between sites are no evidence: numbers are measured from
            each site's own mean, and in its own standard deviations if these differ, and of
            categories the sites' own likelihoods are added up. Without it, a difference between
            sites in two columns is a dependence between them.
        scoring: How graphs are scored, and how far they are searched.
        max_rows: Most rows that a site may have, a power of two.
    """

    within_sites: bool = True
    scoring: Scoring = settings(Scoring())
    max_rows: int = row_bound()

    @property
    def parents_of_sets(self) -> int:
        """Most parents, where every set of variables is asked for."""
        return self.scoring.max_parents or PARENTS_OF_SETS

    @property
    def budget(self) -> Budget:
        """What a search may ask for."""
        return Budget(self.scoring.max_rounds, self.scoring.max_values)

    def open_scores(self, columns: ColumnKinds, n_sites: int, budget: Budget) -> Opening:
        """The source of scores that the columns and the parameters ask for.

        One round, of moments or of all pairs. PolicyRefusedError if a site restricts small counts,
        and anything but moments would be summed.
        """
        discrete = columns.categories > 0
        mixed = discrete.any() and not discrete.all()
        few = not self.within_sites and columns.few.any()  # their sums would be counts
        by_site = columns.incomplete.any() or few or mixed
        if not (by_site or discrete.any()):
            return (yield from self._from_moments(columns, n_sites))
        if columns.restricted:
            raise PolicyRefusedError(
                "a site restricts small counts, which sums of scores would tell",
                remedy="Run without --reveal sums and --no-within-sites (Python: FedBOSS()), which "
                "compares scores; or, in a simulation, with --min-cell-size 1.",
            )
        if not (by_site or self.within_sites):
            return (yield from self._from_tables(columns, budget))
        return (yield from self._from_likelihoods(columns, n_sites, budget))

    def _from_moments(self, columns: ColumnKinds, n_sites: int) -> Opening:
        rows, correlations = yield from open_correlations(
            columns,
            np.arange(len(columns.categories)),
            max_rows=self.max_rows,
            n_sites=n_sites if self.within_sites else None,
        )
        require_possible(
            "moments", "other rows than there are", holds=rows == columns.rows or columns.repeats
        )
        return MomentScores(
            correlations,
            rows - n_sites * self.within_sites,
            penalty=self.scoring.penalty,
            per_parent=_prior(columns, rows),
            max_parents=self.scoring.max_parents or max(rows // ROWS_PER_PARENT, PARENTS_OF_SETS),
        )

    def _from_tables(self, columns: ColumnKinds, budget: Budget) -> Opening:
        tables = PooledTables(columns, max_rows=self.max_rows)
        alone = np.arange(len(columns.categories))[:, None]
        pairs = np.argwhere(np.triu(np.ones((len(alone),) * 2, dtype=bool), k=1))
        pairs = pairs[tables.cells(pairs) <= LARGEST_TABLE]
        yield from tables.ask([alone, pairs])
        levels = columns.categories.copy()
        for variable in np.flatnonzero(tables.available(alone)).tolist():
            levels[variable] = max(int((tables.marginal(variable) > 0).sum()), 1)
        score = set_score(columns.rows)
        bounds = self.bounds_of_sets(score, columns, 1)
        scores = TableScores(tables, levels.tolist(), score, budget, **bounds)
        yield from scores.learn_pairs()
        return scores

    def _from_likelihoods(self, columns: ColumnKinds, n_sites: int, budget: Budget) -> Opening:
        require_rows(columns)
        score = set_score(columns.rows)
        scores = LikelihoodScores(
            np.maximum(columns.categories, 1).tolist(),
            score,
            SetPenalty(columns.categories, score, self.scoring.penalty),
            budget,
            max_rows=self.max_rows,
            **self.bounds_of_sets(score, columns, n_sites),
        )
        yield from scores.learn_pairs()
        return scores

    def bounds_of_sets(self, score: SetScore, columns: ColumnKinds, sites: int) -> dict[str, int]:
        """The keyword arguments of `SetFamilies`; likelihoods of so many ``sites`` add up."""
        prior = _prior(columns, score.rows) + (sites - 1) * bool(columns.categories.any())
        return {
            "bits": score.bits,
            "per_parent": int(score.on_grid(np.array([prior]))[0]),
            "max_cells": LARGEST_TABLE,
            "max_parents": self.parents_of_sets,
        }


def set_score(rows: int) -> SetScore:
    """The score of sets of categories over ``rows`` rows."""
    return SetScore(rows=rows, bits=grid_bits(rows))


def _prior(columns: ColumnKinds, rows: int) -> float:
    """What the structure prior subtracts for every parent, in nats."""
    p = len(columns.categories)
    return logarithm_of(p) if columns.categories.any() else least_consistent_prior(p, rows)


def require_rows(columns: ColumnKinds) -> None:
    """Raise DataError where no site has rows that miss no value."""
    if not columns.rows:
        raise DataError(
            "no site has rows enough that miss no value",
            remedy="Leave out columns that miss many values, or run fedpc, which tests what "
            "rows each test has.",
        )
