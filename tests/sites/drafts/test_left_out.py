"""A run with a draft says which columns the draft leaves out, and why."""

import numpy as np
import pandas as pd
import pytest
from documents import blocks

from cipherdag import Federation, FedPC, Schema, infer_schema
from cipherdag.sites.drafts.left_out import left_out
from cipherdag.sites.drafts.together import draft_files
from tests.support.commands import call


@pytest.fixture
def files(tmp_path):
    paths = []
    for k, (site, glucose) in enumerate(
        {"north": "glucose_mmol_l", "south": "glucose_mg_dl", "west": "glucose_mmol_l"}.items()
    ):
        rng = np.random.default_rng(k)
        n = 120
        frame = pd.DataFrame(
            {
                "mrn": rng.permutation(10_000)[:n],
                "age": rng.normal(60, 9, n).round(1),
                glucose: (rng.normal(6, 1, n) * (18.016 if site == "south" else 1)).round(2),
                "crp": rng.gamma(2, 4, n).round(1),
                "admitted": [f"2021-0{d % 9 + 1}-11" for d in range(n)],
                'a "b" ä': [f"text {d} of somebody" for d in range(n)],
            }
        )  # fmt: skip
        if site == "west":
            frame = frame.drop(columns="crp")
        paths.append(tmp_path / f"{site}.csv")
        frame.to_csv(paths[-1], index=False)
    return paths


def test_a_run_with_an_undecided_draft_says_what_it_leaves_out(
    files, tmp_path, capsys, monkeypatch, caplog
):
    path = tmp_path / "schema.toml"
    assert call(capsys, monkeypatch, "schema", "infer", *files, "--out", path)[0] == 0
    assert call(capsys, monkeypatch, "run", "describe", *files, "--schema", path,
                "--out", tmp_path / "out")[0] == 0  # fmt: skip
    said = [each.getMessage() for each in caplog.records if "left out" in each.getMessage()]
    (undecided,) = [each for each in said if "DECIDE" in each]
    assert undecided.startswith("column 'glucose' left out until somebody does what stands behind")
    assert "'south.csv' seem to be in another unit" in undecided
    for name, why in (
        ("'crp'", "west.csv lacks it"), ("'mrn'", "identifier"), ("'admitted'", "dates"),
        ("'a \"b\" ä'", "free text"),
    ):  # fmt: skip
        assert any(name in each and why in each for each in said), (name, said)


def test_drafts_of_this_process_and_files_say_the_same(files):
    draft, _, _ = draft_files(files, 5)
    assert left_out(draft) == left_out(Schema.loads(draft.dumps()), draft.dumps())
    assert left_out(Schema.loads(draft.dumps())) == {}  # no reason is left
    windows = draft.dumps().replace("\n", "\r\n")
    assert left_out(Schema.loads(draft.dumps()), windows) == left_out(draft)


def test_what_somebody_decided_is_not_said_again(files):
    text = draft_files(files, 5)[0].dumps()
    decided = text.replace(
        '[columns.glucose]\nkind = "ignore"', '[columns.glucose]\nkind = "continuous"'
    )
    named = [name for names in left_out(Schema.loads(decided), decided).values() for name in names]
    assert "glucose" not in named
    assert "crp" in named


def test_a_simulation_with_a_draft_says_it_and_marks_are_exempt(caplog):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"pid": np.arange(90) + 1, "x": rng.normal(size=90)})
    frame["y"] = frame["x"] + rng.normal(size=90)
    draft = infer_schema(frame)
    Federation.split(frame, 3, schema=draft).run(FedPC())
    assert "column 'pid' left out since" in caplog.text
    caplog.clear()
    Federation.split(frame, 3, schema=draft, patient="pid").run(FedPC())
    assert "left out since" not in caplog.text


def test_the_page_shows_what_a_run_says(tmp_path, monkeypatch, capsys, caplog):
    page = [*blocks("docs/howto/agree-on-a-schema.md")]
    (shown,) = (each for each in page if "test_left_out" in each.how.get("shown by", ""))
    (python,) = (each for each in page if '"kiel"' in each.code and each.language == "python")
    monkeypatch.chdir(tmp_path)
    exec(python.code, {"np": np, "pd": pd})
    infer, run = (
        next(each.code.split() for each in page if each.code.startswith(begin))
        for begin in ("cipherdag schema infer kiel", "cipherdag run describe kiel")
    )
    assert call(capsys, monkeypatch, *infer[1:])[0] == 0
    assert call(capsys, monkeypatch, *run[1:])[0] == 0
    assert shown.code.strip()
    for line in shown.code.splitlines():
        assert line in caplog.text
