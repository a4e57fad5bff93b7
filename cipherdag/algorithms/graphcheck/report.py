"""GraphCheck's account of a run: which independences fail, and what a test cannot say.

Leaks:
    Nothing new: it follows from opened sums.
"""

from __future__ import annotations

from cipherdag.algorithms.evidence.within_sites import STRATIFIED
from cipherdag.findings.conclusion import Report
from cipherdag.findings.graph_check import CheckedGraph

AT_LEVELS = "Of each test so at a few levels, so that its p-value is known to a step."
NAMED = 3
"""Independences that a warning names."""
LIMITS = (
    (
        "An independence that stands is not shown: few rows reject little. One that fails says "
        "that an edge is missing, or a cause that nobody measured, or that rows were selected."
    ),
    (
        "A graph with an edge too many implies less and is not found out; nor is an arrow that "
        "points the wrong way, where the other way implies the same."
    ),
    (
        "P-values are right for a graph that was drawn before these rows were seen. One that was "
        "learnt from them was chosen so that they agree with it."
    ),
)


def disclosed(*, bits: bool) -> tuple[str, ...]:
    """What is opened of the tests."""
    return (
        (
            "Of every pair of variables that the graph does not join, one test given a set that "
            "separates them in it."
        ),
        STRATIFIED.told(closed=bits),
        *((AT_LEVELS,) if bits else ()),
    )


def reported(found: CheckedGraph) -> Report:
    """What fails is said first."""
    warnings = []
    if failing := found.failing:
        named = "; ".join(
            [*map(str, failing[:NAMED]), *(["and others"] if len(failing) > NAMED else [])]
        )
        warnings.append(
            f"{len(failing)} of {len(found.tests)} independences that the graph implies fail, "
            f"corrected for their number at {found.alpha:g}: {named}."
        )
    if undone := found.undone:
        warnings.append(
            f"{len(undone)} of {len(found.tests)} independences could not be tested: too few sites "
            "have rows that say something of them."
        )
    return Report(limits=LIMITS, warnings=tuple(warnings))
