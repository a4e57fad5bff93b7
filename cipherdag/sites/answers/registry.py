"""Registry of answering functions by kind of question; each module of this room enters its own."""

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from cipherdag.errors import PolicyRefusedError
from cipherdag.questions.question import BY_PATIENT, Question, question_kinds
from cipherdag.sites import answers as room

Answer = Callable[[Any, Any], Any]
"""``answer(question, view)`` returns a float64 array, or integers where bits are disclosed."""

_ANSWERS: dict[type[Question], Answer] = {}


def answers(kind: type[Question]) -> Callable[[Answer], Answer]:
    """Register a function as the answer to a kind of question, unless it has another one."""

    def register(function: Answer) -> Answer:
        if _ANSWERS.setdefault(kind, function) is not function:
            raise TypeError(f"{kind.__name__} has two answers")
        return function

    return register


@cache
def answer_to(kind: type[Question]) -> Answer:
    """The function that answers a kind of question; TypeError where some kind has none."""
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        import_module(module.name)
    each = {one: [*filter(_ANSWERS.get, one.__mro__)] for one in (kind, *question_kinds().values())}
    if silent := sorted(one.__name__ for one, having in each.items() if not having):
        raise TypeError(f"no function answers {', '.join(silent)}")
    return _ANSWERS[each[kind][0]]


COUNTS_ROWS = "the question counts rows, and this site's rows are visits of patients"
SAY_VISITS = (
    "Plan with --visits SITE, in Python connect(visits=[...]), for each site whose rows are visits."
)


def check_visits(question: Question, visits: int) -> None:
    """Refuse (PolicyRefusedError) a question that takes for persons the rows of patients."""
    if visits > 1 and not question.by_patient:
        raise PolicyRefusedError(COUNTS_ROWS, remedy=BY_PATIENT)
    if getattr(question, "visits", visits) < visits:
        what = "the plan takes rows for persons, and this site's are visits of patients"
        raise PolicyRefusedError(what, remedy=SAY_VISITS)
