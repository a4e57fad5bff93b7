"""What an edge stands on, by the tests over all sites that could have taken it away.

Leaks:
    Nothing new: p-values and effects are what the run opened, and so is which tests were not done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from cipherdag.algorithms.fedfci.outcome import FedFCIOutcome
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome, WeakestTest
from cipherdag.algorithms.fedpc.untested import NEVER_TOGETHER
from cipherdag.graphs.edge_evidence import Effect, Status, TestsOfEdge
from cipherdag.graphs.knowledge import known_of

NO_TEST = "No test over all sites was done: it stands for want of rows or sites."


class OnTests(TypedDict):
    """Fields of `EdgeEvidence` that tests tell."""

    facts: tuple[str, ...]
    p_value: float | None
    given: tuple[str, ...]
    effect: Effect | None
    known: str
    status: Status
    tests: TestsOfEdge[str] | None


def on_tests(
    outcome: FedPCOutcome | FedFCIOutcome, names: Sequence[str], a: int, b: int, *, closed: bool
) -> OnTests:
    """What tests tell of the edge between two variables.

    Args:
        outcome: The run's.
        names: Of the variables.
        a: The one.
        b: The other.
        closed: Whether nothing but verdicts was opened.
    """
    pair = (min(a, b), max(a, b))
    weakest, known = outcome.weakest.get(pair), known_of(outcome.known, a, b)
    counted = outcome.decisive.get(pair)
    tests = None if counted is None else _named(counted, names)
    status: Status = "" if tests is None else tests.status
    facts = _tested(weakest, names, closed=closed)
    if known == "edge":
        status, facts, tests = "required", (), None
    elif outcome.untested is not None and outcome.untested[a, b]:
        status, facts = "untested", (NEVER_TOGETHER,)
    elif tests is not None and status != "tested":
        facts = (undone_fact(tests),)
    told = weakest if status in ("tested", "") and not closed else None
    return OnTests(
        facts=facts,
        p_value=None if told is None else told.p_value,
        given=() if told is None else named(told.given, names),
        effect=None if told is None else told.effect,
        known=known,
        status=status,
        tests=tests,
    )


def undone_fact(tests: TestsOfEdge[str]) -> str:
    """Which tests of an edge were not done, in a sentence."""
    if tests.status == "untested":
        return f"No {tests.unit} of it could be done ({tests.reason}): it stands for want of one."
    return (
        f"Kept because {tests.undone} of {tests.asked} {tests.unit}s that could take it away could "
        f"not be done ({tests.reason}). It is dependent in the others."
    )


def _named(tests: TestsOfEdge[int], names: Sequence[str]) -> TestsOfEdge[str]:
    given = None if tests.given is None else named(tests.given, names)
    return TestsOfEdge(tests.asked, tests.undone, given, tests.why)


def _tested(weakest: WeakestTest | None, names: Sequence[str], *, closed: bool) -> tuple[str, ...]:
    """What the test over all sites says that spoke least for an edge, in sentences."""
    if weakest is None:
        return (NO_TEST,)
    said = "Dependent in all tests over all sites that could be done"
    if closed:
        return (f"{said}.",)
    under = ", ".join(named(weakest.given, names)) or "nothing"
    found = f"{said}; the largest p-value is {weakest.p_value:.2g}, given {under}."
    if weakest.effect is None:
        return (found,)
    told = str(weakest.effect)
    return found, f"{told[:1].upper()}{told[1:]} in that test."


def named(given: Iterable[int], names: Sequence[str]) -> tuple[str, ...]:
    """The names of a set, in their order."""
    return tuple(sorted(names[v] for v in given))
