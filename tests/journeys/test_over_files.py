"""Hospitals that are processes of their own and exchange files: one result, whoever is killed."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from flare_hospitals import Near
from hospital_checks import interrupted, resumed
from hospitals import SITES, Study, sorted_edges
from waiting import wait_until

from cipherdag.graphs.networks import asia
from cipherdag.sites.drafts.inference import infer_schema

CUTS = (0, 1800, 3500, 6000)


@pytest.fixture(scope="module")
def tables():
    patients = asia().sample(6000, np.random.default_rng(1))
    return {name: patients[slice(*ends)] for name, ends in zip(SITES, pairwise(CUTS), strict=True)}


@pytest.fixture(scope="module")
def study(tables):
    return Study(tables, infer_schema(list(tables.values())), "fedpc", {})


class Started:
    """The hospitals' processes, each of which may be killed and started again."""

    def __init__(self, hospitals, up):
        self.hospitals, self._up = hospitals, up
        self.processes = {}
        for name in hospitals.sites:
            self.start(name)

    def start(self, name):
        words = ("site", "start", "--dir", self.hospitals.work / name)
        self.processes[name] = self._up.enter_context(self.hospitals.started(*words))

    def kill(self, name):
        process = self.processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.hospitals.running.remove(process)
        self.hospitals.running.append(process)  # its context takes it off the list


@pytest.fixture(scope="module")
def started(tables, study, tmp_path_factory):
    work = tmp_path_factory.mktemp("hospitals")
    share = work / "share"
    share.mkdir()
    own = {name: ("--files", str(share / name)) for name in SITES}
    made = Near(work, ("--engine", "files", "--files", str(share)), own)
    made.enrol(tables, study.schema)
    with contextlib.ExitStack() as up:
        begun = Started(made, up)
        made.wait_for_sites()
        yield begun


@pytest.fixture(scope="module")
def expected(started, study):
    found = study.in_process(started.hospitals.work)
    assert sorted_edges(found)
    return found


def requests(hospitals, name):
    """The numbers of the requests that lie in a hospital's folder."""
    at = hospitals.work / "share" / name / "to-site"
    return {path.name.split("-")[0] for path in at.glob("*.sealed")}


def test_each_hospital_may_be_killed_again_and_again(started, study, expected, tmp_path):
    """kill -9 with a request just there, while it is answered, or answered: the run goes on.

    It is encrypted; the runs below, whose coordinator is killed, are masked.
    """
    hospitals, killed = started.hospitals, 0
    words = ("coordinator", *study.run_words, "--dir", hospitals.coordinator)
    words = (*words, "--protection", "bfv")
    with hospitals.started(*words, "--out", tmp_path / "out") as run:
        seen = {name: requests(hospitals, name) for name in SITES}
        while run.poll() is None:
            for turn, name in enumerate(SITES):
                new = requests(hospitals, name) - seen[name]
                if not new or run.poll() is not None:
                    continue
                seen[name] |= new
                if len(seen[name]) % 3 == turn and killed < 9:
                    time.sleep(0.02 * (killed % 4))
                    started.kill(name)
                    started.start(name)
                    killed += 1
            time.sleep(0.005)
        said = run.stdout.read()
        assert run.returncode == 0, said
    assert killed >= 6
    hospitals.check_own_results(expected)
    hospitals.check_audits()
    learnt = json.loads((tmp_path / "out" / "result.json").read_text("utf-8"))
    assert (learnt["protection"], learnt["dropouts"]) == ("bfv", [])
    status = hospitals.command("site", "status", "--dir", hospitals.work / "north")
    assert "by files in the shared folder" in status
    for name in SITES:
        kept = (hospitals.work / name / "session.jsonl").read_bytes().splitlines()
        assert [json.loads(line).get("draws") for line in kept] == [None, []]


def test_a_coordinator_killed_in_a_run_goes_on(started, study, expected, tmp_path):
    hospitals = started.hospitals
    folder = interrupted(hospitals.coordinator, study.run_words, after_round=4)
    started.kill("south")
    started.start("south")
    report = resumed(folder, tmp_path / "out")
    assert report["dropouts"] == []
    hospitals.check_own_results(expected)
    hospitals.check_audits()


def test_a_coordinator_killed_in_the_set_up_goes_on(started, study, expected, tmp_path):
    hospitals = started.hospitals
    before = requests(hospitals, "north")
    words = [sys.executable, "-u", "-m", "cipherdag", "coordinator", *study.run_words]
    process = subprocess.Popen(
        [*map(str, words), "--dir", str(hospitals.coordinator)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_until(lambda: requests(hospitals, "north") - before)
    process.kill()
    process.communicate()
    folder = max((hospitals.coordinator / "runs").iterdir())
    resumed(folder, tmp_path / "out")
    hospitals.check_own_results(expected)
