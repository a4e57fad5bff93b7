"""Fisher's z tests the pooled data by moments that are summed over the sites once.

The sites first mark the rough location and spread of each column. With the common origin and unit
that follow, sums and products have more digits on the declared grid than a 64-bit float holds.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import msgspec
import numpy as np

from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.effects import of_correlation
from cipherdag.algorithms.evidence.federated_test import CachedFederatedCITest, PValues, Tests
from cipherdag.algorithms.evidence.options import EvidenceSettings, Method
from cipherdag.algorithms.evidence.pooled_tables import open_tables
from cipherdag.algorithms.evidence.within_sites import RaoTests
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import MixedTypesError
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.questions.disclosure import Quantity, joined, sums
from cipherdag.questions.encodings import pack_floats, pack_integers, require_possible
from cipherdag.questions.pooled_data import (
    LOCATION_EXPONENT,
    ColumnKinds,
    Columns,
    Moments,
    SmallCells,
    Tables,
)
from cipherdag.questions.question import Question
from cipherdag.questions.scores.score_sums import RaoSums

LEAST_DEVIATION = 2.0**-20  # of the common unit: a column that varies less is constant
ORIGIN_BITS = 8
"""Bits of an origin below a unit: a finer one would depend on the library that computes it."""
BATCH = 50_000
MUCH_LARGER = 10.0
"""Spreads differ where Bartlett's statistic exceeds this many times the number of sites."""


def open_moments(
    kinds: ColumnKinds, settings: EvidenceSettings
) -> Generator[Question, FloatVector, MomentTests]:
    """Ask in one round for the moments of all columns that have them, or in none without any.

    Columns with missing values have none, nor those of few values at a site that restricts small
    counts. AggregateRangeError for more rows than there are.
    """
    complete = np.flatnonzero(~kinds.incomplete & ~kinds.few)
    rows, correlations = kinds.rows, np.full((len(kinds.categories),) * 2, np.nan)
    if len(complete):
        rows, opened = yield from open_correlations(kinds, complete, max_rows=settings.max_rows)
        correlations[np.ix_(complete, complete)] = opened
    return MomentTests(correlations, rows, kinds, settings)


def open_correlations(
    kinds: ColumnKinds, columns: IndexArray, *, max_rows: int, n_sites: int | None = None
) -> Generator[Question, FloatVector, tuple[int, FloatVector]]:
    """Ask for the moments of columns, ascending; return rows and correlations, shape (c, c).

    None of the columns misses a value. Given the number of sites, correlations are those within
    them: every site subtracts its means. Columns whose spreads differ between sites are asked about
    again, in units of each site's own deviation, in a second round. AggregateRangeError for more
    rows than there are.
    """
    question = Moments(
        n_variables=len(kinds.categories),
        variables=pack_integers(columns),
        origins=pack_floats(common_origins(kinds)[columns]),
        units=pack_integers(common_units(kinds)[columns]),
        max_rows=max_rows,
        centred=n_sites is not None,
    )
    sums = yield question
    if n_sites is not None:
        differ = spreads_differ(sums, len(columns), n_sites)
        if differ.any():
            flags = differ.astype(np.uint8).tobytes()
            sums = yield msgspec.structs.replace(question, standardised=flags)
    rows, correlations = correlations_of(sums, len(columns))
    require_possible(question.label, "too many rows", holds=rows <= kinds.rows)
    return rows, correlations


def spreads_differ(sums: FloatVector, columns: int, n_sites: int) -> BoolVector:
    """Whether the sites' variances of a column differ beyond chance, shape (c,).

    Sums are those of `Moments`, centred within sites. Bartlett's statistic, n ln(mean variance) -
    sum n_k ln(variance_k), has a mean of K - 1 over K sites whose variances are equal and whose
    numbers are normal. What is heavy-tailed has a multiple of that, so it has to be larger by
    `MUCH_LARGER`.
    """
    rows, _, upper, logarithms = np.split(sums, _parts(columns))
    variances = upper[_diagonal(columns)] / max(rows[0], 1.0)
    common = rows[0] * np.log2(np.where(variances > 0.0, variances, 1.0))
    statistic = math.log(2.0) * (common - logarithms)
    differ: BoolVector = statistic > MUCH_LARGER * n_sites
    return differ


def _parts(columns: int) -> tuple[int, int, int]:
    return 1, 1 + columns, 1 + columns + columns * (columns + 1) // 2


def _diagonal(columns: int) -> BoolVector:
    rows, others = np.triu_indices(columns)
    return rows == others


def correlations_of(sums: FloatVector, columns: int) -> tuple[int, FloatVector]:
    """Compute rows and correlations, shape (c, c), from `Moments`; NaN at constant columns."""
    from cipherdag.statistics.p_values import correlation_matrices

    rows, total, upper, _ = np.split(sums, _parts(columns))
    products = np.zeros((columns, columns))
    products[np.triu_indices(columns)] = upper
    products = products + np.triu(products, k=1).T
    centred = products - np.outer(total, total) / max(rows[0], 1.0)
    (matrix,) = correlation_matrices(centred[None], rows, least_deviation=LEAST_DEVIATION)
    return int(rows[0]), matrix


