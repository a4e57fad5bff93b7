"""A REDCap data dictionary as columns of a schema: what an export of the project holds.

The dictionary is the CSV that REDCap exports, or what its programming interface calls metadata.
Categories are the labels of choices, and their codes are synonyms: an export of either is read.
A checkbox becomes a column for each choice, `field___code`.

Source: "Data dictionary", help of REDCap, https://projectredcap.org; names of checkbox columns are
those of its exports (a minus or point becomes "_", and other signs are left out).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cipherdag.errors import UnreadableDataError
from cipherdag.graphs.relations import Relation
from cipherdag.pages.numerals import first_of
from cipherdag.sites.drafts.documents.declarations import (
    DATES,
    MOST_LETTERS,
    Declaration,
    as_remark,
    plain_text,
)
from cipherdag.sites.drafts.guessing import as_written
from cipherdag.sites.drafts.suspicions import missing_marks
from cipherdag.sites.table.column import Column, Listed
from cipherdag.sites.table.file_description import DescribedFile, undeclared
from cipherdag.sites.table.names import (
    first_repeat,
    hidden_character,
    normalise_value,
    parse_number,
    truth_value,
    visible,
)
from cipherdag.sites.table.reading import TableSource, open_table

_HEADER = {  # how headers begin, in letters alone, of the dictionary and of the interface
    "name": ("variablefieldname", "fieldname"),
    "form": ("formname",),
    "type": ("fieldtype",),
    "label": ("fieldlabel",),
    "choices": ("choices", "selectchoices"),
    "validation": ("textvalidationtype",),
    "least": ("textvalidationmin",),
    "greatest": ("textvalidationmax",),
    "identifier": ("identifier",),
    "branching": ("branchinglogic",),
}
_NEEDED = ("name", "form", "type", "choices", "validation", "identifier")
_SORTS = ("text", "notes", "checkbox", "yesno", "truefalse", "calc", "slider", "file", "sql")
_TYPES = {sort: sort for sort in _SORTS} | dict.fromkeys(("radio", "dropdown"), "choice")
_TYPES |= {"select": "choice", "textarea": "notes", "signature": "file", "descriptive": ""}
_UNREAD = {
    "notes": "free text",
    "file": "a file",
    "sql": "its choices are not in the dictionary, but come from a query of the project",
}
_WORDS = {"yesno": ("No", "Yes"), "truefalse": ("False", "True")}
_CALCULATED = 'Computed. If it holds codes, set kind = "discrete", and every code in `categories`.'
_NUMBER = re.compile(r"(int|integer|float|number(_[1-9]dp)?)(_comma_decimal)?")
_WHOLE = ("int", "integer")
_MARK = re.compile(r"-[0-9]+|([789])\1+")  # codes that are mostly given to what is no answer
_COMMA = " LOOK: written with a decimal comma: declare decimal for the file."
_DATE = re.compile(r"(date|datetime|datetime_seconds)(_(ymd|mdy|dmy))?")
_CONTACT = re.compile(r"(email|phone|zip|postal|ssn|v?mrn|national|social).*")
_BOUND = re.compile(r"\[.*\]|today|now")
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_REFERENCE = re.compile(r"\[([a-z][a-z0-9_]*)(?:\(([^()\[\]]*)\))?\]")
_ELSEWHERE = re.compile(r"\]\s*\[|\[[^\[\]:-]*[-:]|\b(today|now)\b", re.IGNORECASE)
"""In a calculation: fields of other events or instances, and the day on which it is looked at."""
_SLIDER = (0.0, 100.0)
_MINUS = str.maketrans("-.", "__")
_KEY = (
    "The record. LOOK: if a person has several rows, as with rows_of = an instrument, write kind = "
    '"patient". If no person has two rows, as with rows_of = "records", write rows = "persons" at '
    "the top of schema.toml."
)
_INSTRUMENT = (
    "Ignored. LOOK: a row of a repeating instrument holds the columns of that instrument, and no "
    "others. Declare rows_of under [source] of site.toml, so that rows carry their record's, too."
)
_STATE = "Ignored: whether the form is complete, or when it was filled in."
_OF_EXPORTS = {
    "redcap_event_name": "Ignored: the event of the row. It has no values of other events' forms.",
    "redcap_repeat_instrument": _INSTRUMENT,
    "redcap_repeat_instance": "Ignored: which time the instrument was filled in.",
    "redcap_data_access_group": "Ignored: who may see the row.",
    "redcap_survey_identifier": "Ignored: an identifier.",
}
"""Columns that exports have besides those of the dictionary."""
_HEADER_BYTES = 4096
_FEWEST = 2  # choices that tell anything
_ANEW = "or export the dictionary anew from REDCap."


def read_dictionary(path: Path) -> Declaration:
    """The columns of the exports of a project.

    Raises:
        UnreadableDataError: It is no dictionary, or a cell contradicts REDCap's rules; its row and
            column are named, and what to do.
    """
    _, fields = as_written(path, _fields, lambda _: ())
    columns: dict[str, Column] = {}
    whose: dict[str, _Field] = {}
    for number, each in enumerate(fields):
        made = [Column(each.name, "ignore", comment=_KEY)] if number == 0 else [*_columns(each)]
        for column in made:
            if column.name in columns:
                first = whose[column.name].row
                raise each.error("name", f"'{column.name}' is a column of {first}, too")
            columns[column.name], whose[column.name] = column, each
    relations = tuple(_computed(each, columns) for each in fields if each.kind == "calc")
    forms = {each["form"] for each in fields if re.fullmatch("[a-z0-9_]+", each["form"])}
    of_forms = (f"{form}_{what}" for form in sorted(forms) for what in ("complete", "timestamp"))
    for name, said in {**_OF_EXPORTS, **dict.fromkeys(of_forms, _STATE)}.items():
        columns.setdefault(name, Column(name, "ignore", comment=said))
    return Declaration(columns, relations=tuple(each for each in relations if each is not None))


def _positions(names: Sequence[str]) -> dict[str, int]:
    letters = [re.sub(r"[^a-z]", "", name.lower()) for name in names]
    return {
        key: position
        for key, beginnings in _HEADER.items()
        for position, name in reversed([*enumerate(letters)])
        if name.startswith(beginnings)
    }


@dataclass(frozen=True, slots=True)
class _Field:
    """A row of the dictionary: its cells by what they are, trimmed, and what headers call these."""

    cells: Mapping[str, str]
    headers: Mapping[str, str]
    row: str
    file: str

    def __getitem__(self, key: str) -> str:
        return self.cells.get(key, "")

    @property
    def name(self) -> str:
        """REDCap makes capitals small."""
        return self["name"].lower()

    @property
    def kind(self) -> str:
        """What sort of field it is; empty for text on the form that no export has."""
        return _TYPES[self["type"].lower()]

    def error(self, key: str, what: str, remedy: str = "") -> UnreadableDataError:
        """The error that names the cell."""
        return UnreadableDataError(
            f"{self.row}, field '{visible(self.name)}': {what}",
            file=self.file,
            column=self.headers[key],
            location=self.row,
            remedy=f"Correct the cell{f': {remedy};' if remedy else ','} {_ANEW}",
        )


def _fields(source: TableSource) -> list[_Field]:
    """The fields of a dictionary, in its order; blank rows are left out."""
    _refuse_delimiter(source)
    with open_table(source) as table:
        positions = _positions(table.names)
        lacking = [key for key in _NEEDED if key not in positions]
        if lacking:
            wanted = ", ".join(f"'{_HEADER[key][0]}'" for key in lacking)
            raise UnreadableDataError(
                f"this is no data dictionary of REDCap: no header begins with {wanted}, blanks and "
                "signs apart",
                remedy="Give the CSV of 'Download the current Data Dictionary' in REDCap, or a "
                "SQL-on-FHIR ViewDefinition as .json.",
            )
        headers = {key: table.names[position] for key, position in positions.items()}
        fields, rows = [], 0
        for chunk in table.chunks:
            for row in range(len(chunk[0])):
                cells = {key: chunk[p].as_text().at(row).strip() for key, p in positions.items()}
                # R writes an empty cell as NA
                cells = {key: "" if cell == "NA" else cell for key, cell in cells.items()}
                if any(cells.values()):
                    where = table.location_of(rows + row)
                    fields.append(_checked(_Field(cells, headers, where, table.file)))
            rows += len(chunk[0])
        if not fields:
            raise UnreadableDataError("it has no field", remedy=f"Give another, {_ANEW}")
    return fields


def _checked(each: _Field) -> _Field:
    if _FIELD.fullmatch(each.name) is None:
        what = "is no name of a field" if each.name else "the field has no name"
        raise each.error("name", what, "small letters, digits and _, the first a letter")
    if each["type"].lower() not in _TYPES:
        what = f"'{visible(each['type'])}' is no type of field"
        raise each.error("type", what, f"one of {', '.join(_TYPES)}")
    if each["identifier"] and truth_value(each["identifier"]) is None:
        raise each.error("identifier", "neither y nor empty", "y if the field names somebody")
    return each


def _columns(each: _Field) -> Iterator[Column]:
    """The columns that an export has for a field."""
    label = as_remark(plain_text(each["label"]))
    said = f"'{label}'. " if label else ""
    if each["branching"]:
        asked = as_remark(each["branching"])
        said += f"Asked only if {asked}, and missing elsewhere. "
    if each.kind == "checkbox":
        columns = [*_boxes(each)]
    elif each.kind:
        columns = [_column(each)]
    else:
        return
    if truth_value(each["identifier"]):
        marked = "Ignored: marked as an identifier."
        columns = [Column(column.name, "ignore", comment=marked) for column in columns]
    for column in columns:
        yield replace(column, comment=f"{said}{column.comment}".strip())


def _column(each: _Field) -> Column:
    """The column of a field that has one."""
    if each.kind in _UNREAD:
        return _ignored(each, _UNREAD[each.kind])
    if each.kind in _WORDS:
        return _two(each.name, _WORDS[each.kind], (("0",), ("1",)), "")
    if each.kind == "choice":
        return _discrete(each, _choices(each))
    if each.kind == "calc":
        return Column(each.name, "continuous", comment=_CALCULATED)
    if each.kind == "slider":
        return replace(_number(each, _SLIDER), comment="A slider.")
    return _text(each)


def _text(each: _Field) -> Column:
    """The column of a field of text, by its validation."""
    form = each["validation"].lower()
    if _NUMBER.fullmatch(form):
        column = _number(each)
        said = "Whole numbers." if form in _WHOLE else "Numbers."
        said += _COMMA if form.endswith("comma_decimal") else ""
        return replace(column, comment=f"{said} {column.comment}".strip())
    if _DATE.fullmatch(form):
        return Column(each.name, "ignore", comment=DATES)
    why = f"text of the form '{as_remark(form)}'" if form else "free text"
    why = "times of day" if form.startswith("time") else why
    if _CONTACT.fullmatch(form):
        why = f"it names somebody, or where they live ('{as_remark(form)}')"
    return _ignored(each, why)


def _ignored(each: _Field, why: str) -> Column:
    return Column(each.name, "ignore", comment=f"Ignored: {why}; no value of it is written.")


def _number(each: _Field, usual: tuple[float, ...] = ()) -> Column:
    """A column of numbers with the limits of the field, where it has both."""
    limits = [_limit(each, key) for key in ("least", "greatest")]
    given = [each[key] for key in ("least", "greatest")]
    if usual:
        limits = [old if new is None else new for old, new in zip(usual, limits, strict=True)]
    low, high = limits
    if low is not None and high is not None:
        if low > high:
            raise each.error("least", "it is greater than the maximum", "the lesser number")
        if low < high:
            return Column(each.name, "continuous", plausible=(low, high))
    shown = " to ".join(as_remark(text) or "?" for text in given)
    said = f"LOOK: REDCap's limits are {shown}; write plausible = [least, greatest]."
    return Column(each.name, "continuous", comment=said if any(given) else "")


def _limit(each: _Field, key: str) -> float | None:
    """The limit that a cell writes; None where there is none, or it is another field's value."""
    text = each[key]
    if not text or _BOUND.fullmatch(text.lower()):
        return None
    number = parse_number(text.replace(",", ".") if "comma" in each["validation"] else text)
    if number is None:
        raise each.error(key, f"'{visible(text)}' is no number", "a number, or nothing")
    return number


