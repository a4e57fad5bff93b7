"""View of a site's rows from which answers are computed, with rules of disclosure and caches."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Hashable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import BoundExceededError, MalformedMessageError, PolicyRefusedError
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.local_beliefs import LocalBeliefs
from cipherdag.questions.question import Question
from cipherdag.questions.regrets import ScoreSpec
from cipherdag.sites.answers.registry import answer_to, check_visits
from cipherdag.sites.answers.table_tests import CountedTest, PossibleTest, far_number, table_test
from cipherdag.sites.compute.ci_tests.ci_test import CITest
from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.descriptions.described import DescribedColumns
from cipherdag.sites.compute.device import Device, batch_bytes, resolve_device
from cipherdag.sites.compute.noise import CellKeys, Keyed, rows_digest, unkeyed
from cipherdag.sites.compute.rows import Rows, repeated_values
from cipherdag.sites.compute.scores.scores import LocalScores
from cipherdag.sites.table.site_table import SiteTable

Value = TypeVar("Value")

log = logging.getLogger("cipherdag.site")

MOST_TESTS = 4
"""Tests of different parameters that a site keeps; it forgets the least recently used.

Each holds the columns, and outcomes of half of `device.DEFAULT_MEMORY` at most: 512 MiB in all.
"""
MEMORY = 2**31
"""Bytes of resampled rows that a site keeps; others are drawn again when they are asked for."""


@dataclass(frozen=True, eq=False, repr=False)
class SiteView:
    """One site's rows, the rules of their disclosure, and cached intermediate results.

    If small counts are restricted, all sums of several columns are over the rows without a missing
    value. Otherwise the difference of two tables, one with a column more, would be a table of the
    rows that miss it.

    Attributes:
        all_codes: Codes, shape (n, p), negative where missing and for continuous variables.
        all_values: Numbers, shape (n, p), NaN where missing and for discrete variables. Either is
            None if there is no such variable.
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        ordered: Variables with three or more categories in an order, ascending.
        min_cell_size: Smallest count of this site that a sum may contain, but for 0.
        budget: Called with how many tables, tests or steps come next; may refuse.
        determined: Which variables follow from others: given these no test of them is done.
        parent: The view whose rows these were resampled from, if they were: tables that it
            withholds are withheld here.
        table: The rows without interventions, and ``experiments`` all rows, from which beliefs are
            learnt; None where only arrays are there.
        make_test, make_scores: Make the test or scores that a question names, not of the table.
        learn: Answers Fed-CD's questions, in place of training on the table.
    """

    all_codes: NDArray[np.integer] | None
    all_values: NDArray[np.float64] | None
    categories: tuple[int, ...]
    _: KW_ONLY
    ordered: tuple[int, ...] = ()
    min_cell_size: int = 0
    device_name: str = "cpu"
    budget: Callable[[int], None] | None = None
    keyed: Keyed = unkeyed
    determined: Determined = NOTHING
    parent: SiteView | None = None
    table: SiteTable | None = None
    experiments: SiteTable | None = None
    make_test: Callable[[CITestSpec], CITest] | None = None
    make_scores: Callable[[ScoreSpec], LocalScores] | None = None
    learn: Callable[[LocalBeliefs], FloatVector] | None = None
    memory: dict[str, dict[Hashable, Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.parent is None and self.all_codes is not None:
            rows, complete = len(self.all_codes), self.rows
            if complete < rows:
                log.warning(
                    "%d of %d rows miss a value; pooled tables and regressions leave them out, "
                    "since small counts may not leave this site",
                    *(rows - complete, rows),
                )

    @classmethod
    def of_table(
        cls,
        table: SiteTable,
        *,
        min_cell_size: int,
        device: str = "auto",
        budget: Callable[[int], None] | None = None,
        keyed: Keyed = unkeyed,
    ) -> SiteView:
        """The view that answers for a table; rows with interventions train beliefs alone."""
        observed = table.observational()
        rows = observed.codes, observed.values, observed.cardinalities
        return cls(
            *rows,
            ordered=observed.ordered,
            min_cell_size=min_cell_size,
            device_name=device,
            budget=budget,
            keyed=keyed,
            determined=table.schema.determined,
            table=observed,
            experiments=table,
        )

    def answer(self, question: Question) -> FloatVector:
        """The site's answer, shape (n_values,), before it is protected.

        Where only bits are disclosed, it is the site's words, whole numbers of 64 bits.

        Raises:
            MalformedMessageError: The question is about other columns than the study has.
            MixedTypesError: The test does not fit the columns' types.
            BoundExceededError: The site has more rows than the question's max_rows.
            PolicyRefusedError: A table's count, or the rows, are below ``min_cell_size``, or sums
                of a column of few values would be counts.
        """
        for part in question.parts:
            self._check_rows(part)
        return np.concatenate([self._answer(part) for part in question.parts])

    def _answer(self, question: Question) -> FloatVector:
        check_visits(question, self.visits)
        if not question.fits(self.categories, self.ordered):
            raise MalformedMessageError(
                "the question is about other columns than the site's schema has"
            )
        return answer_to(type(question))(question, self)

    def _check_rows(self, question: Question) -> None:
        most = getattr(question, "max_rows", None)
        if most is not None and self._has_rows and self.rows > most:
            raise BoundExceededError(
                f"the site has more rows than max_rows = {most}, which the run declares",
                remedy="Raise --max-rows (Python: max_rows) to what no site's rows exceed.",
            )

    def explain(self) -> BoundExceededError | None:
        """Name the column that makes an answer exceed its bound, if there is one."""
        return None if self.experiments is None else far_number(self.experiments)

    def spend(self, count: int) -> None:
        """Count tables, tests or training steps that are about to be computed; may refuse."""
        if self.budget is not None:
            self.budget(count)

    def remember(
        self, name: str, key: Hashable, make: Callable[[], Value], *, most: int = 1
    ) -> Value:
        """Cache of intermediate results by key, of which the ``most`` recently used stay."""
        recent = self.memory.setdefault(name, {})
        if key in recent:
            recent[key] = value = recent.pop(key)
            return value
        while len(recent) >= most:
            del recent[next(iter(recent))]
        recent[key] = value = make()
        return value

    @property
    def n_variables(self) -> int:
        """Number of aligned variables, p."""
        return len(self.categories)

    @cached_property
    def sides(self) -> IndexArray:
        """Number of categories of every variable, 0 for a continuous one, shape (p,)."""
        return np.array(self.categories, dtype=np.int64)

    @property
    def _has_rows(self) -> bool:
        return self.all_codes is not None or self.all_values is not None

    @cached_property
    def all_rows(self) -> Rows:
        """All rows, incomplete ones too."""
        return Rows(self.all_codes, self.all_values, self.categories, patients=self.patients)

    @cached_property
    def open_rows(self) -> Rows:
        """The rows over which joint sums of columns run; PolicyRefusedError without rows."""
        if not self._has_rows:
            raise PolicyRefusedError("the site answers tests, not counts or moments")
        rows = self.all_rows
        if self.all_codes is None or self.min_cell_size <= 1:
            return rows
        complete = rows.complete(rows.filled)
        return rows if complete.all() else rows.take(complete)

    @property
    def codes(self) -> NDArray[np.integer] | None:
        """Codes of the rows over which joint sums of columns run."""
        return self.open_rows.codes

    @property
    def values(self) -> NDArray[np.float64] | None:
        """Numbers of the rows over which joint sums of columns run."""
        return self.open_rows.values

    @property
    def rows(self) -> int:
        """The number of rows over which joint sums of columns run."""
        return len(self.open_rows)

    @property
    def patients(self) -> IndexArray | None:
        """Whose visit each of all rows is, shape (n,); None where every row is a person."""
        return None if self.table is None else self.table.patients

    @cached_property
    def visits(self) -> int:
        """How many rows a patient may have; 1 where none has two."""
        return 1 if self.table is None else self.table.visits

    @cached_property
    def persons(self) -> int:
        """The number of persons in the rows over which joint sums of columns run."""
        patients = self.open_rows.patients
        return self.rows if patients is None else len(np.unique(patients))

    @property
    def discrete(self) -> bool:
        """Whether all variables are discrete."""
        return self.all_values is None

    @cached_property
    def levels(self) -> IndexArray:
        """Highest code + 1 of every variable, at least 1, shape (p,); 1 for a continuous one."""
        if self.all_codes is None:
            return np.ones(self.n_variables, dtype=np.int64)
        highest: IndexArray = self.all_codes.max(axis=0, initial=0).astype(np.int64)
        return highest + 1

    def column(self, variable: int) -> FloatVector:
        """Codes or numbers of a variable in the rows of joint sums, as floats, NaN if missing."""
        return self.open_rows.column(variable)

    def raw_column(self, variable: int) -> FloatVector:
        """Codes or numbers of a variable in all rows, incomplete ones too, as floats."""
        return self.all_rows.column(variable)

    def disclosable_column(self, variable: int) -> FloatVector:
        """A variable's codes, or its numbers without those that the threshold rule withholds."""
        if self.codes is not None or self.parent is not None or self.min_cell_size <= 1:
            return self.column(variable)
        return self.described.column(variable)

    @cached_property
    def described(self) -> DescribedColumns:
        """All rows, column by column, without those that the threshold rule withholds."""
        return DescribedColumns(self.all_rows, min_cell_size=self.unit)

    @cached_property
    def unit(self) -> int:
        """How many rows are of at least ``min_cell_size`` persons, whoever's rows they are."""
        most_visits = 1 if self.patients is None else int(np.bincount(self.patients).max())
        return self.min_cell_size * most_visits

    @cached_property
    def device(self) -> Device:
        """The device on which arrays are computed."""
        return resolve_device(self.device_name)

    @cached_property
    def counts(self) -> DiscreteColumns:
        """Contingency tables of the rows over which joint sums of columns run."""
        return self._counter(self.codes)

    @cached_property
    def all_counts(self) -> DiscreteColumns:
        """Contingency tables of all rows."""
        return self.counts if self.codes is self.all_codes else self._counter(self.all_codes)

    def _counter(self, codes: NDArray[np.integer] | None) -> DiscreteColumns:
        assert codes is not None, "only discrete columns are counted"
        half = batch_bytes(self.device) // 2
        return DiscreteColumns(codes, self.device, memory_bytes=half, levels=self.sides)

    @cached_property
    def cell_keys(self) -> CellKeys:
        """Cell-key noise that follows from all rows and the site's key."""
        return CellKeys(self.all_codes, self.all_values, self.keyed)

    @property
    def noise(self) -> CellKeys | None:
        """Cell-key noise for the parts of tests; None where small counts are not restricted."""
        if self.min_cell_size <= 1:
            return None
        return self.cell_keys if self.parent is None else self.parent.cell_keys

    def check_min_rows(self) -> None:
        """Refuse a question at a site with fewer rows than ``min_cell_size``."""
        if self.persons < self.min_cell_size:
            raise PolicyRefusedError("the site holds fewer rows than its min_cell_size")

    def check_tables(self, withheld: BoolVector) -> None:
        """Refuse a question that would disclose a withheld table."""
        if withheld.any():
            raise PolicyRefusedError("a table of the site has counts below its min_cell_size")

    def has_small_counts(self, sets: IndexArray, counts: IndexArray) -> BoolVector:
        """Whether the table of each set has a count below ``min_cell_size``, shape (C,)."""
        if self.min_cell_size <= 1:
            return np.zeros(len(sets), dtype=bool)
        cells = self.sides[sets].prod(axis=1)
        small = (counts > 0) & (counts < self.min_cell_size)
        return np.asarray(np.logical_or.reduceat(small, np.cumsum(cells) - cells))

    def withheld(self, sets: IndexArray) -> BoolVector:
        """Whether the threshold rule withholds the table of each set, sets of shape (C, k)."""
        small: BoolVector = np.zeros(len(sets), dtype=bool)
        if self.min_cell_size <= 1:
            return small
        for part, counts in self.counts.whole_tables(sets):
            small[part] = self.has_small_counts(sets[part], counts)
        return small if self.parent is None else small | self.parent.withheld(sets)

    @cached_property
    def few_values(self) -> BoolVector:
        """Whether a variable's numbers repeat so that sums disclose small counts, shape (p,)."""
        if self.parent is not None:
            return self.parent.few_values
        if self.min_cell_size <= 1 or self.values is None:
            return np.zeros(self.n_variables, dtype=bool)
        return (self.sides == 0) & repeated_values(self.values)

    def test(self, spec: CITestSpec) -> CITest:
        """The conditional-independence test that a question names."""
        # the outcomes do not depend on alpha
        spec = msgspec.structs.replace(spec, alpha=0.5)
        return self.remember("tests", spec, lambda: self._made_test(spec), most=MOST_TESTS)

    def _made_test(self, spec: CITestSpec) -> CITest:
        if self.make_test is not None:
            test = self.make_test(spec)
        else:
            assert self.table is not None, "tests are made of a table"
            test = table_test(self.table, spec, device=self.device_name)
        if self.budget is not None:
            test = CountedTest(test, self.budget)
        return PossibleTest(test, self.determined) if self.determined else test

    @cached_property
    def _resampling_key(self) -> bytes:
        return self.keyed(rows_digest(b"cipherdag resampled rows", self.all_codes, self.all_values))

    def resampled_rows(self, replicate: int, seed: int) -> IndexArray:
        """Positions of a replicate's rows, or patients: as many as there are, with replacement."""
        number = seed.to_bytes(8, "big") + replicate.to_bytes(8, "big")
        entropy = hashlib.sha256(self._resampling_key + number).digest()
        rng = np.random.default_rng(int.from_bytes(entropy, "big"))
        n = len(self.all_rows) if self.patients is None else int(self.patients.max()) + 1
        return rng.integers(n, size=n)

    def resampled(self, replicate: int, seed: int) -> SiteView:
        """The view of a replicate's rows; MalformedMessageError without a table to draw from."""
        if self.table is None:
            raise MalformedMessageError("this site draws no rows from its own")
        table = self.table

        def draw() -> SiteView:
            drawn = self.resampled_rows(replicate, seed)
            rows = table.take(drawn) if table.patients is None else table.take_patients(drawn)
            return replace(
                self, all_codes=rows.codes, all_values=rows.values, parent=self, table=rows
            )

        arrays = [array for array in (self.all_codes, self.all_values) if array is not None]
        most = max(MEMORY // max(sum(array.nbytes for array in arrays), 1), 1)
        return self.remember("replicates", (seed, replicate), draw, most=most)
