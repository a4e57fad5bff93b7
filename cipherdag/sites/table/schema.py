"""What the columns of a study are: the same ``schema.toml`` at every site.

The schema fixes everything that must not be guessed from one site's data: which columns take part,
of which kind they are, which categories or bins they have and what stands for a missing value.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from cipherdag.errors import SchemaError
from cipherdag.graphs.relations import FORMS, LEFT_OUT, Determined, Relation
from cipherdag.sites.strict_toml import check_keys, convert, parse
from cipherdag.sites.table.column import FLAGS, MARKS, NO_VARIABLE, Column
from cipherdag.sites.table.file_description import AS_USUAL, DescribedFile, FileDescription
from cipherdag.sites.table.names import (
    check_column,
    first_repeat,
    normalise_name,
    sort_names,
    visible,
)

Given = TypeVar("Given")
_COMMENT_WIDTH = 96
PERSONS = "persons"  # what `Schema.rows` is where each person has one row
_TEXT_KEYS = ("unit", "date")
_TABLE_KEYS = ("synonyms", "concepts")
_BARE_KEY = re.compile("[A-Za-z0-9_-]+")
_DRAFT_IT = "Draft a schema from it with `cipherdag schema infer`, and give that."
_SOURCES = """\
# How files of these names are written; not compared. [source] of site.toml outranks it.
"""


@dataclass(frozen=True)
class Schema:
    """The columns of a study, in the order of the file.

    Attributes:
        columns: All columns, ignored ones included; at least one is a variable.
        relations: Which of them determine one another, by name.
        comment: What a draft says of the rows, for a person to read.
        sources: How files are written, by their names, where no other description is given.
        rows: "persons" where the site says that no person has two rows; else empty.

    Raises:
        SchemaError: Two names are equal after normalisation, no column is a variable, two columns
            are of kind "intervention" or "patient", or a relation names what is no column.
    """

    columns: tuple[Column, ...]
    relations: tuple[Relation[str], ...] = ()
    comment: str = field(default="", compare=False)
    sources: Mapping[str, FileDescription] = field(default_factory=dict, compare=False)
    rows: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        repeat = first_repeat(names)
        if repeat is not None:
            raise SchemaError(
                "the name is given twice (white space and Unicode form do not count)",
                column=names[repeat[0]],
            )
        if not self.names:
            raise SchemaError("no column takes part in the study")
        for kind in MARKS:
            marks = [column.name for column in self.columns if column.kind == kind]
            if len(marks) > 1:
                raise SchemaError(f"'{marks[0]}' already names the {kind}s", column=marks[1])
        if self.rows not in ("", PERSONS) or (self.rows and self.patient is not None):
            raise SchemaError(f'rows is "{PERSONS}", and then no column is of kind "patient"')
        for name in (name for relation in self.relations for name in relation.columns):
            if name not in names:
                raise SchemaError("a relation names this column, which is none", column=name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the variables, sorted by code point: position = identifier."""
        return sort_names(column.name for column in self.columns if column.kind not in NO_VARIABLE)

    @cached_property
    def intervention(self) -> Column | None:
        """The column that names the intervened variables of each row, if there is one."""
        return next((column for column in self.columns if column.kind == "intervention"), None)

    @cached_property
    def patient(self) -> Column | None:
        """The column that says whose visit a row is, if there is one; it is the site's alone."""
        return next((column for column in self.columns if column.kind == "patient"), None)

    @property
    def answered(self) -> bool:
        """Whether the site has said if persons have several rows."""
        return self.patient is not None or self.rows == PERSONS

    @cached_property
    def variables(self) -> tuple[Column, ...]:
        """The columns that take part, in the order of ``names``."""
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.names)

    @property
    def ignored(self) -> tuple[str, ...]:
        """The names of the columns that take no part."""
        return tuple(column.name for column in self.columns if column.kind == "ignore")

    @property
    def label_positions(self) -> tuple[int, ...]:
        """Positions in ``variables`` of those marked as labels, ascending."""
        return tuple(v for v, column in enumerate(self.variables) if column.label)

    @cached_property
    def applied(self) -> tuple[Relation[str], ...]:
        """The relations all of whose columns take part, in one order."""
        applied = {each for each in self.relations if {*self.names}.issuperset(each.columns)}
        return tuple(sorted(applied, key=lambda each: (each.form, each.columns)))

    @cached_property
    def determined(self) -> Determined:
        """The determined variables by position."""
        positions = {name: position for position, name in enumerate(self.names)}
        return Determined(tuple(each.over(positions) for each in self.applied))

    def unmeasured_at(self, site: str | None) -> tuple[int, ...]:
        """Positions in ``variables`` of those that a site did not measure, ascending."""
        return tuple(v for v, each in enumerate(self.variables) if site in each.unmeasured_at)

    @property
    def lacking(self) -> dict[str, tuple[int, ...]]:
        """The sites that did not measure some variable, and `unmeasured_at` of each."""
        sites = {site for variable in self.variables for site in variable.unmeasured_at}
        return {site: self.unmeasured_at(site) for site in sorted(sites)}

    def described(self, source: Given) -> Given | DescribedFile:
        """A file with the description that the schema has for its name; all else as it is given."""
        if not isinstance(source, str | os.PathLike | DescribedFile):
            return source
        file = source if isinstance(source, DescribedFile) else DescribedFile(Path(source))
        if file.description != AS_USUAL or file.path.name not in self.sources:
            return source
        return replace(file, description=self.sources[file.path.name])

    def canonical(self) -> bytes:
        """The canonical bytes that sites must agree on, different wherever schemas differ.

        One line per variable in the order of ``names``, each its ``Column.canonical``, and one for
        the column of interventions and for each relation that applies; ignored columns, comments
        and the order of the file do not enter. As it names the variables, it never leaves a site in
        the clear: sites compare a digest under a key of their own.
        """
        marks = () if self.intervention is None else (self.intervention,)
        lines = (item.canonical() for item in (*self.variables, *marks))
        between = (msgspec.json.encode([each.form, *each.columns]) for each in self.applied)
        return b"\n".join((b"cipherdag schema 1", *lines, *between))

    def with_interventions(self, name: str | None) -> Schema:
        """A copy in which this column names the interventions; SchemaError if there is none."""
        return self._marked(name, "intervention")

    def with_patients(self, name: str | None) -> Schema:
        """A copy in which this column says whose row it is; SchemaError if there is none."""
        marked = self._marked(name, "patient")
        return marked if name is None else replace(marked, rows="")

    def _marked(self, name: str | None, kind: Literal["intervention", "patient"]) -> Schema:
        if name is None:
            return self
        check_column(name, [column.name for column in self.columns])
        column = next(c for c in self.columns if c.name == normalise_name(name))
        mark = Column(name=column.name, kind=kind, missing=column.missing)
        columns = tuple(mark if c is column else c for c in self.columns)
        return replace(self, columns=columns)

    def with_labels(self, labels: Iterable[str]) -> Schema:
        """A copy with just these labels; SchemaError if one is no variable, or for a text."""
        if isinstance(labels, str):
            raise SchemaError(
                "the labels are one text, and have to be several names",
                column=visible(labels),
                remedy="Give a list or tuple of names.",
            )
        marked = {normalise_name(label) for label in labels}
        for label in sorted(marked - set(self.names)):
            raise SchemaError(
                "the label is no variable of the study",
                column=visible(label),
                remedy="Correct --labels, or the columns of schema.toml.",
            )
        columns = (replace(column, label=column.name in marked) for column in self.columns)
        return replace(self, columns=tuple(columns))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a ``schema.toml``; raises SchemaError, with file and column, where it is none."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise SchemaError(f"cannot be read: {reason}", file=str(path)) from error
        return cls.loads(content, file=str(path))

    @classmethod
    def loads(cls, text: str | bytes, *, file: str = "schema.toml") -> Schema:
        """Read a schema from TOML text; raises SchemaError, which names ``file``, if it is none."""
        try:
            content = parse(text)
            rows = str(content.get("rows", ""))
            return cls(_columns(content), _relations(content), sources=_sources(content), rows=rows)
        except SchemaError as error:
            error.file = file
            raise
        except ValueError as error:
            raise SchemaError(str(error), file=file) from error

    def dumps(self) -> str:
        """The schema as commented TOML, which ``loads`` reads back as an equal schema."""
        relations = map(_relation_toml, self.relations)
        said = [f"# {line}" for line in textwrap.wrap(self.comment, _COMMENT_WIDTH)]
        head = resources.files(__package__).joinpath("schema_head.toml").read_text("utf-8")
        head = "\n".join([head, *said, ""]) if said else head
        head += f'rows = "{self.rows}"\n' if self.rows else ""
        sources = (
            "\n".join([f"[sources.{_quoted(file)}]", *each.lines(), ""])
            for file, each in sorted(self.sources.items())
        )
        written = [_SOURCES + next(sources), *sources] if self.sources else []
        return "\n".join((head, *map(_column_toml, self.columns), *relations, *written))


