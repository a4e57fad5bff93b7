"""A site's answer to score tests of columns of any type.

In a test of categories and numbers together the response is fitted on S by the site's Newton steps,
and the other variable is scored. Two numbers have their residuals multiplied (`residual_scores`).
Variances of a categorical response are those of its likelihood, times n / (n - k) for n rows and k
coefficients. Curves of the numbers in S, and products with all of S, are regressors too where the
site has enough rows (`basis`).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatArray, FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.scores.score_sums import (
    MOST_SCORE,
    Misfits,
    RaoScores,
    RaoSums,
    score_shape,
)
from cipherdag.questions.scores.score_test import most_spread
from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.device import Device
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.steps import model_step, site_fit
from cipherdag.sites.compute.patients import Patients
from cipherdag.sites.compute.score_tests.basis import ROWS_PER_SQUARE, Basis, curves, more_columns
from cipherdag.sites.compute.score_tests.misfits import (
    Given,
    MisfitScores,
    misfit_scores,
    misfits_answer,
)
from cipherdag.sites.compute.score_tests.numbers import NumberScores
from cipherdag.sites.compute.score_tests.patients import TableVisits, row_scores
from cipherdag.sites.compute.score_tests.residuals import (
    ByPatient,
    RegressionScores,
    residual_scores,
)
from cipherdag.sites.compute.score_tests.tables import TableScoreTests, normal_score
from cipherdag.statistics.array_functions import Array, functions_of, host, like, quantiles
from cipherdag.statistics.newton import step_parts
from cipherdag.statistics.regression_fits import LEAST_REST, Fit
from cipherdag.statistics.regression_models import (
    Regression,
    column_count,
    outputs,
    predictor_columns,
)

FENCE = 3.0
"""Interquartile ranges beyond the quartiles at which a scored number is clipped (Tukey, 1977)."""
FEWEST_EVENTS = 2  # the rarest category of a response needs this many rows per coefficient of S
LEAST_RANK = 1e-9
"""Share of the largest eigenvalue below which an eigenvalue of a covariance matrix counts as 0."""


class SiteRegressions:
    """Score tests over one site's columns; null fits are cached, as tests share them."""

    def __init__(
        self,
        categories: tuple[int, ...],
        column: Callable[[int], FloatVector],
        numbers: NumberScores,
        device: Device,
        patients: Patients | None = None,
    ) -> None:
        self._categories, self._numbers, self._patients = categories, numbers, patients
        self._expand = Expansion.of_site(categories, column, device)
        self._fits: dict[tuple[Regression, int], Fit] = {}

    def scores(self, model: Regression, all_rows: int) -> RegressionScores | None:
        """The scores of a test of the model's last predictor; None where the site cannot do it."""
        size = math.prod(score_shape(model, self._categories))
        design, response = self._expand.rows(model)
        tested = model.predictors[-1]
        width = predictor_columns(self._categories[tested])
        xp, last = functions_of(design), design.shape[1] - width
        nuisance, other = design[:, :last], design[:, last:]
        more = self._more_of_s(model, nuisance, response, all_rows)
        if more:
            nuisance = xp.column_stack([nuisance, *more])
        rest = float(len(response) - nuisance.shape[1])
        if size == 0 or rest < 1.0:
            return None
        if not self._categories[tested]:
            other = _standardised(other)
        if not other.any():
            return None
        repeats = None
        if self._patients is not None:
            complete = self._expand.complete_rows(model)
            every = isinstance(complete, slice)
            repeats = self._patients.repeats(None if every else host(complete))
            if not repeats.enough(nuisance.shape[1] - 1.0):
                return None
        whose = None if repeats is None else repeats.sums
        if not self._categories[model.response]:
            return residual_scores(nuisance, xp.column_stack([response, other]), whose)
        fit = self._fit(model, nuisance, response)
        if fit.degenerate or fit.limiting_rows < FEWEST_EVENTS * nuisance.shape[1]:
            return None
        made = self._of_categories(model, fit, (nuisance, other), response, whose)
        return made._replace(covariance=made.covariance * (len(response) / rest), rows=rest)

    def misfit(self, model: Regression, bins: int, all_rows: int) -> MisfitScores | None:
        """The check of a fit along the first of the model's predictors, which is the last, too."""
        design, response = map(host, self._expand.rows(model))
        if self._patients is not None or len(response) <= design.shape[1]:
            return None
        sizes = [predictor_columns(self._categories[v]) for v in model.predictors]
        _, along, *others, _ = np.split(design, np.cumsum([1, *sizes[:-1]]), axis=1)
        numbers = [not self._categories[v] for v in model.predictors[1:-1]]
        nuisance = design[:, : -sizes[-1]]
        more = self._more_of_s(model, nuisance, response, all_rows)
        basis = np.column_stack([nuisance, *map(host, more)])
        return misfit_scores(Given(basis, along[:, 0], others, numbers), response, bins, all_rows)

    def moments(
        self, model: Regression, test: RegressionScores, n_rows: int, visits: int = 1
    ) -> tuple[FloatVector, float, float]:
        """Scores of all components, (K,), with the first categories', and the moments a and f.

        Several scores are weighted by their variances, as in `tables.weighted_moments`.
        """
        each: FloatMatrix = np.ones((1, 1))
        for side in score_shape(model, self._categories):
            # the first category's score is the others' sum, negated
            contrast = (
                np.vstack([-np.ones(side - 1), np.eye(side - 1)]) if side > 1 else np.eye(side)
            )
            each = np.kron(each, contrast).astype(np.float64)
        scores, covariances = each @ test.scores, each @ test.covariance @ each.T
        variances, share = np.maximum(covariances.diagonal(), 0.0), test.rows / n_rows
        whose = None if test.patients is None else test.patients.of(each)
        beyond = np.zeros(len(scores)) if whose is None else whose.beyond(variances)
        if len(scores) == 1:
            return scores, float(variances[0] + beyond[0]), 0.0
        weights = 1.0 / np.maximum(variances / share, 1.0)
        scale, most = np.sqrt(weights), MOST_SCORE * share * math.sqrt(n_rows)
        squared = float(((scale[:, None] * covariances * scale) ** 2).sum())
        rare = float((weights**2 * variances).sum()) * share
        mean = float((weights * variances).sum())
        spread, scores = math.sqrt(squared + rare / 2.0), np.clip(scale * scores, -most, most)
        if whose is not None and whose.excess.any():
            mean += float((weights * beyond).sum())
            covariances = scale[:, None] * (covariances + whose.excess) * scale
            spread = math.sqrt(float((covariances**2).sum()) + rare / 2.0)
            spread = min(spread, most_spread(mean, visits))
        return scores, mean, spread

    def _fit(self, model: Regression, nuisance: Array, response: Array) -> Fit:
        """The fit of the response on S, over the rows of the test."""
        tested = model.predictors[-1]
        gaps = (tested,) if self._expand.incomplete([tested]) else ()
        null = replace(model, predictors=model.predictors[:-1], complete_in=gaps)
        # the rows that are enough for curves depend on the columns of what is tested
        key = null, predictor_columns(self._categories[tested])
        if key not in self._fits:
            # each further regressor of S counts as a number behind the variables
            further = nuisance.shape[1] - column_count(null, self._categories)
            p, categories = len(self._categories), (*self._categories, *(0,) * further)
            wide = replace(null, predictors=(*null.predictors, *range(p, p + further)))
            step = partial(
                model_step,
                nuisance,
                response,
                categories=categories[model.response],
                ordered=null.ordered,
            )
            self._fits[key] = site_fit(wide, categories, step)
        return self._fits[key]

    def _more_of_s(
        self, model: Regression, nuisance: Array, response: Array, all_rows: int
    ) -> list[Array]:
        """Curves and products of S, (n, ...) each, if rows are enough; none without a number."""
        *given, _ = model.predictors
        numbers = [v for v in given if not self._categories[v]]
        if not numbers:
            return []
        linear, rows = column_count(model, self._categories) + len(numbers), len(response)
        worth = rows if self._patients is None else min(rows, self._patients.count)
        more = more_columns(worth, all_rows)
        if levels := self._categories[model.response]:
            # rare events stand for fewer rows, and the fit needs some for every coefficient
            events = rows - max(int((response == level).sum()) for level in range(levels))
            most = events // FEWEST_EVENTS - nuisance.shape[1] - len(numbers)
            more = max(min(more_columns(min(2 * events, worth), all_rows), most), 0)
        sizes = [predictor_columns(self._categories[v]) for v in given]
        crossed = math.comb(sum(sizes), 2) - sum(math.comb(size, 2) for size in sizes)
        squares = worth >= ROWS_PER_SQUARE * linear
        basis = Basis.affordable(len(numbers), crossed, more, squares=squares)
        if not basis.curves:
            return []
        complete = self._expand.complete_rows(model)
        columns = self._numbers.columns
        knots = np.array([columns.knots(v, basis.hinges) for v in numbers]).T[:, :, None]
        values = columns.placed(np.array([*map(columns.standard, numbers)]))[:, complete]
        made = [each.T for each in curves(values, basis, like(knots, values))]
        if basis.products:
            ends = np.cumsum([1, *sizes])
            sides = [
                nuisance[:, first:end] if self._categories[v] else values[numbers.index(v)][:, None]
                for v, first, end in zip(given, ends[:-1], ends[1:], strict=True)
            ]
            for one, other in itertools.combinations(sides, 2):
                made.append((one[:, :, None] * other[:, None]).reshape(rows, -1))
        return made

    def _of_categories(
        self,
        model: Regression,
        fit: Fit,
        designs: tuple[Array, Array],
        response: Array,
        whose: ByPatient | None,
    ) -> RegressionScores:
        """Scores of the tested coefficients at 0, and their covariances given those of S."""
        nuisance, other = designs
        categories = self._categories[model.response]
        zeros = np.zeros(other.shape[1])
        if model.ordered:
            coefficients = np.concatenate([fit.coefficients, zeros])
            tested = np.arange(len(coefficients)) >= len(fit.coefficients)
        else:
            by_output = fit.coefficients.reshape(outputs(categories), -1)
            coefficients = np.column_stack([by_output, np.tile(zeros, (len(by_output), 1))]).ravel()
            columns = np.arange(nuisance.shape[1] + len(zeros)) >= nuisance.shape[1]
            tested = np.tile(columns, len(by_output))
        design = functions_of(nuisance).column_stack([nuisance, other])
        step = model_step(design, response, coefficients, categories, ordered=model.ordered)
        _, gradient, hessian = step_parts(step, len(coefficients))
        scores, covariance = _efficient(gradient, hessian, tested)
        if whose is None:
            return RegressionScores(scores, covariance, 0.0)
        terms = row_scores(
            host(design), host(response), coefficients, categories, ordered=model.ordered
        )
        terms, _ = _efficient(terms, hessian, tested)
        sums = whose(terms, nuisance.shape[1] - 1.0)
        return RegressionScores(scores, covariance, 0.0, sums)


