"""Runs a search over sites that are summed in the clear, on the grid of every protection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cipherdag.privacy.mpc.words import form_values
from cipherdag.sites.answers.site_view import SiteView

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from numpy.typing import NDArray

    from cipherdag.arrays import FloatVector
    from cipherdag.predicates import IntegerMatrix
    from cipherdag.questions.question import Question
    from cipherdag.sites.answers.site_view import SiteView

    FloatMatrix = NDArray[np.float64]


def driven(
    asking: Generator[Question, FloatVector, Any],
    sites: Sequence[SiteView],
    hear: Callable[[Question, FloatVector], None] = lambda *_: None,
) -> Any:
    """The outcome of a search over plain sums, which are those of a protected run.

    ``hear`` is told every question, and what is opened of it.
    """
    total = None
    while True:
        try:
            question = asking.send(total)
        except StopIteration as finished:
            return finished.value
        answers = np.array([own.answer(question) for own in sites])
        opened = plain_verdicts if question.opens_bits else plain_sums
        total = opened(question, answers)
        hear(question, total)


def plain_sums(question: Question, answers: FloatMatrix) -> FloatVector:
    """The sums of a question from the answers of all sites, shape (sites, values)."""
    total, start = np.zeros(answers.shape[1]), 0
    for encoding in question.encodings:
        place = slice(start, start := start + encoding.length)
        bits = 0 if encoding.comparison else encoding.resolution_bits
        whole = np.rint(np.ldexp(answers[:, place], bits)).sum(axis=0)
        total[place] = whole > 0 if encoding.comparison else np.ldexp(whole, -bits)
    return total


def plain_verdicts(question: Question, words: IntegerMatrix) -> FloatVector:
    """The verdicts of a question from the words of all sites, shape (sites, words)."""
    predicates = question.predicates(len(words))
    forms = form_values(predicates, words.sum(axis=0).view(np.uint64)).view(np.int64)
    holding = forms + predicates.constants > 0
    return np.logical_or.reduceat(holding, predicates.starts).astype(np.float64)
