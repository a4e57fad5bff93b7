"""Which variables are distributed differently at the sites: table, warning, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cipherdag.findings.finding import Column, Note, Report
from cipherdag.findings.panels.panel import TablePanel
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


def differences_report(details: Mapping[str, Any], taken_for_edges: str = "") -> Report:
    """The part of a report on differences between sites: a warning or a note, and tables.

    Args:
        details: Those of a finding.
        taken_for_edges: `TAKEN_FOR_EDGES`, where differences count as dependence; else nothing.
    """
    if not (rows := details.get(DETAIL)):
        return this_site_report(details)
    report = Report(panels=(_panel(rows),))
    if (said := tuple(_sentences(rows))) and taken_for_edges:
        report += Report(warnings=(" ".join((*said, taken_for_edges)),))
    elif said:
        report += Report(notes=(Note(TITLE + ":", (*said, NO_EVIDENCE)),))
    return report + this_site_report(details)


def _panel(rows: Sequence[Mapping[str, Any]]) -> TablePanel:
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
            for row in sorted(rows, key=_clearest_first)
        ),
    )


def _sentences(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The variables that differ given nothing, the clearest first, and those with a code."""
    differing = [row for row in rows if row["differs"] and not row["given"]]
    named = [row["variable"] for row in sorted(differing, key=lambda row: row["p_value"])]
    if named:
        yield (
            f"{first_of(named, MOST_NAMED)} {'is' if len(named) == 1 else 'are'} distributed "
            "differently at the sites, beyond chance."
        )
    if coded := [row["variable"] for row in rows if row["coded"]]:
        yield (
            f"{first_of(coded, MOST_NAMED)} {'has' if len(coded) == 1 else 'have'} at some site "
            "one value far from all others, again and again: a code for missing values?"
        )


def this_site_report(details: Mapping[str, Any]) -> Report:
    """In a site's report alone: the variables in which it is an outlier; empty without any."""
    if not (outliers := details.get(THIS_SITE_DETAIL)):
        return Report()
    panel = TablePanel(
        title=THIS_SITE_TITLE,
        note="For this site alone: the opened sums less its part are those of the others "
        "together. It was computed from the data as they are now, and is part of no other report.",
        columns=("Variable", "Result"),
        rows=tuple((variable, said) for variable, said in outliers),
    )
    return Report(notes=(Note.of_columns(THIS_SITE_TITLE + ":", outliers),), panels=(panel,))


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
