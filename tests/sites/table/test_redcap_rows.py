"""Exports of REDCap with repeating instruments: each row carries the fields of its record."""

import logging

import numpy as np
import pandas as pd
import pytest

from cipherdag import Federation, FedPC, errors
from cipherdag.sites.drafts.table_suspicions import row_suspicions
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.file_description import DescribedFile, FileDescription
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

HEADER = ("record_id", "redcap_repeat_instrument", "redcap_repeat_instance")
EVENTS = ("record_id", "redcap_event_name", *HEADER[1:])
SCHEMA = Schema(
    (
        Column("record_id", "patient"),
        Column("age", "continuous"),
        Column("sex", "discrete", categories=("1", "2")),
        Column("creatinine", "continuous"),
        Column("hb", "continuous"),
        *(Column(name, "ignore") for name in (*EVENTS[1:], "person_complete")),
    )
)


def export(seed, records=120):
    """An export: a row for each person, and one for each time that blood was taken."""
    rng, rows = np.random.default_rng(seed), []
    for record in range(records):
        age, sex, level = int(rng.integers(30, 85)), int(rng.integers(1, 3)), rng.normal()
        person = {"age": age, "sex": sex, "person_complete": 2}
        rows.append({"record_id": f"{seed}-{record}", **person})
        for instance in range(1, int(rng.integers(1, 6))):
            creatinine = round(60 + 0.5 * age + 10 * level + 12 * rng.normal(), 1)
            row = dict(zip(HEADER, (f"{seed}-{record}", "laboratory", instance), strict=True))
            hb = round(15 - 1.3 * (sex == 1) - 0.02 * creatinine + rng.normal(), 1)
            rows.append({**row, "creatinine": creatinine, "hb": hb})
    columns = [*HEADER, "age", "sex", "person_complete", "creatinine", "hb"]
    return pd.DataFrame(rows, columns=columns)


def written(tmp_path, frame, name="export.csv", **description):
    path = tmp_path / name
    frame.to_csv(path, index=False)
    return DescribedFile(path, FileDescription(**description))


def table_of(tmp_path, header, rows, **description):
    """The cells of a small export as they are read, by column."""
    frame = pd.DataFrame(rows, columns=[*header], dtype=object)
    names = [name for name in header if name not in EVENTS]
    columns = (*(Column(n, "ignore") for n in EVENTS), *(Column(n, "continuous") for n in names))
    schema = Schema(tuple(Column(c.name, c.kind, allow_constant=True) for c in columns))
    table = load_table(written(tmp_path, frame, **description), schema)
    values = np.where(np.isnan(table.values), -1, table.values)
    return {name: values[:, table.names.index(name)].tolist() for name in names}


def test_a_graph_is_that_of_tables_that_pandas_joins(tmp_path):
    described, joined = {}, {}
    for seed, site in enumerate("abc"):
        frame = export(seed)
        shuffled = frame.sample(frac=1.0, random_state=seed)
        described[site] = written(tmp_path, shuffled, f"{site}.csv", rows_of="laboratory")
        of_record = frame.redcap_repeat_instrument.isna()
        person = frame.loc[of_record, ["record_id", "age", "sex"]]
        blood = shuffled.loc[~of_record, ["record_id", "creatinine", "hb"]]
        joined[site] = blood.merge(person, on="record_id")
    ran = [Federation.simulate(data, schema=SCHEMA).run(FedPC()) for data in (described, joined)]
    assert ran[0].graph == ran[1].graph
    assert len(ran[0].graph.edges) >= 3
    for site in "abc":
        one, two = (load_table(data[site], SCHEMA) for data in (described, joined))
        np.testing.assert_array_equal(one.values, two.values)
        np.testing.assert_array_equal(one.codes, two.codes)
        np.testing.assert_array_equal(one.patients, two.patients)


def test_rows_of_records_are_one_for_each_person(tmp_path):
    frame = export(1)
    schema = Schema(tuple(c for c in SCHEMA.columns if c.name not in ("creatinine", "hb")))
    schema = Schema((*schema.columns, Column("creatinine", "ignore"), Column("hb", "ignore")))
    table = load_table(written(tmp_path, frame, rows_of="records"), schema)
    assert table.rows == table.persons == frame.record_id.nunique()
    assert table.numbers()[:, 0].tolist() == frame.age.dropna().tolist()


def test_rows_without_record_and_records_without_rows_are_said(tmp_path, caplog):
    rows = [
        (1, "", "", 50, ""), (1, "blood", 1, "", 7), (1, "blood", 2, "", 8),
        (2, "", "", 60, ""), (3, "blood", 1, "", 9), ("", "blood", 1, "", 9),
        (4, "", "", 70, ""), (4, "imaging", 1, "", ""), (5, "", "", 80, ""), (5, "blood", 1, "", 4),
    ]  # fmt: skip
    with caplog.at_level(logging.WARNING, "cipherdag.data"):
        read = table_of(tmp_path, (*HEADER, "age", "hb"), rows, rows_of="blood")
    assert read == {"age": [50, 50, 80], "hb": [7, 8, 4]}
    said = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert said == [
        "1 row without a record left out",
        "1 row without a row of the record left out",
        "2 records without a row of 'blood' left out",
    ]


