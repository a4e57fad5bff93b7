"""One thing is changed and the run is made again; a folder or a pattern names its sites."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from cipherdag import Federation, FedPC
from cipherdag.graphs.networks import asia


@pytest.fixture
def folder(tmp_path):
    """A folder with the tables of three hospitals, and what lies about beside them."""
    patients = asia().sample(2400, np.random.default_rng(1))
    made = tmp_path / "data"
    made.mkdir()
    for n, name in enumerate(("north", "south", "west")):
        patients[800 * n : 800 * (n + 1)].to_csv(made / f"{name}.csv", index=False)
    (made / "notes.md").write_text("ask about 2023", "utf-8")
    (made / "draft.toml").write_text("[[variables]]\n", "utf-8")
    return made


def report(out):
    return json.loads((out / "result.json").read_text("utf-8"))


def edges(out):
    return [(edge["from"], edge["mark"], edge["to"]) for edge in report(out)["edges"]]


def test_another_level_is_one_command(call, folder, tmp_path):
    first, other, direct = tmp_path / "first", tmp_path / "other", tmp_path / "direct"
    files = sorted(folder.glob("*.csv"))
    assert call("run", "fedpc", folder, "--max-cond-size", 2, "--out", first)[0] == 0
    code, text, error = call("repeat", first, "--alpha", 0.2, "--out", other)
    assert code == 0, text + error
    assert text.startswith("alpha: 0.2, was 0.01\n")
    call("run", "fedpc", *files, "--max-cond-size", 2, "--alpha", 0.2, "--out", direct)
    assert edges(other) == edges(direct)
    assert report(other)["parameters"] == report(direct)["parameters"]
    code, text, _ = call("repeat", other, "--alpha", 0.01, "--out", tmp_path / "back")
    assert text.startswith("alpha: 0.01, was 0.2\n")
    assert edges(tmp_path / "back") == edges(first)


def test_options_that_may_change_are_listed_with_values_of_the_run(call, folder, tmp_path):
    call("run", "fedpc", folder, "--alpha", 0.025, "--seed", 4, "--out", tmp_path / "first")
    code, text, _ = call("repeat", tmp_path / "first", "--help")
    assert code == 0
    assert "[default: 0.025]" in text
    assert "[default: 4;" in text
    assert "--forbid A B" in text
    assert "--as-published" not in text
    text = call("run", "fedpc", "--help")[1]
    assert "[default: 4;" not in text, "of other runs these are not the values"


def test_a_simulation_is_repeated_over_more_sites(call, folder, tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    call("simulate", "fedpc", folder / "north.csv", "--sites", 3, "--out", first)
    code, text, error = call("repeat", first, "--sites", 4, "--seed", 5, "--out", other)
    assert code == 0, text + error
    assert tomllib.loads((other / "run.toml").read_text("utf-8"))["sites"] == 4
    assert len(report(other)["sites"]) == 4
    code, _, error = call("repeat", first, "--search", "ges")
    assert code == 2
    assert "a run of fedpc has no option --search" in error
    code, _, error = call("run", "--resume", first)
    assert code == 2
    assert "came to its end" in error


def test_what_a_run_switched_on_can_be_switched_off(call, folder, tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    for file in folder.glob("*.csv"):
        common = pd.read_csv(file)[["Smoking", "Bronchitis", "Dyspnoea"]]
        common.to_csv(file, index=False)
    call("run", "fedfci", folder, "--selection", "--out", first)
    assert report(first)["parameters"]["selection"] is True
    _, text, _ = call("repeat", first, "--no-selection", "--out", other)
    assert text.startswith("selection: False, was True\n")
    assert report(other)["parameters"]["selection"] is False


def test_knowledge_is_added_to_that_of_the_run(call, folder, tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    call("run", "fedpc", folder, "--require", "VisitToAsia", "XRay", "--out", first)
    call("repeat", first, "--require", "Smoking", "XRay", "--out", other)
    assert {("VisitToAsia", "-->", "XRay"), ("Smoking", "-->", "XRay")} <= set(edges(other))


def test_a_run_as_published_stays_that_of_the_paper(call, folder, tmp_path):
    call("run", "fedpc", folder, "--as-published", "--out", tmp_path / "paper")
    code, _, error = call("repeat", tmp_path / "paper", "--alpha", "0.05")
    assert code == 2
    assert "contradicts FedPC as published in its paper" in error


@pytest.mark.parametrize("named", ["data", "data/*.csv"])
@pytest.mark.parametrize("algorithm", [["fedpc"], []])
def test_a_folder_or_a_pattern_is_the_sites(call, folder, monkeypatch, tmp_path, named, algorithm):
    monkeypatch.chdir(folder.parent)
    code, text, error = call("run", *algorithm, named, "--out", tmp_path / "out")
    assert code == 0, text + error
    assert "Reading north.csv, south.csv, west.csv" in text
    assert report(tmp_path / "out")["sites"] == ["north", "south", "west"]


def test_a_described_file_of_a_folder_is_read_as_described(call, folder, tmp_path):
    table = (folder / "west.csv").read_text("utf-8").replace(",", ";")
    (folder / "west.csv").write_text(table, "utf-8")
    (folder / "west.toml").write_text('file = "west.csv"\ndelimiter = ";"\n', "utf-8")
    code, text, error = call("run", "fedpc", folder)
    assert code == 0, text + error
    assert "Reading north.csv, south.csv, west.toml" in text


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("data/*.xlsx", "no file has a name like"),
        ("empty", "holds no table: CSV"),
        ("nowhere.csv", "there is no file"),
        ("first", "cipherdag repeat first"),
    ],
)
def test_what_is_no_source_is_named(call, folder, monkeypatch, named, said):
    monkeypatch.chdir(folder.parent)
    (folder.parent / "empty").mkdir()
    Federation.simulate(sorted(folder.glob("*.csv"))).run(FedPC()).save("first")
    code, _, error = call("run", "fedpc", named)
    assert code == 2
    assert said in error


def test_two_sites_say_what_they_mean_for_privacy(call, folder, tmp_path):
    (folder / "west.csv").unlink()
    code, text, error = call("run", folder, "--out", tmp_path / "out")
    assert code == 0, text + error
    assert "There are two sites: a sum over both would tell each the other's part" in error
    assert report(tmp_path / "out")["sites"] == ["north", "south"]
