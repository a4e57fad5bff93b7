"""Likelihood-ratio tests for columns of any type, by regressions that all sites fit together.

They fit with Newton's method: the sites sum likelihoods, gradients and Hessians, so that the
maximum is that of all rows together. The models are defined in `statistics.regression_models`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.evidence import federated_test as source
from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.effects import ODDS, of_correlation, of_log_odds, per_units
from cipherdag.algorithms.evidence.federated_test import CachedFederatedCITest, PValues, Tests
from cipherdag.algorithms.evidence.options import EvidenceSettings, Method
from cipherdag.algorithms.evidence.pooled_moments import common_scales, common_units
from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.algorithms.evidence.within_sites import RaoTests
from cipherdag.arrays import FloatVector
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.questions.disclosure import joined
from cipherdag.questions.encodings import by_block, pack_floats
from cipherdag.questions.gather import gather
from cipherdag.questions.pooled_data import ColumnKinds, Columns, SmallCells
from cipherdag.questions.question import Question
from cipherdag.questions.regression_steps import RegressionSteps, pack_models, values_per_step
from cipherdag.questions.scores.score_sums import RaoSums
from cipherdag.statistics.newton import step_parts
from cipherdag.statistics.p_values import normal_scores
from cipherdag.statistics.regression_fits import Fit, effect_of, first_fit, likelihood_ratio
from cipherdag.statistics.regression_models import Regression, nested_models, outputs, too_large

Fitting = Generator[Question, FloatVector, list[FloatVector]]

MIXED = -1  # stands for the number of sites of a fit during which a site left the run
IN_ORDER = attrgetter("response", "predictors", "complete_in", "crossed")
RowsKey = tuple[int, frozenset[int]]
"""The key of warm starts: a response, and a model's variables with missing values.

