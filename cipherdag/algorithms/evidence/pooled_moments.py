"""Fisher's z of the pooled data, from moments summed over the sites once.

The sites first mark about where each column lies and how far it spreads; in the common unit and
from the common origin so chosen, sums and products keep more digits on the declared grid than a
64-bit float holds.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import numpy as np

from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.combined import CombinedTests
from cipherdag.algorithms.evidence.effects import of_correlation
from cipherdag.algorithms.evidence.federated_test import (
    CachedFederatedCITest,
    FederatedCITest,
    PValues,
    Tests,
)
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.pooled_tables import open_tables
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import MixedTypesError
from cipherdag.graphs.edge_evidence import Effect
from cipherdag.questions.combined_evidence import Combination
from cipherdag.questions.encodings import pack_integers, require_possible
from cipherdag.questions.pooled_data import LOCATION_EXPONENT, ColumnKinds, Columns, Moments
from cipherdag.questions.question import Question

FALLBACK: Combination = "stouffer"
INCOMPLETE = "incomplete: stouffer"
FEW = "few values: stouffer"
LEAST_DEVIATION = 2.0**-20  # of the common unit: a column that varies less is constant
ORIGIN_BITS = 8
"""Of a unit: a finer origin would not be the same wherever a library computes it."""
BATCH = 50_000


def open_moments(
    kinds: ColumnKinds, settings: EvidenceSettings
) -> Generator[Question, FloatVector, MomentTests]:
    """Ask for the moments of all columns that have any; one round, none if there is none.

    Those that miss values have none, nor those of few values at a site that restricts small counts.

    Raises:
        AggregateRangeError: More rows than there are.

    Leaks:
        The means and covariances of these columns over all sites.
    """
    complete = np.flatnonzero(~kinds.incomplete & ~kinds.few)
    rows, correlations = kinds.rows, np.full((len(kinds.categories),) * 2, np.nan)
    if len(complete):
        rows, own = yield from open_correlations(kinds, complete, max_rows=settings.max_rows)
        correlations[np.ix_(complete, complete)] = own
    return MomentTests(correlations, rows, kinds, CombinedTests(FALLBACK, settings))


def open_correlations(
    kinds: ColumnKinds, columns: IndexArray, *, max_rows: int, centred: bool = False
) -> Generator[Question, FloatVector, tuple[int, FloatVector]]:
    """Ask for the moments of some columns; rows and correlations, shape (c, c), in one round.

    Args:
        kinds: Where the columns lie.
        columns: Positions of columns without missing values, ascending, shape (c,).
        max_rows: Declared bound of a site's rows.
        centred: Whether every site takes its own means off.

    Raises:
        AggregateRangeError: More rows than there are.

    Leaks:
        The means and covariances of these columns over all sites, or those within sites.
    """
    question = Moments(
        n_variables=len(kinds.categories),
        variables=pack_integers(columns),
        origins=np.ascontiguousarray(common_origins(kinds)[columns], dtype="<f8").tobytes(),
        units=pack_integers(common_units(kinds)[columns]),
        max_rows=max_rows,
        centred=centred,
    )
    rows, correlations = correlations_of((yield question), len(columns))
    require_possible(question.label, "too many rows", holds=rows <= kinds.rows)
    return rows, correlations


def correlations_of(sums: FloatVector, columns: int) -> tuple[int, FloatVector]:
    """Rows and correlations, shape (c, c), from the sums of `Moments`; NaN at constant columns."""
    import torch

    from cipherdag.statistics.partial_correlation import correlation_matrices

    rows, total, upper = np.split(sums, [1, 1 + columns])
    products = np.zeros((columns, columns))
    products[np.triu_indices(columns)] = upper
    products = products + np.triu(products, k=1).T
    centred = products - np.outer(total, total) / max(rows[0], 1.0)
    moments, n = torch.from_numpy(centred)[None], torch.tensor(rows)
    matrix = correlation_matrices(moments, n, least_deviation=LEAST_DEVIATION)[0]
    return int(rows[0]), matrix.numpy()


class MomentTests(CachedFederatedCITest):
    """Fisher's z from pooled correlations; no round.

    Rows with a missing value are left out test by test, which one matrix cannot say: a test with a
    variable that misses values at some site falls back to ``stouffer`` (tallied), and so does one
    with numbers of few values, whose sums would be counts that some site restricts.

    Args:
        correlations: Of the pooled data, shape (p, p); NaN at constant columns and
            those without moments.
        rows: Rows of all sites.
        kinds: The columns.
        fallback: Tests those.
    """

    def __init__(
        self,
        correlations: FloatVector,
        rows: int,
        kinds: ColumnKinds,
        fallback: CombinedTests,
    ) -> None:
        super().__init__(kinds)
        self._correlations = correlations
        self._rows = rows
        self._incomplete = kinds.incomplete
        self._apart = kinds.incomplete | kinds.few
        self._fallback: CombinedTests = fallback

    def _ask(self, tests: Tests) -> PValues:
        """No round, or the fallback's, each of its own."""
        p_values = [self._pooled(rows) for rows in tests]
        missing = [self._incomplete[rows].any(axis=1) for rows in tests]
        apart = [self._apart[rows].any(axis=1) for rows in tests]
        few = [own & ~other for own, other in zip(apart, missing, strict=True)]
        self.n_tests_by_method["pooled"] += sum(int((~own).sum()) for own in apart)
        for way, chosen in ((INCOMPLETE, missing), (FEW, few)):
            left = [rows[own] for rows, own in zip(tests, chosen, strict=True)]
            if count := sum(len(rows) for rows in left):
                self.n_tests_by_method[way] += count
                found = yield from self.ask_instead(left, way)
                for p_value, own, other in zip(p_values, chosen, found, strict=True):
                    p_value[own] = other
        return p_values

    def effect(self, test: Sequence[int]) -> Effect | None:
        """The partial correlation of all rows, or the fallback's."""
        if self._apart[list(test)].any():
            return self._fallback.effect(test)
        x, y, *given = test
        places = np.array([*given, x, y])
        spread = self._rows - len(given) - 3
        correlation = self._partial(places[:, None])[0]
        if not (spread > 0 and abs(correlation) < 1.0):
            return None
        return of_correlation(math.atanh(correlation), 1.0 / math.sqrt(spread))

    def _partial(self, places: IndexArray) -> FloatVector:
        """Partial correlations of s1, ..., sl, x, y in the columns of ``places``, shape (B,)."""
        import torch

        from cipherdag.statistics.partial_correlation import partial_correlation

        # the batch last, as partial_correlation wants it
        entries = torch.from_numpy(self._correlations[places[:, None], places[None]])
        return partial_correlation(entries).numpy()

    def _pooled(self, rows: IndexArray) -> FloatVector:

        from cipherdag.statistics.partial_correlation import fisher_z

        p_value = np.full(len(rows), np.nan)
        size = rows.shape[1] - 2
        order = np.column_stack([rows[:, 2:], rows[:, :2]])
        for start in range(0, len(rows), BATCH):
            correlation = self._partial(order[start : start + BATCH].T)
            counts = np.full(len(correlation), self._rows)
            p_value[start : start + BATCH] = fisher_z(correlation, counts, size).p_value
        return p_value


