"""A finding is what a run concludes: it declares its tables, the lines it prints, JSON and page.

A new kind of finding is a frozen dataclass below `Finding` in a file of this folder, and the
template of its page; nothing else lists the kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import msgspec

from cipherdag.errors import ParameterError
from cipherdag.findings.panels import Panel
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.files import csv_text

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 60
Cells = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, the type of its values, and what they are.

    A column of floats holds NaN where there is no number.
    """

    name: str
    type: type[str | float | int | bool | list[str]]
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Declares a table of a kind of finding.

    `Finding.table` returns it as a DataFrame, and the result folder has it as a CSV file.
    """

    name: str  # what `Finding.table` and the CSV file call it
    doc: str  # one sentence about its rows
    columns: tuple[Column, ...]  # all columns that it can have, in their order
    # makes the rows of a finding, a value per column; None where there is none
    rows: Callable[[Any], Cells] = field(repr=False)
    # names the columns that the table has for a finding; None: it has all of them
    present: Callable[[Any], Sequence[str]] | None = field(repr=False, default=None)
    # when the folder of a finding has the table as a CSV file
    saved: Literal["always", "with rows", "never"] = "always"

    def content(self, finding: Finding) -> tuple[tuple[str, ...], Cells]:
        """The names of the columns that the table has for this finding, and its rows."""
        names, rows = tuple(column.name for column in self.columns), self.rows(finding)
        if self.present is None:
            return names, rows
        present = frozenset(self.present(finding))
        indices = [k for k, name in enumerate(names) if name in present]
        return tuple(names[k] for k in indices), [tuple(row[k] for k in indices) for row in rows]


@dataclass(frozen=True, slots=True)
class DataDictionary:
    """The names of categories and the units of numbers, by column, as a schema has them.

    It is empty where only the sites know the schema; categories are then numbers from 1.
    """

    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def category(self, column: str, code: int) -> str:
        """The name of a category, of which 0 is the first."""
        names = self.categories.get(column)
        return names[code] if names else str(code + 1)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The distance of a finding to a true graph: JSON entries and lines of a terminal."""

    entries: Mapping[str, Any]
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Finding(ABC):
    """The conclusion of a run, with variables by name.

    Attributes:
        details: What else the algorithm found, in the form that JSON has, so that a saved result
            can be reported on again.
        dictionary: Names of categories and units; a result fills it from the schema.
    """

    kind: ClassVar[str]  # what ``result.json`` calls the kind of finding
    template: ClassVar[str]
    tables: ClassVar[tuple[Table, ...]]
    promise: ClassVar[str] = ""
    """What a plan tells the people who approve it that the result will be, if anything."""
    causal: ClassVar[bool] = True  # whether it says what causes what

    details: Mapping[str, Any] = field(repr=False, default_factory=dict)
    dictionary: DataDictionary = field(repr=False, compare=False, default_factory=DataDictionary)

    _kinds: ClassVar[dict[str, type[Finding]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            Finding._kinds[cls.kind] = cls

    @classmethod
    def kinds(cls) -> dict[str, type[Finding]]:
        """Every kind by its name; those of other packages as far as they are imported."""
        for module in iter_modules([str(Path(__file__).parent)]):
            import_module(f"cipherdag.findings.{module.name}")
        return dict(sorted(cls._kinds.items()))

    @property
    @abstractmethod
    def decisions(self) -> bytes:
        """The canonical bytes of the decisions: equal decisions give equal bytes."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The size of the finding in a few words."""

    @abstractmethod
    def lines(self, n_sites: int) -> list[str]:
        """The lines that a terminal prints of a finding over so many sites."""

    @property
    def of_patients(self) -> str:
        """Whose rows they are, if visits: "12,400 visits of 1,803 patients"; else empty."""
        for key in ("visits", "complete_visits"):
            if key in self.details:
                rows, patients = self.details[key]
                return f"{rows:,} {key.replace('_', ' ')} of {patients:,} patients"
        return ""

    @property
    def opens_bits(self) -> bool:
        """True if one bit of each test was opened, and no sum of any."""
        return self.details.get("reveal") == "bits"

    def table(self, name: str) -> pd.DataFrame:
        """A table that this kind of finding declares, such as ``edges``.

        Raises:
            ParameterError: It declares no table of this name.
        """
        import pandas as pd

        table = self._declared(name)
        names, rows = table.content(self)
        numbers = {column.name: "float64" for column in table.columns if column.type is float}
        numbers = {column: numbers[column] for column in names if column in numbers}
        return pd.DataFrame(rows, columns=list(names)).astype(numbers)

    def content(self, name: str) -> tuple[tuple[str, ...], Cells]:
        """The columns that a table has here, and its rows; None where there is no value."""
        return self._declared(name).content(self)

    def cells(self, name: str) -> Cells:
        """The rows of a table."""
        return self.content(name)[1]

    def files(self) -> dict[str, str]:
        """The texts of the files that a result folder has of this finding, by their names."""
        content = {name: self.content(name) for name in self._saved}
        return {f"{name}.csv": csv_text([names, *rows]) for name, (names, rows) in content.items()}

    def draw(self, folder: Path) -> None:
        """Add pictures to a result folder; there are none by default."""
        del folder

    def sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        """The additional sections of the report's template."""
        del truth
        return {}

    def report(self) -> Report:
        """What a report says of it beside its section; the algorithm's own comes after it."""
        return Report()

    def accuracy(self, truth: CausalGraph) -> Accuracy | None:
        """The accuracy against a true graph; None where the two cannot be compared."""
        del truth
        return None

    def to_json(self, identifiers: Mapping[str, str]) -> dict[str, Any]:
        """The entries of ``result.json`` that only this kind of finding has."""
        del identifiers
        names = [
            attribute.name
            for attribute in fields(self)
            if attribute.name not in {"details", "dictionary"}
        ]
        return {name: plain(getattr(self, name)) for name in (*names, "details")}

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Self:
        """The finding of a ``result.json``.

        Raises:
            ValueError: An entry is missing or of another type.
        """
        return msgspec.convert(dict(report), cls)

    def _declared(self, name: str) -> Table:
        for table in self.tables:
            if table.name == name:
                return table
        names = ", ".join(table.name for table in self.tables)
        raise ParameterError(
            f"a result of the kind {self.kind} has no table '{name:.80}'",
            remedy=f"Its tables are {names}.",
        )

    def _repr_html_(self) -> str:
        """The tables of the folder, in a notebook."""
        return "".join(self.table(name).to_html(index=False) for name in self._saved)

    @property
    def _saved(self) -> list[str]:
        """The names of the tables that the folder has."""
        saved = [table for table in self.tables if table.saved != "never"]
        return [each.name for each in saved if each.saved == "always" or each.rows(self)]


def plain(value: Any) -> Any:
    """A value as JSON has it, with numpy scalars turned into Python numbers."""
    return msgspec.to_builtins(value, enc_hook=lambda number: number.item())


def shortened(lines: Sequence[str]) -> list[str]:
    """The lines indented, cut after `MOST_LINES` of them."""
    shown = [f"  {line}" for line in lines[:MOST_LINES]]
    left = len(lines) - len(shown)
    return [*shown, f"  ... and {left} more"] if left else shown


def aligned(named: Sequence[tuple[str, str]]) -> list[str]:
    """Names and what is said of each, in two columns, indented and cut as `shortened` does."""
    wide = max((len(name) for name, _ in named), default=0)
    return shortened([f"{name:{wide}}  {said}" for name, said in named])


@dataclass(frozen=True, slots=True)
class Note:
    """Some lines under a heading, for the end of a run and its report; `lines` may be many."""

    title: str
    lines: tuple[str, ...] = ()

    @classmethod
    def of_columns(cls, title: str, remarks: Iterable[Sequence[str]]) -> Self:
        """A line for every column and what is said of it.

        An ending question mark is kept, else a full stop is added.
        """
        lines = (f"{column}: {said}{'' if said.endswith('?') else '.'}" for column, said in remarks)
        return cls(title, tuple(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a finding, or the algorithm that made it, adds to the report of a run."""

    panels: tuple[Panel, ...] = ()  # curves, heat maps and tables of the report
    notes: tuple[Note, ...] = ()  # what the terminal says below the result
    limits: tuple[str, ...] = ()  # what to know before the result is used, in sentences
    # what makes the result doubtful: said first, in report, terminal and log
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # what else the opened sums show, in sentences
    steps: tuple[str, ...] = ()  # what to do next, in sentences

    def __add__(self, more: Report) -> Report:
        """This report and then the other one, part by part."""
        parts = (each.name for each in fields(self))
        return Report(**{part: getattr(self, part) + getattr(more, part) for part in parts})