def _choices(each: _Field) -> list[tuple[str, str]]:
    """The codes and labels of a field, in its order."""
    text = each["choices"]
    if not text:
        raise each.error("choices", "a field of choices has none", "as in 1, Yes | 0, No")
    listed = text.split("|") if "|" in text else re.split(r"\\n|\n", text)
    choices = []
    for part in filter(None, map(str.strip, listed)):
        code, comma, label = part.partition(",")
        code = normalise_value(code)
        if not comma or not code or hidden_character(code) is not None:
            lacking = "visible code" if comma else "comma between code and label"
            what = f"the choice '{visible(as_remark(part))}' has no {lacking}"
            raise each.error("choices", what, "as in 1, Yes | 0, No")
        choices.append((code, normalise_value(as_remark(plain_text(label), 10 * MOST_LETTERS))))
    repeat = first_repeat([code for code, _ in choices])
    if repeat is not None:
        raise each.error("choices", f"two choices have the code '{choices[repeat[0]][0]}'")
    return choices


def _discrete(each: _Field, choices: Sequence[tuple[str, str]]) -> Column:
    """The column of a field of which one choice is taken."""
    labels = [label for _, label in choices]
    marks = {label for label in missing_marks(labels) if label.casefold() != "na"}
    marked = [each for each in choices if each[1] in marks]
    left = [each for each in choices if each[1] not in marks]
    if len(left) < _FEWEST:
        marked, left = [], [*choices]
    missing = tuple(text for pair in marked for text in pair)
    if len(left) < _FEWEST:
        return Column(each.name, "ignore", comment="Ignored: a single choice tells nothing.")
    said = ""
    if marked:
        said = f"LOOK: {first_of([label for _, label in marked])} is taken as missing."
    if odd := [label or code for code, label in left if _MARK.fullmatch(code)]:
        said += f" LOOK: {first_of(odd)}: write it and its code under `missing` if it is no answer."
    if len(left) > _FEWEST:
        said += " If the order of `categories` means something, set ordered = true."
    codes, texts = zip(*left, strict=True)
    if _are_names(left, missing):
        synonyms: Listed = tuple((text, (code,)) for code, text in left if code != text)
        names: tuple[str, ...] = texts
    else:
        listed = ", ".join(f"{code} '{as_remark(text, MOST_LETTERS)}'" for code, text in left)
        said = f"Codes: {listed}. {said}"
        names, synonyms = codes, ()
        missing = tuple(code for code, _ in marked)
    drafted = Column(each.name, "discrete", categories=names, missing=missing, synonyms=synonyms)
    return replace(drafted, comment=said.strip())


