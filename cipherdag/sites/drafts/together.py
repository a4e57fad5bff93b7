"""One draft of several files whose headers differ: a table of columns, matches and decisions."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from cipherdag.errors import DataError, UnreadableDataError
from cipherdag.sites.drafts.differences import Difference
from cipherdag.sites.drafts.documents.declarations import NOTHING, Declaration, joined
from cipherdag.sites.drafts.documents.fhir_views import read_view
from cipherdag.sites.drafts.documents.redcap import read_dictionary
from cipherdag.sites.drafts.headers import Header, Match, as_figure, matches
from cipherdag.sites.drafts.inference import (
    Draft,
    infer_columns,
    infer_schema,
    looked_through,
)
from cipherdag.sites.drafts.merging import TAKEN_FOR_ONE, merge_schemas
from cipherdag.sites.drafts.spellings import grouped, reading_of
from cipherdag.sites.drafts.tally import Numbers, Values, without_lacked
from cipherdag.sites.drafts.withholding import WITHHELD, shareable, withheld
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.file_description import AS_USUAL, FileDescription
from cipherdag.sites.table.names import is_plain_number
from cipherdag.sites.table.reading import open_table
from cipherdag.sites.table.schema import Schema

PARTS = (0.05, 0.5, 0.95)
MOST_LETTERS = 24
NAMES_SOMEBODY = ("identifier", "birth", "remark")


def read_declarations(documents: Sequence[Path]) -> Declaration:
    """What data dictionaries of REDCap, and SQL-on-FHIR views (.json), declare of columns.

    Raises:
        UnreadableDataError: One is neither, contradicts itself, or contradicts another.
    """
    reading = {
        str(path): read_view if path.suffix.lower() == ".json" else read_dictionary
        for path in documents
    }
    declared = {}
    for file, read in reading.items():
        try:
            declared[file] = read(Path(file))
        except OSError as error:
            what = f"cannot be read: {error.strerror or 'it cannot be opened'}"
            raise UnreadableDataError(what, file=file) from error
    return joined(declared)


def draft_files(
    files: Sequence[Path], min_cell_size: int, declared: Declaration = NOTHING
) -> tuple[Schema, tuple[Difference, ...], list[str]]:
    """A schema for all files, what differs between them, and a table of columns by file.

    Where columns are called, or categories spelt, differently they are matched as in `headers`, and
    renamed in ``[sources]`` of the schema. What people must decide is ignored until they have, and
    a comment says what to write. A file without a column that others have is `without_lacked`.

    Raises:
        DataError: See `infer_schema`.
        SchemaError: If no column is left.
    """
    if declared:
        made = infer_schema(files, min_cell_size=min_cell_size, declared=declared)
        return made, (), []
    called = [path.name for path in files]
    if len({*called}) < len(called) or len(called) == 1:
        return infer_schema(files, min_cell_size=min_cell_size), (), []
    spelt = False
    if not _headers_differ(files):
        schema = infer_schema(files, min_cell_size=min_cell_size)
        spelt = any(map(_spelt_twice, schema.columns))
        if not spelt:
            return schema, (), []
    drafts = {
        path.name: infer_columns([path], overlapping=True, fewest=min_cell_size) for path in files
    }
    matched = matches({site: _headers(draft) for site, draft in drafts.items()})
    table = [*_table(matched, called)]
    if spelt or any(each.renamed for each in matched):
        schema, runnable, differences = _merged(matched, drafts, min_cell_size)
        return looked_through(schema, runnable, files), differences, table
    lacking = any(len(each.headers) < len(called) for each in matched)
    return infer_schema(files, min_cell_size=min_cell_size), (), table if lacking else []


def _spelt_twice(column: Column) -> bool:
    """Whether two categories are one, spelt differently: "F" and "f", or "yes" and "True"."""
    categories = column.categories
    groups = grouped(categories, {}, reads=reading_of([categories], most=len(categories)))
    return any(len(group) > 1 for group in groups)


def _headers_differ(files: Sequence[Path]) -> bool:
    """Whether files name other columns, or one cannot be opened as it stands; reads no row."""
    named = set()
    for path in files:
        try:
            with open_table(path) as table:
                named.add(frozenset(table.names))
        except DataError:
            return len(files) > 1
    return len(named) > 1


def _headers(draft: Draft) -> list[Header]:
    """The columns of a table without dates, identifiers and free text among categories."""
    return [
        Header(_guess(column, draft.values[column.name]), _quantiles(draft.values[column.name]))
        for column in draft.columns
    ]


def _guess(column: Column, values: Values) -> Column:
    if Header(column).concept in NAMES_SOMEBODY:
        return replace(column, kind="ignore", categories=(), ordered=False)
    return column if isinstance(values, Numbers) else shareable(column, values, 1)


def _quantiles(values: Values) -> tuple[float, ...]:
    """The least, middle and greatest of most numbers; empty where cells are mostly none."""
    if isinstance(values, Numbers):
        distinct, counts = values.distinct, values.counts
    else:
        numbers = sorted(
            (float(each), times) for each, times in values.items() if is_plain_number(each)
        )
        if 2 * sum(times for _, times in numbers) <= values.total() - values[""]:
            return ()
        distinct, counts = (np.array(each) for each in zip(*numbers, strict=True))
    places = np.searchsorted(counts.cumsum(), np.array(PARTS) * counts.sum())
    return tuple(map(float, distinct[places]))


def _merged(
    matched: Sequence[Match], drafts: Mapping[str, Draft], fewest: int
) -> tuple[Schema, list[Column], tuple[Difference, ...]]:
    """The shared draft, its columns as all values can be read by them, and the differences."""
    here = {site: [each for each in matched if site in each.headers] for site in drafts}
    quartiles = {
        s: {m.headers[s].name: m.headers[s].quartiles for m in of} for s, of in here.items()
    }

    def without(column: Column, rare: AbstractSet[str]) -> Column:
        often = {text: sys.maxsize for text in column.categories if text not in rare}
        return shareable(column, often, fewest) if rare else column

    def merged(rare: Mapping[str, AbstractSet[str]]) -> tuple[Schema, tuple[Difference, ...]]:
        columns = {
            site: [without(_column(each, site, drafts[site]), rare[each.name]) for each in of]
            for site, of in here.items()
        }
        schemas = {site: Schema(tuple(each)) for site, each in columns.items()}
        return merge_schemas(schemas, quartiles, complete=True)

    by_name, called = {match.name: match for match in matched}, [*drafts]
    rare = {match.name: _rare(match, drafts, fewest) for match in matched}
    whole, _ = merged({name: frozenset() for name in rare})
    schema, differences = merged(rare)
    lacked = {
        match.name: [k for k, site in enumerate(called, 1) if site not in match.headers]
        for match in matched
        if len(match.headers) < len(called)
    }
    runnable = [without_lacked(column, lacked, called) for column in whole.columns]
    columns = (
        _shared(each, by_name[each.name], drafts, fewest, rare[each.name])
        for each in schema.columns
    )
    shared = tuple(without_lacked(column, lacked, called) for column in columns)
    sources = {site: _description(matched, site, draft) for site, draft in drafts.items()}
    sources = {site: each for site, each in sources.items() if each != AS_USUAL}
    said = tuple(each for each in differences if not each.remedy.startswith(TAKEN_FOR_ONE))
    return replace(schema, columns=shared, sources=sources), runnable, said


def _rows(match: Match, drafts: Mapping[str, Draft]) -> Counter[str]:
    """How many rows of all tables hold each text of a column."""
    rows: Counter[str] = Counter()
    for site, header in match.headers.items():
        values = drafts[site].values[header.name]
        rows.update({} if isinstance(values, Numbers) else values)
    return rows


def _rare(match: Match, drafts: Mapping[str, Draft], fewest: int) -> frozenset[str]:
    """The categories that fewer rows of all tables hold, however they are spelt."""
    rows = _rows(match, drafts)
    listed = [_column(match, site, drafts[site]).categories for site in match.headers]
    every = sorted({text for texts in listed for text in texts})
    rare: set[str] = set()
    for _ in range(2):  # words for true, female and so on count together once all others are gone
        reads = reading_of([[text for text in texts if text not in rare] for texts in listed])
        groups = grouped(every, {}, reads=reads)
        rare = {t for each in groups if sum(rows[text] for text in each) < fewest for t in each}
    ranks = {as_figure(text) for text in every if text not in rare}
    return frozenset(text for text in rare if as_figure(text) not in ranks)


def _column(match: Match, site: str, draft: Draft) -> Column:
    """The column of a table; that of another with its value where it holds one alone."""
    said = [each.column for each in match.headers.values() if each.column.kind != "ignore"]
    header = match.headers[site]
    if not said or header.name not in draft.constant:
        return header.column
    column = replace(said[0], name=header.name, allow_constant=True)
    values = draft.values[header.name]
    texts = () if isinstance(values, Numbers) else values
    one = tuple(each for each in texts if each and each not in header.column.missing)
    return replace(column, categories=one, ordered=False) if column.categories and one else column


def _shared(
    column: Column,
    match: Match,
    drafts: Mapping[str, Draft],
    fewest: int,
    rare: AbstractSet[str],
) -> Column:
    """The column without categories that few rows of all tables hold, and with its comment."""
    looks: dict[str, list[str]] = {}
    reasons = []
    spelled = {text: each for each, texts in column.synonyms for text in texts}
    for site, header in match.headers.items():
        (shared,) = (each for each in drafts[site].shared if each.name == header.name)
        reason, *odd = shared.comment.split("LOOK: ")
        reasons.append(reason.strip())
        for each in odd:
            if WITHHELD not in each:
                looks.setdefault(each.strip(), []).append(site)
    rows: Counter[str] = Counter()
    for text, times in _rows(match, drafts).items():
        rows[spelled.get(text, text)] += times
    if column.kind != "ignore":
        column = replace(column, comment=f"{match.reasons[0].upper()}{match.reasons[1:]}.")
        column = shareable(column, rows, fewest) if fewest else column
    decided = column.kind == "discrete" or "categories = [" in column.comment
    if rare and decided and WITHHELD not in column.comment:
        column = replace(column, comment=f"{column.comment} {withheld(fewest)}")
    said = [f"LOOK, in {' and '.join(sites)}: {each}" for each, sites in looks.items()]
    lacking = ", ".join(f'"{s.split(".")[0]}"' for s in drafts if s not in match.headers)
    if lacking and column.comment.startswith("DECIDE"):
        said = [f"And if others did not measure it, write unmeasured_at = [{lacking}].", *said]
    return replace(column, comment=" ".join([column.comment or min(reasons), *said]))


def _description(matched: Sequence[Match], site: str, draft: Draft) -> FileDescription:
    rename = {match.renamed[site]: match.name for match in matched if site in match.renamed}
    return msgspec.structs.replace(draft.written.get(site, AS_USUAL), rename=rename)


def _table(matched: Sequence[Match], called: Sequence[str]) -> Iterator[str]:
    """Columns by file, a line for each."""
    rows = [["column", *called, "why"]]
    for match in matched:
        names = (match.headers[site].name if site in match.headers else "-" for site in called)
        rows.append([match.name, *names, match.reasons if match.renamed else ""])
    cut = [[*(_cut(each) for each in row[:-1]), row[-1]] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    for row in cut:
        yield "  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True)).rstrip()


def _cut(name: str) -> str:
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 3]}..."
