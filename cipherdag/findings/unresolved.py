"""Triples of a graph that do not stand as tests say, since no graph of its kind does all of that.

Leaks:
    Nothing new: what tests say of triples was opened by the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cipherdag.findings.conclusion import Note
from cipherdag.findings.rows import Rows
from cipherdag.pages.numerals import counted

DETAIL = "unresolved"
"""Where a conclusion's details list them."""
Saying = Literal["collider", "no collider", "open"]
TITLE = "Unresolved triples"
EXPLAINED = (
    "Unshielded triples that do not stand in the graph as the tests say, or of which the tests do "
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


def unresolved_details(found: Sequence[UnresolvedTriple]) -> dict[str, Any]:
    """The entry of a conclusion's details; none without such triples."""
    return {DETAIL: [asdict(own) for own in found]} if found else {}


def unresolved_of(details: Mapping[str, Any]) -> tuple[UnresolvedTriple, ...]:
    """The triples of a conclusion's details."""
    return tuple(UnresolvedTriple(**own) for own in details.get(DETAIL, ()))


def unresolved_note(found: Sequence[UnresolvedTriple]) -> Note:
    """The triples for a terminal."""
    return Note(f"{TITLE}, by which directions near them are doubtful:", tuple(map(str, found)))


def unresolved_panel(found: Sequence[UnresolvedTriple]) -> Rows:
    """The triples for a report."""
    return Rows(
        title=TITLE,
        note=EXPLAINED,
        columns=("First", "Middle", "Last", "Tests say", "Evidence", "In the graph"),
        rows=tuple(
            (own.first, own.middle, own.last, own.tests_say, own.evidence, own.stands_as)
            for own in found
        ),
    )


def contradicted(found: Sequence[UnresolvedTriple]) -> str:
    """What to know of a graph that does not have all that tests say, in a sentence; else ""."""
    against = [own for own in found if own.tests_say not in ("open", own.stands_as)]
    if not against:
        return ""
    return (
        f"Tests contradict each other: {counted(len(against), 'triple')} of variables cannot stand "
        "as they say in any graph with these edges. What has most evidence was kept "
        "(see the unresolved triples)."
    )
