"""Score tests of many pairs of columns at a site together, which a site does one by one.

A site fits each regression of a category by itself, and prepares what tests of numbers may share.
In `patients.py` each test has columns of its own, so that this took most of the time. Here all
tests of a kind are fitted together, and `difference` compares the answers with the site's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from cipherdag.questions.scores.score_sums import MOST_SCORE, RaoScores, RaoSums
from cipherdag.questions.scores.score_test import most_spread
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.patients import FEWEST_LEFT, Patients, added
from cipherdag.sites.compute.score_tests.basis import (
    ROWS_PER_SQUARE,
    Basis,
    curves,
    knots,
    more_columns,
)
from cipherdag.sites.compute.score_tests.numbers import NumberScores
from cipherdag.sites.compute.score_tests.residuals import products, row_products
from cipherdag.sites.compute.score_tests.site_scores import (
    FENCE,
    FEWEST_EVENTS,
    SiteScores,
    _form,
)
from cipherdag.sites.compute.score_tests.tables import (
    Margins,
    TableScoreTests,
    cells_of,
    component_weights,
    forms_of,
    normal_score,
)
from cipherdag.statistics.contingency import LEAST_EXPECTED
from cipherdag.statistics.newton import STEPS, TEST_TOLERANCE
from cipherdag.statistics.regression_fits import LEAST_REST, LONGEST_STEP

VALUES = 1 << 17
"""Rows times columns times tests of a part, which stay in a cache."""
RIDGE = 1e-12
"""Of curvatures: where categories are separated there may be none."""
LEAST_EIGENVALUE = 1e-9
"""Share of the largest that counts as 0, as at a site."""


class Moments(NamedTuple):
    """Of B tests of K components: scores, (B, K), a, f, rows, and the site's normal score and 1."""

    scores: np.ndarray
    means: np.ndarray
    spreads: np.ndarray
    rows: np.ndarray
    site_scores: np.ndarray

    def where(self, done) -> Moments:
        """The moments of tests that are done, 0 of others."""
        return Moments(*(np.where(done, part.T, 0.0).T for part in self[:4]), self[4] * done)


