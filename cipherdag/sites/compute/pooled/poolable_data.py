"""A site's half of pooled evidence: its own tables and moments, which leave only in a sum.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.estimation.effect_stages import Missing
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.estimation.survival import HazardSteps, HazardSums, SurvivalCounts
from cipherdag.questions.likelihoods import LogLikelihoods
from cipherdag.questions.pooled_data import Columns, Moments, SmallCells, Tables
from cipherdag.questions.question import Question
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.questions.scores.score_bits import CategorySizes
from cipherdag.questions.scores.score_sums import ScoreSums
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.sites.compute.ci_tests.cache import DEFAULT_MEMORY
from cipherdag.sites.compute.ci_tests.counts import DiscreteColumns
from cipherdag.sites.compute.device import resolve_device
from cipherdag.sites.compute.few_values import repeated_values
from cipherdag.sites.compute.pooled.blur import Blur
from cipherdag.sites.compute.pooled.described import (
    DescribedColumns,
    column_of,
    levels_of,
    missing_in,
    rows_of,
    without_gaps,
)
from cipherdag.sites.compute.pooled.likelihoods import SetLikelihoods
from cipherdag.sites.compute.pooled.marks import column_marks, moments_of
from cipherdag.sites.compute.pooled.regression.design import Expansion
from cipherdag.sites.compute.pooled.score_sums.answer import SiteScores
from cipherdag.sites.table.rows.digest import Keyed, unkeyed
from cipherdag.statistics.regression_models import Regression

log = logging.getLogger("cipherdag.site")

LEAST_STRATUM = 2  # rows: fewer lie where they lie by chance


class PoolableData:
    """One site's codes and values, and the smallest count that may leave in a sum.

    Where small counts may not leave, all sums are of the same rows, those without a missing value:
    of two tables, one with a column more, the difference would be of the rows that lack it.

    Args:
        codes: Codes, shape (n, p), negative where missing and for continuous variables; None if
            no variable is discrete.
        values: Numbers, shape (n, p), NaN where missing and for discrete variables; None if no
            variable is continuous.
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        min_cell_size: Smallest count of this site that a sum may contain, but for 0.
        device: ``auto``, ``cpu`` or ``cuda``.
        spend: Called with the number of tables before they are counted.
        within: The rows that these were drawn from, if they were: what is withheld of those is
            withheld of these.
        ordered: Variables with three or more categories in an order, ascending.
        keyed: The site's key.
    """

    def __init__(
        self,
        codes: NDArray[np.integer] | None,
        values: NDArray[np.float64] | None,
        categories: tuple[int, ...],
        *,
        min_cell_size: int = 0,
        device: str = "cpu",
        spend: Callable[[int], None] | None = None,
        within: PoolableData | None = None,
        ordered: tuple[int, ...] = (),
        keyed: Keyed = unkeyed,
    ) -> None:
        self._within, self._ordered, self._keyed = within, ordered, keyed
        self._levels = levels_of(codes, len(categories))
        self._all = codes, values
        if codes is not None and min_cell_size > 1:
            rows = len(codes)
            codes, values = without_gaps(codes, values, np.array(categories) > 0)
            if within is None and len(codes) < rows:
                log.warning(
                    "%d of %d rows miss a value; pooled tables and regressions leave them out, "
                    "since small counts may not leave this site",
                    rows - len(codes),
                    rows,
                )
        self._codes, self._values = codes, values
        self._categories = np.array(categories, dtype=np.int64)
        self._min_cell_size = min_cell_size
        self._spend = spend or (lambda _tables: None)
        self._device = resolve_device(device)
        self._counted: DiscreteColumns | None = None
        self._counted_all: DiscreteColumns | None = None
        self._expansions: dict[tuple[bytes, bytes], Expansion] = {}

    @property
    def levels(self) -> IndexArray:
        """Highest code + 1 of every variable, at least 1, shape (p,); 1 for a continuous one."""
        return self._levels

    @property
    def discrete(self) -> bool:
        """Whether all variables are discrete."""
        return self._values is None

    @cached_property
    def blur(self) -> Blur:
        """Numbers that follow from all rows and the site's key."""
        return Blur(*self._all, self._keyed)

    @cached_property
    def _moves(self) -> Blur | None:
        """What moves the parts of tests; None where small counts may leave."""
        whole = self if self._within is None else self._within
        return whole.blur if self._min_cell_size > 1 else None

    def answer(self, question: Question) -> FloatVector:
        """The site's answer, before it is protected.

        Raises:
            PolicyRefusedError: A table has a count, or the site rows, below ``min_cell_size``, or
                sums are of a column whose few values make them counts.
            MalformedMessageError: The question is about other columns than the site has.
        """
        answers: dict[type, Callable[[Any], FloatVector]] = {
            Columns: self._kinds,
            Moments: self._moments,
            RegressionSteps: self._regressions,
            EffectSums: self._effect,
            ScoreSums: self._score_sums,
            CategorySizes: self._category_rows,
            SiteDifferences: self._shares,
            LogLikelihoods: self._likelihoods,
            ColumnSums: self._describe,
            ValueCounts: self._describe,
            SurvivalCounts: self._survival,
            HazardSteps: self._survival,
            HazardSums: self._survival,
            SmallCells: self._tables,
            Tables: self._tables,
        }
        return answers[type(question)](question)

    def _describe(self, question: ColumnSums | ValueCounts) -> FloatVector:
        self._spend(len(self._categories))
        return self.described.answer(question)

    def _kinds(self, question: Columns) -> FloatVector:
        p, least, numbers = len(self._categories), self._min_cell_size, self._categories == 0
        rows = max(rows_of(*self._all), least) if question.every else self.rows
        held = (missing_in(self._codes, self._values, v, not numbers[v]) for v in range(p))
        missing = np.array([own.any() for own in held], dtype=bool)
        marks = np.zeros((5, p))  # of place, spread and size; the latter two with 1
        if question.marks:
            columns = (self._to_mark(v, self.column(v)) for v in np.flatnonzero(numbers).tolist())
            marks[:, numbers] = column_marks(columns, least)
        shown = marks[:, : p * question.marks]
        parts = [[1, rows if rows >= least else 0], self._categories, *shown, missing, [least > 1]]
        if question.order:
            parts.append(np.isin(np.arange(p), self._ordered))
        parts += [self._few] if question.few else []
        return np.concatenate(parts, dtype=np.float64)

    @cached_property
    def _few(self) -> NDArray[np.bool_]:
        """Which variables have numbers that tell small counts which may not leave, shape (p,)."""
        if self._within is not None:
            return self._within._few  # noqa: SLF001
        if self._min_cell_size <= 1 or self._values is None:
            return np.zeros(len(self._categories), dtype=bool)
        return (self._categories == 0) & repeated_values(self._values)

    def _to_mark(self, variable: int, own: FloatVector) -> FloatVector:
        """Numbers of a column; those of descriptions where few rows have all values."""
        present = own[~np.isnan(own)]
        if len(present) >= self._min_cell_size or self._within is not None:
            return present
        told = self.described.column(variable)
        return told[~np.isnan(told)]

    @property
    def rows(self) -> int:
        """Rows of the site."""
        return rows_of(self._codes, self._values)

    def _moments(self, question: Moments) -> FloatVector:
        positions = question.positions()
        if question.n_variables != len(self._categories) or self._categories[positions].any():
            raise MalformedMessageError("moments of columns that are not continuous at the site")
        if self.rows < self._min_cell_size:
            raise PolicyRefusedError("the site holds fewer rows than its min_cell_size")
        if not question.centred and self._few[positions].any():
            raise PolicyRefusedError("sums of a column of few values are counts")
        assert self._values is not None, "a continuous variable has values"
        self._spend(len(positions) * (len(positions) + 1) // 2)
        weighed = question.centred and self._min_cell_size > 1
        weights = self.blur.weights(self.rows) if weighed else None
        return moments_of(question, self._values, weights)

    def _regressions(self, question: RegressionSteps) -> FloatVector:
        from cipherdag.sites.compute.pooled.regression.design import Expansion
        from cipherdag.sites.compute.pooled.regression.steps import regression_steps

        self._check_columns(question)
        if self.rows < self._min_cell_size:
            raise PolicyRefusedError("the site holds fewer rows than its min_cell_size")
        self._spend(len(question.models))
        if self._min_cell_size > 1:
            self._check_models(question.models)
        key = question.origins, question.units
        expand = self._expansions.get(key) or Expansion.of_question(question, self.column)
        self._expansions = {key: expand} if self._within is None else {}
        found = regression_steps(question, expand)
        expand.forget_columns()
        return found

    def _score_sums(self, question: ScoreSums) -> FloatVector:
        own = tuple(self._categories.tolist())
        # tests of tables take no notice of an order
        if question.categories != own or not {*question.ordered} <= {*self._ordered}:
            raise MalformedMessageError("tests of other columns than the site's schema has")
        self._spend(question.n_tests)
        return self._site_scores.answer(question)

    @cached_property
    def _site_scores(self) -> SiteScores:
        from cipherdag.sites.compute.pooled.score_sums.answer import SiteScores

        return SiteScores(tuple(self._categories.tolist()), self.raw_column, self._all_columns)

    def _category_rows(self, question: CategorySizes) -> FloatVector:
        if question.categories != tuple(self._categories.tolist()):
            raise MalformedMessageError("sizes of other categories than the site's schema has")
        sides = [(self.raw_column(v), side) for v, side in enumerate(question.categories) if side]
        counts = (np.bincount(c[c >= 0].astype(np.int64), None, side) for c, side in sides)
        return np.concatenate([np.zeros(0), *counts])

    def _check_columns(self, question: RegressionSteps) -> None:
        if (question.categories, question.ordered) != (tuple(self._categories), self._ordered):
            raise MalformedMessageError("tests of other columns than the site's schema has")

    def _effect(self, question: EffectSums) -> FloatVector:
        from cipherdag.sites.compute.pooled.effects.answer import effect_answer

        asked = question.categories
        if question.refutation == "random-cause":
            asked = asked[:-1]
        if asked != tuple(self._categories.tolist()) or self._within is not None:
            raise MalformedMessageError("an effect on other columns than the site's schema has")
        self._spend(1)
        least = self._min_cell_size
        all_rows = isinstance(question.stage, Missing)
        rows = self._all if all_rows else (self._codes, self._values)
        return effect_answer(question, *rows, min_cell_size=least, blur=self.blur)

    def _check_models(self, models: tuple[Regression, ...]) -> None:
        """Refuse models whose discrete variables have a table with small counts."""
        named = {tuple(sorted({m.response, *m.predictors, *m.complete_in})) for m in models}
        sets = {tuple(v for v in own if self._categories[v]) for own in named} - {()}
        for size in {len(own) for own in sets}:
            block = np.array([own for own in sets if len(own) == size], dtype=np.int64)
            if self._withheld(block).any():
                raise PolicyRefusedError("a table of the site has counts below its min_cell_size")

    def _small(self, sets: IndexArray, counts: IndexArray) -> NDArray[np.bool_]:
        """Which sets' tables have a count that may not leave, shape (C,)."""
        if self._min_cell_size <= 1:
            return np.zeros(len(sets), dtype=bool)
        cells = self._categories[sets].prod(axis=1)
        kept_back = (counts > 0) & (counts < self._min_cell_size)
        return np.asarray(np.logical_or.reduceat(kept_back, np.cumsum(cells) - cells))

    def _withheld(self, sets: IndexArray) -> NDArray[np.bool_]:
        """Of which sets of variables the table may not leave, shape (C,)."""
        found: NDArray[np.bool_] = np.zeros(len(sets), dtype=bool)
        if self._min_cell_size <= 1:
            return found
        for piece, counts in self._columns().whole_tables(sets):
            found[piece] = self._small(sets[piece], counts)
        return found if self._within is None else found | self._within._withheld(sets)  # noqa: SLF001

    def column(self, variable: int) -> FloatVector:
        """Codes or values of all rows, NaN where missing."""
        return column_of(self._codes, self._values, variable, self._categories[variable] > 0)

    def raw_column(self, variable: int) -> FloatVector:
        """As `column`, of the rows with missing values, too."""
        return column_of(*self._all, variable, self._categories[variable] > 0)

    @cached_property
    def described(self) -> DescribedColumns:
        """All rows of the site, column by column, as far as they are told of."""
        return DescribedColumns(*self._all, self._categories, least=self._min_cell_size)

    def told_column(self, variable: int) -> FloatVector:
        """As `column`; of numbers of which few are missing, as descriptions tell them."""
        if self._codes is not None or self._within is not None or self._min_cell_size <= 1:
            return self.column(variable)
        return self.described.column(variable)

    def _tables(self, question: SmallCells | Tables) -> FloatVector:
        if question.categories != tuple(self._categories.tolist()) or self._codes is None:
            raise MalformedMessageError("tables of other categories than the site's schema has")
        self._spend(sum(question.counts))
        small: list[NDArray[np.bool_]] = []
        answers: list[FloatVector] = []
        for sets in question.sets():
            places: NDArray[np.bool_] = np.zeros(len(sets), dtype=bool)
            if self._within is not None:
                places |= self._within._withheld(sets)  # noqa: SLF001
            for piece, counts in self._columns().whole_tables(sets):
                places[piece] |= self._small(sets[piece], counts)
                if isinstance(question, Tables):
                    answers.append(counts.astype(np.float64))
            small.append(places)
        withheld = np.concatenate([np.zeros(0, dtype=bool), *small])
        if isinstance(question, SmallCells):
            return withheld.astype(np.float64)
        if withheld.any():
            raise PolicyRefusedError("a table of the site has counts below its min_cell_size")
        return np.concatenate([np.zeros(0), *answers])

    def _shares(self, question: SiteDifferences) -> FloatVector:
        from cipherdag.sites.compute.pooled.shares import share_summands

        if question.categories != tuple(self._categories.tolist()):
            raise MalformedMessageError("shares of other categories than the site's schema has")
        self._spend(sum(question.counts))
        least = max(self._min_cell_size, LEAST_STRATUM)
        free = self._moves is None
        tables = self._columns().whole_tables if self.discrete else None
        return share_summands(
            question, self.told_column, self.blur, least=least, given=free, tables=tables
        )

    def _likelihoods(self, question: LogLikelihoods) -> FloatVector:
        from cipherdag.sites.compute.pooled.likelihoods import likelihoods_answer

        if question.n_variables != len(self._categories):
            raise MalformedMessageError("likelihoods of other columns than the site's schema has")
        self._spend(sum(question.counts))
        blur, whole = self._moves, self._within
        within = whole._of_sets if blur is not None and whole is not None else None  # noqa: SLF001
        return likelihoods_answer(question, self._of_sets, blur=blur, within=within)

    @cached_property
    def _of_sets(self) -> SetLikelihoods:
        from cipherdag.sites.compute.pooled.likelihoods import SetLikelihoods

        whole = None if self._within is None else self._within._codes  # noqa: SLF001
        own = self._codes, self._values, self._categories, self._device
        return SetLikelihoods(
            *own, least=self._min_cell_size, within=whole, drawn=self._within is not None
        )

    def _survival(self, question: SurvivalCounts | HazardSteps | HazardSums) -> FloatVector:
        from cipherdag.sites.compute.pooled.survival_rows import survival_answer

        self._spend(1)
        own, least = tuple(self._categories.tolist()), self._min_cell_size
        return survival_answer(question, own, self.column, least, self._withheld, self._moves)

    def _all_columns(self) -> DiscreteColumns:
        """As `_columns`, of the rows with missing values, too."""
        if self._codes is self._all[0]:
            return self._columns()
        if self._counted_all is None:
            self._counted_all = self._to_count(self._all[0])
        return self._counted_all

    def _columns(self) -> DiscreteColumns:
        """The codes as they are counted, every variable with all its categories."""
        if self._counted is None:
            self._counted = self._to_count(self._codes)
        return self._counted

    def _to_count(self, codes: NDArray[np.integer] | None) -> DiscreteColumns:
        assert codes is not None, "only discrete columns are counted"
        half = DEFAULT_MEMORY // 2
        return DiscreteColumns(codes, self._device, memory_bytes=half, levels=self._categories)
