"""The shared report of constraint-based searches: details, doubts, confidence and notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cipherdag.algorithms.constraint_based.fit_checks import details_of_curves
from cipherdag.algorithms.constraint_based.outcome import TestsOutcome
from cipherdag.algorithms.constraint_based.untested import (
    REMOVED_DETAIL,
    untested_details,
    untested_warnings,
)
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import details_of
from cipherdag.arrays import BoolMatrix
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
    return report + unresolved_report(conclusion.details)
