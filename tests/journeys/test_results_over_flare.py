"""What hospitals come to that are processes of their own is what a simulation comes to.

Verdicts, a PAG, and the beliefs of Fed-CD with DCDI, by one study whose sites change their tables.
"""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from flare_hospitals import connected_hospitals
from hospitals import FOUR, Study, beliefs_of, sorted_edges

from cipherdag.graphs.networks import asia
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.study.site_folder import SiteFolder

CUTS = (0, 1800, 3000, 4700, 6000)
NAMES = ("dose", "enzyme", "pain")
DCDI = {
    "method": "dcdi-g", "rounds": 2, "epochs": 1, "fit_steps": 600, "hidden": 8, "batch": 64,
    "sparsity": 0.02,
}  # fmt: skip


@pytest.fixture(scope="module")
def tables():
    patients = asia().sample(6000, np.random.default_rng(1))
    return {name: patients[slice(*ends)] for name, ends in zip(FOUR, pairwise(CUTS), strict=True)}


@pytest.fixture(scope="module")
def hospitals(tables, tmp_path_factory):
    work, schema = tmp_path_factory.mktemp("hospitals"), infer_schema(list(tables.values()))
    with connected_hospitals(work, tables, schema) as made:
        yield made


def hold(hospitals, tables, schema):
    """From now on the sites have these tables, which a new run reads anew."""
    for name, table in tables.items():
        table.to_csv(hospitals.work / name / "data.csv", index=False)
        (hospitals.work / name / "schema.toml").write_text(schema.dumps(), "utf-8")


@pytest.mark.parametrize(
    ("algorithm", "evidence"),
    [("fedpc", "fisher"), ("fedfci", "stratified"), ("fedpc", "vote")],
)
def test_hospitals_come_to_the_graph_of_a_simulation(
    hospitals, tables, algorithm, evidence, tmp_path
):
    hold(hospitals, tables, infer_schema(list(tables.values())))
    chosen = {"evidence": evidence, "reveal": "bits"}
    if evidence == "vote":  # whose p-values of single sites a new policy refuses
        for folder in (SiteFolder(hospitals.work / name) for name in FOUR):
            allowing = replace(folder.policy(), reveal="sums")
            folder.policy_path.write_text(allowing.dumps(), "utf-8")
    study = Study(tables, infer_schema(list(tables.values())), algorithm, chosen)
    out = tmp_path / "learnt"
    hospitals.command("coordinator", *study.run_words, "--out", out, "--dir", hospitals.coordinator)
    expected = study.in_process(hospitals.work)
    assert sorted_edges(expected)
    hospitals.check_own_results(expected)
    learnt = json.loads((out / "result.json").read_text("utf-8"))
    assert learnt["parameters"]["reveal"] == "bits"
    assert learnt["kind"] == expected["kind"]
    hospitals.check_audits()


def measured(target, seed, rows=300, each=200):
    """dose -> enzyme -> pain at one hospital, with an experiment on one of them."""
    rng = np.random.default_rng(seed)
    marks = np.array([""] * rows + [target] * each)
    levels = np.zeros((len(marks), 3))
    for j, name in enumerate(NAMES):
        follows = levels[:, j - 1] + 0.5 * rng.standard_normal(len(marks))
        own = follows if j else rng.standard_normal(len(marks))
        levels[:, j] = np.where(marks == name, 2.0 + rng.standard_normal(len(marks)), own)
    return pd.DataFrame(levels, columns=list(NAMES)).assign(experiment=marks)


def test_hospitals_come_to_the_beliefs_of_a_simulation(hospitals, tmp_path):
    tables = {
        name: measured(target, k)
        for k, (name, target) in enumerate(zip(FOUR, (*NAMES, NAMES[0]), strict=True))
    }
    schema = infer_schema(pd.concat(tables.values())).with_interventions("experiment")
    hold(hospitals, tables, schema)
    study, out = Study(tables, schema, "fedcd", DCDI), tmp_path / "learnt"
    hospitals.command("coordinator", *study.run_words, "--out", out, "--dir", hospitals.coordinator)
    expected = study.in_process(hospitals.work)
    assert beliefs_of(expected)  # so short a training may turn an edge round by the sites' keys
    hospitals.check_own_results(expected)  # edges by name, beliefs to the last bit
    learnt = json.loads((out / "result.json").read_text("utf-8"))
    assert learnt["parameters"]["method"] == "dcdi-g"
    assert not set(NAMES) & learnt["details"]["belief"].keys()
    hospitals.check_audits()