Models of equal keys use the same rows.
"""


@dataclass(slots=True)
class WarmStarts:
    """`WarmStarts` stores finished fits without interactions, from which other fits can start."""

    misses: Callable[[int], bool]  # whether some row misses a value of a variable
    _fits: dict[RowsKey, dict[frozenset[int], Fit]] = field(default_factory=dict)

    def add(self, fit: Fit) -> None:
        """Store a finished fit."""
        if not fit.model.crossed:
            same_rows = self._fits.setdefault(self._rows_key(fit.model), {})
            same_rows[frozenset(fit.model.predictors)] = fit

    def nearest(self, model: Regression) -> Fit | None:
        """Return the stored fit on the same rows that shares most predictors with the model.

        It has no other predictors; of several fits it is the one with the highest likelihood.
        """
        same_rows = self._fits.get(self._rows_key(model))
        if model.crossed or same_rows is None:
            return None
        for size in range(len(model.predictors), -1, -1):
            subsets = map(frozenset, combinations(model.predictors, size))
            fits = [same_rows[subset] for subset in subsets if subset in same_rows]
            if fits:
                return max(fits, key=lambda fit: fit.value)
        return None

    def _rows_key(self, model: Regression) -> RowsKey:
        used = (model.response, *model.predictors, *model.complete_in)
        return model.response, frozenset(filter(self.misses, used))


class RegressionTests(CachedFederatedCITest):
    """`RegressionTests` are likelihood-ratio tests of columns of any type.

    A test whose discrete variables have a table that some site withholds is done by ``stratified``
    with its sums opened. A test with more than 4096 coefficients is not done, and counts as
    dependent, and so does one whose two models were not fitted over the same sites, since a site
    left in between. No model is fitted twice: the second sums would disclose the sites that left.
    All these tests are counted by method.
    """

    def __init__(self, kinds: ColumnKinds, settings: EvidenceSettings) -> None:
        super().__init__(settings, kinds)
        self._fallback = RaoTests(kinds, settings, bits=False)
        self._kinds = kinds
        self._categories = tuple(kinds.categories.tolist())
        self._ordered = frozenset(np.flatnonzero(kinds.ordered).tolist())
        self._tables = PooledTables(kinds, max_rows=settings.max_rows)
        self._origins, self._units = common_scales(kinds)
        self._fits: dict[Regression, tuple[Fit, int]] = {}
        self._warm_starts: dict[int, WarmStarts] = {}

    def _ask(self, tests: Tests) -> PValues:
        """Ask for the p-values.

        One round for withheld tables; then at most 40 Newton steps, one round each, plus rounds for
        halved steps.
        """
        rows = [tuple(row) for block in tests for row in block.tolist()]
        given = yield from self._permitted(rows)
        pairs = [self._models(row) for row, ok in zip(rows, given, strict=True) if ok]
        done = ~np.array([too_large(large, self._categories) for _, large in pairs], dtype=bool)
        pairs = [pair for pair, ok in zip(pairs, done, strict=True) if ok]
        models = sorted({model for pair in pairs for model in pair} - set(self._fits), key=IN_ORDER)
        permitted = by_block(tests, given)
        left = [block[~chosen] for block, chosen in zip(tests, permitted, strict=True)]
        _, others = yield from gather([self._fit(models), self.ask_fallback(left, Method.WITHHELD)])
        same_sites = [
            self._fits[small][1] == self._fits[large][1] != MIXED for small, large in pairs
        ]
        self.tally[Method.REGRESSION] += len(pairs)
        not_done = {
            Method.WITHHELD: int((~given).sum()),
            Method.TOO_MANY_COEFFICIENTS: int((~done).sum()),
            Method.SITE_LEFT: same_sites.count(False),
        }
        self.tally.update({key: count for key, count in not_done.items() if count})
        p_values = np.full(len(rows), np.nan)
        indices = np.flatnonzero(given)[done]
        fitted = [rows[index] for index in indices.tolist()]
        p_values[indices] = [
            self._p_value(row, self._fits[small][0], self._fits[large][0]) if same else np.nan
            for row, (small, large), same in zip(fitted, pairs, same_sites, strict=True)
        ]
        p_values[~given] = np.concatenate([np.zeros(0), *others])
        return by_block(tests, p_values)

    def effect(self, test: Sequence[int]) -> EffectSize | None:
        """Return a partial correlation of numbers, or an odds ratio of two categories."""
        fits = [self._fits.get(model) for model in self._models(tuple(test))]
        small, large = fits
        if small is None or large is None or not small[1] == large[1] != MIXED:
            return None
        constants = large[1] - 1 if self._settings.site_effect else 0
        x, y = test[:2]
        other = x if large[0].model.response == y else y
        estimate = effect_of(small[0], large[0], other, self._categories, constants)
        if estimate is None or not large[0].discrete:
            return None if estimate is None else of_correlation(*estimate)
        if self._categories[other]:
            return of_log_odds(*estimate, ODDS)
        log_odds, deviation = np.ldexp(estimate, -common_units(self._kinds)[other]).tolist()
        return per_units(log_odds, deviation)

    def _permitted(
        self, rows: list[tuple[int, ...]]
    ) -> Generator[Question, FloatVector, NDArray[np.bool_]]:
        """Return which tests have no table of discrete variables that some site withholds."""
        if not self._kinds.restricted:
            return np.ones(len(rows), dtype=bool)
        sets = [tuple(sorted(v for v in row if self._categories[v])) for row in rows]
        by_size = [
            np.array([key for key in sets if len(key) == size], dtype=np.int64).reshape(-1, size)
            for size in range(1, max(map(len, sets), default=0) + 1)
        ]
        yield from self._tables.find_withheld(by_size)
        withheld = [len(key) > 0 and self._tables.withheld(np.array([key]))[0] for key in sets]
        return ~np.array(withheld, dtype=bool)

    def _models(self, row: tuple[int, ...]) -> tuple[Regression, Regression]:
        left_out = bool(self._kinds.incomplete[list(row)].any())
        return nested_models(
            row,
            self._categories,
            left_out=left_out,
            ordered=self._ordered,
            interactions=self._settings.interactions,
        )

    def _p_value(self, row: tuple[int, ...], small: Fit, large: Fit) -> float:
        from scipy.special import gammaincc

        ratio, dof = likelihood_ratio(small, large, self._categories)
        if len(row) == len(("x", "y")):
            strength = normal_scores(np.array([ratio]), np.array([float(dof)]))
            self.store_strengths(np.array([row]), strength)
        return float(gammaincc(dof / 2.0, ratio / 2.0))

    def _fit(self, models: list[Regression]) -> Fitting:
        """Fit models in shared rounds, and store each with the number of sites of its sums."""
        at_first = self._settings.present.n_sites
        starts = {model: self._warm_starts_of(at_first).nearest(model) for model in models}
        fits = {
            model: first_fit(
                model, self._categories, site_effect=self._settings.site_effect, warm_start=start
            )
            for model, start in starts.items()
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
                    coefficients=pack_floats(proposed),
                    max_rows=self._settings.max_rows,
                    site_effect=self._settings.site_effect,
                    ordered=tuple(sorted(self._ordered)),
                )
                covered.add(self._settings.present.n_sites)
                start = 0
                for model in part:
                    step = sums[start : start + values_per_step(counts[model])]
                    start += len(step)
                    n_outputs = outputs(self._categories[model.response])
                    fits[model].update(*step_parts(step, counts[model]), n_outputs)
            active = [model for model in active if not fits[model].finished]
        n_sites = covered.pop() if len(covered) == 1 else MIXED
        for model, fit in fits.items():
            # a warm start counts the rows of the sites that were there at its time
            same = n_sites == at_first or (n_sites != MIXED and starts[model] is None)
            self._fits[model] = fit, n_sites if same else MIXED
            if same:
                self._warm_starts_of(n_sites).add(fit)
        return []

    def _warm_starts_of(self, n_sites: int) -> WarmStarts:
        """Return the warm starts from fits over ``n_sites`` sites."""
        if n_sites not in self._warm_starts:
            self._warm_starts[n_sites] = WarmStarts(self._kinds.incomplete.__getitem__)
        return self._warm_starts[n_sites]


def _rounds(models: list[Regression], counts: dict[Regression, int]) -> Iterator[list[Regression]]:
    """Cut models into rounds of about `source.MAX_VALUES_PER_ROUND` values."""
    part: list[Regression] = []
    values = 0
    for model in models:
        values += values_per_step(counts[model])
        if part and values > source.MAX_VALUES_PER_ROUND:
            yield part
            part, values = [], values_per_step(counts[model])
        part.append(model)
    if part:
        yield part


def open_regressions(
    settings: EvidenceSettings,
) -> Generator[Question, FloatVector, RegressionTests]:
    """Open likelihood-ratio tests of any columns in one round."""
    question = Columns(n_variables=settings.n_variables, max_rows=settings.max_rows, order=True)
    kinds = question.read((yield question))
    return RegressionTests(kinds, settings)


GLM = CombinationMethod(
    name="glm",
    discloses=joined(
        Columns(n_variables=1, order=True).disclosures,
        RegressionSteps.discloses,
        SmallCells.discloses,
        RaoSums.discloses,
    ),
    open=open_regressions,
    own_tests=True,
    asks_columns=True,
    mixes_sites=True,
    tests=("auto",),
)


def _glm_with(
    name: str, *, site_effect: bool = False, interactions: bool = False
) -> CombinationMethod:
    def opened(settings: EvidenceSettings) -> Generator[Question, FloatVector, RegressionTests]:
        chosen = replace(settings, site_effect=site_effect, interactions=interactions)
        return open_regressions(chosen)

    return replace(GLM, name=name, open=opened, mixes_sites=not site_effect)


GLM_SITE_EFFECT = _glm_with("glm-site-effect", site_effect=True)
GLM_INTERACTIONS = _glm_with("glm-interactions", interactions=True)
GLM_BOTH = _glm_with("glm-site-effect-interactions", site_effect=True, interactions=True)
