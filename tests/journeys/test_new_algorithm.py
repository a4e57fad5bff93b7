"""An algorithm in one folder and one line: every command, report, law and real site knows it."""

import json

import pytest
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
HELP = """
from click.testing import CliRunner
from cipherdag.cli.main import cli
for words in (["run"], ["simulate"], ["coordinator", "run"]):
    print("--max-rows" in CliRunner().invoke(cli, [*words, "chow-liu", "--help"]).output)
"""
OVER_FILES = """
import contextlib
import threading
from pathlib import Path
import numpy as np
import pandas as pd
from cipherdag import Federation
from cipherdag.algorithms.registry import algorithm_class
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.deployment.processes import start
from cipherdag.federation.site import split_rows
from cipherdag.results.site_result import site_result
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings

share, data, sites = Path("share").absolute(), pd.read_csv("data.csv"), {}
share.mkdir()
lead = CoordinatorFolder.create(Path("lead"), study="study", engine="files", files=str(share))
own = algorithm_class("chow-liu")()
policy = Policy(
    algorithms=frozenset({own.name}), questions=QUESTION_KINDS, approve_runs="automatic"
)
for k, name in enumerate(("north", "south", "west")):
    settings = SiteSettings(name=name, files=str(share / name), device="cpu")
    sites[name] = SiteFolder.create(Path(name), settings, policy)
    data[k::3].to_csv(sites[name].path / "data.csv", index=False)
    (sites[name].path / "schema.toml").write_text(infer_schema(data).dumps(), encoding="utf-8")
approvals = lead.approve([request_enrolment(site)[0] for site in sites.values()])
for name, site in sites.items():
    activate(site, approvals[name], code=lead.fingerprint)
stop = threading.Event()
with contextlib.ExitStack() as up:
    for site in sites.values():
        thread = threading.Thread(target=start, args=(site,), kwargs={"stopped": stop.wait})
        thread.start()
        up.callback(thread.join)
    up.callback(stop.set)
    for protection in ("masking", "bfv"):
        Federation.connect(lead.path, purpose="a test", protection=protection).run(own)
        for site in sites.values():
            edges = site_result(site).finding.graph.edges
            print(protection, sorted((edge.source, edge.target) for edge in edges))
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
    code, said = run(house, "-c", HELP)
    assert (code, said.split()) == (0, ["True"] * 3), said


def test_python_runs_it_and_it_keeps_every_law(house):
    code, said = run(house, "-c", CHECK)
    assert code == 0, said
    assert "alarm --- blood_pressure" in said


def test_sites_of_a_study_run_it_over_files(house):
    code, said = run(house, "-c", OVER_FILES)
    assert code == 0, said
    assert said.count(f"masking {sorted(TREE)}") == said.count(f"bfv {sorted(TREE)}") == 3, said
