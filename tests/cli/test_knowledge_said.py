"""Background knowledge without a file of TOML: said by name, in a run and at a real site."""

import json

import numpy as np
import pytest

from cipherdag.errors import ParameterError
from cipherdag.graphs.knowledge import read_tiers
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
