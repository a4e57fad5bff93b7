"""A site's local answer to a question: it maps positions to its own columns and asks torch.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import (
    BoundExceededError,
    MalformedMessageError,
    MixedTypesError,
    PolicyRefusedError,
)
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.ci_tests import CI_TESTS, CITestSpec, fitting_tests
from cipherdag.questions.combined_evidence import SUMMED, CombinedEvidence
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.estimation.survival import HazardSteps, HazardSums, SurvivalCounts
from cipherdag.questions.likelihoods import LogLikelihoods
from cipherdag.questions.local_beliefs import LocalBeliefs
from cipherdag.questions.pooled_data import Columns, Moments, SmallCells, Tables
from cipherdag.questions.question import Question, Resampled
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.questions.regrets import (
    FamilyRegretExceeds,
    FamilyRegrets,
    GraphRegretExceeds,
    ScoreSpec,
)
from cipherdag.questions.scores.score_bits import CategorySizes
from cipherdag.questions.scores.score_sums import ScoreSums
from cipherdag.questions.separators import (
    BestIndexPrecedes,
    BestScoreExceeds,
    CandidateScores,
    SeparatorSearch,
)
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.threshold import (
    ContributorCounts,
    Suppressed,
)
from cipherdag.questions.verdicts import Verdicts
from cipherdag.questions.weighted_evidence import WeightedEvidence
from cipherdag.sites.answers.odd_column import odd_column
from cipherdag.sites.answers.possible_test import PossibleTest
from cipherdag.sites.answers.regret_answers import RegretQuestion, Regrets
from cipherdag.sites.compute.ci_tests.ci_test import CITest
from cipherdag.sites.compute.ci_tests.separator_scores import BestSeparators
from cipherdag.sites.table.site_table import SiteTable

if TYPE_CHECKING:
    from cipherdag.sites.answers.resampling import Resamples
    from cipherdag.sites.compute.pooled.poolable_data import PoolableData
    from cipherdag.sites.compute.scores.scores import LocalScores

_SeparatorQuestion = CandidateScores | BestScoreExceeds | BestIndexPrecedes


POOLED = (
    Columns,
    Moments,
    SmallCells,
    Tables,
    RegressionSteps,
    ScoreSums,
    SiteDifferences,
    LogLikelihoods,
    ColumnSums,
    ValueCounts,
    SurvivalCounts,
    HazardSteps,
    HazardSums,
    EffectSums,
)

MOST_TESTS = 4
"""Tests of other parameters that a site keeps, the least recently used of which it forgets.

Each holds the columns, and outcomes of at most half of `cache.DEFAULT_MEMORY`: 512 MiB in all.
"""


MOST_COUNTED = 256
"""Answers that a site keeps from the count of its tests to their sums; it forgets the oldest.

