"""What constraint-based searches report: evidence of edges, pairs without a test, doubts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.fit_checks import details_of_curves
from cipherdag.algorithms.constraint_based.outcome import TestsOutcome
from cipherdag.algorithms.constraint_based.pair_tests import MaxPValueTest, Pair
from cipherdag.algorithms.evidence.options import Method
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import details_of
from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.findings.doubts import (
    DIFFERING,
    TAKEN_FOR_EDGES,
    curve_warnings,
    differences_report,
    row_details,
    unresolved_report,
)
from cipherdag.findings.edge_table import undone_warnings
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph, LearntPAG
from cipherdag.findings.order_in_time import order_report
from cipherdag.graphs.edge_evidence import EdgeEvidence, Status, TestsOfEdge
from cipherdag.graphs.knowledge import given_of
from cipherdag.graphs.relations import MOST_SHOWN
from cipherdag.pages.numerals import first_of

NO_TEST = "No test over all sites was done: it stands for want of rows or sites."
ONCE = " Each counts once, though rounds at a second level ask some again."
OF_ALL_PAIRS = " Those not done are counted whether or not their pair has an edge."
P_VALUE = "p-value of the test over all sites"
VERDICT = "1 where the test over all sites says independent, and no number with it"


def edge_tests(
    outcome: TestsOutcome, names: Sequence[str], a: int, b: int, *, closed: bool
) -> EdgeEvidence:
    """What tests tell of the edge between a and b; where ``closed``, only verdicts are known."""
    pair = (min(a, b), max(a, b))
    weakest, by_knowledge = outcome.weakest.get(pair), given_of(outcome.constraints, a, b)
    counted = outcome.decisive.get(pair)
    tests = None if counted is None else _by_name(counted, names)
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


def _by_name(tests: TestsOfEdge[int], names: Sequence[str]) -> TestsOfEdge[str]:
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


UNTESTED_DETAIL = "untested_edges"
"""Where a conclusion's details list edges that no site measured both ends of."""
REMOVED_DETAIL = "untested_separations"
"""Where a conclusion's details describe pairs without an edge that could not be tested."""
NEVER_TOGETHER = "No site measured both, so nothing was tested: whether the edge is there is open."


def support_of(
    p_value: float, pair: tuple[int, int], given: Collection[int] | None, removed: BoolMatrix | None
) -> float | None:
    """The p-value that supports a separation; None where its edge was ``removed`` untested."""
    return None if not given and removed is not None and removed[pair] else p_value


def support_phrase(
    p_value: float, pair: tuple[int, int], given: Collection[int] | None, removed: BoolMatrix | None
) -> str:
    """The support of a separation in words."""
    support = support_of(p_value, pair, given, removed)
    return "not tested" if support is None else f"support {support:.3g}"


def untested_details(
    standing: BoolMatrix | None, removed: BoolMatrix | None, names: Sequence[str]
) -> dict[str, Any]:
    """The entries of a conclusion's details, by name; none where all pairs were tested.

    No site measured both ends of ``standing`` edges; ``removed`` pairs could not be tested.
    """
    details: dict[str, Any] = {}
    if standing is not None and standing.any():
        details[UNTESTED_DETAIL] = _pairs_named(np.argwhere(np.triu(standing)), names)
    if removed is not None:
        pairs = np.argwhere(np.triu(removed))
        details[REMOVED_DETAIL] = {
            "pairs": len(pairs),
            "shown": _pairs_named(pairs[:MOST_SHOWN], names),
            "variables": [names[v] for v in _covering(removed)],
        }
    return details


def untested_warnings(details: Mapping[str, Any]) -> tuple[str, ...]:
    """Why untested pairs make a graph doubtful, in sentences."""
    said = []
    if pairs := details.get(UNTESTED_DETAIL):
        said.append(
            "No site measured both ends of these edges, so that nothing was tested: whether they "
            "are there is open. They have no direction, and colliders are judged without them: "
            f"{_listed(pairs)}."
        )
    if removed := details.get(REMOVED_DETAIL):
        rare = first_of(removed["variables"])
        shown = _listed(removed["shown"])
        if removed["pairs"] > len(removed["shown"]):
            shown = f"{removed['pairs']} pairs with {rare}"
        said.append(
            f"Too few sites could test {shown}: at the others {rare} does not vary, has no value, "
            "or has too few rows of a category. Such pairs count as independent though nothing was "
            "tested: that they have no edge, and a direction that rests on it, says nothing. "
            "A rare category needs sites with more rows of it; evidence glm adds it up over sites "
            "that hold few, where their policies have min_cell_size = 0."
        )
    return tuple(said)


def _pairs_named(pairs: IndexArray, names: Sequence[str]) -> list[list[str]]:
    return [[names[x], names[z]] for x, z in pairs.tolist()]


def _listed(pairs: Sequence[Sequence[str]]) -> str:
    return first_of([" and ".join(pair) for pair in pairs], between="; ")


def _covering(pairs: BoolMatrix) -> list[int]:
    """A few variables that cover every pair: repeatedly the one in most pairs not yet covered."""
    left, covering = pairs.sum(axis=1), []
    covered = np.zeros(len(pairs), dtype=bool)
    while left.max(initial=0) > 0:
        variable = int(left.argmax())
        covering.append(variable)
        covered[variable] = True
        left = np.where(covered, 0, left - pairs[variable])
    return covering


def details_of_tests(
    outcome: TestsOutcome, names: Sequence[str], untested: BoolMatrix | None
) -> dict[str, Any]:
    """The entries of a conclusion's details: pairs without a test, rows, differences of sites."""
    details = untested_details(untested, outcome.removed_untested, names)
    details |= {**row_details(outcome.rows), **outcome.of_patients}
    if outcome.doubts.differences:
        details[DIFFERING] = details_of(outcome.doubts.differences, names)
    return details | details_of_curves(outcome.doubts.curved, names)


def report_on_tests(conclusion: LearntGraph | LearntPAG, evidence: str) -> Report:
    """The confidence of every edge, open triples, and variables that differ between sites."""
    taken = ""
    if evidence in EVIDENCE and EVIDENCE[evidence].mixes_sites:
        taken = TAKEN_FOR_EDGES.format(f"Evidence {evidence} takes", "with evidence stratified")
    removed = int(conclusion.details.get(REMOVED_DETAIL, {}).get("pairs", 0))
    report = Report(warnings=undone_warnings(conclusion.evidence.edges, removed))
    report += differences_report(conclusion.details, taken)
    if conclusion.confidences is not None:
        report += conclusion.confidences.report(conclusion.graph)
    report += Report(warnings=untested_warnings(conclusion.details))
    report += Report(warnings=tuple(curve_warnings(conclusion.details)))
    report += order_report(conclusion.graph.nodes, conclusion.graph.edges)
    return report + unresolved_report(conclusion.details)
