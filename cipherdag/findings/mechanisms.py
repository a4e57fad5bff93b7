"""Which mechanisms differ between the sites: what a run with the site as a variable found.

Leaks:
    Nothing new: it follows from opened sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cipherdag.findings.conclusion import Note
from cipherdag.findings.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DETAIL = "mechanisms"
"""Where a conclusion's details have them."""
TITLE = "The site and the variables"
CAPTION = (
    "An arrow from the site: whatever else a variable is given, its values are distributed "
    "differently at the sites, so that a mechanism of its own, or how it is measured, differs. "
    "Else what it is given here accounts for all differences of it. p is the largest of all tests "
    "of a variable. Taken for granted: no variable decides at which site a row is, and nothing "
    "unmeasured does that causes a variable; what a number depends on, it depends on linearly."
)
ARROWS = "Mechanisms that differ between the sites (site --> variable):"


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """What was found, as the details of a conclusion have it.

    Attributes:
        rows: One mapping per variable: whether it differs, None where it was not compared; the
            largest p-value, and what the variable is given in that test.
    """

    rows: Sequence[Mapping[str, Any]]

    def note(self) -> Note:
        """The arrows from the site."""
        named = tuple(own["variable"] for own in self.rows if own["differs"])
        return Note(ARROWS, named or ("none",))

    def panel(self) -> Rows:
        """The table of the report."""
        return Rows(
            title=TITLE,
            note=CAPTION,
            columns=("Variable", "Found", "Given", "p-value"),
            rows=tuple(
                (
                    own["variable"],
                    _found(own),
                    ", ".join(own["given"]) or "nothing",
                    "" if own["p_value"] is None else own["p_value"],
                )
                for own in self.rows
            ),
        )


def _found(own: Mapping[str, Any]) -> str:
    if own["differs"] is None:
        return "not compared: too few sites or rows"
    if own["differs"]:
        return f"site --> {own['variable']}"
    return "alike" + (" given these" if own["given"] else "")
