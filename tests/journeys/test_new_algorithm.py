"""An algorithm in one folder and one line: every command, report, law and real site knows it."""

import json

import pytest
from documents import ROOT
from house import add, chow_liu, copied, run, table

TREE = {("alarm", "blood_pressure"), ("alarm", "heart_rate"), ("blood_pressure", "stroke"),
        ("blood_pressure", "volume")}  # fmt: skip
CHECK = """
import pandas as pd
from cipherdag import Federation
from cipherdag.algorithms.registry import algorithm_class
from cipherdag.testing import check_algorithm
data = pd.read_csv("data.csv")
clinics = {"north": data[:300], "south": data[300:650], "west": data[650:]}
own = algorithm_class("chow-liu")()
print(Federation.simulate(clinics).run(own).finding.graph)
check_algorithm(own, clinics)
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = copied(tmp_path_factory.mktemp("house"))
    add(made, *chow_liu())
    table(made / "data.csv")
    return made


def test_the_command_line_runs_repeats_and_reports_it(house):
    code, said = run(house, "-m", "cipherdag", "simulate", "chow-liu", "data.csv", "--out", "first")
    assert code == 0, said
    assert "Chow-Liu · 3 sites · sums masked" in said
    report = json.loads((house / "first" / "result.json").read_text("utf-8"))
    assert {tuple(sorted((e["from"], e["to"]))) for e in report["edges"]} == TREE
    page = (house / "first" / "report.html").read_text("utf-8")
    assert "means and covariances of numbers" in page.lower()
    code, said = run(house, "-m", "cipherdag", "repeat", "first", "--out", "second")
    assert code == 0, said
    again = json.loads((house / "second" / "result.json").read_text("utf-8"))
    assert again["edges"] == report["edges"]
    for words in (["run"], ["simulate"], ["coordinator", "run"]):
        code, said = run(house, "-m", "cipherdag", *words, "chow-liu", "--help")
        assert (code, "--max-rows" in said) == (0, True)


def test_python_runs_it_and_it_keeps_every_law(house):
    code, said = run(house, "-c", CHECK)
    assert code == 0, said
    assert "alarm --- blood_pressure" in said


def test_hospitals_as_processes_run_it_over_flare(house):
    script = ROOT / "benchmarks" / "three_hospitals.py"
    words = ("data.csv", "--algorithm", "chow-liu", "--rows", "900", "--brief")
    code, said = run(house, script, *words, timeout=600)
    assert code == 0, said
    assert "masking: the same 4 edges as in one process" in said
    assert "bfv: the same 4 edges as in one process" in said
    assert "every ledger agrees with the coordinator's transcript" in said
