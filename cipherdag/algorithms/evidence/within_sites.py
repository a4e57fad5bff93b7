"""Stratified score tests combine the sites, so that differences between them are no evidence.

A test sums scores of the sites' strata and regressions (`RaoSums`). Either one bit of it is
opened, whether x and y are dependent (`RaoBits`), or its sums are, and with them its p-value.
"""

from collections.abc import Generator, Sequence
from functools import partial

import numpy as np

from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.effects import (
    ONE_STEP_ODDS,
    ONE_STEP_PER_DEVIATION,
    of_correlation,
    one_step,
)
from cipherdag.algorithms.evidence.federated_test import (
    CachedFederatedCITest,
    PValues,
    Tests,
    in_batches,
)
from cipherdag.algorithms.evidence.options import EvidenceSettings, Method, with_second_alpha
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import MixedTypesError
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.questions.disclosure import Quantity, bits, joined
from cipherdag.questions.encodings import by_block, pack_blocks, require_possible
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.question import Question
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.questions.scores.score_sums import RaoScores, RaoSums
from cipherdag.questions.scores.score_test import p_values
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed

KEY_VALUES = 100.0  # number of values that take as much room as the keys of one comparison
MOST_CORRELATION = 1.0 - 1e-12


class RaoTests(CachedFederatedCITest):
    """`RaoTests` are stratified score tests of columns of any type.

    Where only bits are opened, a p-value is 1 for independent and 0 for dependent, and a test whose
    scores vary at no site counts as independent. Where sums are disclosed, a test to which too few
    sites contribute is not done, and counts as dependent. If either is a marginal test, it counts
    as independent but untestable, since x or y is constant at the other sites.
    """

    def __init__(self, kinds: ColumnKinds, settings: EvidenceSettings, *, bits: bool) -> None:
        super().__init__(settings, kinds)
        self._columns, self._bits = kinds, bits

    def _ask(self, tests: Tests) -> PValues:
        """Ask in one round, or two where contributors are counted; in more if answers are large."""
        values = [self._values(rows) for rows in tests]
        blocks = yield from in_batches(tests, values, self._piece)
        not_done = sum(int(np.isnan(p_value).sum()) for p_value in blocks)
        self.tally[Method.WITHIN_SITES] += sum(map(len, tests)) - not_done
        if not_done:
            self.tally[Method.NOT_DONE] += not_done
        return blocks

    def _values(self, rows: IndexArray) -> FloatVector:
        """Bound the number of values that each test asks for, shape (B,)."""
        sides = np.maximum(self._columns.categories[rows[:, :2]], 1).astype(np.float64)
        components: FloatVector = sides.prod(axis=1)
        return KEY_VALUES * (components + 2.0) if self._bits else 2.0 * components + 3.0

    def _question(self, tests: Sequence[IndexArray]) -> RaoSums:
        counts, members = pack_blocks(tests)
        return RaoSums(
            categories=tuple(self._columns.categories.tolist()),
            counts=counts,
            members=members,
            max_rows=self._settings.max_rows,
            ordered=tuple(np.flatnonzero(self._columns.ordered).tolist()),
            n_rows=max(self._columns.rows, 1),
            visits=self._settings.visits,
        )

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        """Compute the p-values of tests in one round, or in two where contributors are counted."""
        question = self._question(tests)
        if self._bits:
            levels, pairs = (self._settings.spec.alpha,), len(tests[0])
            asked = RaoBits(question, levels, able=pairs)
            dependent, able = np.split((yield asked), [question.n_tests])
            p_value = np.where(question.sizes > 0, 1.0 - dependent, np.nan)
            constant = np.zeros(len(p_value), dtype=bool)
            constant[:pairs] = (able == 0.0) & (question.sizes[:pairs] > 0)
            return self.resolve_constant_pairs(tests[0], p_value, constant, Method.WITHIN_SITES)
        scores, p_value, n_sites = yield from opened_tests(question, self._settings)
        needed = max(self._settings.min_contributors, 1)
        self._store(question, scores, p_value, tests)
        skipped = by_block(tests, np.isnan(p_value) & (n_sites > 0))
        for rows, chosen in zip(tests, skipped, strict=True):
            self.record_skipped(rows[chosen])
        constant = (np.arange(len(p_value)) < len(tests[0])) & (n_sites < needed)
        return self.resolve_constant_pairs(tests[0], p_value, constant, Method.WITHIN_SITES)

    def smallest_levels(self, tests: Tests, levels: Sequence[float]) -> PValues:
        """Find the smallest level at which each test is dependent, or 1, by bits in one round.

        Levels descend. Shape (B_l,) by size of S, NaN where a table is too large or scores vary at
        no site.
        """
        question, count = self._question(tests), sum(map(len, tests))
        asked = RaoBits(question, tuple(levels), able=count)
        *bits, able = ((yield asked) > 0).reshape(-1, count)
        least = np.where(bits, np.array(levels)[:, None], 1.0).min(axis=0)
        self.tally[Method.WITHIN_SITES] += count
        return by_block(tests, np.where(able, least, np.nan))

    def _store(
        self, question: RaoSums, scores: RaoScores, p_value: FloatVector, tests: list[IndexArray]
    ) -> None:
        """Store the strengths of pairs, and the estimates of tests of one component."""
        from scipy.special import ndtri

        pairs = len(tests[0])
        strength = -ndtri(np.clip(np.nan_to_num(p_value[:pairs], nan=1.0), 1e-300, 1.0 - 1e-15))
        self.store_strengths(np.sort(tests[0], axis=1), strength)
        single = np.flatnonzero(question.sizes == 1)
        index = (np.cumsum(question.sizes) - question.sizes)[single]
        score, variance = scores.scores[index], scores.means[single]
        rows = scores.rows[single]
        linear = np.array(question.categories)[question.pairs[single, 0]] == 0
        estimates = np.full((len(p_value), 2), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.clip(score / rows, -MOST_CORRELATION, MOST_CORRELATION)
            estimates[single, 0] = np.where(linear, np.arctanh(correlation), score / variance)
            inflated = variance / (rows * (1.0 + 2.0 * correlation**2))
            estimates[single, 1] = np.sqrt(np.where(linear, inflated / rows, 1.0 / variance))
        self.store_estimates(tests, estimates, p_value)

    def effect(self, test: Sequence[int]) -> EffectSize | None:
        """Return a partial correlation of numbers, or a one-step odds ratio of two categories."""
        estimate = self.estimate(test)
        if estimate is None:
            return None
        categories = self._columns.categories[list(test[:2])]
        if not categories.any():
            return of_correlation(*estimate)
        if (self._columns.categories[list(test)] > 0).all():
            return one_step(*estimate)
        by_category = categories.all()
        return one_step(*estimate, ONE_STEP_ODDS if by_category else ONE_STEP_PER_DEVIATION)


def opened_tests(
    question: RaoSums, settings: EvidenceSettings
) -> Generator[Question, FloatVector, tuple[RaoScores, FloatVector, FloatVector]]:
    """Open the sums of tests, in two rounds, and compute their p-values.

    Also returned is how many sites contribute; p-values are NaN where they are too few.
    """
    needed = max(settings.min_contributors, 1)
    contributors = np.rint((yield ContributorCounts(question=question)))
    scores = question.read((yield from open_unsuppressed(question, contributors >= needed)))
    n_sites = contributors[: question.n_tests]
    possible = bool((scores.means >= 0.0).all())
    require_possible(question.label, "a negative variance", holds=possible)
    p_value = p_values(
        question.sizes,
        scores.scores,
        scores.means,
        question.spreads(scores),
        scores.site_scores,
        scores.sites,
        settings.present.n_sites,
    )
    return scores, np.where((n_sites >= needed) & (question.sizes > 0), p_value, np.nan), n_sites


def within_sites(
    settings: EvidenceSettings, *, bits: bool
) -> Generator[Question, FloatVector, RaoTests]:
    """Open stratified tests of any columns: one round for their kinds.

    MixedTypesError where the test does not fit the columns.
    """
    columns = Columns(
        n_variables=settings.n_variables,
        max_rows=settings.max_rows,
        order=True,
        marks=not bits,
        every=True,
        visits=settings.visits,
    )
    kinds = columns.read((yield columns))
    if settings.spec.name == "fisherz" and kinds.categories.any():
        raise MixedTypesError(
            "the test 'fisherz' takes numbers, and some columns are discrete",
            remedy='Leave out --test (Python: test="auto"), which takes columns of any type.',
        )
    source = RaoTests(kinds, settings, bits=bits)
    if bits:
        source.lenient = RaoTests(kinds, with_second_alpha(settings), bits=True)
    return source


STRATIFIED = CombinationMethod(
    name="stratified",
    discloses=joined(Columns(n_variables=1, order=True).disclosures, RaoSums.discloses),
    open=partial(within_sites, bits=False),
    close=partial(within_sites, bits=True),
    closed=joined(
        Columns(n_variables=1, order=True, marks=False).disclosures,
        bits(Quantity.DECISION, Quantity.ABLE),
    ),
    asks_columns=True,
    overlapping=True,
    triplets=True,
    own_tests=True,
    tests=("auto", "fisherz"),
)