Where no test has sites enough nobody asks for the sums; an answer that was forgotten is computed
again.
"""


class Respondent:
    """Answers questions about one site's variables; tests and searches are kept between rounds.

    Args:
        n_variables: Number of aligned variables.
        make_test: Makes the test that a question names; `table_tests` for a site's own table.
        make_scores: Makes the scores that a question names; `table_scores` for a site's own table,
            None for a site that scores no graphs.
        pool: What pooled evidence is summed from; None for a site that answers tests only.
        learn: Answers Fed-CD's questions; `table_beliefs` for a site's own table, None for a site
            that does not train.
        resamples: Answers questions about drawn rows; None for a site that draws none.
        determined: Which variables follow from others: given these no test of them is done.
        explain: Says which column makes an answer exceed its bound, where one does.
    """

    def __init__(
        self,
        n_variables: int,
        make_test: Callable[[CITestSpec], CITest],
        *,
        make_scores: Callable[[ScoreSpec], LocalScores] | None = None,
        pool: PoolableData | None = None,
        learn: Callable[[LocalBeliefs], FloatVector] | None = None,
        resamples: Resamples | None = None,
        determined: Determined = NOTHING,
        explain: Callable[[], BoundExceededError | None] = lambda: None,
    ) -> None:
        self.n_variables = n_variables
        self._determined = determined
        self.explain = explain
        self._regrets = None if make_scores is None else Regrets(make_scores)
        self._pool = pool
        self._learn = learn
        self._resamples = resamples
        self._learnt: tuple[LocalBeliefs, FloatVector] | None = None
        self._counted: dict[Question, FloatVector] = {}
        self._made = lru_cache(maxsize=MOST_TESTS)(make_test)
        self._searched: tuple[SeparatorSearch, BestSeparators] | None = None
        self._answers: dict[type, Callable[[Any], Any]] = {
            EdgeVotes: self._edge_votes,
            WeightedEvidence: self._triplets,
            CombinedEvidence: self._triplets,
            **dict.fromkeys(POOLED, self._pooled),
            ContributorCounts: self._contributors,
            Suppressed: self._covered,
            Verdicts: self._words,
            CategorySizes: self._sizes,
            LocalBeliefs: self._local_beliefs,
            Resampled: self._resampled,
            **dict.fromkeys(
                (CandidateScores, BestScoreExceeds, BestIndexPrecedes), self._separators
            ),
            **dict.fromkeys((GraphRegretExceeds, FamilyRegretExceeds, FamilyRegrets), self._regret),
        }

    def answer(self, question: Question) -> FloatVector:
        """The site's answer, shape (sum of the encodings' lengths,).

        Of questions that find verdicts it is the site's words, whole numbers of 64 bits.

        Raises:
            MalformedMessageError: The question speaks of other variables than the study has.
            MixedTypesError: The test does not fit the columns' types.
            BoundExceededError: The site has more rows than the question's max_rows.
        """
        parts = question.parts
        for part in parts:
            self._check_rows(part)
        return np.concatenate([self._answer_to(part)(part) for part in parts])

    def _answer_to(self, question: Question) -> Callable[[Any], Any]:
        kinds = type(question).__mro__
        return next(self._answers[kind] for kind in kinds if kind in self._answers)

    def _separators(self, question: _SeparatorQuestion) -> FloatVector:
        from cipherdag.sites.compute.ci_tests.separator_scores import candidate_scores

        self._check_variables(question.search.skeleton.n_variables)
        if isinstance(question, CandidateScores):
            return candidate_scores(self._test(question.search.test), question)
        best = self._best(question.search)
        thresholds = question.threshold_array()
        if isinstance(question, BestScoreExceeds):
            exceeds = best.score[:, None] > thresholds
        else:
            attains = (best.score > 0) & (best.score == question.peak_array())
            exceeds = attains[:, None] & (best.index[:, None] < thresholds)
        return exceeds.astype(np.float64).ravel()

    def _edge_votes(self, question: EdgeVotes) -> FloatVector:
        from cipherdag.sites.compute.ci_tests.layer_votes import sequential_layer, stable_layer

        self._check_variables(question.skeleton.n_variables)
        test, skeleton = self._test(question.test), question.skeleton.matrix()
        layer, alpha = question.layer, question.test.alpha
        x, y = question.skeleton.edges().T
        if question.order == "sequential":
            kept = sequential_layer(test, skeleton, layer=layer, alpha=alpha)[x, y]
            return np.where(kept, 1.0, 0.0)
        found = stable_layer(test, skeleton, layer=layer, alpha=alpha)
        kept, tested = found.kept[x, y], found.tested[x, y]
        if not question.abstain:
            return np.where(kept, 1.0, 0.0)
        return np.where(np.concatenate([kept & tested, tested]), 1.0, 0.0)

    def _triplets(self, question: WeightedEvidence | CombinedEvidence) -> FloatVector:
        from cipherdag.sites.compute.ci_tests.combined_summands import combined_evidence
        from cipherdag.sites.compute.ci_tests.weighted_summands import weighted_evidence

        self._check_variables(question.n_variables)
        test = self._test(question.test)
        if isinstance(question, WeightedEvidence):
            return weighted_evidence(test, question)
        pool = self._pool
        levels = pool.levels if pool is not None and pool.discrete else None
        return combined_evidence(test, question, levels)

    def _contributors(self, question: ContributorCounts) -> FloatVector:
        if len(self._counted) >= MOST_COUNTED:
            del self._counted[next(iter(self._counted))]
        self._counted[question.question] = answer = self.answer(question.question)
        return question.question.contributes(answer).astype(np.float64)

    def _covered(self, question: Suppressed) -> FloatVector:
        known = self._counted.pop(question.question, None)
        return question.question.suppress(
            self.answer(question.question) if known is None else known, question.enough_array()
        )

    def _words(self, question: Verdicts) -> IndexArray:
        return question.words(self.answer(question.question))

    def _sizes(self, question: CategorySizes) -> IndexArray:
        return question.words(self._pooled(question))

    def _pooled(self, question: Question) -> FloatVector:
        if self._pool is None:
            raise PolicyRefusedError("the site answers tests, not counts or moments")
        return self._pool.answer(question)

    def _regret(self, question: RegretQuestion) -> FloatVector:
        if self._regrets is None:
            raise MalformedMessageError("this site scores no graphs")
        self._check_variables(question.n_variables)
        return self._regrets.answer(question)

    def _local_beliefs(self, question: LocalBeliefs) -> FloatVector:
        if self._learn is None:
            raise MalformedMessageError("this site does not train on its rows")
        self._check_variables(question.n_variables)
        if self._learnt is None or self._learnt[0] != question:
            self._learnt = (question, self._learn(question))
        return self._learnt[1]

    def _resampled(self, question: Resampled) -> FloatVector:
        if self._resamples is None:
            raise MalformedMessageError("this site draws no rows from its own")
        return self._resamples.answer(question)

    def _best(self, search: SeparatorSearch) -> BestSeparators:
        from cipherdag.sites.compute.ci_tests.separator_scores import best_separators

        if self._searched is None or self._searched[0] != search:
            self._searched = (search, best_separators(self._test(search.test), search))
        return self._searched[1]

    def _check_rows(self, question: Question) -> None:
        most = getattr(question, "max_rows", None)
        if most is not None and self._pool is not None and self._pool.rows > most:
            raise BoundExceededError(
                f"the site has more rows than max_rows = {most}, which the run declares",
                remedy="Run with a --max-rows that no site's rows exceed.",
            )

    def _check_variables(self, n_variables: int) -> None:
        if n_variables != self.n_variables:
            raise MalformedMessageError("the question speaks of another number of variables")

    def _test(self, spec: CITestSpec) -> CITest:
        # the outcomes do not depend on alpha
        test = self._made(msgspec.structs.replace(spec, alpha=0.5))
        return PossibleTest(test, self._determined) if self._determined else test


def _asked(test: str) -> str:
    """What a run calls the test: some questions name another that does its work."""
    own = next((own for own, summed in SUMMED.items() if summed == test), test)
    return "auto" if own == "by-type" else own


def table_tests(table: SiteTable, *, device: str = "auto") -> Callable[[CITestSpec], CITest]:
    """Makes the tests that questions name, over one site's table.

    Args:
        table: The site's aligned data.
        device: ``cpu``, ``cuda`` or ``auto``.

    Returns:
        A function from a test's specification to the test; it raises MixedTypesError where the
        test does not fit the columns' types.
    """

    def make(spec: CITestSpec) -> CITest:
        computed = CI_TESTS[spec.name].computed.get(table.kind)
        many = [column.name for column in table.schema.variables if column.cardinality > 2]  # noqa: PLR2004
        asked = _asked(spec.name)
        if computed is None:
            raise MixedTypesError(
                f"the test '{asked}' cannot treat {table.kind} columns",
                column=odd_column(table),
                remedy=fitting_tests(table.kind, two_categories=not many),
            )
        if many and CI_TESTS[computed].two_categories and spec.name != "numbers":
            raise MixedTypesError(
                f"the test '{asked}' takes discrete columns of two categories only",
                column=many[0],
                remedy=fitting_tests(table.kind, two_categories=False),
            )
        from cipherdag.sites.answers.ci_test_makers import MAKERS

        return MAKERS[computed](table, spec, device)

    return make
