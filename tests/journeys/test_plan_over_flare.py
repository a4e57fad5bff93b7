"""A plan over hospitals that are processes of their own, from its file to each one's report."""

import contextlib
import json
import re
import subprocess
import time

import numpy as np
import pytest
from flare_hospitals import connected_hospitals
from hospitals import SITES, Study, sorted_edges

from cipherdag import Describe, Description, Federation, Run
from cipherdag.graphs.networks import asia
from cipherdag.protocol.plan import Plan
from cipherdag.sites.drafts.inference import infer_schema

PURPOSE = "Which habits precede dyspnoea?"
WHY = "the ethics board has not met"
ROWS = {"north": slice(0, 2500), "south": slice(2500, 4000), "west": slice(4000, 6000)}


@pytest.fixture(scope="module")
def study():
    patients = asia().sample(6000, np.random.default_rng(1))
    tables = {name: patients[rows] for name, rows in ROWS.items()}
    return Study(tables, infer_schema(patients), "fedpc", {})


@pytest.fixture(scope="module")
def hospitals(study, tmp_path_factory):
    work = tmp_path_factory.mktemp("hospitals")
    with connected_hospitals(work, study.tables, study.schema, approve_runs="manual") as made:
        yield made


@contextlib.contextmanager
def begun(hospitals, *words):
    """A run that waits for people; its process."""
    line = hospitals._line(("coordinator", *words, "--dir", hospitals.coordinator))
    run = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def waiting(hospitals, run, name, purpose=PURPOSE):
    """What a person reads at a site once a run waits there, and the digits that name the run."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and run.poll() is None:
        said = hospitals.command("site", "status", "--dir", hospitals.work / name)
        for digits, told in re.findall(
            r"run ([0-9a-f]{8})  WAITS(.*?)(?=\nrun |\Z)", said, re.DOTALL
        ):
            if purpose in " ".join(told.split()):  # others may wait there, undecided
                return said, digits
        time.sleep(1)
    raise AssertionError(f"nothing waits at {name}: {run.communicate()[0]}")


@pytest.fixture(scope="module")
def learnt(hospitals, tmp_path_factory):
    """What a run came to that every site approved from the plan's file; its folder."""
    folder = tmp_path_factory.mktemp("learnt")
    file, out = folder / "plan.json", folder / "learnt"
    words = ("fedpc", "--purpose", PURPOSE, "--requester", "Dr. Okafor", "--out", file)
    hospitals.command("coordinator", "plan", *words, "--dir", hospitals.coordinator)
    digits = Plan.read(file).session.hex()[:8]
    for name in SITES:
        hospitals.command("site", "check", "--plan", file, "--dir", hospitals.work / name)
    with begun(hospitals, "run", "--plan", file, "--out", out) as run:
        for name in SITES:
            said, asked = waiting(hospitals, run, name)
            assert asked == digits
            assert "Dr. Okafor asks for fedpc at north, south, west." in said
            assert f"Purpose: {PURPOSE}" in said
            assert "What leaves: " in said
            hospitals.command("site", "approve", asked, "--dir", hospitals.work / name)
        said = run.communicate(timeout=300)[0]
        assert run.returncode == 0, said
    return out


def test_all_approve_a_saved_plan_and_have_their_own_reports(hospitals, study, learnt):
    expected = study.in_process(hospitals.work)
    assert sorted_edges(expected)
    hospitals.check_own_results(expected)
    hospitals.check_audits()
    found = json.loads((learnt / "result.json").read_text("utf-8"))
    names = set(study.schema.names)
    assert not names & {end for edge in found["edges"] for end in (edge["from"], edge["to"])}
    for name in SITES:
        folder = hospitals.work / "own" / name
        assert names & set(re.findall(r"\w+", (folder / "edges.csv").read_text("utf-8")))
        assert name in (folder / "report.html").read_text("utf-8")


@pytest.mark.usefixtures("learnt")
def test_one_site_denies_and_the_coordinator_hears_that_and_no_reason(hospitals):
    run_words = ("run", "fedpc", "--purpose", PURPOSE, "--alpha", 0.02)
    with begun(hospitals, *map(str, run_words)) as run:
        _, asked = waiting(hospitals, run, "west")
        hospitals.command("site", "deny", asked, "--why", WHY, "--dir", hospitals.work / "west")
        said = run.communicate(timeout=120)[0]
    assert run.returncode == 3, said
    assert "PolicyRefusedError at site 'west'." in said
    assert "a person of this site denied the run" in said
    assert WHY not in said
    status = hospitals.command("site", "status", "--dir", hospitals.work / "west")
    assert f"Denied because: {WHY}" in status
    whole = hospitals.command("site", "status", asked, "--dir", hospitals.work / "west")
    assert "alpha was 0.01, now 0.02." in whole
    for path in hospitals.coordinator.rglob("*"):
        assert not path.is_file() or WHY.encode() not in path.read_bytes(), path


def test_columns_are_described_and_a_site_reads_them_by_its_own_names(hospitals, study, tmp_path):
    purpose = "What is measured, and how well?"
    words = ("run", "describe", "--purpose", purpose, "--out")
    with begun(hospitals, *words, tmp_path / "described") as run:
        for name in SITES:
            _, asked = waiting(hospitals, run, name, purpose)
            folder = hospitals.work / name
            said = hospitals.command("site", "status", asked, "--details", "--dir", folder)
            told = " ".join(said.split())
            assert "counts of categories, and of numbers up to public marks" in told.lower()
            hospitals.command("site", "approve", asked, "--dir", hospitals.work / name)
        said = run.communicate(timeout=300)[0]
        assert run.returncode == 0, said
    expected = Federation.simulate(study.tables, schema=study.schema).run(Describe())
    found = Run.load(tmp_path / "described", Description)
    assert list(found.finding.columns) == [
        expected.identifiers[name] for name in expected.finding.columns
    ]
    assert list(found.finding.columns.values()) == list(expected.finding.columns.values())
    for name in SITES:
        out = tmp_path / name
        hospitals.command("site", "result", "--out", out, "--dir", hospitals.work / name)
        own = Run.load(out, Description)
        assert own.finding.columns == expected.finding.columns
        assert own.table("categories").equals(expected.table("categories"))