def _standardised(other: Array) -> Array:
    """A scored number, clipped and in deviations; 0 where it does not vary, shape (n, 1)."""
    other = _within_fences(other)
    centred = other - other.mean(axis=0)
    spread = math.sqrt(float((centred**2).mean()))
    largest = float(abs(other).max())
    scaled = centred / max(spread, float(np.finfo(np.float64).tiny))
    return scaled if spread > LEAST_REST * largest else functions_of(other).zeros_like(other)


def _within_fences(values: Array) -> Array:
    """Numbers, (n, k), n > 0, clipped at Tukey's fences, but not where the quartiles are equal."""
    xp, (low, high) = functions_of(values), quantiles(values, (0.25, 0.75))
    reach = xp.where(high > low, FENCE * (high - low), np.inf)
    return xp.clip(values, low - reach, high + reach)


def _efficient(
    gradient: FloatArray, hessian: FloatMatrix, tested: NDArray[np.bool_]
) -> tuple[FloatArray, FloatMatrix]:
    """Efficient scores of the tested coefficients and their covariances, given the others.

    The gradient is of all rows, shape (d,), or of each, shape (n, d).
    """
    across = hessian[np.ix_(tested, ~tested)]
    among = np.linalg.pinv(hessian[np.ix_(~tested, ~tested)], hermitian=True)
    variance = hessian[np.ix_(tested, tested)]
    covariance = variance - across @ among @ across.T
    positive = covariance.diagonal() > LEAST_REST * variance.diagonal()
    scores = gradient[..., tested] - (across @ (among @ gradient[..., ~tested].T)).T
    return np.where(positive, scores, 0.0), np.where(np.outer(positive, positive), covariance, 0.0)


