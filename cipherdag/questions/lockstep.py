"""Runs question generators: many side by side in shared rounds, or one by other questions.

Leaks:
    Nothing beyond what the generators' own questions leak; fewer rounds are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar, cast

from cipherdag.arrays import FloatVector
from cipherdag.questions.question import Bundle, Question, Resampled, SingleQuestion, finds_verdicts
from cipherdag.questions.verdicts import VERDICT_VALUES

Outcome = TypeVar("Outcome")
Other = TypeVar("Other")


def lockstep(
    searches: Sequence[Generator[Question, FloatVector, Outcome]],
    *,
    most_values: int | None = None,
) -> Generator[Question, FloatVector, list[Outcome]]:
    """Advance all searches by one question each per round.

    Args:
        searches: Generators that yield questions, receive the sum of the answers and return an
            outcome. They need not ask equally many questions.
        most_values: Values of a round beyond which the questions are asked in several; none of
            them is cut.

    Returns:
        The outcomes in the order of ``searches``; as many rounds as the longest search asks, or
        more with ``most_values``, or where some ask for verdicts and others for sums.
    """
    outcomes: dict[int, Outcome] = {}
    waiting: dict[int, Question] = {}
    for number, search in enumerate(searches):
        _advance(number, search, None, waiting, outcomes)
    while waiting:
        for asked in _rounds(waiting, most_values):
            sums = yield _bundle(list(asked.values()))
            start = 0
            for number, question in asked.items():
                part = sums[start : start + _length(question)]
                start += len(part)
                _advance(number, searches[number], part, waiting, outcomes)
    return [outcomes[number] for number in range(len(searches))]


def beside(
    first: Generator[Question, FloatVector, Outcome],
    second: Generator[Question, FloatVector, Other],
) -> Generator[Question, FloatVector, tuple[Outcome, Other]]:
    """Two searches of different kinds in shared rounds, and what both found; see `lockstep`."""
    searches: list[Generator[Question, FloatVector, object]] = [first, second]
    one, other = yield from lockstep(searches)
    return cast("Outcome", one), cast("Other", other)


def answered(
    asking: Generator[Question, FloatVector, Outcome],
    answer: Callable[[Question], Generator[Question, FloatVector, FloatVector]],
) -> Generator[Question, FloatVector, Outcome]:
    """The same search, every question of it answered by the questions that ``answer`` asks."""
    try:
        question = next(asking)
        while True:
            question = asking.send((yield from answer(question)))
    except StopIteration as finished:
        return finished.value


def parts_of(question: Question) -> tuple[SingleQuestion, ...]:
    """The parts of a bundle, or the question alone."""
    return question.parts if isinstance(question, Bundle) else (question,)


def split_parts(
    question: Question, values: FloatVector
) -> Iterator[tuple[SingleQuestion, FloatVector]]:
    """The parts of a bundle, or the question alone, each with what an answer or sum says of it."""
    start = 0
    for part in parts_of(question):
        length = _length(part)
        yield part, values[start : start + length]
        start += length


def _rounds(waiting: dict[int, Question], most: int | None) -> list[dict[int, Question]]:
    """The waiting questions, in order, by the round that asks them: sums apart from verdicts."""
    rounds: list[dict[int, Question]] = []
    for compared in (False, True):
        values, begun = 0, False
        for number, question in waiting.items():
            if finds_verdicts(question) != compared:
                continue
            length = VERDICT_VALUES * _comparisons(question) if compared else _length(question)
            if not begun or (most is not None and values + length > most):
                rounds.append({})
                values, begun = 0, True
            rounds[-1][number] = question
            values += length
    return rounds


def _length(question: Question) -> int:
    return sum(encoding.length for encoding in question.encodings)


def _comparisons(question: Question) -> int:
    """Comparisons of a question that finds verdicts: one a verdict, where it does not say more."""
    found = 0
    for part in parts_of(question):
        inner = part.question if isinstance(part, Resampled) else part
        found += getattr(inner, "n_comparisons", _length(part))
    return found


def _bundle(questions: list[Question]) -> Question:
    if len(questions) == 1:
        return questions[0]
    return Bundle(parts=tuple(part for question in questions for part in parts_of(question)))


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
