"""One row per patient, or per visit, of an OMOP database: what a study reads is declared once.

A file that is the same at every hospital names the rows and columns:

    rows = "cohort"          # an entry of the cohort table each; or "visits", or "persons"
    cohort = 1771
    person = "pid"           # a column that says whose row it is; it never leaves the site

    [columns.bmi]
    from = "measurement"
    concepts = [3038553]     # with their descendants
    unit = 9531              # values in another unit are missing
    days = [-365, 0]         # before and after the row's date
    take = "last"

    [columns.diabetes]
    from = "condition"
    concepts = [201826]

    [columns.age]
    from = "age"

SQLAlchemy writes it as SQL of the site's database. A record is the row's if it is of the same
person and lies within ``days`` of the row's date, which is when a cohort entry or a visit begins.

Source: OMOP common data model 5.4, https://ohdsi.github.io/CommonDataModel/cdm54.html.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import msgspec

from cipherdag.errors import DatabaseDriverError
from cipherdag.sites.strict_toml import convert, parse

if TYPE_CHECKING:
    from sqlalchemy import CTE, ColumnElement, CompoundSelect, FromClause, Select, TableClause

MAX_BYTES = 64 * 1024
NO_SQLALCHEMY = "databases need SQLAlchemy, which is not installed"
MALE, FEMALE = 8507, 8532
"""Standard concepts of gender."""
Take = Literal["last", "first", "mean", "min", "max"]
"""Which of a row's values a number is."""


class Domain(NamedTuple):
    """A table of records, and the beginning of its columns' names."""

    table: str
    date: str
    concept: str
    record: str
    numbers: bool = False


DOMAINS = {
    "measurement": Domain(
        "measurement", "measurement_date", "measurement_concept_id", "measurement_id", numbers=True
    ),
    "observation": Domain(
        "observation", "observation_date", "observation_concept_id", "observation_id", numbers=True
    ),
    "condition": Domain(
        "condition_occurrence",
        "condition_start_date",
        "condition_concept_id",
        "condition_occurrence_id",
    ),
    "drug": Domain(
        "drug_exposure", "drug_exposure_start_date", "drug_concept_id", "drug_exposure_id"
    ),
    "procedure": Domain(
        "procedure_occurrence", "procedure_date", "procedure_concept_id", "procedure_occurrence_id"
    ),
}


class OmopColumn(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"source": "from"}
):
    """A column of a study's rows."""

    # ``age`` in years at the row's date, ``sex``, or a domain of records. A number where ``take``
    # or ``unit`` is given; else "yes" where there is a record, and "no"
    source: Literal["age", "sex", "measurement", "observation", "condition", "drug", "procedure"]
    concepts: tuple[int, ...] = ()  # concept set of the records
    descendants: bool = True  # whether the concepts' descendants belong to it
    unit: int | None = None  # concept of the numbers' unit; a number in another one is missing
    days: tuple[int, int] | None = None  # first and last that counts, from the row's date; or any
    take: Take | None = None  # which of several numbers

    @property
    def is_number(self) -> bool:
        """Whether the records' values are read, and not whether there is one."""
        return self.take is not None or self.unit is not None


class OmopTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a study reads from an OMOP database."""

    columns: dict[str, OmopColumn]  # the columns by name
    # ``cohort``: an entry of the cohort table each, dated by its start; ``visits``: a visit each,
    # of the cohort's persons during their entry if there is one; ``persons``: one row per person,
    # which has no date
    rows: Literal["cohort", "visits", "persons"] = "cohort"
    cohort: int | None = None  # definition of the cohort
    person: str = ""  # name of a column that says whose row it is; none if empty
    year: int | None = None  # for rows without a date the year in which ages are taken

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file; OSError where it cannot be read.

        ValueError where it is not valid, or its parts contradict each other.
        """
        with path.open("rb") as opened:
            return cls.loads(opened.read(MAX_BYTES))

    @classmethod
    def loads(cls, text: bytes | str) -> Self:
        """Read TOML; ValueError as `load`."""
        table, columns = parse(text), {}
        named = table.get("columns")
        if not isinstance(named, dict) or not all(isinstance(c, dict) for c in named.values()):
            raise ValueError("there are no tables [columns.NAME]")
        for name, column in named.items():
            try:
                columns[name] = convert(column, OmopColumn)
            except ValueError as error:
                raise ValueError(f"[columns.{name}]: {error}") from None
        study = convert({**table, "columns": {}}, cls)
        study = msgspec.structs.replace(study, columns=columns)
        fault = next((fault for broken, fault in study.rules() if broken), "")
        if fault:
            raise ValueError(fault)
        return study

    def rules(self) -> list[tuple[bool, str]]:
        """Whether each rule is broken, and what is said of it."""
        undated = self.rows == "persons"
        rules = [
            (self.rows == "cohort" and self.cohort is None, "rows of a cohort need its number"),
            (undated and self.cohort is not None, 'for the rows of a cohort say rows = "cohort"'),
            (self.person in self.columns, f"two columns are called '{self.person}'"),
        ]
        for name, column in self.columns.items():
            domain = DOMAINS.get(column.source)
            first, last = column.days or (0, 0)
            rules += [
                (domain is not None and not column.concepts, f"'{name}' names no concepts"),
                (domain is None and bool(column.concepts), f"'{name}' takes no concepts"),
                (
                    column.is_number and not (domain and domain.numbers),
                    f"'{name}' is no number: only measurements and observations have a value",
                ),
                (first > last, f"the days of '{name}' end before they begin"),
                (undated and column.days is not None, f"'{name}': rows of persons have no date"),
                (
                    undated and column.source == "age" and self.year is None,
                    f"'{name}': rows of persons have no date; give the year, as in year = 2026",
                ),
            ]
        return rules

    def sql(self, dialect: str, schema: str = "") -> str:
        """The rows, in the SQL of a database by SQLAlchemy's name of it."""
        reading = _Reading(self, dialect, schema)
        return reading.written(reading.rows())

    def preview(self, dialect: str, schema: str = "") -> str:
        """One row for each column, in SQL: the fields of `Preview`."""
        reading = _Reading(self, dialect, schema)
        return reading.written(reading.counts())