LONGITUDINAL = [
    (1, "start", "", "", 50, 80, ""), (1, "month_6", "", "", "", 77, ""),
    (1, "start", "blood", 1, "", "", 5), (1, "month_6", "blood", 1, "", "", 6),
    (1, "month_9", "blood", 1, "", "", 7), (2, "start", "", "", 60, 90, ""),
    (2, "month_6", "blood", 1, "", "", 8), (2, "visit", "", 1, "", 91, ""),
    (2, "visit", "", 2, "", 92, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "events", "age", "weight"),
    [
        ("blood", ("start",), [50, 50, 50, 60], [80, 77, 80, 90]),
        ("blood", ("month_6",), [50, -1, -1], [80, 77, 77]),
        ("visit", ("start",), [60, 60], [91, 92]),
        ("records", ("start",), [50, 60], [80, 90]),
        ("records", ("month_6", "start"), [50, 60], [77, 90]),
    ],
)
def test_fields_come_from_the_same_event_then_the_declared(unit, events, age, weight, tmp_path):
    header = (*EVENTS, "age", "weight", "hb")
    schema_free = [row if unit == "blood" else (*row[:-1], 1) for row in LONGITUDINAL]
    read = table_of(tmp_path, header, schema_free, rows_of=unit, events=events)
    assert (read["age"], read["weight"]) == (age, weight)


@pytest.mark.follows("Declare events = [those whose fields each row carries]")
def test_events_that_nobody_declared_are_asked_for(tmp_path):
    header = (*EVENTS, "age", "weight", "hb")
    for events in ((), ("strat",)):
        with pytest.raises(errors.UnreadableDataError, match="event") as raised:
            table_of(tmp_path, header, LONGITUDINAL, rows_of="blood", events=events)
        assert raised.value.column == "redcap_event_name"
        assert "start" in raised.value.remedy
    assert table_of(tmp_path, header, LONGITUDINAL, rows_of="blood", events=("start",))


@pytest.mark.follows("Declare rows_of = one of")
def test_a_unit_that_no_row_has_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(errors.UnreadableDataError, match="no row is of 'labs'") as raised:
        load_table(written(tmp_path, export(0), rows_of="labs"), SCHEMA)
    assert raised.value.column == "redcap_repeat_instrument"
    assert "laboratory, records" in raised.value.remedy
    assert load_table(written(tmp_path, export(0), rows_of="laboratory"), SCHEMA).rows


@pytest.mark.follows("Remove rows_of and events, or export")
def test_a_table_that_is_no_such_export_is_refused(tmp_path):
    frame = export(0).drop(columns=["redcap_repeat_instrument", "redcap_repeat_instance"])
    with pytest.raises(errors.UnreadableDataError, match="exports of REDCap") as raised:
        load_table(written(tmp_path, frame, rows_of="laboratory"), SCHEMA)
    assert raised.value.column == "redcap_repeat_instrument"
    with pytest.raises(errors.UnreadableDataError, match="exports of REDCap") as raised:
        load_table(written(tmp_path, export(0), rows_of="laboratory", events=("x",)), SCHEMA)
    assert raised.value.column == "redcap_event_name"
    assert load_table(written(tmp_path, export(0), rows_of="laboratory"), SCHEMA).rows


@pytest.mark.follows("Export the records anew from REDCap")
@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([(1, "blood", 1, "", 7), (1, "blood", 1, "", 8)], "record_id"),
        ([(1, "", "", 51, "")], "record_id"),
        ([(1, "blood", 1, 51, 7)], "age"),
    ],
)
def test_rows_that_contradict_each_other_are_named(rows, column, tmp_path):
    sound = [(1, "", "", 50, ""), (2, "", "", 60, ""), (2, "blood", 1, "", 9)]
    sound += [(1, "blood", 3, "", 4)]
    with pytest.raises(errors.UnreadableDataError) as raised:
        table_of(tmp_path, (*HEADER, "age", "hb"), [*sound, *rows], rows_of="blood")
    assert raised.value.column == column
    assert raised.value.location == f"row {len(sound) + len(rows) + 1} of the file"
    assert table_of(tmp_path, (*HEADER, "age", "hb"), sound, rows_of="blood")["age"] == [60, 50]


def test_an_error_of_a_cell_names_its_row_in_the_export(tmp_path):
    rows = [
        (1, "", "", 50, ""),
        (1, "x", 1, "", 3),
        (1, "blood", 1, "", 7),
        (1, "blood", 2, "", "?"),
    ]
    with pytest.raises(errors.NotNumericError) as raised:
        table_of(tmp_path, (*HEADER, "age", "hb"), rows, rows_of="blood")
    assert raised.value.location == "row 5 of the file"


def test_columns_that_no_row_has_both_of_are_suspicious(tmp_path):
    columns = (c if c.kind != "patient" else Column(c.name, "ignore") for c in SCHEMA.columns)
    schema = Schema(tuple(columns))
    apart, joined = (
        load_table(written(tmp_path, export(2), **described), schema)
        for described in ({}, {"rows_of": "laboratory"})
    )
    kinds = [[each.kind for each in row_suspicions(table)] for table in (apart, joined)]
    assert "columns that no row has both of" in kinds[0]
    assert "columns that no row has both of" not in kinds[1]


def test_events_without_a_unit_are_no_description():
    with pytest.raises(errors.UnreadableDataError, match="events belong to rows_of"):
        FileDescription(events=("start",))
