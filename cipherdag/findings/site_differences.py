"""Which variables are distributed differently at the sites: table, warning, and what to do.

Leaks:
    Nothing new: p-values follow from opened sums. What a site finds of itself stays at the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cipherdag.findings.finding import Column, Note, Report
from cipherdag.findings.panels.panel import Panel, TablePanel
from cipherdag.pages.numerals import first_of

DETAIL, THIS_SITE_DETAIL = "site_differences", "this_site"
"""Where a finding's details have them, and at a site what it finds of itself."""
COMPARED = (
    Column("variable", str, "The variable."),
    Column("given", list, "Its neighbours, or nothing."),
    Column("p_value", float, "The p-value; NaN where too few sites or rows could be compared."),
    Column("differs", bool, "Whether it differs beyond chance, at level 0.01 over all variables."),
    Column("coded", bool, "Whether some site has one value far from all others, again and again."),
)
MOST_NAMED = 20
THIS_SITE_TITLE = "This site stands out from the others"
TITLE = "Distributed differently at the sites"
CAPTION = (
    "p is the chance that sites with one distribution differ so much in any share of the "
    "variable's values: in categories, or in the values up to common marks. Named are those beyond "
    "chance at level 0.01 over all variables (Holm). Those that differ stand once more given their "
    "neighbours: where they differ then too, a mechanism of theirs may be another one somewhere, "
    "and where not, the neighbours' differences may explain theirs."
)
TAKEN_FOR_EDGES = (
    "{} differences between sites for dependence: edges at these variables may be nothing but such "
    "differences. Look for another unit, a code for missing values, other patients; then run {}, "
    "which compares no site's rows with another's."
)
NO_EVIDENCE = (
    "No site's rows were compared with another's, so such differences are no evidence of an edge. "
    "Another unit, or a code for missing values, would still be a fault of the data."
)


@dataclass(frozen=True, slots=True)
class SiteDifferences:
    """The tests of differences between sites, read from the details of a finding.

    Attributes:
        rows: One mapping of `COMPARED` per variable and what is given; p None where it was not
            compared; whether it differs, and whether it has a code for missing values somewhere.
    """

    rows: Sequence[Mapping[str, Any]]

    @property
    def coded(self) -> tuple[str, ...]:
        """Variables that have a code for missing values at some site, as it looks."""
        return tuple(row["variable"] for row in self.rows if row["coded"])

    @property
    def named(self) -> tuple[str, ...]:
        """Variables that differ given nothing, the clearest first."""
        differing = [row for row in self.rows if row["differs"] and not row["given"]]
        return tuple(row["variable"] for row in sorted(differing, key=lambda row: row["p_value"]))

    def warnings(self, taken_for_edges: str) -> tuple[str, ...]:
        """A warning that names them, with what takes them for dependence; none without."""
        said = self._sentences()
        return (" ".join((*said, taken_for_edges)),) if taken_for_edges and said else ()

    def note(self) -> Note | None:
        """The terminal's note on differences between sites, where they are no warning."""
        said = self._sentences()
        return Note(TITLE + ":", (*said, NO_EVIDENCE)) if said else None

    def panel(self) -> TablePanel:
        """The table of the report."""
        return TablePanel(
            title="Differences between sites",
            note=CAPTION,
            columns=("Variable", "Given", "p-value", "Found"),
            rows=tuple(
                (
                    row["variable"],
                    ", ".join(row["given"]) or "nothing",
                    "" if row["p_value"] is None else row["p_value"],
                    _verdict(row),
                )
                for row in sorted(self.rows, key=_clearest_first)
            ),
        )

    def _sentences(self) -> tuple[str, ...]:
        said = []
        if self.named:
            verb = "is" if len(self.named) == 1 else "are"
            said.append(
                f"{first_of(self.named, MOST_NAMED)} {verb} distributed differently at the "
                "sites, beyond chance."
            )
        if self.coded:
            verb = "has" if len(self.coded) == 1 else "have"
            said.append(
                f"{first_of(self.coded, MOST_NAMED)} {verb} at some site one value far from "
                "all others, again and again: a code for missing values?"
            )
        return tuple(said)


def differences_report(details: Mapping[str, Any], taken_for_edges: str) -> Report:
    """The part of a report on differences between sites: a warning or a note, and tables.

    Args:
        details: Those of a finding.
        taken_for_edges: `TAKEN_FOR_EDGES`, where differences count as dependence; else nothing.
    """
    notes: list[Note] = []
    panels: list[Panel] = []
    warnings: tuple[str, ...] = ()
    if rows := details.get(DETAIL):
        differences = SiteDifferences(rows)
        warnings = differences.warnings(taken_for_edges)
        if not warnings and (note := differences.note()):
            notes.append(note)
        panels.append(differences.panel())
    if outliers := details.get(THIS_SITE_DETAIL):
        notes.append(site_note(outliers))
        panels.append(site_panel(outliers))
    return Report(notes=tuple(notes), panels=tuple(panels), warnings=warnings)


def site_note(remarks: Sequence[Sequence[str]]) -> Note:
    """The note on a site's terminal about the variables in which it is an outlier."""
    return Note.of_columns(THIS_SITE_TITLE + ":", remarks)


def site_panel(remarks: Sequence[Sequence[str]]) -> TablePanel:
    """The table in a site's report of the variables in which it is an outlier."""
    return TablePanel(
        title=THIS_SITE_TITLE,
        note="For this site alone: the opened sums less its part are those of the others "
        "together. It was computed from the data as they are now, and is part of no other report.",
        columns=("Variable", "Result"),
        rows=tuple((variable, said) for variable, said in remarks),
    )


def _verdict(row: Mapping[str, Any]) -> str:
    if row["coded"]:
        also = ", and differs" if row["differs"] else ""
        return f"may hold a code for missing values{also}"
    if row["p_value"] is None:
        return "not compared: too few sites or rows, or too many categories"
    return "differs" if row["differs"] else "no difference seen"


def _clearest_first(row: Mapping[str, Any]) -> tuple[bool, float, bool]:
    p_value = row["p_value"]
    return bool(row["given"]), 2.0 if p_value is None else p_value, row["differs"]
