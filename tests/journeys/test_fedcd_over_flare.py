"""Fed-CD with DCDI between hospitals that are processes of their own: a simulation's beliefs."""

import json

import numpy as np
import pandas as pd
import pytest
from flare_hospitals import connected_hospitals
from hospitals import SITES, Study, beliefs_of

from cipherdag.sites.drafts.inference import infer_schema

NAMES = ("dose", "enzyme", "pain")
DCDI = {
    "method": "dcdi-g", "rounds": 2, "epochs": 1, "fit_steps": 600, "hidden": 8, "batch": 64,
    "sparsity": 0.02,
}  # fmt: skip


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


@pytest.fixture(scope="module")
def study():
    tables = {name: measured(NAMES[k], k) for k, name in enumerate(SITES)}
    schema = infer_schema(pd.concat(tables.values())).with_interventions("experiment")
    return Study(tables, schema, "fedcd", DCDI)


@pytest.fixture(scope="module")
def hospitals(study, tmp_path_factory):
    work = tmp_path_factory.mktemp("hospitals")
    with connected_hospitals(work, study.tables, study.schema) as made:
        yield made


def test_hospitals_come_to_the_beliefs_of_a_simulation(hospitals, study, tmp_path):
    out = tmp_path / "learnt"
    hospitals.command("coordinator", *study.run_words, "--out", out, "--dir", hospitals.coordinator)
    expected = study.in_process(hospitals.work)
    assert beliefs_of(expected)  # so short a training may turn an edge round by the sites' keys
    hospitals.check_own_results(expected)  # edges by name, beliefs to the last bit
    learnt = json.loads((out / "result.json").read_text("utf-8"))
    assert learnt["parameters"]["method"] == "dcdi-g"
    assert not set(NAMES) & learnt["details"]["belief"].keys()
    hospitals.check_audits()
