"""The rows of a REDCap export that a study takes, each with the fields of its record.

An export has a row for each record, or for each of its events, and below it one for each time that
a repeating instrument was filled in, with the fields of that instrument alone. What a row of the
study is stands in the description of the file, such as ``[source]`` of ``site.toml``:

    rows_of = "laboratory"           # a repeating instrument or event; or "records", a row for each
    events = ["baseline_arm_1"]      # where a project has events: whose fields each row carries

A row takes a field that it lacks from its record's row of the same event, else from those of
``events``, in this order. No other event's fields are taken, since a weight at one visit is none of
the next; and the declaration decides, not which fields a hospital has filled in.

Leaks:
    Nothing. How many rows are left out is for the site's log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from cipherdag.errors import UnreadableDataError
from cipherdag.pages.numerals import counted, first_of
from cipherdag.sites.table.cells import CHUNK_ROWS, Cells, RawTable, TextCells
from cipherdag.sites.table.file_description import DECLARED
from cipherdag.sites.table.names import normalise_name

RECORDS = "records"
"""The unit of rows where each record is one."""
_OF_ROWS = ("redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance")
_OF_FORMS = ("_complete", "_timestamp")
_ANEW = "Export the records anew from REDCap, or correct the row."


def rows_of_unit(table: RawTable, unit: str, events: Sequence[str]) -> RawTable:
    """The rows of a repeating instrument, a repeating event, or one for each record.

    They are joined as the table is read. `RawTable.left_out` then says how many rows are left out.

    Raises:
        UnreadableDataError: The table is no such export, or has no such unit or event; two rows
            are the same instance, or a row and its record's contradict each other.
    """
    if not {*_OF_ROWS[:2]}.intersection(table.names) or (events and _OF_ROWS[0] not in table.names):
        lacking = _OF_ROWS[0] if events else _OF_ROWS[1]
        raise UnreadableDataError(
            "rows_of and events are of exports of REDCap, and this table lacks the column",
            column=lacking,
            remedy="Remove rows_of and events, or export all records from REDCap as raw data.",
        )
    export = _Export(table, normalise_name(unit), tuple(map(normalise_name, events)))
    return replace(
        table,
        chunks=export.blocks(),
        location_of=lambda row: table.location_of(export.taken[row]),
        left_out=export.left_out,
    )


class _Row(NamedTuple):
    """A row of an export; ``unit`` is the instrument or event that it repeats, or empty."""

    position: int
    record: str
    event: str
    unit: str
    instance: str
    cells: tuple[str, ...]


@dataclass(slots=True, repr=False)
class _Export:
    """The rows of one unit, and those of records, as they are read."""

    table: RawTable
    unit: str
    events: tuple[str, ...]
    of_records: dict[tuple[str, ...], _Row] = field(default_factory=dict)
    repeating: dict[tuple[str, ...], _Row] = field(default_factory=dict)
    units: dict[str, None] = field(default_factory=dict)
    taken: list[int] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def blocks(self) -> Iterator[list[Cells]]:
        """The joined rows; all rows of the export are read before the first."""
        boolean, nobody, events = [False] * len(self.table.names), 0, dict[str, None]()
        for row in self._read(boolean):
            events.setdefault(row.event)
            self.units.setdefault(row.unit)
            nobody += not row.record
            if row.record and not row.unit:
                self._once(self.of_records, row, row.record, row.event)
            elif row.record and row.unit == self.unit:
                self._once(self.repeating, row, row.record, row.event, row.instance)
        self._check_declared([*events])
        rows = self._joined()
        for block in iter(lambda: [*islice(rows, CHUNK_ROWS)], []):
            columns = zip(zip(*block, strict=True), boolean, strict=True)
            yield [TextCells(texts, boolean=truth) for texts, truth in columns]
        every = {record for record, _ in self.of_records}
        without, orphans, unit = len(every) - len(self.taken), 0, "the events"
        if self.unit != RECORDS:
            without = len(every - {record for record, *_ in self.repeating})
            orphans, unit = len(self.repeating) - len(self.taken), f"a row of '{self.unit}'"
        self.left_out += [
            f"{counted(count, noun)} without {lacking} left out"
            for count, noun, lacking in (
                (nobody, "row", "a record"),
                (orphans, "row", "a row of the record"),
                (without, "record", unit),
            )
            if count
        ]

    def _read(self, boolean: list[bool]) -> Iterator[_Row]:
        """All rows; says which columns hold truth values."""
        names, position = self.table.names, 0
        places = [names.index(name) if name in names else None for name in _OF_ROWS]
        for chunk in self.table.chunks:
            texts = [cells.as_text() for cells in chunk]
            boolean[:] = [a or b.boolean for a, b in zip(boolean, texts, strict=True)]
            columns = (
                t.texts if t.index is None else map(t.texts.__getitem__, t.index) for t in texts
            )
            for cells in zip(*columns, strict=True):
                said = ("" if at is None else normalise_name(cells[at]) for at in places)
                event, instrument, instance = said
                unit = instrument or (event if instance else "")
                yield _Row(position, normalise_name(cells[0]), event, unit, instance, cells)
                position += 1

    def _once(self, rows: dict[tuple[str, ...], _Row], row: _Row, *key: str) -> None:
        first = rows.setdefault(key, row)
        if first is not row:
            self._refuse(
                first, row, self.table.names[0], "are of the same record, event and instance"
            )

    def _refuse(self, first: _Row, row: _Row, column: str, what: str) -> None:
        one, two = (self.table.location_of(each.position) for each in (first, row))
        raise UnreadableDataError(
            f"{one} and {two} {what}", column=column, location=two, remedy=_ANEW
        )

    def _check_declared(self, events: list[str]) -> None:
        """Refuse a unit or events that the export does not have, or events that nobody declared."""
        units = [each for each in (*self.units, RECORDS) if each]
        if self.unit not in units:
            raise UnreadableDataError(
                f"no row is of '{self.unit}'",
                column=_OF_ROWS[1],
                remedy=f"Declare rows_of = one of {first_of(units)} {DECLARED}.",
            )
        several = len({event for _, event in self.of_records}) > 1
        absent = [each for each in self.events if each not in events]
        if absent or (several and not self.events):
            what = (
                f"no row is of the event '{absent[0]}'" if absent else "records have several events"
            )
            raise UnreadableDataError(
                what,
                column=_OF_ROWS[0],
                remedy=f"Declare events = [those whose fields each row carries], of "
                f"{first_of(events)}, {DECLARED}.",
            )
        self.events = self.events or tuple({event: None for _, event in self.of_records})

    def _joined(self) -> Iterator[Sequence[str]]:
        """The cells of the rows that are taken, in their order; notes their positions."""
        if self.unit == RECORDS:
            for record in dict.fromkeys(record for record, _ in self.of_records):
                if rows := self._of_record(record, self.events):
                    self.taken.append(rows[0].position)
                    yield _filled(rows)
            return
        carried: dict[tuple[str, str], tuple[list[_Row], list[str]]] = {}
        for row in self.repeating.values():
            key = row.record, row.event
            if key not in carried:
                rows = self._of_record(row.record, (row.event, *self.events))
                carried[key] = rows, _filled(rows)
            rows, given = carried[key]
            if rows:
                self.taken.append(row.position)
                if rows[0].event == row.event:
                    self._check_agrees(rows[0], row)
                yield [cell or other for cell, other in zip(row.cells, given, strict=True)]

    def _of_record(self, record: str, events: Sequence[str]) -> list[_Row]:
        """The rows of a record of these events."""
        rows = (self.of_records.get((record, event)) for event in dict.fromkeys(events))
        return [row for row in rows if row is not None]

    def _check_agrees(self, of_record: _Row, row: _Row) -> None:
        """Refuse a field that a row and its record's row of the same event fill in differently."""
        for name, one, two in zip(self.table.names, of_record.cells, row.cells, strict=True):
            if one and two and one != two and name not in _OF_ROWS and not name.endswith(_OF_FORMS):
                self._refuse(of_record, row, name, "hold different values of one field")


def _filled(rows: Sequence[_Row]) -> list[str]:
    """The first cell of some rows that is filled in, for each column."""
    columns = zip(*(row.cells for row in rows), strict=True)
    return [next(filter(None, cells), "") for cells in columns]
