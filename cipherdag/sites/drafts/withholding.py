"""What of a draft may leave its site: names of columns, and categories that enough rows hold.

A draft is e-mailed. So no date, identifier or free text is among its categories, however many rows
hold it, and no category that few rows hold.

Leaks:
    Names and kinds of columns, which categories enough rows hold, and that others exist.
"""

import re
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from statistics import fmean, pstdev

from cipherdag.errors import UnreadableDataError
from cipherdag.pages.numerals import counted, first_of
from cipherdag.sites.drafts.identifiers import NAMES, is_coded, words_of
from cipherdag.sites.drafts.suspicions import missing_marks
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.column import Column, ColumnKind
from cipherdag.sites.table.names import is_plain_number, sort_categories, truth_value

FEWEST_ROWS = 5
_MONTH = (
    r"(?i:jan(uary|uar|vier)?|feb(ruary|ruar)?|f[eé]v(rier)?|m[aä]r(ch|z|s)?|a[pbv]r(il)?|ma[iy]|"
    r"june?|juni|juin|july?|juli|juillet|aug(ust)?|ao[uû]t|sept?(ember)?|septembre|o[ck]t(ober)?|"
    r"octobre|nov(ember|embre)?|de[cz](ember)?|d[eé]cembre|ene(ro)?|mayo|agosto|dic(iembre)?)"
)
_DATES = (
    r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([ T]\d.*)?|(19|20)\d\d(0[1-9]|1[0-2])[0-3]\d|"
    rf"(19|20)\d\d[-./](0?[1-9]|1[0-2])|\d{{1,2}}[-./](19|20)\d\d|(\d{{1,2}}[ .,/-]*)?{_MONTH}"
    r"[ .,/-]+(\d{1,2}[ .,/-]+)?('?\d\d|(19|20)\d\d)|\d{1,2}:\d\d(:\d\d)?.*|\d{4}-W\d\d.*"
)
_TEXTS = (
    r".*(bemerkung|kommentar|notiz|anmerkung|freitext|free text|comment|remark|remarque|"
    r"observacion|anamnes).*|notes?"
)
_RULES = (  # what, columns of such a name, cells of such a form
    ("dates", r"(date|day) of birth|birth ?date|geburts(datum|tag)|date de naissance|dob", _DATES),
    (
        "identifiers",
        NAMES,
        (
            r".*\S@\S.*|.*\d{7}.*|[+0]\d[\d /().-]{6,}|[^\W\d_]{1,4}[ /_-]?\d{5,}.*|"
            r"(?!\d*000)\d{5,6}|[^\W\d_]\.? ?[^\W\d_]\."
        ),
    ),
    (
        "free text",
        _TEXTS,
        r".{61,}|.*[;\n].*|(\S+ ){8,}.*|(?=(\S+ ){4}).*[^\W\d_]{2}[.!?] [^\W\d_].*",
    ),
)
_NUMBERED = re.compile(r"[^\W\d_]{1,3}[ _-]?(\d{1,4})")
_FEWEST_NUMBERED, _MOST_ROWS, _SPREAD = 8, 30, 0.8
"""Of texts such as S11: fewest that are pseudonyms, and rows of each, their mean and deviation."""
_OF_THINGS = re.compile(
    r"\b(visits?|visite|weeks?|woche|days?|tag|months?|monat|quarters?|quartal|wards?|station|unit|"
    r"room|bed|level|stage|stadium|phase|cycle|zyklus|site|arm|icd|drg|atc)\b"
)
DICTIONARY = frozenset(("Variable / Field Name", "Form Name", "Field Type"))
WITHHELD = "hold some other category"


def shareable(column: Column, values: Mapping[str, int], fewest: int) -> Column:
    """The drafted column without categories that fewer than ``fewest`` rows hold; it says so.

    Numbers of which most are that rare become continuous, if they are not two. A single category
    that is left may be constant.

    Args:
        column: As it was guessed.
        values: How many rows, or patients, hold each value.
        fewest: How many have to hold a category.
    """
    if column.kind != "discrete":
        return column
    column = _without_marks(column)
    private = _private_kind(column) or ("pseudonyms" if _are_pseudonyms(column, values) else "")
    if private:
        said = f"Ignored: these may be {private}, and no value of them is written."
        more = " LOOK: if they are categories that name nobody, set discrete and write them."
        return _with_categories(column, "ignore", (), said + more * (private != "dates"))
    often = tuple(each for each in column.categories if values.get(each, 0) >= fewest)
    if often == column.categories:
        return column
    often = often if column.ordered else sort_categories(often)
    one_of_two = len(often) == 1 and len(column.categories) == len(("no", "yes"))
    rare = 2 * len(often) <= len(column.categories) and not one_of_two
    if rare and all(map(is_plain_number, column.categories)):
        said = (
            f"Numbers, most of which fewer than {fewest} rows hold. If they are codes, set "
            "discrete, with every code."
        )
        return _with_categories(column, "continuous", (), said)
    kind: ColumnKind = "discrete" if often else "ignore"
    return _with_categories(column, kind, often, f"{column.comment} {withheld(fewest)}".strip())