def _are_names(choices: Sequence[tuple[str, str]], missing: Sequence[str]) -> bool:
    """Whether labels can stand for the choices: short, all different, and no other's code."""
    codes, labels = dict(choices), [label for _, label in choices]
    return (
        all(label and len(label) <= MOST_LETTERS for label in labels)
        and len({*labels}) == len(labels)
        and all(label not in codes or codes[label] == label for label in labels)
        and {*labels, *codes}.isdisjoint(missing)
    )


def _boxes(each: _Field) -> Iterator[Column]:
    """The columns of a checkbox field: one for each of its choices."""
    for code, label in _choices(each):
        name = _box(each.name, code)
        if name == _box(each.name, ""):
            what = f"exports have no column for the code '{visible(code)}'"
            raise each.error("choices", what, "letters and digits in codes of a checkbox")
        said = f"The box '{as_remark(label, MOST_LETTERS)}': No, too, where the form is empty."
        yield _two(name, ("No", "Yes"), (("0", "Unchecked"), ("1", "Checked")), said)


def _box(field: str, code: str) -> str:
    """The column that exports have for a choice of a checkbox."""
    return f"{field}___{re.sub(r'[^a-z0-9_]', '', code.lower().translate(_MINUS))}"


def _two(name: str, words: tuple[str, str], others: Sequence[tuple[str, ...]], said: str) -> Column:
    synonyms = tuple(zip(words, others, strict=True))
    return Column(name, "discrete", categories=words, synonyms=synonyms, comment=said)


def _computed(each: _Field, columns: Mapping[str, Column]) -> Relation[str] | None:
    """That a field follows from others, where all of these are columns of the same row."""
    formula = each["choices"]
    if _ELSEWHERE.search(formula):
        return None
    names = (_box(field, code) if code else field for field, code in _REFERENCE.findall(formula))
    given = tuple(dict.fromkeys(names))
    used = (each.name, *given)
    taking_part = all(name in columns and columns[name].kind != "ignore" for name in used)
    if not given or each.name in given or not taking_part:
        return None
    return Relation("function", used)


def _refuse_delimiter(source: TableSource) -> None:
    """Say what delimiter to declare: the header has commas in quotes, whatever separates it."""
    if isinstance(source, DescribedFile) and source.description.delimiter == ",":
        with source.path.open("rb") as opened:
            header = opened.readline(_HEADER_BYTES)
        for mark in (";", "\t"):
            if header.count(mark.encode()) > header.count(b","):
                what = f"the columns are separated by {mark!r}, not by commas"
                raise undeclared(what, source.path.name, delimiter=mark)