class SiteScores:
    """Score tests over one site's rows; ``counted`` makes the tables, which categories need."""

    def __init__(
        self,
        categories: tuple[int, ...],
        column: Callable[[int], FloatVector],
        counted: Callable[[], DiscreteColumns],
        device: Device,
        patients: Patients | None = None,
    ) -> None:
        self._counted, self._patients = counted, patients
        self._numbers = NumberScores(column, device, patients)
        self._make = partial(SiteRegressions, categories, column, self._numbers, device, patients)

    @cached_property
    def _regressions(self) -> SiteRegressions:
        """The score tests of categories and numbers together, which read all columns."""
        return self._make()

    def answer(self, question: RaoSums) -> FloatVector:
        """The site's scores and their moments as the question lays them out."""
        sizes = question.sizes
        # there is an f for every test here; only tests of several components disclose theirs
        sums = RaoScores(np.zeros(int(sizes.sum())), *np.zeros((5, question.n_tests)))
        start = np.cumsum(sizes) - sizes
        first = 0
        for rows in question.rows():
            tests = first + np.arange(len(rows))
            first += len(rows)
            numbers = question.of_numbers[tests]
            self._by_table(question, rows, tests, start, sums)
            self._of_numbers(rows[numbers], tests[numbers], question.n_rows, start, sums)
        for test, model in question.models.items():
            if sizes[test]:
                scores = self._regressions.scores(model, question.n_rows)
                if scores is not None:
                    at = slice(start[test], start[test] + sizes[test])
                    moments = self._regressions.moments(
                        model, scores, question.n_rows, question.visits
                    )
                    sums.scores[at], sums.means[test], sums.spreads[test] = moments
                    sums.rows[test] = scores.rows
                    site_score = normal_score(*map(np.atleast_1d, _form(scores)))
                    sums.site_scores[test], sums.sites[test] = site_score[:, 0]
        return question.pack(sums._replace(spreads=sums.spreads[question.several]))

    def misfits(self, question: Misfits) -> FloatVector:
        """The site's sums of residuals and their moments as the question lays them out."""
        fit = partial(self._regressions.misfit, bins=question.bins, all_rows=question.n_rows)
        return misfits_answer(question, fit)

    def _by_table(
        self,
        question: RaoSums,
        rows: IndexArray,
        numbers: IndexArray,
        start: IndexArray,
        sums: RaoScores,
    ) -> None:
        """Fill in the tests of categorical x and y whose conditioning sets have one size."""
        mine = question.by_table[numbers] & (question.sizes[numbers] > 0)
        levels = np.array(question.categories, dtype=np.int64)[rows[:, :2]]
        for shape in sorted({*map(tuple, levels[mine].tolist())}):
            chosen = np.flatnonzero(mine & (levels == shape).all(axis=1))
            tests = numbers[chosen]
            moments = TableScoreTests(self._counted()).answer(rows[chosen], question.n_rows)
            if self._patients is not None:
                bounds = question.n_rows, question.visits
                visits = TableVisits(self._patients, self._counted(), *bounds)
                moments = visits.corrected(rows[chosen], moments)
            sums.scores[start[tests][:, None] + np.arange(moments.scores.shape[1])] = moments.scores
            sums.means[tests], sums.spreads[tests] = moments.means, moments.spreads
            sums.rows[tests] = moments.rows
            sums.site_scores[tests], sums.sites[tests] = moments.site_scores

    def _of_numbers(
        self, rows: IndexArray, tests: IndexArray, all_rows: int, start: IndexArray, sums: RaoScores
    ) -> None:
        """Fill in the tests of numbers whose conditioning sets have one size."""
        score, variance, rest = self._numbers.answer(rows, all_rows)
        sums.scores[start[tests]], sums.means[tests], sums.rows[tests] = score, variance, rest
        done = (rest > 0) & (variance > 0)
        form: FloatVector = np.where(done, score**2 / np.where(done, variance, 1.0), 0.0)
        sums.site_scores[tests], sums.sites[tests] = normal_score(form, done.astype(np.float64))


def _form(test: RegressionScores) -> tuple[float, float]:
    """The score statistic U' V^+ U (pseudo-inverse), and the rank of V."""
    values, vectors = np.linalg.eigh(test.covariance)
    positive = values > LEAST_RANK * max(float(values[-1]), 0.0)
    along = vectors.T @ test.scores
    form, rank = float((along[positive] ** 2 / values[positive]).sum()), float(positive.sum())
    if test.patients is not None and rank:
        axes = vectors[:, positive]
        more = float(((axes.T @ test.patients.excess @ axes).diagonal() / values[positive]).sum())
        form *= rank / (rank + max(more, 0.0))
    return form, rank