_Values = tuple[str | int | float, ...]


class _ColumnTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column as it stands in the file."""

    kind: str
    categories: _Values = ()
    edges: tuple[float, ...] = ()
    missing: _Values = ()
    allow_constant: bool = False
    label: bool = False
    ordered: bool = False
    synonyms: dict[str, _Values] = {}
    unit: str = ""
    plausible: tuple[float, ...] = ()
    date: str = ""
    concepts: dict[str, str | int | _Values] = {}
    unmeasured_at: tuple[str, ...] = ()


def _columns(content: dict[str, Any]) -> tuple[Column, ...]:
    if {"file", "address"} & content.keys():
        raise SchemaError("this describes data, and is no schema", remedy=_DRAFT_IT)
    check_keys(content, ("columns", "relations", "sources", "rows"))
    tables = content.get("columns")
    if not isinstance(tables, dict):
        raise SchemaError('there is no table of columns, such as [columns."age"]')
    return tuple(_column(name, table) for name, table in tables.items())


def _relations(content: dict[str, Any]) -> tuple[Relation[str], ...]:
    tables = content.get("relations", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise SchemaError("relations are tables, each with form and columns under [[relations]]")
    relations = []
    for table in tables:
        try:
            read = msgspec.convert(table, Relation[str])
        except msgspec.ValidationError as error:
            raise SchemaError(
                "a relation is none",
                remedy=f"Write form = one of {', '.join(FORMS)}, and columns = [names], both.",
            ) from error
        names = tuple(map(normalise_name, read.columns))
        if not names[1:] or len({*names}) < len(names):
            raise SchemaError("a relation is of two or more different columns")
        relations.append(Relation(read.form, names))
    return tuple(relations)


def _sources(content: dict[str, Any]) -> dict[str, FileDescription]:
    tables = content.get("sources", {})
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        raise SchemaError('sources are tables, such as [sources."patients.csv"]')
    return {name: convert(table, FileDescription) for name, table in tables.items()}


def _relation_toml(relation: Relation[str]) -> str:
    said = f"LOOK: {relation.in_words()}. {LEFT_OUT[relation.form]}"
    lines = [f"# {line}" for line in textwrap.wrap(said, _COMMENT_WIDTH)]
    names = ", ".join(map(_quoted, relation.columns))
    return "\n".join(
        [*lines, "[[relations]]", f'form = "{relation.form}"', f"columns = [{names}]", ""]
    )


def _column(name: str, table: object) -> Column:
    if not isinstance(table, dict):
        raise SchemaError('a column is a table, such as kind = "continuous"', column=name)
    if "kind" not in table:
        raise SchemaError('kind is missing, such as kind = "continuous"', column=name)
    try:
        fields = convert(table, _ColumnTable)
    except ValueError as error:
        raise SchemaError(str(error), column=name) from error
    values = msgspec.structs.asdict(fields)
    for key in ("categories", "missing"):
        values[key] = tuple(map(str, values[key]))
    for key in ("synonyms", "concepts"):
        values[key] = tuple((each, _texts(listed)) for each, listed in values[key].items())
    return Column(name=name, **values)


def _texts(listed: str | int | _Values) -> tuple[str, ...]:
    return tuple(map(str, listed)) if isinstance(listed, tuple) else (str(listed),)


def _column_toml(column: Column) -> str:
    """One column as a TOML table; JSON strings are TOML strings where no control occurs."""
    lines = [f"# {line}" for line in textwrap.wrap(column.comment, _COMMENT_WIDTH)]
    key = column.name if _BARE_KEY.fullmatch(column.name) else _quoted(column.name)
    lines += [f"[columns.{key}]", f'kind = "{column.kind}"']
    for key, values in (
        ("categories", map(_quoted, column.categories)),
        ("edges", map(repr, column.edges)),
        ("missing", map(_quoted, column.missing)),
        ("plausible", map(repr, column.plausible)),
        ("unmeasured_at", map(_quoted, column.unmeasured_at)),
    ):
        items = ", ".join(values)
        if items:
            lines.append(f"{key} = [{items}]")
    lines += [f"{each} = {_quoted(said)}" for each in _TEXT_KEYS if (said := getattr(column, each))]
    for table_key in _TABLE_KEYS:
        pairs = ", ".join(
            f"{_quoted(key)} = [{', '.join(map(_quoted, texts))}]"
            for key, texts in getattr(column, table_key)
        )
        lines += [f"{table_key} = {{ {pairs} }}"] if pairs else []
    lines += [f"{key} = true" for key in FLAGS if getattr(column, key)]
    return "\n".join((*lines, ""))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
