"""The likelihood-ratio test of mixed columns over all sites, by Newton steps on summed gradients.

At the maximum nothing tells the fit from one on all rows in one place; `fitting` has the models.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.evidence import federated_test as source
from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.combined import CombinedTests
from cipherdag.algorithms.evidence.effects import ODDS, of_correlation, of_log_odds, per_units
from cipherdag.algorithms.evidence.federated_test import CachedFederatedCITest, PValues, Tests
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.pooled_moments import common_origins, common_units
from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.arrays import FloatVector
from cipherdag.graphs.edge_evidence import Effect
from cipherdag.questions.encodings import by_block, pack_integers
from cipherdag.questions.gather import gather
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.question import Question
from cipherdag.questions.regression_steps import RegressionSteps, pack_models, step_length
from cipherdag.statistics.p_values import normal_scores
from cipherdag.statistics.regression_fits import (
    Fit,
    effect_of,
    first_fit,
    likelihood_ratio,
    step_parts,
)
from cipherdag.statistics.regression_models import Regression, nested_models, outputs, too_large

Fitting = Generator[Question, FloatVector, list[FloatVector]]

WITHHELD = "withheld: statistic"
MIXED = -1
"""The number of sites of a fit during which one left."""
IN_ORDER = attrgetter("response", "predictors", "complete_in", "crossed")
Rows = tuple[int, frozenset[int]]
"""A response, and the variables of a model that miss values: models with the same have the
same rows."""


@dataclass(slots=True)
class NearbyFits:
    """Finished fits without interactions, by rows and predictors.

    Attributes:
        misses: Whether some row misses a value of a variable.
    """

    misses: Callable[[int], bool]
    _known: dict[Rows, dict[frozenset[int], Fit]] = field(default_factory=dict)

    def keep(self, fit: Fit) -> None:
        """Remember a finished fit."""
        if not fit.model.crossed:
            own = self._known.setdefault(self._rows(fit.model), {})
            own[frozenset(fit.model.predictors)] = fit

    def near(self, model: Regression) -> Fit | None:
        """The fit with most of the model's predictors; of some the likeliest, then the first."""
        known = self._known.get(self._rows(model))
        if model.crossed or known is None:
            return None
        for size in range(len(model.predictors), -1, -1):
            among = map(frozenset, combinations(model.predictors, size))
            found = [known[own] for own in among if own in known]
            if found:
                return max(found, key=lambda fit: fit.value)
        return None

    def _rows(self, model: Regression) -> Rows:
        used = (model.response, *model.predictors, *model.complete_in)
        return model.response, frozenset(filter(self.misses, used))


