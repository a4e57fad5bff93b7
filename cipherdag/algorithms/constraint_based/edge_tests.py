"""The evidence of an edge or a triple, from the tests over all sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.outcome import TestsOutcome
from cipherdag.algorithms.constraint_based.pair_tests import MaxPValueTest, Pair
from cipherdag.algorithms.constraint_based.untested import NEVER_TOGETHER
from cipherdag.algorithms.evidence.method import Method
from cipherdag.graphs.edge_evidence import EdgeEvidence, Status, TestsOfEdge
from cipherdag.graphs.knowledge import given_of

NO_TEST = "No test over all sites was done: it stands for want of rows or sites."
ONCE = " Each counts once, though rounds at a second level ask some again."
OF_ALL_PAIRS = " Those not done are counted whether or not their pair has an edge."
P_VALUE = "p-value of the test over all sites"
VERDICT = "1 where the test over all sites says independent, and no number with it"


def edge_tests(
    outcome: TestsOutcome, names: Sequence[str], a: int, b: int, *, closed: bool
) -> EdgeEvidence:
    """What tests tell of the edge between two variables, in whatever direction.

    Args:
        outcome: The outcome of the run.
        names: Names of the variables.
        a: Position of one variable.
        b: Position of the other.
        closed: Whether nothing but verdicts was disclosed.
    """
    pair = (min(a, b), max(a, b))
    weakest, by_knowledge = outcome.weakest.get(pair), given_of(outcome.constraints, a, b)
    counted = outcome.decisive.get(pair)
    tests = None if counted is None else _named(counted, names)
    status: Status = "" if tests is None else tests.status
    facts = _tested(weakest, names, closed=closed)
    if by_knowledge == "edge":
        status, facts, tests = "required", (), None
    elif outcome.untested is not None and outcome.untested[a, b]:
        status, facts = "untested", (NEVER_TOGETHER,)
    elif tests is not None and status != "tested":
        facts = (skipped_fact(tests),)
    opened = weakest if status in ("tested", "") and not closed else None
    return EdgeEvidence(
        source=names[a],
        target=names[b],
        strength=0.0,
        shown="",
        facts=facts,
        p_value=None if opened is None else opened.p_value,
        given=() if opened is None else named(opened.given, names),
        effect=None if opened is None else opened.effect,
        known=by_knowledge,
        status=status,
        tests=tests,
    )


def skipped_fact(tests: TestsOfEdge[str]) -> str:
    """Which tests of an edge were skipped, in a sentence."""
    if tests.status == "untested":
        return f"No {tests.unit} of it could be done ({tests.reason}): it stands for want of one."
    return (
        f"{tests.undone} of {tests.asked} {tests.unit}s that could remove this edge could not be "
        f"done ({tests.reason}). It is dependent in the others."
    )


def _named(tests: TestsOfEdge[int], names: Sequence[str]) -> TestsOfEdge[str]:
    given = None if tests.given is None else named(tests.given, names)
    return TestsOfEdge(tests.asked, tests.undone, given, tests.why)


def _tested(
    weakest: MaxPValueTest | None, names: Sequence[str], *, closed: bool
) -> tuple[str, ...]:
    """Sentences on the test over all sites that spoke least for an edge, by its largest p."""
    if weakest is None:
        return (NO_TEST,)
    said = "Dependent in all tests over all sites that could be done"
    if closed:
        return (f"{said}.",)
    largest = f"the largest p-value is {weakest.p_value:.2g}, given {set_of(weakest.given, names)}"
    if weakest.effect is None:
        return (f"{said}; {largest}.",)
    effect = str(weakest.effect)
    return f"{said}; {largest}.", f"{effect[:1].upper()}{effect[1:]} in that test."


def named(given: Iterable[int], names: Sequence[str]) -> tuple[str, ...]:
    """The names of a set's variables, in alphabetical order."""
    return tuple(sorted(names[v] for v in given))


def set_of(given: Iterable[int], names: Sequence[str]) -> str:
    """The names of a set in words."""
    return ", ".join(named(given, names)) or "nothing"


def with_categories(
    weakest: Mapping[Pair, MaxPValueTest], facts: Facts
) -> dict[Pair, MaxPValueTest]:
    """The tests of edges; each effect now names the categories that its sign refers to."""
    return {
        pair: replace(test, effect=facts.referred(test.effect, *pair))
        for pair, test in weakest.items()
    }


def remarks_on_tests(
    outcome: TestsOutcome, kind: str, *, closed: bool, more: Sequence[str] = ()
) -> tuple[str, ...]:
    """What kind of evidence decided the tests, how many were done by each method, and more."""
    counts = ", ".join(f"{n:,} {Method(method).phrase}" for method, n in outcome.tests.items())
    return (
        f"Evidence: {kind}.",
        f"Tests over all sites: {counts}.{ONCE if closed else ''}{_of_all_pairs(outcome)}",
        *more,
    )


def _of_all_pairs(outcome: TestsOutcome) -> str:
    """A remark for where more tests were skipped than the edges that stand account for."""
    undone = sum(count for method, count in outcome.tests.items() if not Method(method).done_by)
    of_edges = sum(tests.undone for tests in outcome.decisive.values())
    return OF_ALL_PAIRS if undone > of_edges else ""


def clarity_phrase(clear: float, middle: str, rule: str, *, closed: bool, ends: str) -> str:
    """How clearly tests judge a triple's middle, in words; ``ends`` is what its ends are called."""
    if rule != "p_value_drop":
        return f"{clear:.0%} of the sets that separate {ends} are without {middle}"
    if clear == 1.0:
        return f"no test shows what changes once {middle} is given, too"
    turns, change = ("dependent", "falls") if clear > 1.0 else ("independent", "rises")
    if closed:
        return f"over all tests together, {ends} become {turns} once {middle} is given, too"
    fold = max(clear, 1.0 / clear)
    return f"on average p of {ends} {change} {fold:.3g}-fold once {middle} is given, too"
