"""Verdicts, and a PAG, between hospitals that are processes of their own: those of a simulation."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from flare_hospitals import connected_hospitals
from hospitals import FOUR, Study, sorted_edges

from cipherdag.graphs.networks import asia
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.study.site_folder import SiteFolder

CUTS = (0, 1800, 3000, 4700, 6000)


@pytest.fixture(scope="module")
def tables():
    patients = asia().sample(6000, np.random.default_rng(1))
    return {name: patients[slice(*ends)] for name, ends in zip(FOUR, pairwise(CUTS), strict=True)}


@pytest.fixture(scope="module")
def hospitals(tables, tmp_path_factory):
    work, schema = tmp_path_factory.mktemp("hospitals"), infer_schema(list(tables.values()))
    with connected_hospitals(work, tables, schema) as made:
        yield made


@pytest.mark.parametrize(
    ("algorithm", "evidence", "reveal"),
    [
        ("fedpc", "stratified", "bits"),
        ("fedpc", "fisher", "bits"),
        ("fedfci", "stratified", "bits"),
        ("fedpc", "vote", "bits"),
    ],
)
def test_hospitals_come_to_the_graph_of_a_simulation(
    hospitals, tables, algorithm, evidence, reveal, tmp_path
):
    chosen = {"evidence": evidence, "reveal": reveal}
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
    assert learnt["parameters"]["reveal"] == reveal
    assert learnt["kind"] == expected["kind"]
    hospitals.check_audits()