class MomentTests(CachedFederatedCITest):
    """`MomentTests` tests by Fisher's z of pooled correlations, without a round.

    Rows with a missing value are excluded test by test, for which one matrix does not suffice. A
    test with a variable that has missing values at some site is done by ``stratified`` with its
    sums opened and counted as such, and so is one with numbers of few values, whose sums would be
    counts that some site restricts.

    Correlations of the pooled data have shape (p, p), NaN at constant columns and at columns
    without moments; ``rows`` are those of all sites.
    """

    def __init__(
        self, correlations: FloatVector, rows: int, kinds: ColumnKinds, settings: EvidenceSettings
    ) -> None:
        super().__init__(settings, kinds)
        self._correlations = correlations
        self._rows = rows
        self._incomplete = kinds.incomplete
        self._without_moments = kinds.incomplete | kinds.few
        self._fallback: RaoTests = RaoTests(kinds, settings, bits=False)

    def _ask(self, tests: Tests) -> PValues:
        """Ask in no round, or in those of the fallback, which are separate for both reasons."""
        p_values = [self._pooled(rows) for rows in tests]
        missing = [self._incomplete[rows].any(axis=1) for rows in tests]
        without = [self._without_moments[rows].any(axis=1) for rows in tests]
        few = [either & ~other for either, other in zip(without, missing, strict=True)]
        self.tally[Method.POOLED] += sum(int((~either).sum()) for either in without)
        for method, chosen in ((Method.INCOMPLETE, missing), (Method.FEW_VALUES, few)):
            left = [rows[which] for rows, which in zip(tests, chosen, strict=True)]
            if count := sum(len(rows) for rows in left):
                self.tally[method] += count
                others = yield from self.ask_fallback(left, method)
                for p_value, which, other in zip(p_values, chosen, others, strict=True):
                    p_value[which] = other
        return p_values

    def effect(self, test: Sequence[int]) -> EffectSize | None:
        """Return the partial correlation of all rows, or the fallback's effect."""
        if self._without_moments[list(test)].any():
            return self._fallback.effect(test)
        x, y, *given = test
        positions = np.array([*given, x, y])
        spread = self._rows - len(given) - 3
        correlation = self._partial(positions[:, None])[0]
        if not (spread > 0 and abs(correlation) < 1.0):
            return None
        return of_correlation(math.atanh(correlation), 1.0 / math.sqrt(spread))

    def _partial(self, positions: IndexArray) -> FloatVector:
        """Compute partial correlations of s1, ..., sl, x, y in columns of ``positions``."""
        from cipherdag.statistics.p_values import partial_correlation

        # the batch last, as partial_correlation wants it
        return partial_correlation(self._correlations[positions[:, None], positions[None]])

    def _pooled(self, rows: IndexArray) -> FloatVector:
        from cipherdag.statistics.p_values import fisher_z

        p_value = np.full(len(rows), np.nan)
        size = rows.shape[1] - 2
        order = np.column_stack([rows[:, 2:], rows[:, :2]])
        for start in range(0, len(rows), BATCH):
            correlation = self._partial(order[start : start + BATCH].T)
            counts = np.full(len(correlation), self._rows)
            p_value[start : start + BATCH] = fisher_z(correlation, counts, size).p_value
        return p_value


def common_origins(kinds: ColumnKinds) -> FloatVector:
    """Compute each column's rough location from the mean of the sites' marks, to part of a unit."""
    near = np.ldexp(np.sinh(kinds.location), -LOCATION_EXPONENT)
    units = common_units(kinds)
    with np.errstate(over="ignore"):
        steps = np.ldexp(near, ORIGIN_BITS - units)
    # beyond, every number is a multiple
    coarse = np.abs(steps) < 2.0 ** np.finfo(np.float64).nmant
    return np.where(coarse, np.ldexp(np.rint(steps), units - ORIGIN_BITS), near)


def common_units(kinds: ColumnKinds) -> IndexArray:
    """Compute the power of two nearest to the typical spread, or to the size without any spread."""
    exponent = np.where(np.isnan(kinds.spread), np.nan_to_num(kinds.size), kinds.spread)
    return np.rint(exponent).astype(np.int64)


def common_scales(kinds: ColumnKinds) -> tuple[bytes, bytes]:
    """Packed origins and units of all columns, as questions have them; 0 of categories."""
    discrete = kinds.categories > 0
    origins = pack_floats(np.where(discrete, 0.0, common_origins(kinds)))
    return origins, pack_integers(np.where(discrete, 0, common_units(kinds)))


def open_pooled(
    settings: EvidenceSettings,
) -> Generator[Question, FloatVector, CachedFederatedCITest]:
    """Open tests of the pooled data in two rounds, or in three where a site restricts counts.

    MixedTypesError where the test does not fit the columns.
    """
    question = Columns(n_variables=settings.n_variables, max_rows=settings.max_rows, few=True)
    kinds = question.read((yield question))
    name = settings.spec.name
    if kinds.categories.all() and name in ("auto", "g2", "pearson"):
        return (yield from open_tables(kinds, settings))
    if not kinds.categories.any() and name in ("auto", "fisherz"):
        return (yield from open_moments(kinds, settings))
    mixed = kinds.categories.any() and not kinds.categories.all()
    columns = "discrete and continuous" if mixed else "these"
    raise MixedTypesError(
        f"pooled evidence cannot test {columns} columns by '{name}'",
        remedy='Run with --evidence glm (Python: evidence="glm"), which takes any columns, or with '
        "columns of one type.",
    )


POOLED = CombinationMethod(
    name="pooled",
    discloses=joined(
        Columns(n_variables=1, few=True).disclosures,
        Tables.discloses,
        SmallCells.discloses,
        sums(Quantity.MOMENTS),
        RaoSums.discloses,
    ),
    open=open_pooled,
    asks_columns=True,
    mixes_sites=True,
    tests=("auto", "g2", "pearson", "fisherz"),
)
