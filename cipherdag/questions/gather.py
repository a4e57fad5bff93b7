"""Runs question generators: many in shared rounds, or one that other questions answer.

A search whose sums must all cover the same sites stops once a site leaves.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from cipherdag.arrays import FloatVector
from cipherdag.errors import SiteUnreachableError
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Asking, Bundle, Outcome, Question
from cipherdag.questions.verdicts import VERDICT_VALUES

Other = TypeVar("Other")


def gather(
    searches: Sequence[Asking[Outcome]], *, most_values: int | None = None
) -> Asking[list[Outcome]]:
    """Advance all searches by one question each per round, and return what they return, in order.

    They need not ask equally many. As many rounds as the longest asks, or more where some ask for
    verdicts and others for sums, or where a round of several questions would have more than
    ``most_values``; no question is cut.
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
                part = sums[start : start + question.n_values]
                start += len(part)
                _advance(number, searches[number], part, waiting, outcomes)
    return [outcomes[number] for number in range(len(searches))]


def gather_two(first: Asking[Outcome], second: Asking[Other]) -> Asking[tuple[Outcome, Other]]:
    """Advance two searches of different kinds in shared rounds; see `gather`."""
    searches: list[Asking[object]] = [first, second]
    one, other = yield from gather(searches)
    return cast("Outcome", one), cast("Other", other)


def map_questions(
    asking: Asking[Outcome], answer: Callable[[Question], Asking[FloatVector]]
) -> Asking[Outcome]:
    """Run a search, each of its questions answered by the questions that ``answer`` asks."""
    try:
        question = next(asking)
        while True:
            question = asking.send((yield from answer(question)))
    except StopIteration as finished:
        return finished.value


def _rounds(waiting: dict[int, Question], most: int | None) -> list[dict[int, Question]]:
    """The waiting questions, in order, by the round that asks them: sums apart from verdicts."""
    rounds: list[dict[int, Question]] = []
    for compared in (False, True):
        values, begun = 0, False
        for number, question in waiting.items():
            if question.opens_bits != compared:
                continue
            length = VERDICT_VALUES * question.n_comparisons if compared else question.n_values
            if not begun or (most is not None and values + length > most):
                rounds.append({})
                values, begun = 0, True
            rounds[-1][number] = question
            values += length
    return rounds


def _bundle(questions: list[Question]) -> Question:
    if len(questions) == 1:
        return questions[0]
    return Bundle(parts=tuple(part for question in questions for part in question.parts))


def _advance(
    number: int,
    search: Asking[Outcome],
    sums: FloatVector | None,
    waiting: dict[int, Question],
    outcomes: dict[int, Outcome],
) -> None:
    try:
        waiting[number] = next(search) if sums is None else search.send(sums)
    except StopIteration as finished:
        waiting.pop(number, None)
        outcomes[number] = finished.value


def over_one_cohort(asking: Asking[Outcome], present: Presence) -> Asking[Outcome]:
    """Pass a search's questions on until a site leaves; then SiteUnreachableError.

    A maximum learnt before need not hold for the sites that remain. To ask again for what was
    disclosed with the site that left would show that site's answer.
    """
    covered = present.n_sites

    def answer(question: Question) -> Asking[FloatVector]:
        sums = yield question
        if present.n_sites != covered:
            raise SiteUnreachableError(
                f"a site left: sums over {present.n_sites} sites do not go together with those "
                f"over {covered}",
                remedy="Bring the site back and start a new run.",
            )
        return sums

    return map_questions(asking, answer)
