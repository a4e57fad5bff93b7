"""Whether a column says whose visit a row is: asked where it may be so, and not once answered."""

import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from shaped_files import PERSONS, VISITS

from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.drafts.repeated_keys import key_question, possible_keys
from cipherdag.sites.drafts.table_suspicions import row_suspicions
from cipherdag.sites.table.site_table import load_table


def asked(frame, schema=None):
    schema = infer_schema(frame, min_cell_size=0) if schema is None else schema
    table = load_table(frame, schema)
    question = key_question(frame, table, possible_keys(schema))
    return [] if question is None else [*question[0]]


def repeats(rng, *, keys, shared=1.0, patients=60, each=6):
    """Visits in no order of two numbers and a sex, alike within patients."""
    whose = np.repeat(np.arange(patients), each)
    rng.shuffle(whose)
    return pd.DataFrame(
        {
            "pid": keys(whose),
            "crp": rng.normal(size=len(whose)) + shared * rng.normal(size=patients)[whose],
            "sodium": rng.normal(size=len(whose)),
            "sex": np.where(rng.random(patients) < 0.5, "f", "m")[whose],
        }
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("names", [("pid", "case", "ward"), ("key_a", "key_b", "key_c")])
def test_three_candidates_make_one_question_with_a_reason(names, seed):
    rng = np.random.default_rng(seed)
    frame = repeats(rng, keys=lambda whose: whose + 1000, shared=2.0, patients=200)
    patient = frame["pid"].to_numpy() - 1000
    case = patient * 3 + rng.integers(0, 3, len(frame))
    ward = rng.integers(0, 40, 200)[patient]
    frame["crp"] += rng.normal(size=600)[case]  # and visits of one case are more alike
    pid, visit, place = names
    frame = frame.rename(columns={"pid": pid}).assign(**{visit: case + 5000, place: ward + 100})
    frame["lactate"] = 2.0 * rng.normal(size=40)[ward] + rng.normal(size=len(frame))
    assert asked(frame)[0] == pid
    assert {*asked(frame)} == {*names}
    draft = infer_schema(frame)
    said = [column.comment for column in draft.columns if "whose visit a row is" in column.comment]
    (question,) = said
    assert all(f"'{name}'" in question for name in names)
    assert f"'{pid}' fits best: each of its values has one sex, and" in question


def test_words_among_numbers_do_not_hide_repeated_visits():
    rng = np.random.default_rng(11)
    frame = repeats(rng, keys=lambda whose: whose + 1000, shared=2.0).astype({"sodium": object})
    frame["weight"] = rng.normal(70, 9, len(frame)).astype(object)
    frame.loc[3, "sodium"], frame.loc[5, "weight"] = "n.b.", "Ada Byron"
    draft = infer_schema(frame)
    assert "without 'sodium' and 'weight', since" in draft.comment
    assert not {"n.b.", "Byron"} & {*draft.dumps().replace("'", " ").split()}
    assert "Values of 'pid' repeat" in draft.columns[0].comment


TEXTS = [
    lambda whose: [f"P-{number:04d}" for number in whose],
    lambda whose: whose * 37 + 1009,
    lambda whose: whose + 0,
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("keys", TEXTS, ids=["texts", "numbers", "counted"])
def test_a_key_that_repeats_is_asked_about(keys, seed):
    frame = repeats(np.random.default_rng(seed), keys=keys)
    assert asked(frame) == ["pid"]
    said = infer_schema(frame).dumps()
    assert "are they visits of one patient?" in " ".join(said.replace("#", "").split())
    assert "P-0001" not in said


@pytest.mark.parametrize("seed", range(20))
def test_a_cross_section_raises_no_question(seed):
    rng = np.random.default_rng(seed)
    n = 400
    age = rng.integers(20, 90, n)
    frame = pd.DataFrame(
        {
            "record": [f"R{number:05d}" for number in range(n)],
            "postcode": [f"Z{number:03d}" for number in rng.integers(0, 80, n)],
            "age": age,
            "day": rng.integers(0, 60, n),
            "pressure": 0.6 * age + rng.normal(0, 10, n),
            "sex": rng.choice(["f", "m"], n),
            "weight": rng.normal(75, 12, n),
        }
    )
    assert asked(frame) == []


def test_a_site_is_asked_until_it_has_answered():
    rng = np.random.default_rng(9)
    frame = repeats(rng, keys=TEXTS[0], shared=2.0).sort_values("pid")
    schema = infer_schema(frame)
    kinds = [each.kind for each in row_suspicions(load_table(frame, schema))]
    assert "rows that are like those before them" in kinds
    for answer in (replace(schema, rows="persons"), schema.with_patients("pid")):
        assert asked(frame, answer) == []
        kinds = [each.kind for each in row_suspicions(load_table(frame, answer))]
        assert "rows that are like those before them" not in kinds


def drawn(shapes, name, path):
    """The table of one shape as a file."""
    made = shapes[name]
    draw = made[0] if isinstance(made, tuple) else made
    draw(np.random.default_rng((1, zlib.crc32(name.encode())))).to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("name", VISITS)
def test_the_key_of_an_export_of_visits_is_asked_about(name, tmp_path):
    assert VISITS[name][1] == asked(drawn(VISITS, name, tmp_path / "export.csv"))[0]


@pytest.mark.parametrize("name", PERSONS)
def test_an_export_of_persons_raises_no_question(name, tmp_path):
    path = drawn(PERSONS, name, tmp_path / "export.csv")
    assert asked(path) == []
    assert row_suspicions(load_table(path, infer_schema(path, min_cell_size=0))) == []
