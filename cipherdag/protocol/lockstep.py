"""Runs many question generators side by side so that they share their rounds.

Leaks:
    Nothing beyond what the generators' own questions leak; fewer rounds are seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from cipherdag.algorithms.questions import Bundle, FloatVector, Question, SingleQuestion

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

Outcome = TypeVar("Outcome")


def lockstep(
    searches: Sequence[Generator[Question, FloatVector, Outcome]],
) -> Generator[Question, FloatVector, list[Outcome]]:
    """Advance all searches by one question each per round.

    Args:
        searches: Generators that yield questions, receive the sum of the answers and return an
            outcome. They need not ask equally many questions.

    Returns:
        The outcomes in the order of ``searches``; as many rounds as the longest search asks.
    """
    outcomes: dict[int, Outcome] = {}
    waiting: dict[int, Question] = {}
    for number, search in enumerate(searches):
        _advance(number, search, None, waiting, outcomes)
    while waiting:
        asked = dict(waiting)
        lengths = {n: sum(e.length for e in q.encodings) for n, q in asked.items()}
        sums = yield _bundle(list(asked.values()))
        start = 0
        for number in asked:
            part = sums[start : start + lengths[number]]
            start += lengths[number]
            _advance(number, searches[number], part, waiting, outcomes)
    return [outcomes[number] for number in range(len(searches))]


def _bundle(questions: list[Question]) -> Question:
    if len(questions) == 1:
        return questions[0]
    parts: list[SingleQuestion] = []
    for question in questions:
        parts.extend(question.parts if isinstance(question, Bundle) else (question,))
    return Bundle(parts=tuple(parts))


def _advance(
    number: int,
    search: Generator[Question, FloatVector, Outcome],
    sums: FloatVector | None,
    waiting: dict[int, Question],
    outcomes: dict[int, Outcome],
) -> None:
    try:
        waiting[number] = next(search) if sums is None else search.send(sums)
    except StopIteration as finished:
        waiting.pop(number, None)
        outcomes[number] = finished.value