def withheld(fewest: int) -> str:
    """What is said of a column some categories of which are not written."""
    return (
        f"LOOK: fewer than {fewest} rows, or patients, each {WITHHELD}, which is not written. If "
        "it names nobody, add it to `categories`, or under `synonyms` to another one; or write it "
        "under `missing`."
    )


def _with_categories(
    column: Column, kind: ColumnKind, often: tuple[str, ...], comment: str
) -> Column:
    return replace(
        column,
        kind=kind,
        categories=often,
        synonyms=tuple(each for each in column.synonyms if each[0] in often),
        ordered=column.ordered and len(often) > 1,
        allow_constant=column.allow_constant or len(often) == 1,
        comment=comment,
    )


def _without_marks(column: Column) -> Column:
    """The column in which "unknown" is missing, but not Namibia's NA, or NR for no response."""
    marks = [mark for mark in missing_marks(column.categories) if mark.casefold() != "na"]
    if any(truth_value(each) is None for each in {*column.categories} - {*marks}):
        marks = [mark for mark in marks if mark.casefold() != "nr"]
    left = sort_categories({*column.categories} - {*marks})  # of two the event stands last
    if not marks or column.ordered or len(left) <= 1:
        return column
    said = f"LOOK: {' or '.join(map(repr, marks))} is taken as missing; undo it if it is none."
    return replace(
        column,
        categories=left,
        missing=(*column.missing, *marks),
        comment=f"{column.comment} {said}".strip(),
    )


def _private_kind(column: Column) -> str:
    """What a column holds that no draft may: dates, identifiers or free text; else empty."""
    if all(truth_value(each) is not None for each in column.categories):
        return ""
    name = words_of(column.name)
    coded = is_coded(name)
    for what, names, cells in _RULES:
        form = re.compile(cells, re.DOTALL)
        if not coded and re.fullmatch(names, name):
            return what
        exempt = what == "identifiers" and coded
        if not exempt and any(form.fullmatch(each) for each in column.categories):
            return what
    return ""


def _are_pseudonyms(column: Column, values: Mapping[str, int]) -> bool:
    """Whether texts look like S01 to S12: numbered without large gaps, with few rows each, alike.

    Codes such as E11 have large gaps, and some of them far more rows than others.
    """
    name = words_of(column.name)
    numbers = [int(each[1]) for each in map(_NUMBERED.fullmatch, column.categories) if each]
    if len(numbers) < max(len(column.categories), _FEWEST_NUMBERED):
        return False
    rows = [values.get(each, 0) for each in column.categories]
    dense = max(numbers) - min(numbers) < 3 * len(numbers)
    even = fmean(rows) < _MOST_ROWS and pstdev(rows) < _SPREAD * fmean(rows)
    return dense and even and not (is_coded(name) or _OF_THINGS.search(name))


def content(columns: Iterable[Column], fewest: int, declared: Container[str] = ()) -> list[str]:
    """What a draft holds, and what it does not, in sentences for who is about to send it.

    Categories of columns that are ``declared`` are those of a document.
    """
    listed = [*columns]
    given = [
        each.name
        for each in listed
        if (each.categories or "categories = [" in each.comment) and each.name not in declared
    ]
    stated = [each.name for each in listed if each.categories and each.name in declared]
    hidden = [column.name for column in listed if WITHHELD in column.comment]
    said = f"This draft holds the names of {counted(len(listed), 'column')}"
    said += f", and categories of {first_of(given)}" if given else ""
    lines = [
        f"{said}. At least {fewest} rows of all files together hold each category, of as many "
        "patients where a column says or may say whose they are. None looks like a date, an "
        "identifier or free text."
        if given
        else f"{said}, and no value."
    ]
    if stated:
        lines.append(f"Categories of {first_of(stated)} come from the document, and not from rows.")
    if hidden:
        lines.append(f"Fewer rows hold other categories of {first_of(hidden)}: not written.")
    return lines


def refuse_values_as_names(tallies: Mapping[str, ColumnTally], file: str) -> None:
    """Refuse a table whose first row holds values, since names of columns are written.

    Raises:
        UnreadableDataError: Most names are numbers, dates, or values of their columns.
    """
    numbers = [name for name in tallies if _is_value(name)]
    if numbers and 2 * sum(_holds(tally, name) for name, tally in tallies.items()) > len(tallies):
        raise UnreadableDataError(
            "the first row seems to hold values, and no names of columns",
            file=file,
            remedy="Write a row of names above it in the file.",
        )


def refuse_documents(names: Collection[str], file: str) -> None:
    """Refuse REDCap's data dictionary, which is no table of persons.

    Raises:
        UnreadableDataError: The names are those of a dictionary.
    """
    if DICTIONARY.issubset(names):
        raise UnreadableDataError(
            "this is a data dictionary of REDCap, and holds no row of a person",
            file=file,
            remedy=f"Run `cipherdag schema infer --declared {file}`, with files of data behind it.",
        )


def _holds(tally: ColumnTally, name: str) -> bool:
    return _is_value(name) or name in tally.values()


def _is_value(name: str) -> bool:
    if is_plain_number(name):
        return re.fullmatch(r"(19|20)\d\d", name) is None  # a column of a year
    return re.fullmatch(_DATES, name) is not None
