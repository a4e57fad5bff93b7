"""What a document declares of the columns of a table, before any row is read.

Leaks:
    Nothing of rows. Categories are those of the document, whether a row holds them or not.
"""

import html
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cipherdag.errors import SchemaError, UnreadableDataError
from cipherdag.graphs.relations import Relation
from cipherdag.sites.table.cells import ColumnType
from cipherdag.sites.table.column import NO_VARIABLE, Column
from cipherdag.sites.table.names import hidden_character
from cipherdag.sites.table.schema import PERSONS, Schema

MOST_LETTERS = 60
_UNDECIDED = (
    "DECIDE: the document does not list its categories. Draft from the files as well; or write "
    'kind = "discrete" and categories.'
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The columns that documents declare.

    Attributes:
        columns: By name; an ignored one says why. Several may be the key of patients.
        undecided: Columns whose categories only rows can tell, and what is said of each.
        relations: Which columns are computed from others.
        comment: What is said of the rows.
        one_row: Whether each person has one row.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    relations: tuple[Relation[str], ...] = ()
    comment: str = ""
    one_row: bool = False

    def __bool__(self) -> bool:
        return bool(self.columns or self.undecided)

    def of(self, names: Iterable[str]) -> dict[str, Column]:
        """The declared ones of some columns, of which one alone is the key of patients."""
        columns = {name: self.columns[name] for name in names if name in self.columns}
        keys = [name for name, column in columns.items() if column.kind == "patient"]
        for name in keys[1:]:
            said = f"Ignored: '{keys[0]}' says whose row it is."
            columns[name] = Column(name, "ignore", comment=said)
        return columns

    def check_source(self, types: Mapping[str, ColumnType], file: str) -> None:
        """Refuse a table with a column of lists, or dates, where one number or text is declared.

        Raises:
            UnreadableDataError: It has one.
        """
        for name, kind in types.items():
            column = self.columns.get(name)
            used = name in self.undecided or (column is not None and column.kind != "ignore")
            if used and kind.kind == "other":
                raise UnreadableDataError(
                    f"its cells are {kind.name}, where the document declares one number or text",
                    file=file,
                    column=name,
                    remedy="Take one value in the path, as in first(), or one row for each by "
                    "forEach; then write the file anew.",
                )

    def schema(self) -> Schema:
        """The draft that no row is needed for; SchemaError where no column can take part."""
        columns = self.of(self.columns)
        for name, said in self.undecided.items():
            columns[name] = Column(name, "ignore", comment=f"{said} {_UNDECIDED}".strip())
        if all(column.kind in NO_VARIABLE for column in columns.values()):
            raise SchemaError(
                "no declared column is a number, or has categories that the document lists",
                remedy="Draft from the files as well: `cipherdag schema infer FILE --declared` and "
                "the document.",
            )
        return self.completed(Schema(tuple(columns.values()), comment=self.comment))

    def completed(self, schema: Schema) -> Schema:
        """A schema with what is declared of rows, and of columns that follow from others."""
        names = {*schema.names}
        stated = {frozenset(each.columns) for each in schema.relations}
        more = tuple(
            each
            for each in self.relations
            if names.issuperset(each.columns) and frozenset(each.columns) not in stated
        )
        one_row = self.one_row and schema.patient is None
        rows = PERSONS if one_row else schema.rows
        return replace(schema, relations=(*schema.relations, *more), rows=rows)

    def absent(self, names: Collection[str]) -> str:
        """What is said of declared columns, ignored ones apart, that no file has."""
        wanted = [name for name, column in self.columns.items() if column.kind != "ignore"]
        absent = [name for name in (*wanted, *self.undecided) if name not in names]
        return f"LOOK: no file has these declared columns: {', '.join(absent)}." if absent else ""


NOTHING = Declaration()
DATES = (
    'Ignored: dates, of which no value is written. If it is to count, write kind = "continuous" '
    'and date = "days since 2020-01-01".'
)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def joined(declarations: Mapping[str, Declaration]) -> Declaration:
    """What several documents declare of the columns of one table.

    A column by which their rows are joined is the key of patients where one of them says so.

    Raises:
        UnreadableDataError: Two of them declare a column differently.
    """
    columns: dict[str, Column] = {}
    source: dict[str, str] = {}
    for file, each in declarations.items():
        for name, column in each.columns.items():
            first = columns.setdefault(name, column)
            if {first.kind, column.kind} == {"ignore", "patient"}:
                columns[name] = first if first.kind == "patient" else column
            elif first != column:
                raise UnreadableDataError(
                    f"{source[name]} declares the column otherwise",
                    file=file,
                    column=name,
                    remedy="Give the column one name for each meaning, in document and table.",
                )
            source.setdefault(name, file)
    each_once = [*declarations.values()]
    return Declaration(
        columns,
        {n: s for each in each_once for n, s in each.undecided.items() if n not in columns},
        tuple(relation for each in each_once for relation in each.relations),
        " ".join(each.comment for each in each_once if each.comment),
        bool(each_once) and all(each.one_row for each in each_once),
    )


def plain_text(text: str) -> str:
    """A text without the marks of HTML."""
    return html.unescape(_TAG.sub(" ", text))


def as_remark(text: str, most: int = 2 * MOST_LETTERS) -> str:
    """A text of a document in one line without invisible characters, cut where it is long."""
    words = " ".join(text.split())
    plain = "".join(each for each in words if hidden_character(each) is None)
    return plain if len(plain) <= most else f"{plain[: most - 3].rstrip()}..."
