"""A SQL-on-FHIR view as columns of a schema: what the Parquet file of its rows holds.

A `ViewDefinition` names each column, its path in FHIR R4, and perhaps its type. Where it does not,
the end of the path says it, as far as R4 has one type there. Of codes and texts only the rows tell
the categories. Keys, dates, names and free text take no part.

Source: SQL on FHIR 2.0, https://build.fhir.org/ig/FHIR/sql-on-fhir-v2/.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.drafts.documents.declarations import DATES, Declaration, as_remark
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import hidden_character, normalise_name, visible

MAX_BYTES = 4 * 1024 * 1024
_MOST_NESTED = 50
_LONGEST_PATH = 4096  # with those that lead to it
_EACH = ("forEach", "forEachOrNull")
_ROWS = (*_EACH, "repeat", "unionAll")
"""What gives several rows of one resource."""
Meaning = Literal["truth", "number", "whole", "date", "key", "text", "prose", "address"]
_TYPES: dict[str, Meaning] = {
    "boolean": "truth",
    "decimal": "number",
    **dict.fromkeys(("integer", "integer64", "positiveInt", "unsignedInt", "long"), "whole"),
    **dict.fromkeys(("date", "dateTime", "instant", "time"), "date"),
    **dict.fromkeys(("id", "uuid", "oid", "Reference"), "key"),
    **dict.fromkeys(("code", "string"), "text"),
    **dict.fromkeys(("markdown", "xhtml", "base64Binary"), "prose"),
    **dict.fromkeys(("uri", "url", "canonical"), "address"),
}
_BY_PATH: tuple[tuple[Meaning, str], ...] = (
    ("key", r"(get(Resource|Reference)Key\(.*\)|(^|\.)(id|reference|identifier(\..*)?))$"),
    ("truth", r"((exists|empty|not|all|allTrue|anyTrue|hasValue)\(.*\)|(^|\.)(true|false))$"),
    ("truth", r"[^<>!]([<>]|[!=<>]=|=)|(^|\.)(active|deceasedBoolean|multipleBirthBoolean)$"),
    ("whole", r"((^|\.)count\(\)|(^|\.)multipleBirthInteger)$"),
    ("number", r"ofType\((Quantity|Age|Range)\)(\.(low|high))?\.value$|[qQ]uantity\.value$"),
    ("number", r"(^|\.)(latitude|longitude|altitude)$"),
    ("date", r"(^|\.)(birthDate|issued|date|start|end|[a-z]\w*(Date|DateTime|Instant|On))$"),
    ("text", r"(^|\.)(code|gender|status|use|display|unit|country|state|intent|priority)$"),
    ("address", r"(^|\.)(system|url)$"),
)
"""The meaning of a column without a type, by the end of its path."""
_NAMES_SOMEBODY = re.compile(
    r"(^|[.(])(identifier|telecom|photo|contact|family|given|line|city|district|postalCode|text"
    r"|narrative|div|note)(?=[.([]|$)|(^|\.)(name|address)(?=\.|\[|\(|$)(?!.*\.(use|state|country)$)"
)
_PATIENT = re.compile(
    r"getReferenceKey\('?Patient'?\)$|(^|\.)(patient|subject)(\.(reference|getReferenceKey\(\)))?$"
)
_OF_TYPE = re.compile(r"ofType\((\w+)\)(\.first\(\))?$")
_ARGUMENTS = re.compile(r"\((?![\w']*\))[^()]*\)")  # the innermost, but for a single word
_ENDS = re.compile(r"(\.(first|last|single|toString|toInteger|toDecimal)\(\)|\[\d+\])+$")
_SAID: dict[str, str] = {
    "date": DATES,
    "key": "Ignored: a key, of which no value is written.",
    "prose": "Ignored: free text, of which no value is written.",
    "address": "Ignored: the address of a vocabulary or document.",
    "person": "Ignored: it may name somebody, or say where they live; no value is written.",
    "mine": "Ignored: the key of a person, who has one row.",
}
_CODES = 'Whole numbers. If they are codes, set kind = "discrete", and every code in `categories`.'


def read_view(path: Path) -> Declaration:
    """The columns of a view's rows.

    Raises:
        UnreadableDataError: It is no ViewDefinition, or a column of it is a list; where that
            stands in the file is named, and what to do.
    """
    view = _View(str(path), _parsed(path))
    columns: dict[str, Column] = {}
    undecided: dict[str, str] = {}
    for each in view.columns():
        if each.name in columns or each.name in undecided:
            raise view.error(each.where, f"'{each.name}' is a column before, too", "another name")
        made = _column(each, view.resource, one_row=view.one_row)
        if made is None:
            undecided[each.name] = each.said
        else:
            columns[each.name] = made
    if not columns and not undecided:
        raise view.error("select", "the view has no column", "columns with name and path")
    rows = " and ".join(filter(None, view.filters()))
    comment = f"A row is of one {view.resource}{f' with {as_remark(rows)}' if rows else ''}."
    if not view.one_row and not any(each.kind == "patient" for each in columns.values()):
        comment += (
            " LOOK: no column says whose row it is, as getReferenceKey(Patient) does. If no person "
            'has two rows, write rows = "persons" at the top.'
        )
    return Declaration(columns, undecided, comment=comment, one_row=view.one_row)


@dataclass(frozen=True, slots=True)
class _ViewColumn:
    """A column of a view: where it stands in the file, and its path from the resource on."""

    where: str
    name: str
    path: str
    type: str
    title: str

    @property
    def said(self) -> str:
        """What a draft says of the column."""
        described = f"'{self.title}'. " if self.title else ""
        return f"{described}{as_remark(self.path)}{f' ({self.type})' if self.type else ''}."

    @property
    def outline(self) -> str:
        """The path without the conditions in it."""
        path, before = self.path, ""
        while path != before:
            path, before = _ARGUMENTS.sub("()", path), path
        return path

    @property
    def meaning(self) -> Meaning | None:
        """What its type says, or the end of its path; None if neither does."""
        end = _ENDS.sub("", self.outline)
        of_type = _OF_TYPE.search(end)
        named = self.type or (of_type[1] if of_type else "")
        if end.endswith("%rowIndex"):
            return "key"  # the number of a row
        if named in _TYPES:
            # a key may be declared as a string
            key = re.search(_BY_PATH[0][1], end)
            return "key" if key and _TYPES[named] == "text" else _TYPES[named]
        return next((each for each, form in _BY_PATH if re.search(form, end)), None)


@dataclass(frozen=True, slots=True)
class _View:
    file: str
    content: Mapping[str, Any]

    @property
    def resource(self) -> str:
        """The type of resource of which a row is made."""
        return as_remark(self._text(self.content, "resource", ""))

    @property
    def one_row(self) -> bool:
        """Whether each person has one row."""
        selects = (select for _, select, _ in self._selects(self.content, "", ""))
        several = any(key in select for select in selects for key in _ROWS)
        return self.resource == "Patient" and not several

    def filters(self) -> Iterator[str]:
        """The conditions that rows meet."""
        for where, each in self._listed(self.content, "where", ""):
            yield self._text(each, "path", where)

    def columns(self) -> Iterator[_ViewColumn]:
        """The columns in their order; of branches of a union those of the first."""
        for where, select, before in self._selects(self.content, "", ""):
            for at, column in self._listed(select, "column", where):
                yield self._column(column, at, before)

    def error(self, where: str, what: str, remedy: str) -> UnreadableDataError:
        """The error that names the place in the file."""
        return UnreadableDataError(
            f"{where or 'the view'}: {what}",
            file=self.file,
            location=where,
            remedy=f"Correct the view: {remedy}; then write its Parquet file anew.",
        )

    def _selects(
        self, part: Mapping[str, Any], where: str, before: str, depth: int = 0
    ) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        """All selections below a part: where they stand, and the path that leads to them."""
        if depth > _MOST_NESTED:
            raise self.error(where, "it is nested too deeply", "fewer selections in selections")
        for at, select in self._listed(part, "select", where):
            yield from self._below(select, at, before, depth)
        union = [*self._listed(part, "unionAll", where)]
        branches = [[*self._below(each, at, before, depth)] for at, each in union]
        names = [
            [c.get("name") for at, each, _ in b for _, c in self._listed(each, "column", at)]
            for b in branches
        ]
        if any(each != names[0] for each in names):
            raise self.error(
                f"{where}.unionAll", "its branches have other columns", "the same in each"
            )
        yield from branches[0] if branches else ()

    def _below(
        self, select: Mapping[str, Any], where: str, before: str, depth: int
    ) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        leading = [self._text(select, key, where) for key in _EACH if key in select]
        path = ".".join(filter(None, (before, *leading)))
        yield where, select, path
        yield from self._selects(select, where, path, depth + 1)

    def _column(self, column: Mapping[str, Any], where: str, before: str) -> _ViewColumn:
        name = normalise_name(self._text(column, "name", where))
        if hidden_character(name) is not None:
            raise self.error(f"{where}.name", "it has an invisible character", "a visible name")
        path = self._text(column, "path", where)
        if column.get("collection") is True:
            raise self.error(
                f"{where}.collection",
                f"the column '{name}' is a list",
                "take one value in its path, as in first(), or one row for each by forEach",
            )
        kind = self._text(column, "type", where) if "type" in column else ""
        kind = re.sub(r"^(.*/)?(System\.)?", "", kind)
        kind = next((each for each in _TYPES if each.lower() == kind.lower()), kind)
        if kind and kind not in _TYPES:
            raise self.error(
                f"{where}.type",
                f"the column '{name}' is a {visible(as_remark(kind))}, which is no single value",
                "name one value in its path, as in value.ofType(Quantity).value, and its type",
            )
        given = column.get("description")
        title = as_remark(given) if isinstance(given, str) else ""
        path = path.removeprefix(f"{self.resource}.")
        whole = ".".join(filter(None, (before, "" if path == "$this" else path)))
        if len(whole) > _LONGEST_PATH:
            raise self.error(f"{where}.path", "the path is too long", "a shorter path")
        return _ViewColumn(where, name, whole, kind, title)

    def _listed(
        self, part: Mapping[str, Any], key: str, where: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        entries = part.get(key, [])
        place_of = f"{where}.{key}" if where else key
        if not isinstance(entries, list):
            raise self.error(place_of, "it is no list", "a list in square brackets")
        for number, each in enumerate(entries):
            if not isinstance(each, dict):
                raise self.error(f"{place_of}[{number}]", "it is no object", "an object in braces")
            yield f"{place_of}[{number}]", each

    def _text(self, part: Mapping[str, Any], key: str, where: str) -> str:
        text = part.get(key)
        if not isinstance(text, str) or not text.strip():
            at = f"{where}.{key}" if where else key
            raise self.error(at, "there is no text", f"a text for {key}")
        return text.strip()


def _column(each: _ViewColumn, resource: str, *, one_row: bool) -> Column | None:
    """The column that a view declares; None where only rows tell its categories."""
    meaning = each.meaning
    root = each.path in ("getResourceKey()", "id") and resource == "Patient"
    if root or (meaning == "key" and _PATIENT.search(each.outline)):
        if one_row:
            return Column(each.name, "ignore", comment=f"{each.said} {_SAID['mine']}")
        said = "It says whose row it is, and stays at the site."
        return Column(each.name, "patient", comment=f"{each.said} {said}")
    if meaning == "truth":
        spelled = (("False", ("false", "0")), ("True", ("true", "1")))
        return Column(
            each.name,
            "discrete",
            categories=("False", "True"),
            synonyms=spelled,
            comment=each.said,
        )
    if meaning in ("number", "whole"):
        said = f"{each.said} {_CODES}" if meaning == "whole" else each.said
        return Column(each.name, "continuous", comment=said)
    if meaning in ("text", None) and not _NAMES_SOMEBODY.search(each.outline):
        return None
    said = _SAID.get(meaning or "", _SAID["person"])
    return Column(each.name, "ignore", comment=f"{each.said} {said}")


def _parsed(path: Path) -> dict[str, Any]:
    with path.open("rb") as opened:
        text = opened.read(MAX_BYTES + 1)
    why = f": it has more than {MAX_BYTES} bytes" if len(text) > MAX_BYTES else ""
    content: object = None
    try:
        content = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        why = why or f": {error}"
    kind = content.get("resourceType", "ViewDefinition") if isinstance(content, dict) else ""
    if why or not isinstance(content, dict) or not str(kind).endswith("ViewDefinition"):
        raise UnreadableDataError(
            f"this is no SQL-on-FHIR ViewDefinition{why}",
            file=str(path),
            remedy="Give the ViewDefinition by which the Parquet file was made, one in each .json.",
        )
    return content
