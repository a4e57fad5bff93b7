"""Copies of rows are told from rows that repeat others by chance."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.repeated_rows import RepeatedRows, repeated_rows
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table


def table_of(frame):
    return load_table(frame, infer_schema(frame))


def cohort(seed, rows=400):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(62, 14, rows).round(),
            "bmi": rng.normal(26, 4, rows).round(1),
            "crp": np.exp(rng.normal(1, 1.2, rows)).round(1),
            "glucose": rng.normal(105, 20, rows).round(),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


def answers_of(seed, rows=600, columns=15):
    """A questionnaire: answers of five steps that follow one trait closely."""
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=(rows, 1))
    answers = np.floor(0.9 * trait + 0.44 * rng.normal(size=(rows, columns)) + 2.5).clip(0, 4)
    return pd.DataFrame({f"q{at}": answers[:, at].astype(int) for at in range(columns)}).astype(str)


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_are_copied_are_counted_exactly(seed):
    rows = cohort(seed)
    assert repeated_rows(table_of(rows)) == RepeatedRows(0, copied=False)
    copied = pd.concat([rows, rows[:6], rows[:2]])
    assert repeated_rows(table_of(copied)) == RepeatedRows(8, copied=True)


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_repeat_by_chance_are_no_copies(seed):
    few = cohort(seed, 2000)[["age", "sex"]]
    items = answers_of(seed, columns=3).astype(int)
    with_total = items.assign(total=items.sum(axis=1)).astype(str)
    for frame in (few, answers_of(seed, columns=6), answers_of(seed), with_total):
        found = repeated_rows(table_of(frame))
        assert found.rows == frame.duplicated().sum()
        assert not found.copied


def agreeing_pairs(frame, columns):
    """How many pairs of rows agree in some columns."""
    times = Counter(map(tuple, frame[columns].to_numpy().tolist())).values()
    return sum(each * (each - 1) / 2 for each in times)


def copied_by_all_pairs_of_columns(frame):
    """The rule for rows some of which are equal, with every two columns left out."""
    names, n = [*frame], len(frame)
    share = {each: agreeing_pairs(frame, [each]) / (n * (n - 1) / 2) for each in names}

    def by_chance(columns):
        pairs = agreeing_pairs(frame, columns)
        rest = {each: [name for name in columns if name != each] for each in columns}
        return sum(
            (agreeing_pairs(frame, rest[each]) - pairs) * share[each] / (1 - share[each])
            for each in columns
            if share[each] < 1
        )

    pairs = agreeing_pairs(frame, names)
    without = [[name for name in names if name != each] for each in names]
    determined = [rest for rest in without if agreeing_pairs(frame, rest) == pairs]
    most = max(map(by_chance, determined), default=0.0)
    return by_chance(names) <= 0.1 * pairs and most <= pairs / 2


def test_copies_are_told_as_with_every_two_columns_left_out():
    answers = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        names = [f"c{k}" for k in range(rng.integers(2, 6))]
        drawn = rng.integers(rng.integers(3, 30), size=(60, len(names)))
        if seed % 2:
            drawn[:, -1] = drawn[:, :-1].sum(axis=1)
        drawn[-4:] = drawn[:4]
        frame = pd.DataFrame(drawn, columns=names)
        schema = Schema(tuple(Column(name, "continuous") for name in names))
        counted = repeated_rows(load_table(frame, schema))
        if counted.rows <= 30:
            answers.append(counted.copied)
            assert counted.copied == copied_by_all_pairs_of_columns(frame), seed
    assert {*answers} == {True, False}


def test_a_file_that_was_written_twice_is_copied():
    few = cohort(1)[["age", "sex"]].drop_duplicates()
    assert repeated_rows(table_of(pd.concat([few, few]))).copied


def test_equal_visits_of_two_patients_repeat_no_row():
    rows = cohort(3)
    table = table_of(pd.concat([rows, rows[:9]]))
    n = table.rows
    assert repeated_rows(replace(table, patients=np.arange(n))).rows == 0
    visits = np.append(np.arange(n - 9), np.arange(9))
    assert repeated_rows(replace(table, patients=visits)) == RepeatedRows(9, copied=True)
