"""Background knowledge without a file of TOML: said by name, in a run and at a real site."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from cipherdag.errors import ParameterError
from cipherdag.graphs.knowledge import Knowledge, read_tiers
from cipherdag.graphs.networks import asia


@pytest.fixture
def three_files(tmp_path):
    patients = asia().sample(3000, np.random.default_rng(1))
    files = [tmp_path / f"{name}.csv" for name in ("north", "south", "west")]
    for n, file in enumerate(files):
        patients[1000 * n : 1000 * (n + 1)].to_csv(file, index=False)
    return files


def arrows(folder):
    edges = json.loads((folder / "result.json").read_text("utf-8"))["edges"]
    return {(edge["from"], edge["mark"], edge["to"]) for edge in edges}


@pytest.mark.parametrize("algorithm", [["fedpc"], ["fedboss"], []])
def test_a_forbidden_and_a_required_edge_are_obeyed(call, three_files, tmp_path, algorithm):
    out = tmp_path / "out"
    said = ["--forbid", "Smoking", "Bronchitis", "--require", "VisitToAsia", "XRay"]
    code, text, error = call("run", *algorithm, *three_files, *said, "--out", out)
    assert code == 0, text + error
    learnt = arrows(out)
    assert ("VisitToAsia", "-->", "XRay") in learnt
    assert not {("Smoking", "-->", "Bronchitis"), ("Smoking", "---", "Bronchitis")} & learnt


def test_tiers_in_a_csv_direct_what_the_data_leave_open(call, three_files, tmp_path):
    tiers, out = tmp_path / "tiers.csv", tmp_path / "out"
    tiers.write_text("variable,tier\nSmoking,1\nBronchitis,3\nDyspnoea,2\n", "utf-8")
    code, text, error = call("simulate", "fedpc", three_files[0], "--tiers", tiers, "--out", out)
    assert code == 0, text + error
    assert not [a for a in arrows(out) if a[0] == "Bronchitis" and a[2] in ("Smoking", "Dyspnoea")]


def test_columns_that_come_first_are_named_without_a_file(call, three_files, tmp_path):
    out = tmp_path / "out"
    code, text, error = call("run", "fedpc", *three_files, "--tiers", "XRay,Dyspnoea", "--out", out)
    assert code == 0, text + error
    learnt = arrows(out)
    assert any(a[0] == "XRay" for a in learnt)  # against nature, as it was said
    first = {"XRay", "Dyspnoea"}
    assert not [a for a in learnt if a[2] in first and a[0] not in first]
    code, text, error = call("repeat", out, "--out", tmp_path / "again")
    assert code == 0, text + error
    assert arrows(tmp_path / "again") == learnt


def test_a_file_of_tiers_that_is_not_there_is_no_column(call, three_files):
    code, _, error = call("run", "fedpc", *three_files, "--tiers", "tires.csv")
    assert code == 2
    assert "there is no file tires.csv" in error


def test_all_others_are_those_in_no_tier_and_keep_their_place():
    names = ["age", "bmi", "crp", "sex"]
    knowledge = Knowledge(tiers=(("age", "sex"), ("*",)))
    forbidden = knowledge.over(names).forbidden
    assert forbidden[1:3][:, [0, 3]].all()
    assert forbidden.sum() == 4
    assert knowledge.names == ("age", "sex")
    by_number = knowledge.numbered(names).over(["1", "2", "3", "4"])
    assert (by_number.forbidden == forbidden).all()
    assert Knowledge.loads(knowledge.dumps()) == knowledge


@pytest.mark.parametrize("algorithm", ["fedboss", "fedpc", "fedfci"])
def test_edges_at_age_and_sex_come_with_the_tiers_to_say(call, tmp_path, algorithm):
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"age": rng.normal(60, 12, 1500), "sex": rng.choice(["f", "m"], 1500)})
    rows["bmi"] = 26 + 0.12 * (rows["age"] - 60) + rng.normal(0, 3, 1500)
    file, out = tmp_path / "rows.csv", tmp_path / "out"
    rows.to_csv(file, index=False)
    _, text, error = call("simulate", algorithm, file, "--out", out)
    assert "causes age or sex" in text, error
    words = re.search(r"run again with (--tiers .*)\.$", text, re.MULTILINE)[1]
    assert words == "--tiers age,sex"
    assert text.index("Learnt graph") < text.index(words)
    assert words in (out / "report.html").read_text("utf-8")
    code, text, error = call("simulate", algorithm, file, *words.split())
    assert code == 0, error
    assert "causes age" not in text


@pytest.mark.parametrize("name", ["Smokin", "smoking", "SMOKING"])
def test_a_name_that_is_nearly_a_column_s_is_answered_with_the_column(call, three_files, name):
    code, _, error = call("run", "fedpc", *three_files, "--forbid", "Dyspnoea", name)
    assert code == 2
    assert f"'{name}', which is no variable" in error
    assert "Did you mean 'Smoking'?" in error


def test_edges_on_the_command_line_add_to_those_of_a_file(call, three_files, tmp_path):
    file, out = tmp_path / "knowledge.toml", tmp_path / "out"
    file.write_text('required = [["VisitToAsia", "XRay"]]\n', "utf-8")
    more = ["--knowledge", file, "--require", "Smoking", "XRay", "--out", out]
    assert call("run", "fedpc", *three_files, *more)[0] == 0
    assert {("VisitToAsia", "-->", "XRay"), ("Smoking", "-->", "XRay")} <= arrows(out)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "columns variable and tier"),
        ("Smoking,1\n", "columns variable and tier"),
        ("variable,tier\nSmoking,early\n", "line 2"),
        ("variable,tier\nSmoking,1\nXRay\n", "line 3"),
    ],
)
def test_a_file_of_tiers_that_is_none_is_refused_with_its_line(text, said):
    with pytest.raises(ParameterError, match=said):
        read_tiers(text)
