"""Unshielded triples that the graph shows otherwise than the tests, or that are undecided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal

from cipherdag.findings.finding import Note, Report
from cipherdag.findings.panels.panel import TablePanel
from cipherdag.pages.numerals import counted

DETAIL = "unresolved"
"""Where a finding's details list them."""
Saying = Literal["collider", "no collider", "open"]
TITLE = "Unresolved triples"
EXPLAINED = (
    "Unshielded triples that do not stand in the graph as the tests say, or for which the tests do "
    "not clearly say whether they are colliders. A graph of this kind cannot have everything that "
    "tests find when some of them err: colliders were taken in the order of their evidence. "
    "Directions near these triples rest on that choice."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedTriple:
    """An unshielded triple, by name.

    Attributes:
        first: The one end.
        middle: The variable between.
        last: The other end.
        tests_say: What its tests say of the middle; "open" where they do not clearly say.
        evidence: That of the tests, in words; "" where nothing was tested.
        stands_as: What the graph has.
    """

    first: str
    middle: str
    last: str
    tests_say: Saying
    evidence: str
    stands_as: Literal["collider", "no collider", "open"]

    def __str__(self) -> str:
        said = f"tests say {self.tests_say}" if self.tests_say != "open" else "tests leave it open"
        return f"{self.first} - {self.middle} - {self.last}: {said}, stands as {self.stands_as}"


def unresolved_details(triples: Sequence[UnresolvedTriple]) -> dict[str, Any]:
    """The entry of a finding's details; none without such triples."""
    return {DETAIL: [asdict(triple) for triple in triples]} if triples else {}


def unresolved_report(details: Mapping[str, Any]) -> Report:
    """The triples of a finding's details as lines for the terminal and a panel of the page."""
    triples = [UnresolvedTriple(**triple) for triple in details.get(DETAIL, ())]
    if not triples:
        return Report()
    panel = TablePanel(
        title=TITLE,
        note=EXPLAINED,
        columns=("First", "Middle", "Last", "Tests say", "Evidence", "In the graph"),
        rows=tuple(astuple(triple) for triple in triples),
    )
    title = f"{TITLE}, by which directions near them are doubtful:"
    return Report(notes=(Note(title, tuple(map(str, triples))),), panels=(panel,))


def contradicted(triples: Sequence[UnresolvedTriple]) -> str:
    """The warning that the graph contradicts some tests, in a sentence; "" if it does not."""
    against = [triple for triple in triples if triple.tests_say not in ("open", triple.stands_as)]
    if not against:
        return ""
    return (
        f"Tests contradict each other: {counted(len(against), 'triple')} of variables cannot stand "
        "as they say in any graph with these edges. What has most evidence stands "
        "(see the unresolved triples)."
    )
