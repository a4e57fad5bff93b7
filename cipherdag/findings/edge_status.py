"""What every edge stands on: the one table that terminal, CSV, JSON, page and warnings read.

It is the `status` and the `tests` of `EdgeEvidence`.

Leaks:
    Nothing new: which tests could not be done was opened by the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from cipherdag.graphs.edge_evidence import EdgeEvidence
from cipherdag.pages.numerals import counted, first_of

MOST_UNDONE = 0.1
"""Share of the decisive tests that may be left undone before that is the first thing to say."""
WHAT_HELPS = (
    "Categories with fewer levels, more sites that have such rows, or other evidence (of FedPC and "
    "FedFCI, evidence glm or pooled where sites allow it) may do them."
)


def why(own: EdgeEvidence) -> str:
    """Why an edge stands that tests do not speak for, in a phrase; "" for others."""
    if own.status == "required":
        return "required by what was known before"
    if own.stands_on_evidence:
        return ""
    if own.tests is None:
        return "never tested"
    tests = own.tests
    if own.status == "untested":
        return f"never tested ({tests.reason})"
    return f"{tests.undone} of {tests.asked} {tests.unit}s not done ({tests.reason})"


def undone_warnings(edges: Sequence[EdgeEvidence], fallen: int) -> tuple[str, ...]:
    """What to say first of a graph whose edges stand since tests were not done; else nothing.

    Args:
        edges: All edges with what they stand on.
        fallen: Pairs without an edge whose only test could not be done.
    """
    standing = [own for own in edges if not own.stands_on_evidence]
    tests = [own.tests for own in edges if own.tests is not None]
    asked = fallen + sum(own.asked for own in tests)
    undone = fallen + sum(own.undone for own in tests)
    unit = "vote" if any(own.unit == "vote" for own in tests) else "test"
    said = []
    if asked and undone > MOST_UNDONE * asked:
        said.append(
            f"{undone} of {counted(asked, unit)} that decide on this graph could not be done, "
            f"so that much of it rests on no evidence. {WHAT_HELPS}"
        )
    if standing:
        named = [f"{own.source} and {own.target} ({why(own)})" for own in standing]
        said.append(
            f"{counted(len(standing), 'edge')} of {len(edges)} may stand only because a {unit} "
            f"that could take it away was not done: {first_of(named, between='; ')}."
        )
    return tuple(said)
