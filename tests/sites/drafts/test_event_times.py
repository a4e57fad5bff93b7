"""A time until an event is asked about with its pair; other times and durations are not."""

import numpy as np
import pandas as pd
import pytest

from cipherdag import infer_schema
from cipherdag.sites.drafts.event_times import time_questions
from cipherdag.sites.table.column import Column


def of(*names):
    """What is asked of columns; those with a "!" hold two categories."""
    columns = [
        Column(name.strip("!"), "discrete", categories=("0", "1"))
        if name.endswith("!")
        else Column(name, "continuous")
        for name in names
    ]
    return time_questions(columns)


@pytest.mark.parametrize(
    ("time", "event", "names"),
    [
        ("followup_days", "died", ["age", "followup_days", "died!", "sex!"]),
        ("os_months", "os_status", ["os_months", "pfs_status!", "os_status!"]),
        ("time_to_event", "event", ["time_to_event", "event!", "marital_status!"]),
        ("time", "DEATH_EVENT", ["age", "time", "DEATH_EVENT!", "sex!"]),
        ("time", "status", ["time", "status!", "age"]),
        ("futime", "death", ["futime", "death!", "mgus!"]),
        ("days_to_last_follow_up", "vital_status", ["days_to_last_follow_up", "vital_status!"]),
        ("Nachbeobachtung Tage", "verstorben", ["Nachbeobachtung Tage", "verstorben!"]),
        ("survtime", "survived_status", ["survtime", "age"]),
    ],
)
def test_a_time_is_asked_about_with_the_event_that_ends_it(time, event, names):
    asked = of(*names)
    assert [*asked] == [time]
    if any(name.strip("!") == event for name in names):
        assert f'Survival(time="{time}", event="{event}")' in asked[time]
    else:
        assert "the column that says which" in asked[time]


@pytest.mark.parametrize(
    "names",
    [
        ["los_days", "died!"], ["age_years", "event!"], ["days_to_birth", "vital_status!"],
        ["age_at_diagnosis", "death!"], ["timer", "status!"], ["time", "smoking_status!"],
        ["time", "age"], ["years_of_education", "died!"], ["dose", "relapse!"], ["osmolality"],
        ["fu", "died"][:0], ["days_in_icu", "died!"], ["symptom_duration", "dead!"],
    ],
)  # fmt: skip
def test_other_columns_are_not_taken_for_times_until_an_event(names):
    assert of(*names) == {}


def test_the_draft_asks_and_changes_no_kind(tmp_path):
    rng = np.random.default_rng(3)
    n = 200
    frame = pd.DataFrame(
        {
            "age": rng.normal(60, 9, n).round(1),
            "followup_days": rng.integers(1, 3000, n),
            "died": np.where(rng.random(n) < 0.3, "yes", "no"),
            "event_date": [f"2021-0{k % 9 + 1}-1{k % 8}" for k in range(n)],
        }
    )
    draft = infer_schema(frame)
    columns = {column.name: column for column in draft.columns}
    assert columns["followup_days"].kind == "continuous"
    said = columns["followup_days"].comment
    assert "LOOK: is 'followup_days' the time until 'died'" in said
    assert "LOOK: may 'event_date' be the date of an event?" in columns["event_date"].comment
    assert "Survival" not in columns["age"].comment
    frame.loc[3, "died"] = "never seen"  # a value that the draft withholds: rows are not read
    assert "Survival" in infer_schema(frame).dumps()
