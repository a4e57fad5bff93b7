"""Describe's account of a run: what to look at before a graph is learnt.

Leaks:
    Nothing new: it follows from opened sums; what a site finds of itself stays at the site.
"""

from __future__ import annotations

from cipherdag.findings.conclusion import Note, Report
from cipherdag.findings.data_quality import remarks
from cipherdag.findings.description import CUT_DETAIL, Description
from cipherdag.findings.rows import Rows
from cipherdag.findings.site_differences import OWN_DETAIL, own_note, own_panel

TITLE = "To look at before a graph is learnt"
WHY = (
    "From the opened sums alone. Which sites differ is not known here; each site is told by its "
    "own command, cipherdag site result."
)
CUT = (
    "Some site left out rows that miss a value in any column, because they are fewer than its "
    "min_cell_size: neither the rows nor the missing values count them."
)
LIMITS = (
    (
        "Quantiles lie between public marks on a straight line, and are known no better than to "
        "the distance of two marks, a quarter of a standard deviation near the mean; a site that "
        "restricts small counts moves fewer than min_cell_size values past a mark."
    ),
    (
        "Where a few values of a site, fewer than its min_cell_size, lie so far from the others "
        "that they would make up most of the spread, it draws them in: mean, standard deviation "
        "and quantiles are then not those of the values in its file."
    ),
    "Two columns are never looked at together, so nothing here says how they depend on each other.",
)


def disclosed() -> tuple[str, ...]:
    """What the opened sums tell."""
    return (
        (
            "How many rows all sites hold, and how many of these miss no value where columns are "
            "categories; of each column its kind, and how many sites have values of it. Of each "
            "column of numbers that enough sites have, about where they lie and how far they "
            "spread: a mean to a quarter of a deviation, and a deviation to a power of two."
        ),
        (
            "Of each column that enough sites have: how many rows miss it or are left out, and "
            "over all sites' rows together the mean, the standard deviation, the counts of "
            "categories and of numbers up to public marks. Counts of a site below its "
            "min_cell_size are told only with others, and a few values far from the others only "
            "drawn in. Sums over other sites than before, where a site leaves in between, tell "
            "how many values it has."
        ),
        (
            "Of each column, how widely its shares scatter between the sites, not which site lies "
            "where; and whether any site has one value far from all others again and again, rows "
            "that it leaves out, a few values that it draws in, or a number too large to add."
        ),
    )


def reported(found: Description) -> Report:
    """What is odd in a column, and at a site what is odd in its own."""
    said = remarks(found)
    lines = Note.of_columns(TITLE, said).lines or ("nothing odd",)
    cut = (CUT,) if found.details[CUT_DETAIL] else ()
    shown = Rows(
        title=TITLE, note=WHY, columns=("Column", "Found"), rows=said or (("", "nothing odd"),)
    )
    notes, panels = [Note(f"{TITLE}:", (*lines, *cut))], [shown]
    if own := found.details.get(OWN_DETAIL):
        notes.append(own_note(own))
        panels.append(own_panel(own))
    return Report(panels=tuple(panels), notes=tuple(notes), limits=(*cut, *LIMITS))
