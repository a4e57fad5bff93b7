"""The shared report of constraint-based searches: details, doubts, confidence and notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cipherdag.algorithms.bootstrap import DRAWN_TWICE
from cipherdag.algorithms.constraint_based.outcome import TestsOutcome
from cipherdag.algorithms.constraint_based.untested import (
    REMOVED_DETAIL,
    untested_details,
    untested_warnings,
)
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import details_of
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.confidence import Confidences
from cipherdag.findings.edge_table import undone_warnings
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.findings.pag import LearntPAG
from cipherdag.findings.row_warnings import few_rows_detail, few_rows_warnings
from cipherdag.findings.site_differences import DETAIL, TAKEN_FOR_EDGES, differences_report
from cipherdag.findings.unresolved import unresolved_note, unresolved_of, unresolved_panel


def details_of_tests(
    outcome: TestsOutcome, names: Sequence[str], untested: BoolMatrix | None
) -> dict[str, Any]:
    """The entries of a conclusion's details: pairs without a test, rows, differences of sites."""
    details = untested_details(untested, outcome.removed_untested, names)
    details |= few_rows_detail(outcome.rows)
    if outcome.differences:
        details[DETAIL] = details_of(outcome.differences, names)
    return details


def report_on_tests(
    conclusion: LearntGraph | LearntPAG, evidence: str, *, site_effect: bool
) -> Report:
    """The confidence of every edge, open triples, and variables that differ between sites.

    Args:
        conclusion: With its details.
        evidence: What decided the tests.
        site_effect: Whether regressions have constants of every site's own.
    """
    taken = ""
    if evidence in EVIDENCE and EVIDENCE[evidence].mixes_sites and not site_effect:
        taken = TAKEN_FOR_EDGES.format(f"Evidence {evidence} takes", "with evidence stratified")
    compared = differences_report(conclusion.details, taken)
    notes, panels, limits = [*compared.notes], [*compared.panels], []
    if "bootstrap" in conclusion.details:
        notes.append(Confidences(conclusion.details["bootstrap"]).note(conclusion.graph))
        limits.append(DRAWN_TWICE)
    removed = int(conclusion.details.get(REMOVED_DETAIL, {}).get("pairs", 0))
    warnings = (
        *few_rows_warnings(conclusion.details, len(conclusion.graph.nodes)),
        *undone_warnings(conclusion.evidence.edges, removed),
        *compared.warnings,
        *untested_warnings(conclusion.details),
    )
    if triples := unresolved_of(conclusion.details):
        notes.append(unresolved_note(triples))
        panels.append(unresolved_panel(triples))
    return Report(notes=tuple(notes), limits=tuple(limits), panels=tuple(panels), warnings=warnings)