class OnePass(NumberScores):
    """Tests of numbers whose scores and variances come of one computation of residuals."""

    def answer(self, tests, all_rows: int = 0):
        if self._patients is None or not len(tests):
            return super().answer(tests, all_rows)
        self.columns.patterns(np.unique(tests).tolist())  # reads the columns
        self._all_rows, moments = all_rows, np.zeros((3, len(tests)))
        for at in self._few(np.arange(len(tests)), tests):
            for chosen, left, rest, where in self._residuals(tests[at]):
                product = row_products(left, rest, where)
                score, variance, rows = products(product, rest, where)
                both, enough = self._patients.of_products(product, where, rest, variance)
                done = (rows > 0.0) & enough
                moments[:, at[chosen]] = np.where(done, [score, both, rows], 0.0)
        return moments[0], moments[1], moments[2]

    def _few(self, chosen, tests):
        parts = max(len(chosen) * self.columns.rows * 4 * tests.shape[1] // VALUES, 1)
        yield from np.array_split(chosen, min(parts, len(chosen))) if len(chosen) else ()


class PairScores(SiteScores):
    """Tests of columns without gaps, shape (n, columns); rows of a patient follow one another."""

    def __init__(self, categories, values, counted, whose) -> None:
        patients = None if whose is None else Patients(whose)
        super().__init__(categories, lambda v: values[:, v], counted, PROCESSOR, patients)
        self._numbers = OnePass(lambda v: values[:, v], PROCESSOR, patients)
        self._values, self._categories = values, np.array(categories)
        visits = np.ones(len(values), dtype=int) if whose is None else np.bincount(whose)
        self._first = np.cumsum(visits) - visits
        self._several = (visits > 1).astype(float)
        self._rows_of_several = self._several.repeat(visits)

    def answer(self, question: RaoSums):
        """The site's answer; tests that are hard to fit are left to the site's way."""
        if not question.models:
            return super().answer(question)
        sizes = question.sizes
        start = np.cumsum(sizes) - sizes
        parts = [np.zeros(int(sizes.sum())), *np.zeros((5, question.n_tests))]
        sums, left = RaoScores(*parts), set(question.models)
        columns = [(model.response, *model.predictors) for model in question.models.values()]
        tests, columns = np.array(list(question.models)), np.array(columns)
        most = max(VALUES // (len(self._values) * (4 if columns.shape[1] == 2 else 10)), 1)
        for first in range(0, len(tests), most):
            here = slice(first, first + most)
            for chosen, made in self._together(columns[here], question):
                at = tests[here][chosen]
                sums.scores[start[at][:, None] + np.arange(made.scores.shape[1])] = made.scores
                sums.means[at], sums.spreads[at], sums.rows[at] = made[1:4]
                sums.site_scores[at], sums.sites[at] = made.site_scores
                left -= set(at.tolist())
        for test in sorted(left):
            model, at = question.models[test], slice(start[test], start[test] + sizes[test])
            scores = self._regressions.scores(model, question.n_rows)
            if scores is not None:
                bounds = question.n_rows, question.visits
                made = self._regressions.moments(model, scores, *bounds)
                sums.scores[at], sums.means[test], sums.spreads[test] = made
                sums.rows[test] = scores.rows
                form, rank = _form(scores)
                own = normal_score(np.array([form]), np.array([rank]))
                sums.site_scores[test], sums.sites[test] = own[:, 0]
        return question.pack(sums._replace(spreads=sums.spreads[question.several]))

    def _together(self, columns, question: RaoSums):
        """Yield tests of the same form by number, and their moments; the rest yields nothing."""
        codes, tested = self._values[:, columns[:, 0]].T, _standardised(self._values, columns)
        levels = np.unique(self._categories[columns[:, 0]])
        if len(levels) > 1 or self._categories[columns[:, 1:]].any():
            return
        counts = (codes[:, None] == np.arange(levels[0])[:, None]).sum(axis=2)
        if columns.shape[1] == 2:
            at = np.flatnonzero(tested.any(axis=1))
            yield at, self._of_pairs(codes[at], tested[at], counts[at], question)
        elif columns.shape[1] == 3 and levels[0] == 2:
            given = self._values[:, columns[:, 1]].T
            given = (given - given.mean(axis=1)[:, None]) / given.std(axis=1)[:, None]
            regular = (counts > 0).all(axis=1) & tested.any(axis=1)
            bases = [self._basis(int(rare), question.n_rows) for rare in counts.min(axis=1)]
            for basis in dict.fromkeys(bases):
                at = np.flatnonzero(regular & np.array([each == basis for each in bases]))
                design = _design(given[at], basis)
                fitted, made = self._of_two(codes[at], tested[at], design, question)
                yield at[fitted], made

    def _by_table(self, question: RaoSums, rows, numbers, start, sums: RaoScores) -> None:
        """Tests of two categories given nothing are corrected together."""
        shapes = np.unique(self._categories[rows[:, :2]], axis=0)
        if rows.shape[1] != 2 or self._patients is None or len(shapes) != 1 or not shapes.all():
            super()._by_table(question, rows, numbers, start, sums)
            return
        sides = [1 if each == 2 else each for each in shapes[0].tolist()]
        size = int(np.prod(sides))
        most = max(4 * VALUES // (len(self._values) * size), 1)
        for first in range(0, len(rows), most):
            tests, at = rows[first : first + most], numbers[first : first + most]
            moments = TableScoreTests(self._counted()).answer(tests, question.n_rows)
            made = self._of_tables(tests, shapes[0], sides, moments, question)
            made = made.where((moments.rows > 0.0) & self._enough(1))
            sums.scores[start[at][:, None] + np.arange(size)] = made.scores
            sums.means[at], sums.spreads[at], sums.rows[at] = made[1:4]
            sums.site_scores[at], sums.sites[at] = made.site_scores

    def _of_tables(self, tests, shape, sides, moments, question: RaoSums) -> Moments:
        """The moments of two categories with what patients add."""
        rows, count = len(self._values), len(tests)
        of_x, of_y = (
            (self._values[:, tests[:, side]].T[:, None] == np.arange(shape[side])[:, None])
            for side in (0, 1)
        )
        cells = (of_x[:, :, None] & of_y[:, None]).sum(axis=3).transpose(1, 2, 0).astype(float)
        margins = Margins.of(cells, *sides)
        values = cells_of(cells, margins)
        of_x, of_y = (
            each[:, : len(side)] - side.T[:, :, None] / rows
            for each, side in ((of_x, margins.x), (of_y, margins.y))
        )
        terms = (of_x[:, :, None] * of_y[:, None]).reshape(count, -1, rows)
        variances = values[1].reshape(-1, count).T
        weights = np.ones_like(variances)
        if len(weights[0]) > 1:
            for_x, for_y = component_weights(margins, np.ones(count, dtype=int), question.n_rows)
            weights = (for_x[:, None] * for_y / question.n_rows).reshape(-1, count).T
            terms *= np.sqrt(weights)[:, :, None]
        more, patients = self._by_patient(terms, 1)
        excess = more.diagonal(0, 1, 2)
        forms = forms_of(values)
        root = (forms.mean > 0.0) / np.maximum(values[2], LEAST_EXPECTED)
        larger = np.maximum((root.reshape(-1, count).T * excess / weights).sum(axis=1), 0.0)
        ratio = forms.mean / np.where(forms.mean > 0.0, forms.mean + larger, 1.0)
        of_site = normal_score(*forms._replace(form=forms.form * ratio).scaled())
        parts = (variances * weights, excess, patients.diagonal(0, 1, 2))
        means = moments.means + added(*(part.sum(axis=1) for part in parts))
        spreads = moments.spreads
        if len(weights[0]) > 1:
            share = rows / question.n_rows
            rare = (weights**2 * variances).sum(axis=1) * share
            squared = self._squared(terms, _covariances(margins, weights), more, share, rare)
            seen = [cells.any(axis=side).sum(axis=0) - 1.0 for side in (0, 1)]
            least = means**2 / np.maximum(seen[0] * seen[1], 1.0)
            squared = np.maximum(spreads**2 + squared, least)
            bound = [most_spread(mean, question.visits) for mean in means.tolist()]
            spreads = np.minimum(np.sqrt(squared), bound)
        return Moments(moments.scores, means, spreads, np.full(count, float(rows)), of_site)

    def _squared(self, terms, covariances, excess, share, rare):
        """What f^2 gains, shape (B,), as `cipherdag.sites.compute.patients` has it."""
        several = np.flatnonzero(self._several)
        if not len(several):
            return np.zeros(len(terms))
        visits = np.diff(self._first, append=terms.shape[2])[several]
        factor = (len(self._first) / (len(self._first) - 1.0)) ** 2
        size, alone = np.zeros((len(terms), len(visits))), np.zeros(len(terms))
        for count in np.unique(visits).tolist():
            at = self._first[several][visits == count][:, None] + np.arange(count)
            each = terms[:, :, at].transpose(0, 2, 3, 1)
            among = each @ each.swapaxes(2, 3)
            of_row = among.sum(axis=3)
            size[:, visits == count] = of_row.sum(axis=2)
            alone += (among**2).sum(axis=(1, 2, 3)) - 2.0 * (of_row**2).sum(axis=(1, 2))
        fourth, weighted = (size**2).sum(axis=1), visits * size
        of_pairs = (excess**2).sum(axis=(1, 2)) - factor * (alone + fourth)
        of_pairs *= len(visits) / max(len(visits) - 1, 1)
        least = (weighted.sum(axis=1) ** 2 - (weighted**2).sum(axis=1)) / (visits @ visits)
        cumulants = share * factor * (fourth - least) - rare * visits.sum() / terms.shape[2]
        both = 2.0 * (covariances * excess).sum(axis=(1, 2))
        exact = of_pairs + np.maximum(cumulants, 0.0) / 2.0
        further = (excess**2).sum(axis=(1, 2)) - factor * fourth / 2.0 - exact
        traces = (part.diagonal(0, 1, 2).sum(axis=1) for part in (excess, covariances))
        resembling = np.clip(np.divide(*traces), 0.0, 1.0)
        return both + exact + resembling**2 * np.maximum(further, 0.0)

    def _basis(self, events: int, all_rows: int) -> Basis:
        """What a regression of two categories, the rarer of so many rows, takes of a number."""
        rows = len(self._values)
        worth = rows if self._patients is None else min(rows, self._patients.count)
        most = events // FEWEST_EVENTS - 3
        more = max(min(more_columns(min(2 * events, worth), all_rows), most), 0)
        return Basis.affordable(1, 0, more, squares=worth >= ROWS_PER_SQUARE * 4)

    def _by_patient(self, terms, coefficients: int):
        """O and the squares by patient of terms, (B, K, n): shape (B, K, K) each; 0 without."""
        if self._patients is None or not self._several.any():
            shape = len(terms), terms.shape[1], terms.shape[1]
            return np.zeros(shape), (terms @ terms.swapaxes(1, 2))
        count = len(self._first)
        factor = count / max(count - coefficients, 1)
        whole = np.add.reduceat(terms, self._first, axis=2)
        among = factor * ((whole * self._several) @ whole.swapaxes(1, 2))
        alone = (terms * self._rows_of_several) @ terms.swapaxes(1, 2)
        return among - factor * alone, among + terms @ terms.swapaxes(1, 2) - alone

    def _enough(self, coefficients: int) -> bool:
        if self._patients is None or not self._several.any():
            return True
        return len(self._first) - coefficients >= FEWEST_LEFT

    def _of_pairs(self, codes, tested, counts, question: RaoSums) -> Moments:
        """A category and a number, given nothing: the fit is the shares of the categories."""
        rows, levels = codes.shape[1], counts.shape[1]
        shares = counts / rows
        terms = (codes[:, None] == np.arange(levels)[:, None]) - shares[:, :, None]
        terms = terms * tested[:, None]
        terms = terms[:, 1:] if levels == 2 else terms
        shares = shares[:, -terms.shape[1] :]
        squares = (tested**2).sum(axis=1) * rows / (rows - 1.0)
        covariances = shares[:, :, None] * (np.eye(terms.shape[1]) - shares[:, None])
        covariances = covariances * squares[:, None, None]
        more, patients = self._by_patient(terms, 1)
        made = self._moments(terms.sum(axis=2), covariances, more, patients, rows - 1.0, question)
        done = rows - counts.max(axis=1) >= FEWEST_EVENTS
        return made.where(done & self._enough(1))

    def _of_two(self, codes, tested, design, question: RaoSums):
        """Two categories and a number, given a design: which were fitted, and their moments."""
        wide, rows = design.shape[1:]
        fine = (design[:, 1:].std(axis=2) > LEAST_REST).all(axis=1)
        design[~fine] = np.eye(wide, rows)
        beta, fine = _fitted(codes, design, fine)
        chance, among, _ = _derivatives(codes, design, beta)
        weight, rest = chance * (1.0 - chance), codes - chance
        across = (design @ (weight * tested)[:, :, None])[:, :, 0]
        slopes = _solved(among, across)
        terms = rest * (tested - (slopes[:, None] @ design)[:, 0])
        alone = (weight * tested**2).sum(axis=1)
        left = alone - (slopes * across).sum(axis=1)
        fine &= left > 1e-6 * alone
        variance = (left * rows / (rows - wide))[:, None, None]
        more, patients = self._by_patient(terms[:, None], wide)
        score = terms.sum(axis=1)[:, None]
        made = self._moments(score, variance, more, patients, float(rows - wide), question)
        events = np.minimum(codes.sum(axis=1), rows - codes.sum(axis=1))
        made = made.where((events >= FEWEST_EVENTS * wide) & self._enough(wide))
        return fine, Moments(*(part[fine] for part in made[:4]), made.site_scores[:, fine])

    def _moments(self, scores, covariances, more, patients, rest, question: RaoSums) -> Moments:
        """The moments of B tests from U, its covariances, O, and the squares by patient."""
        variances, excess, squares = (
            np.maximum(part.diagonal(0, 1, 2), 0.0)
            if part is covariances
            else part.diagonal(0, 1, 2)
            for part in (covariances, more, patients)
        )
        count, size = scores.shape
        beyond = added(variances, excess, squares) if self._patients is not None else 0.0
        rows = np.full(count, rest)
        inner = slice(size > 1, None)
        inverse = np.linalg.pinv(covariances[:, inner, inner], LEAST_EIGENVALUE, hermitian=True)
        form = np.einsum("bi,bij,bj->b", scores[:, inner], inverse, scores[:, inner])
        rank = np.full(count, float(max(size - 1, 1)))
        larger = np.maximum(np.einsum("bij,bji->b", inverse, more[:, inner, inner]), 0.0)
        of_site = normal_score(form * rank / (rank + larger), rank)
        if size == 1:
            return Moments(scores, (variances + beyond)[:, 0], np.zeros(count), rows, of_site)
        share = rest / question.n_rows
        weights = 1.0 / np.maximum(variances / share, 1.0)
        scale, most = np.sqrt(weights), MOST_SCORE * share * np.sqrt(question.n_rows)
        both = scale[:, :, None] * scale[:, None]
        rare = (weights**2 * variances).sum(axis=1) * share
        means = (weights * (variances + beyond)).sum(axis=1)
        spreads = np.sqrt(((both * (covariances + more)) ** 2).sum(axis=(1, 2)) + rare / 2.0)
        if more.any():
            bound = [most_spread(mean, question.visits) for mean in means.tolist()]
            spreads = np.minimum(spreads, bound)
        return Moments(np.clip(scale * scores, -most, most), means, spreads, rows, of_site)


def _covariances(margins: Margins, weights):
    """Null covariances of weighted components, shape (B, K, K)."""
    of_x, of_y = (
        np.eye(len(side))[:, :, None] * (side * margins.total)[:, None] - side[:, None] * side
        for side in (margins.x, margins.y)
    )
    whole = np.einsum("acs,bds,s->sabcd", of_x, of_y, margins.scale, optimize=True)
    root = np.sqrt(weights)
    return root[:, :, None] * whole.reshape(*weights.shape, -1) * root[:, None]


def _standardised(values, columns):
    """The last of the columns, clipped at fences and in deviations, shape (B, n)."""
    tested = values[:, columns[:, -1]].T
    low, high = np.quantile(tested, (0.25, 0.75), axis=1)[:, :, None]
    reach = np.where(high > low, FENCE * (high - low), np.inf)
    tested = np.clip(tested, low - reach, high + reach)
    tested = tested - tested.mean(axis=1)[:, None]
    spread = tested.std(axis=1)[:, None]
    return np.where(spread > 0.0, tested / np.where(spread > 0.0, spread, 1.0), 0.0)


def _design(given, basis: Basis):
    """1, a number in standard deviations, (B, n), and its curves: shape (B, columns, n)."""
    alone = given[:, None]
    more = []
    if basis.curves:
        at = np.array([knots(np.sort(each), basis.hinges) for each in given])[:, :, None, None]
        more = curves(alone, basis, at)
    return np.concatenate([np.ones_like(alone), alone, *more], axis=1)


def _fitted(codes, design, fine):
    """Coefficients of logistic regressions, (B, d), by Newton's method, and which have settled."""
    share = np.clip(codes.mean(axis=1), 0.5 / codes.shape[1], 1.0 - 0.5 / codes.shape[1])
    beta, last = np.zeros(design.shape[:2]), np.zeros(design.shape[:2])
    beta[:, 0] = np.log(share / (1.0 - share))
    value, left = np.full(len(codes), -np.inf), np.flatnonzero(fine)
    for _ in range(STEPS):
        if not len(left):
            break
        here = (codes, design) if len(left) == len(codes) else (codes[left], design[left])
        chance, among, gradient = _derivatives(*here, beta[left])
        seen = np.where(here[0] > 0.0, chance, 1.0 - chance)
        now = np.log(np.maximum(seen, np.finfo(float).tiny)).sum(axis=1)
        worse = now < value[left] - 1e-9 * np.abs(now)
        step = _solved(among, gradient)
        longest = np.maximum(np.abs(beta[left]).max(axis=1), LONGEST_STEP)
        step *= np.minimum(longest / np.abs(step).max(axis=1), 1.0)[:, None]
        settled = ~worse & ((gradient * step).sum(axis=1) / 2.0 < TEST_TOLERANCE * np.abs(now))
        # a step that lost is halved
        step = np.where(worse[:, None], -last[left] / 2.0, step)
        last[left] = np.where(worse[:, None], last[left] / 2.0, step)
        value[left] = np.where(worse, value[left], now)
        beta[left] += np.where(settled[:, None], 0.0, step)
        left = left[~settled]
    fine[left] = False
    return beta, fine


def _derivatives(codes, design, beta):
    """Chances, (B, n), curvatures, (B, d, d), and gradients, (B, d)."""
    chance = expit((beta[:, None] @ design)[:, 0])
    among = (design * (chance * (1.0 - chance))[:, None]) @ design.swapaxes(1, 2)
    return chance, among, (design @ (codes - chance)[:, :, None])[:, :, 0]


def _solved(among, right):
    return np.linalg.solve(among + RIDGE * np.eye(among.shape[1]), right[:, :, None])[:, :, 0]


def difference(site: SiteScores, quick: SiteScores, question: RaoSums) -> float:
    """By how much two answers differ: scores in standard deviations, all else by its size."""
    one, other = (question.read(each.answer(question)) for each in (site, quick))
    if (one.rows != other.rows).any() or (one.sites != other.sites).any():
        return np.inf
    root = np.sqrt(np.maximum(one.means, 1.0))[question.owner]
    parts = [(one.scores - other.scores) / root, one.site_scores - other.site_scores]
    for mine, theirs in ((one.means, other.means), (one.spreads, other.spreads)):
        parts.append((mine - theirs) / np.maximum(mine, 1.0))
    return max(float(np.abs(part).max(initial=0.0)) for part in parts)