class RegressionTests(CachedFederatedCITest):
    """Likelihood-ratio tests of any columns.

    A test whose discrete variables have a table that some site withholds falls back to the sum of
    the sites' own likelihood ratios. One with more than 4096 coefficients is not done, and counts
    as dependent, and so does one whose two models were not fitted over the same sites, since a site
    left meanwhile. No model is fitted twice: a second time its sums would show who left. All are
    tallied.

    Leaks:
        See `RegressionSteps`.

    Args:
        kinds: The columns.
        settings: How tests are done.
    """

    def __init__(self, kinds: ColumnKinds, settings: EvidenceSettings) -> None:
        super().__init__(kinds, settings)
        name = "regression-interactions" if settings.interactions else "regression"
        own = msgspec.structs.replace(settings.spec, name=name)
        self._fallback = CombinedTests("statistic", replace(settings, spec=own))
        self._kinds = kinds
        self._categories = tuple(kinds.categories.tolist())
        self._ordered = frozenset(np.flatnonzero(kinds.ordered).tolist())
        self._tables = PooledTables(kinds, max_rows=settings.max_rows)
        discrete = kinds.categories > 0
        origins = np.where(discrete, 0.0, common_origins(kinds))
        units = np.where(discrete, 0, common_units(kinds))
        self._origins = np.ascontiguousarray(origins, dtype="<f8").tobytes()
        self._exponents, self._units = units, pack_integers(units)
        self._max_rows = settings.max_rows
        self._site_effect = settings.site_effect
        self._interactions = settings.interactions
        self._present = settings.present
        self._known: dict[Regression, tuple[Fit, int]] = {}
        self._finished: dict[int, NearbyFits] = {}

    def _ask(self, tests: Tests) -> PValues:
        """One round per Newton step, at most 40, and per halving; one before for small counts."""
        rows = [tuple(row) for block in tests for row in block.tolist()]
        given = yield from self._permitted(rows)
        pairs = [self._models(row) for row, ok in zip(rows, given, strict=True) if ok]
        done = ~np.array([too_large(large, self._categories) for _, large in pairs], dtype=bool)
        pairs = [pair for pair, ok in zip(pairs, done, strict=True) if ok]
        models = sorted({own for pair in pairs for own in pair} - set(self._known), key=IN_ORDER)
        kept = by_block(tests, given)
        left = [block[~own] for block, own in zip(tests, kept, strict=True)]
        _, others = yield from gather([self._fit(models), self.ask_instead(left, WITHHELD)])
        over_one = [
            self._known[small][1] == self._known[large][1] != MIXED for small, large in pairs
        ]
        self.n_tests_by_method["regression"] += len(pairs)
        not_done = {
            WITHHELD: int((~given).sum()),
            "too many coefficients: none": int((~done).sum()),
            "a site left: none": over_one.count(False),
        }
        self.n_tests_by_method.update({way: count for way, count in not_done.items() if count})
        found = np.full(len(rows), np.nan)
        places = np.flatnonzero(given)[done]
        fitted = [rows[place] for place in places.tolist()]
        found[places] = [
            self._p_value(row, self._known[small][0], self._known[large][0]) if whole else np.nan
            for row, (small, large), whole in zip(fitted, pairs, over_one, strict=True)
        ]
        found[~given] = np.concatenate([np.zeros(0), *others])
        return by_block(tests, found)

    def effect(self, test: Sequence[int]) -> Effect | None:
        """A partial correlation of numbers, an odds ratio where two categories respond."""
        fits = [self._known.get(model) for model in self._models(tuple(test))]
        small, large = fits
        if small is None or large is None or not small[1] == large[1] != MIXED:
            return None
        constants = large[1] - 1 if self._site_effect else 0
        x, y = test[:2]
        other = x if large[0].model.response == y else y
        found = effect_of(small[0], large[0], other, self._categories, constants)
        if found is None or not large[0].discrete:
            return None if found is None else of_correlation(*found)
        if self._categories[other]:
            return of_log_odds(*found, ODDS)
        log_odds, deviation = np.ldexp(found, -self._exponents[other]).tolist()
        return per_units(log_odds, deviation)

    def _permitted(
        self, rows: list[tuple[int, ...]]
    ) -> Generator[Question, FloatVector, NDArray[np.bool_]]:
        """Which tests use no table of discrete variables that some site withholds."""
        if not self._kinds.restricted:
            return np.ones(len(rows), dtype=bool)
        sets = [tuple(sorted(v for v in row if self._categories[v])) for row in rows]
        largest = max((len(own) for own in sets), default=0)
        yield from self._tables.settle(
            [
                np.array([own for own in sets if len(own) == size], dtype=np.int64).reshape(
                    -1, size
                )
                for size in range(1, largest + 1)
            ]
        )
        withheld = [len(own) > 0 and self._tables.withheld(np.array([own]))[0] for own in sets]
        return ~np.array(withheld, dtype=bool)

    def _models(self, row: tuple[int, ...]) -> tuple[Regression, Regression]:
        left_out = bool(self._kinds.incomplete[list(row)].any())
        return nested_models(
            row,
            self._categories,
            left_out=left_out,
            ordered=self._ordered,
            interactions=self._interactions,
        )

    def _p_value(self, row: tuple[int, ...], small: Fit, large: Fit) -> float:
        from scipy.special import gammaincc

        ratio, dof = likelihood_ratio(small, large, self._categories)
        if len(row) == len(("x", "y")):
            score = normal_scores(np.array([ratio]), np.array([float(dof)]))
            self.store_strengths(np.array([row]), score)
        return float(gammaincc(dof / 2.0, ratio / 2.0))

    def _fit(self, models: list[Regression]) -> Fitting:
        """Fit models side by side, and keep each with the number of sites it was fitted over."""
        at_first = self._present.n_sites
        near = {model: self._nearby(at_first).near(model) for model in models}
        fits = {
            model: first_fit(model, self._categories, site_effect=self._site_effect, near=own)
            for model, own in near.items()
        }
        counts = {model: len(fit.coefficients) for model, fit in fits.items()}
        active = models
        covered: set[int] = set()
        while active:
            for part in _rounds(active, counts):
                lengths, members = pack_models(part)
                proposed = np.concatenate([fits[model].proposed for model in part])
                sums = yield RegressionSteps(
                    categories=self._categories,
                    origins=self._origins,
                    units=self._units,
                    lengths=lengths,
                    members=members,
                    coefficients=np.ascontiguousarray(proposed, dtype="<f8").tobytes(),
                    max_rows=self._max_rows,
                    site_effect=self._site_effect,
                    ordered=tuple(sorted(self._ordered)),
                )
                covered.add(self._present.n_sites)
                start = 0
                for model in part:
                    step = sums[start : start + step_length(counts[model])]
                    start += len(step)
                    n_outputs = outputs(self._categories[model.response])
                    fits[model].update(*step_parts(step, counts[model]), n_outputs)
            active = [model for model in active if not fits[model].finished]
        n_sites = covered.pop() if len(covered) == 1 else MIXED
        for model, fit in fits.items():
            # one that began near another counts on the rows that the sites had then
            whole = n_sites == at_first or (n_sites != MIXED and near[model] is None)
            self._known[model] = fit, n_sites if whole else MIXED
            if whole:
                self._nearby(n_sites).keep(fit)
        return []

    def _nearby(self, n_sites: int) -> NearbyFits:
        """The fits over so many sites, from which others begin."""
        if n_sites not in self._finished:
            self._finished[n_sites] = NearbyFits(self._kinds.incomplete.__getitem__)
        return self._finished[n_sites]


def _rounds(models: list[Regression], counts: dict[Regression, int]) -> Iterator[list[Regression]]:
    """Models cut into rounds of about `source.MAX_VALUES_PER_ROUND` values."""
    part: list[Regression] = []
    values = 0
    for model in models:
        values += step_length(counts[model])
        if part and values > source.MAX_VALUES_PER_ROUND:
            yield part
            part, values = [], step_length(counts[model])
        part.append(model)
    if part:
        yield part


def open_regressions(
    settings: EvidenceSettings,
) -> Generator[Question, FloatVector, RegressionTests]:
    """Likelihood-ratio tests of any columns; one round."""
    question = Columns(n_variables=settings.n_variables, max_rows=settings.max_rows, order=True)
    return RegressionTests(question.read((yield question)), settings)


GLM = CombinationMethod(
    name="glm",
    discloses="For every regression of the tests and every step towards its maximum, the sums of "
    "the likelihoods, gradients and Hessians, and so its coefficients over all sites; the kinds of "
    "columns, and about where and how widely continuous ones lie.",
    open=open_regressions,
    asks_columns=True,
    mixes_sites=True,
)
