"""A site's own table, checked against the schema and coded for the tests.

Missing values are only marked; a test leaves out the rows in which one of its variables has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, IndexArray
from cipherdag.errors import (
    ConstantColumnError,
    DataError,
    EmptyDataError,
    ExtraColumnError,
    MissingColumnError,
)
from cipherdag.sites.table.cells import Cells, RawTable
from cipherdag.sites.table.column_reader import (
    MISSING_CODE,
    CodeArray,
    ColumnReader,
    MarksReader,
    ValueArray,
)
from cipherdag.sites.table.file_description import DECLARED
from cipherdag.sites.table.names import nearest
from cipherdag.sites.table.reading import TableSource, check_row_count, open_table
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.stored_rows import StoredRows, check_fits, code_type, taken_rows
from cipherdag.sites.table.visits import (
    MAX_VISITS,
    PatientReader,
    log,
    numbered,
    rows_of,
    rows_taken,
)

NEVER_MEASURED = (
    "If the site did not measure it, name the site under unmeasured_at of the column in "
    "schema.toml at every site. Else drop the column, or set allow_constant = true for it."
)
UNMEASURED = (
    "Add the column, or leave it out at every site: drafts of `cipherdag schema infer` do. Or name "
    "the site, which did not measure it, under unmeasured_at in schema.toml at every site. "
    "`cipherdag run fedpc FILES --overlapping` drafts such a schema."
)
"""What to do about a column that a file lacks."""
OTHER_TABLE = (
    "No column of the schema is there: give the schema of this table, or draft one by "
    "`cipherdag schema infer FILE`."
)


@dataclass(frozen=True, slots=True, eq=False)
class SiteTable:
    """The rows of one site, n of them, over p variables; never leaves the site.

    Attributes:
        names: The variables, sorted by code point: position = identifier.
        codes: Positions of categories and bins, of the smallest type that holds them, shape (n, p),
            one column after the other in memory: -1 where missing and in the columns of continuous
            variables; None if there is no discrete variable.
        values: Numbers, float64 of shape (n, p), row by row in memory: NaN where missing and in the
            columns of discrete variables; None if there is no continuous variable.
        interventions: Whether a row's variable was intervened on, bool of shape (n, p), if the
            schema names a column for it.
        patients: Whose visit a row is, numbers from 0, shape (n,); None where every row is a
            person.
        folder: Where codes and values lie that are more than memory should hold, as `stored_rows`
            says; None: where the system keeps temporary files.
    """

    names: tuple[str, ...] = field(repr=False)
    schema: Schema = field(repr=False)
    rows: int
    codes: CodeArray | None = field(repr=False)
    values: ValueArray | None = field(repr=False)
    interventions: NDArray[np.bool_] | None = field(repr=False, default=None)
    patients: IndexArray | None = field(repr=False, default=None)
    folder: Path | None = field(repr=False, default=None)

    def __repr__(self) -> str:
        return f"SiteTable({self.rows} rows, {len(self.names)} variables, {self.kind})"

    @property
    def kind(self) -> Literal["discrete", "continuous", "mixed"]:
        """The kind of the table's variables: discrete, continuous or mixed."""
        if self.codes is not None and self.values is not None:
            return "mixed"
        return "continuous" if self.codes is None else "discrete"

    @property
    def visits(self) -> int:
        """Most rows that a patient may have: 1 where none has two."""
        return MAX_VISITS if self.persons < self.rows else 1

    @property
    def persons(self) -> int:
        """Whose rows they are: patients, or rows where every row is a person."""
        return self.rows if self.patients is None else len(np.unique(self.patients))

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of categories or bins of every variable; 0 for a continuous one."""
        return tuple(column.cardinality for column in self.schema.variables)

    @property
    def ordered(self) -> tuple[int, ...]:
        """Positions of the variables whose order can count: of three categories or bins or more."""
        variables = enumerate(self.schema.variables)
        return tuple(v for v, each in variables if each.ordered and each.cardinality > 2)  # noqa: PLR2004

    def numbers(self) -> ValueArray:
        """Codes and values, (n, p), NaN where missing; SiteNotReadyError where memory is small."""
        if self.codes is None:
            assert self.values is not None, "a table has codes or values"
            return self.values
        check_fits(self.codes.size * np.dtype(np.float64).itemsize)
        codes = np.ascontiguousarray(np.where(self.codes >= 0, self.codes, np.nan))
        discrete = np.array(self.cardinalities) > 0
        return codes if self.values is None else np.where(discrete, codes, self.values)

    def scored_numbers(self) -> ValueArray:
        """As `numbers`, but three or more categories that are all numbers count as such."""
        numbers = self.numbers()
        for position, column in enumerate(self.schema.variables):
            if self.codes is not None and column.cardinality > 2 and column.scores:  # noqa: PLR2004
                codes = self.codes[:, position]
                scores = np.array(column.scores)[codes]
                numbers[:, position] = np.where(codes >= 0, scores, np.nan)
        return numbers

    def varies(self) -> NDArray[np.bool_]:
        """Mark the variables that have at least two values in these rows, shape (p,)."""
        present = (_present(self, variable) for variable in range(len(self.names)))
        return np.array(
            [len(each) > 0 and each.min() != each.max() for each in present], dtype=bool
        )

    @property
    def incomplete(self) -> float:
        """Share of rows that miss a value of any variable."""
        complete = np.ones(self.rows, dtype=bool)
        for variable in range(len(self.names)):
            complete &= _filled(self, variable)[1]
        return 1.0 - float(complete.mean()) if self.rows else 0.0

    def has_values(self, name: str) -> bool:
        """True if any row has a value of a variable."""
        return len(_present(self, self.names.index(name))) > 0

    def take(self, rows: IndexArray) -> SiteTable:
        """The table of some rows, by position, shape (m,); a column may then be constant."""
        return replace(
            self,
            rows=len(rows),
            codes=None if self.codes is None else taken_rows(self.codes, rows, self.folder),
            values=None if self.values is None else self.values[rows],
            interventions=None if self.interventions is None else self.interventions[rows],
            patients=None if self.patients is None else numbered(self.patients[rows]),
        )

    def take_patients(self, drawn: IndexArray) -> SiteTable:
        """The table of some patients with all their rows; one drawn twice counts as two."""
        assert self.patients is not None, "rows are visits"
        rows, whose = rows_of(self.patients, drawn)
        return replace(self.take(rows), patients=whose)

    def narrowed(self, schema: Schema) -> SiteTable:
        """The table of fewer variables, by a schema that ignores the others."""
        retained = [v for v, name in enumerate(self.names) if name in set(schema.names)]
        discrete = any(column.cardinality for column in schema.variables)
        continuous = not all(column.cardinality for column in schema.variables)
        return replace(
            self,
            names=schema.names,
            schema=schema,
            codes=self.codes.T[retained].T if discrete and self.codes is not None else None,
            values=self.values[:, retained] if continuous and self.values is not None else None,
            interventions=None if self.interventions is None else self.interventions[:, retained],
        )

    def without(self, unmeasured: Sequence[int]) -> SiteTable:
        """The table without the values of some variables, by position."""
        gone = list(unmeasured)
        if not gone:
            return self
        codes = None if self.codes is None else self.codes.copy(order="K")
        values = None if self.values is None else self.values.copy()
        if codes is not None:
            codes[:, gone] = MISSING_CODE
        if values is not None:
            values[:, gone] = np.nan
        return replace(self, codes=codes, values=values)

    def observational(self) -> SiteTable:
        """The rows without an intervention; what conditional-independence tests look at."""
        if self.interventions is None:
            return self
        return self.take(np.flatnonzero(~self.interventions.any(axis=1)))


def load_table(
    source: TableSource, schema: Schema, *, site: str | None = None, folder: Path | None = None
) -> SiteTable:
    """Read a table and check every cell of it against the schema.

    Cells are compared as ``names.normalise_value`` writes them; numbers are ASCII decimal numbers.
    Nothing is a missing value but the empty cell, NaN or None in a DataFrame or Parquet file, and
    what the schema declares: "NA" is a category or an error otherwise. A declared number stands for
    every way to write it: "0" is "0.0", too. Truth values read "True" and "False", or 1 and 0 where
    the schema does not list these words. Columns of kind "ignore" are not looked at and may be
    absent. Errors count rows as a spreadsheet shows the file.

    A file has the description that the schema has for its name, where ``source`` brings none. What
    the schema says that ``site`` did not measure may be absent, is not read, and has no value. Rows
    that are more than memory should hold lie in ``folder``; see `SiteTable`.

    Raises:
        OutputError: There is no room for the rows that are put aside.
        UnreadableDataError, DuplicateNameError: As `open_table`.
        EmptyDataError, TooFewRowsError: There is no row, or one.
        MissingColumnError, ExtraColumnError: The file lacks a column of the schema, or the reverse.
        UnknownCategoryError: A value is no category of its discrete column.
        NotNumericError: A value of a continuous or binned column is no finite number, no date where
            dates are declared, or outside its plausible range.
        ConstantColumnError: A column has one value or bin only, or none, unless allowed.
    """
    described = schema.described(source)
    with open_table(described, site=site) as table, _stores(schema, folder) as (codes, values):
        readers = _match_columns(table, schema, site)
        marks, whose = _readers_of_rows(schema, table)
        rows = 0
        for chunk in table.chunks:
            rows += len(chunk[0])
            _read_chunk(readers, chunk, codes, values)
            if marks is not None:
                marks.read(chunk[marks.position])
            if whose is not None:
                whose.read(chunk[whose.position])
        for said in table.left_out:
            log.warning("%s: %s", site or table.file, said)
        check_row_count(rows, file=table.file, site=site)
        whole_codes = None if codes is None else codes.by_columns()
        whole_values = None if values is None else values.by_rows()
    loaded = SiteTable(
        names=schema.names,
        schema=schema,
        rows=rows,
        codes=whole_codes,
        values=whole_values,
        interventions=None if marks is None else np.concatenate(marks.blocks),
        folder=folder,
    )
    try:
        for reader in readers.values():
            reader.raise_fault(table.location_of)
        if marks is not None:
            marks.raise_fault(table.location_of)
        if whose is not None:
            loaded = _by_patients(loaded, whose.patients(), table, site)
        _check_varies(loaded, list(readers))
    except DataError as error:
        error.file, error.rows, error.site = table.file, rows, site
        raise
    return loaded


def _readers_of_rows(
    schema: Schema, table: RawTable
) -> tuple[MarksReader | None, PatientReader | None]:
    """The readers of what is said of rows: interventions, and whose visits they are."""
    marks, whose = None, None
    if (column := schema.intervention) is not None:
        marks = MarksReader(column, table.names.index(column.name), schema.names)
    if (column := schema.patient) is not None:
        whose = PatientReader(column, table.names.index(column.name))
    return marks, whose


def _by_patients(
    loaded: SiteTable, patients: IndexArray, table: RawTable, site: str | None
) -> SiteTable:
    taken = rows_taken(patients, table.location_of, site=site)
    if not len(taken):
        raise EmptyDataError(
            "no row says whose it is",
            remedy="Fill in whose rows they are; or leave the column out if no person has two.",
        )
    check_row_count(len(taken), file=table.file, site=site)
    whole = replace(loaded, patients=patients)
    return whole if len(taken) == loaded.rows else whole.take(taken)


def _match_columns(table: RawTable, schema: Schema, site: str | None) -> dict[int, ColumnReader]:
    """A reader for every variable that the site measured, by its position."""
    positions = {name: position for position, name in enumerate(table.names)}
    marks = [each.name for each in (schema.intervention, schema.patient) if each is not None]
    measured = [column.name for column in schema.variables if site not in column.unmeasured_at]
    missing = [name for name in (*measured, *marks) if name not in positions]
    in_schema = {column.name for column in schema.columns}
    extra = [name for name in table.names if name not in in_schema]
    if missing or extra:
        name, *more = missing or extra
        close = nearest(name, sorted(extra)) if missing else None
        what = f"the {'file' if missing else 'schema'} lacks this column"
        what += f" and {len(more)} more" if more else ""
        rename = f'Rename one (case counts), or declare rename."{close}" = "{name}" {DECLARED}.'
        lacking = UNMEASURED if in_schema.intersection(positions) else OTHER_TABLE
        lacking = lacking if missing else ""
        error = MissingColumnError if missing else ExtraColumnError
        raise error(
            what + (f"; it has '{close}'" if close else ""),
            file=table.file,
            column=name,
            rows=table.count_rows(),
            site=site,
            remedy=rename if close else lacking,
        )
    return {
        variable: ColumnReader(
            column, positions[column.name], factor=table.factors.get(column.name, 1.0)
        )
        for variable, column in enumerate(schema.variables)
        if site not in column.unmeasured_at
    }


@contextmanager
def _stores(
    schema: Schema, folder: Path | None
) -> Iterator[tuple[StoredRows | None, StoredRows | None]]:
    """The stores of codes and of values; None where the schema has no such variable."""
    sides = [column.cardinality for column in schema.variables]
    width, kind, numbers = len(sides), code_type(max(sides)), np.dtype(np.float64)
    codes = StoredRows(width, kind, MISSING_CODE, folder) if any(sides) else None
    values = StoredRows(width, numbers, np.nan, folder) if not all(sides) else None
    with ExitStack() as stack:
        for store in (codes, values):
            if store is not None:
                stack.callback(store.close)
        yield codes, values


def _read_chunk(
    readers: dict[int, ColumnReader], chunk: Sequence[Cells], *stores: StoredRows | None
) -> None:
    """Add a block of rows to codes and values."""
    for store, discrete in zip(stores, (True, False), strict=True):
        if store is None:
            continue
        block = store.block(len(chunk[0]))
        for variable, reader in readers.items():
            if (reader.column.cardinality > 0) == discrete:
                block[:, variable] = reader.read(chunk[reader.position])
        store.append(block)


def _check_varies(table: SiteTable, measured: list[int]) -> None:
    varies = table.varies()
    for variable in measured:
        column = table.schema.variables[variable]
        if column.allow_constant or varies[variable]:
            continue
        held = "one bin only" if column.kind == "binned" else "one value only"
        if not table.has_values(column.name):
            raise ConstantColumnError(
                "the column holds no value", column=column.name, remedy=NEVER_MEASURED
            )
        raise ConstantColumnError(f"the column holds {held}", column=column.name)


def _present(table: SiteTable, variable: int) -> CodeArray | ValueArray:
    """The codes or values of one variable that are not missing."""
    column, filled = _filled(table, variable)
    return column[filled]


def _filled(table: SiteTable, variable: int) -> tuple[CodeArray | ValueArray, BoolVector]:
    """The codes or values of one variable, and which of them are not missing."""
    if table.codes is not None and table.schema.variables[variable].cardinality:
        codes: CodeArray = table.codes[:, variable]
        return codes, codes != MISSING_CODE
    assert table.values is not None, "a variable is in one of the two arrays"
    values: ValueArray = table.values[:, variable]
    return values, ~np.isnan(values)