class Preview(NamedTuple):
    """How much there is for a column, to be read at the site alone."""

    column: str  # its name
    rows: int  # rows of the table
    filled: int  # rows for which there is a value, or a record
    records: int  # records of the concept set, of any person and day
    in_unit: int  # those with a number in the column's unit, or all if it has none


class _Reading:
    """The expressions of a study's rows over one database."""

    def __init__(self, study: OmopTable, dialect: str, schema: str) -> None:
        try:
            import sqlalchemy
        except ImportError:
            raise DatabaseDriverError(NO_SQLALCHEMY) from None
        self._sql = sqlalchemy
        self._study = study
        self._dialect = dialect
        self._schema = schema or None
        self._base = self._rows_of_study()

    def written(self, chosen: Select[Any] | CompoundSelect[Any]) -> str:
        """A selection as text, its numbers and names in their places."""
        from sqlalchemy.dialects import registry

        # DuckDB has PostgreSQL's notation
        dialect = registry.load("postgresql" if self._dialect == "duckdb" else self._dialect)()
        in_place = {"literal_binds": True}
        return str(dialect.statement_compiler(dialect, chosen, compile_kwargs=in_place))

    def rows(self) -> Select[Any]:
        """The rows with all columns, in an order that no later record changes."""
        base, columns = self._base, []
        joined: FromClause = base
        if self._study.person:
            columns.append(base.c.person_id.label(self._study.person))
        for number, (name, column) in enumerate(self._study.columns.items()):
            if column.source in DOMAINS:
                values = self._values(column).subquery(f"c{number}")
                joined = joined.outerjoin(values, values.c.row_id == base.c.row_id)
                value = values.c.value
                present = self._sql.case((values.c.row_id.is_(None), "no"), else_="yes")
                columns.append((value if column.is_number else present).label(name))
            else:
                columns.append(self._of_person(column).label(name))
        order = (base.c.person_id, base.c.row_date, base.c.row_id)
        return self._sql.select(*columns).select_from(joined).order_by(*order)

    def counts(self) -> CompoundSelect[Any]:
        """One row per column, as `Preview`."""
        func, select, literal = self._sql.func, self._sql.select, self._sql.literal
        n_rows = select(func.count()).select_from(self._base).scalar_subquery()
        lines = []
        for name, column in self._study.columns.items():
            if column.source not in DOMAINS:
                filled = select(func.count(self._of_person(column))).scalar_subquery()
                lines.append(select(literal(name), n_rows, filled, n_rows, n_rows))
                continue
            values = self._values(column).subquery()
            filled = select(func.count()).select_from(values).scalar_subquery()
            records = self._records(column).subquery()
            in_unit = func.count(records.c.value) if column.is_number else func.count()
            whole = select(func.count()).select_from(records).scalar_subquery()
            used = select(in_unit).select_from(records).scalar_subquery()
            lines.append(select(literal(name), n_rows, filled, whole, used))
        return self._sql.union_all(*lines)

    def _table(self, name: str, *columns: str) -> TableClause:
        """A table of the common data model with the columns that are read."""
        return self._sql.table(name, *map(self._sql.column, columns), schema=self._schema)

    def _later(self, date: ColumnElement[Any], days: int) -> ColumnElement[Any]:
        """A date so many days later."""
        if self._dialect == "sqlite":
            return self._sql.func.date(date, f"{days:+d} days")
        return date + self._sql.literal_column(str(days))

    def _rows_of_study(self) -> CTE:
        """Row, person, date of the row, and what a person's columns need."""
        study, select, null = self._study, self._sql.select, self._sql.null
        person = self._table("person", "person_id", "year_of_birth", "gender_concept_id")
        about = person.c.person_id, person.c.year_of_birth, person.c.gender_concept_id
        cohort = self._table(
            "cohort", "cohort_definition_id", "subject_id", "cohort_start_date", "cohort_end_date"
        )
        entered = cohort.c.subject_id == person.c.person_id
        defined = cohort.c.cohort_definition_id == study.cohort
        if study.rows == "persons":
            row = person.c.person_id.label("row_id"), null().label("row_date")
            return select(*about, *row).cte("study_rows")
        if study.rows == "cohort":
            number = self._sql.func.row_number().over(
                order_by=(cohort.c.subject_id, cohort.c.cohort_start_date, cohort.c.cohort_end_date)
            )
            row = number.label("row_id"), cohort.c.cohort_start_date.label("row_date")
            joined = person.join(cohort, entered)
            return select(*about, *row).select_from(joined).where(defined).cte("study_rows")
        visit = self._table(
            "visit_occurrence", "visit_occurrence_id", "person_id", "visit_start_date"
        )
        began = visit.c.visit_start_date
        row = visit.c.visit_occurrence_id.label("row_id"), began.label("row_date")
        joined = person.join(visit, visit.c.person_id == person.c.person_id)
        chosen = select(*about, *row).select_from(joined)
        if study.cohort is not None:
            within = began.between(cohort.c.cohort_start_date, cohort.c.cohort_end_date)
            chosen = chosen.where(
                select(self._sql.literal(1)).where(entered, defined, within).exists()
            )
        return chosen.cte("study_rows")

    def _of_person(self, column: OmopColumn) -> ColumnElement[Any]:
        base, sql = self._base, self._sql
        if column.source == "sex":
            names = ((base.c.gender_concept_id == MALE, "male"),)
            return sql.case(*names, (base.c.gender_concept_id == FEMALE, "female"))
        year = sql.literal(self._study.year)
        if self._study.rows != "persons":
            year = sql.extract("year", base.c.row_date)
        return year - base.c.year_of_birth

    def _records(self, column: OmopColumn) -> Select[Any]:
        """All records of a concept set: person, date, number, and a number of their order."""
        domain = DOMAINS[column.source]
        names = ["person_id", domain.date, domain.concept, domain.record]
        if column.is_number:
            names += ["value_as_number", "unit_concept_id"]
        record = self._table(domain.table, *names)
        concept = record.c[domain.concept]
        chosen: ColumnElement[bool] = concept.in_(column.concepts)
        if column.descendants:
            tree = self._table("concept_ancestor", "ancestor_concept_id", "descendant_concept_id")
            below = self._sql.select(tree.c.descendant_concept_id)
            chosen = chosen | concept.in_(
                below.where(tree.c.ancestor_concept_id.in_(column.concepts))
            )
        value: ColumnElement[Any] = self._sql.null()
        if column.is_number:
            value = record.c.value_as_number
            if column.unit is not None:
                value = self._sql.case((record.c.unit_concept_id == column.unit, value))
        columns = (
            record.c.person_id,
            record.c[domain.date].label("record_date"),
            record.c[domain.record].label("record_id"),
            value.label("value"),
        )
        return self._sql.select(*columns).where(chosen)

    def _values(self, column: OmopColumn) -> Select[Any]:
        """The rows that have a record that counts, and its number, one line each."""
        sql, base = self._sql, self._base
        record = self._records(column).subquery()
        counts = [record.c.person_id == base.c.person_id]
        if column.days is not None:
            first, last = (self._later(base.c.row_date, days) for days in column.days)
            counts.append(record.c.record_date.between(first, last))
        if column.is_number:
            counts.append(record.c.value.is_not(None))
        joined = base.join(record, sql.and_(*counts))
        take = column.take or "last"
        if not column.is_number or take in ("mean", "min", "max"):
            whole = {"mean": sql.func.avg, "min": sql.func.min}.get(take, sql.func.max)
            chosen = sql.select(base.c.row_id, whole(record.c.value).label("value"))
            return chosen.select_from(joined).group_by(base.c.row_id)
        ends = record.c.record_date, record.c.record_id
        order = ends if take == "first" else tuple(each.desc() for each in ends)
        rank = sql.func.row_number().over(partition_by=base.c.row_id, order_by=order)
        numbered = sql.select(base.c.row_id, record.c.value, rank.label("rank"))
        inner = numbered.select_from(joined).subquery()
        return sql.select(inner.c.row_id, inner.c.value).where(inner.c.rank == 1)
