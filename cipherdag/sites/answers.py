"""A site's local answer to a question: it maps positions to its own columns and asks torch.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.questions import (
    BestScoreExceeds,
    Bundle,
    CandidateScores,
    CITestSpec,
    EdgeVotes,
    FloatVector,
    Question,
    SeparatorSearch,
    SingleQuestion,
)
from cipherdag.errors import MalformedMessageError, MixedTypesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cipherdag.sites.compute.evidence import CITest
    from cipherdag.sites.compute.separators import BestSeparators
    from cipherdag.sites.data import SiteTable


class Respondent:
    """Answers questions about one site's variables; tests and searches are kept between rounds.

    Args:
        n_variables: Number of aligned variables.
        make_test: Makes the test that a question names; `table_tests` for a site's own table.
    """

    def __init__(self, n_variables: int, make_test: Callable[[CITestSpec], CITest]) -> None:
        self._n_variables = n_variables
        self._make_test = make_test
        self._tests: dict[tuple[str, str, float], CITest] = {}
        self._searched: tuple[SeparatorSearch, BestSeparators] | None = None

    @property
    def n_variables(self) -> int:
        """Number of aligned variables."""
        return self._n_variables

    def answer(self, question: Question) -> FloatVector:
        """The site's answer, shape (sum of the encodings' lengths,).

        Raises:
            MalformedMessageError: The question speaks of other variables than the study has.
            MixedTypesError: The test does not fit the columns' types.
        """
        parts = question.parts if isinstance(question, Bundle) else (question,)
        return np.concatenate([self._single(part) for part in parts])

    def _single(self, question: SingleQuestion) -> FloatVector:
        from cipherdag.sites.compute.separators import candidate_scores

        if isinstance(question, EdgeVotes):
            return self._edge_votes(question)
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
        from cipherdag.sites.compute.skeleton import sequential_layer, stable_layer

        self._check_variables(question.skeleton.n_variables)
        search = stable_layer if question.order == "stable" else sequential_layer
        kept = search(
            self._test(question.test),
            question.skeleton.matrix(),
            layer=question.layer,
            alpha=question.test.alpha,
        )
        edges = question.skeleton.edges()
        return kept[edges[:, 0], edges[:, 1]].astype(np.float64)

    def _best(self, search: SeparatorSearch) -> BestSeparators:
        from cipherdag.sites.compute.separators import best_separators

        if self._searched is None or self._searched[0] != search:
            self._searched = (search, best_separators(self._test(search.test), search))
        return self._searched[1]

    def _check_variables(self, n_variables: int) -> None:
        if n_variables != self.n_variables:
            raise MalformedMessageError("the question speaks of another number of variables")

    def _test(self, spec: CITestSpec) -> CITest:
        key = (spec.name, spec.dof, spec.min_rows_per_cell)
        if key not in self._tests:
            self._tests[key] = self._make_test(spec)
        return self._tests[key]


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
        name = spec.name
        if name == "auto":
            name = "fisherz" if table.kind == "continuous" else "g2"
        if name == "fisherz" and table.values is not None and table.codes is None:
            from cipherdag.sites.compute.fisherz import FisherZTest

            return FisherZTest(table.values, device=device)
        if name in ("g2", "pearson") and table.codes is not None and table.values is None:
            from cipherdag.sites.compute.discrete import DiscreteTest

            return DiscreteTest(
                table.codes,
                statistic="g2" if name == "g2" else "pearson",
                dof=spec.dof,
                min_rows_per_cell=spec.min_rows_per_cell,
                device=device,
            )
        raise MixedTypesError(f"the test '{spec.name}' cannot treat {table.kind} columns")

    return make