def common_origins(kinds: ColumnKinds) -> FloatVector:
    """About where each column lies: the mean of the sites' marks, undone, to part of a unit."""
    near = np.ldexp(np.sinh(kinds.location), -LOCATION_EXPONENT)
    units = common_units(kinds)
    with np.errstate(over="ignore"):
        steps = np.ldexp(near, ORIGIN_BITS - units)
    # beyond, every number is a multiple
    coarse = np.abs(steps) < 2.0 ** np.finfo(np.float64).nmant
    return np.where(coarse, np.ldexp(np.rint(steps), units - ORIGIN_BITS), near)


def common_units(kinds: ColumnKinds) -> IndexArray:
    """The power of two nearest to the typical spread; to the size where no site has a spread."""
    exponent = np.where(np.isnan(kinds.spread), np.nan_to_num(kinds.size), kinds.spread)
    return np.rint(exponent).astype(np.int64)


def open_pooled(
    settings: EvidenceSettings,
) -> Generator[Question, FloatVector, FederatedCITest]:
    """Tests of the pooled data; two rounds, or three where a site restricts counts.

    Raises:
        MixedTypesError: The test does not fit the columns.
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
        remedy="Run with --evidence glm, which takes any columns, or with columns of one type and "
        "a --test that fits them.",
    )


POOLED = CombinationMethod(
    name="pooled",
    discloses="The contingency tables of the tests, or the moments, of all sites together: as much "
    "as the pooled data would show of them.",
    open=open_pooled,
    asks_columns=True,
    mixes_sites=True,
)
