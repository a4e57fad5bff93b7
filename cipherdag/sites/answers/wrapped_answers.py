"""A site's answers to questions that are made of other questions.

Source: Efron, Annals of Statistics 7 (1979); Friedman, Goldszmidt and Wyner, "Data analysis with
Bayesian networks: a bootstrap approach", UAI 1999. Every site draws as many rows as it holds, so
the sites are strata.

Leaks:
    Nothing: which rows are drawn follows from all rows of the site and its key, so nobody else can
    tell, but for a simulation, which has no key; were it known, sums over many replicates would be
    equations in single rows.
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.question import Resampled
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.questions.verdicts import Verdicts
from cipherdag.sites.answers.registry import answers
from cipherdag.sites.answers.site_view import SiteView

MOST_COUNTED = 256
"""Answers that a site keeps from the count of its tests to their sums; it forgets the oldest.

Where no test has sites enough nobody asks for the sums; an answer that was forgotten is computed
again.
"""


@answers(ContributorCounts)
def contributions(question: ContributorCounts, view: SiteView) -> FloatVector:
    """Indicators of the parts to which the site contributes."""
    view.memory.get("counted", {}).pop(question.question, None)
    answer = view.remember(
        "counted", question.question, lambda: view.answer(question.question), most=MOST_COUNTED
    )
    return question.question.contributes(answer).astype(np.float64)


@answers(Suppressed)
def suppressed(question: Suppressed, view: SiteView) -> FloatVector:
    """The answer to the question, with zeros for parts that too few sites contribute to."""
    answer = view.memory.get("counted", {}).pop(question.question, None)
    if answer is None:
        answer = view.answer(question.question)
    return question.question.suppress(answer, question.enough_array())


@answers(Resampled)
def resampled(question: Resampled, view: SiteView) -> FloatVector:
    """The answer about the rows of the replicate."""
    return view.resampled(question.replicate, question.seed).answer(question.question)


@answers(Verdicts)
def words(question: Verdicts, view: SiteView) -> IndexArray:
    """The site's whole numbers, whose sums over the sites are compared."""
    return question.words(view.answer(question.question))
