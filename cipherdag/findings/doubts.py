"""What makes a graph doubtful: sites that differ, triples that do not fit, and too few rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal

from cipherdag.findings.finding import Column, Note, Report
from cipherdag.findings.panels import TablePanel
from cipherdag.pages.numerals import counted, first_of

DIFFERING, THIS_SITE_DETAIL = "site_differences", "this_site"
COMPARED = (
    Column("variable", str, "The variable."),
    Column("given", list, "Its neighbours, or nothing."),
    Column("p_value", float, "The p-value; NaN where too few sites or rows could be compared."),
    Column("differs", bool, "Whether it differs beyond chance, at level 0.01 over all variables."),
    Column("coded", bool, "Whether some site has one value far from all others, again and again."),
)
MOST_NAMED = 20
THIS_SITE_TITLE = "This site stands out from the others"
DIFFERENT = "Distributed differently at the sites"
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

    ``taken_for_edges`` is `TAKEN_FOR_EDGES`, where differences count as dependence.
    """
    if not (rows := details.get(DIFFERING)):
        return this_site_report(details)
    report = Report(panels=(_panel(rows),))
    if (said := tuple(_sentences(rows))) and taken_for_edges:
        report += Report(warnings=(" ".join((*said, taken_for_edges)),))
    elif said:
        report += Report(notes=(Note(DIFFERENT + ":", (*said, NO_EVIDENCE)),))
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
        note="For this site alone: the disclosed sums less its part are those of the others "
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


UNRESOLVED = "unresolved"
Saying = Literal["collider", "no collider", "open"]
UNRESOLVED_TITLE = "Unresolved triples"
EXPLAINED = (
    "Unshielded triples that do not stand in the graph as the tests say, or for which the tests do "
    "not clearly say whether they are colliders. A graph of this kind cannot have everything that "
    "tests find when some of them err: colliders were taken in the order of their evidence. "
    "Directions near these triples rest on that choice."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedTriple:
    """An unshielded triple, by name."""

    first: str
    middle: str
    last: str
    tests_say: Saying  # what its tests say of the middle; "open" where they do not clearly say
    evidence: str  # that of the tests, in words; "" where nothing was tested
    stands_as: Literal["collider", "no collider", "open"]

    def __str__(self) -> str:
        said = f"tests say {self.tests_say}" if self.tests_say != "open" else "tests leave it open"
        return f"{self.first} - {self.middle} - {self.last}: {said}, stands as {self.stands_as}"


def unresolved_details(triples: Sequence[UnresolvedTriple]) -> dict[str, Any]:
    """The entry of a finding's details; none without such triples."""
    return {UNRESOLVED: [asdict(triple) for triple in triples]} if triples else {}


def unresolved_report(details: Mapping[str, Any]) -> Report:
    """The triples of a finding's details as lines for the terminal and a panel of the page."""
    triples = [UnresolvedTriple(**triple) for triple in details.get(UNRESOLVED, ())]
    if not triples:
        return Report()
    panel = TablePanel(
        title=UNRESOLVED_TITLE,
        note=EXPLAINED,
        columns=("First", "Middle", "Last", "Tests say", "Evidence", "In the graph"),
        rows=tuple(astuple(triple) for triple in triples),
    )
    title = f"{UNRESOLVED_TITLE}, by which directions near them are doubtful:"
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


CURVED = "curved_edges"


def curve_warnings(details: Mapping[str, Any]) -> Iterator[str]:
    """By which curves edges may stand that are none, a sentence for each neighbour."""
    by_neighbour: dict[str, list[tuple[str, str]]] = {}
    for first, second, along in details.get(CURVED, ()):
        by_neighbour.setdefault(along, []).append((first, second))
    for along, pairs in by_neighbour.items():
        ends = [*dict.fromkeys(end for pair in pairs for end in pair)]
        both = " and ".join(ends) if len(ends) == len(pairs[0]) else first_of(ends, MOST_NAMED)
        edges = first_of([" - ".join(pair) for pair in pairs], MOST_NAMED)
        one = len(pairs) == 1
        yield (
            f"The dependence of {both} on {along} is more curved, or stepped, than tests can "
            f"follow; the edge{'' if one else 's'} {edges} may be due to it. More rows follow more "
            f"curves; where {along} acts by a step, give it in categories, too."
        )


FEWEST_PER_COLUMN = 2


def row_details(rows: int, incomplete: Sequence[str] = ()) -> dict[str, Any]:
    """The entries of a finding's details; none where nobody knows the rows, or all have values.

    Rows are those of all sites, 0 if not known; of incomplete columns some are left out.
    """
    details: dict[str, Any] = {"incomplete_columns": list(incomplete)} if incomplete else {}
    return details | ({"rows": rows} if rows else {})


def row_warnings(details: Mapping[str, Any], columns: int) -> Iterator[str]:
    """That there are too few rows for a graph of so many columns, or that scores leave out some."""
    rows = details.get("rows", 0)
    if 0 < rows < FEWEST_PER_COLUMN * columns:
        fewer = "more columns than rows" if rows < columns else "hardly more rows than columns"
        yield (
            f"There are {fewer}: {counted(rows, 'row')} of all sites for "
            f"{counted(columns, 'column')}. So many pairs look dependent by chance that most edges "
            "may be none. Ask of fewer columns, or of more rows; bootstrap=50 shows which edges "
            "other rows would have, too."
        )
    if incomplete := details.get("incomplete_columns"):
        yield (
            f"Some sites miss values of {first_of(incomplete)}. Scores are of "
            "the rows that miss no value of any column, and the penalty counts all rows; every "
            "site's log says how many it left out."
        )
