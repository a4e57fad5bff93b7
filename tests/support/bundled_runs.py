"""One approved run over site folders and a coordinator's folder, in this process, to be bundled."""

import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import hospital_folders
from scripted import about

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import PolicyRefusedError
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.journal import TRANSCRIPT_FILE, TranscribingEngine
from cipherdag.sites.policy.approvals import Person
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.study.study import sign_study
from cipherdag.sites.study.study_files import write_file

WEBER = Person("A. Weber", "data protection")
REASON = "canary: the note of a person"


@dataclass
class BundledRun:
    """A run that took place: the hospitals' folders, the coordinator's, and the run's."""

    hospitals: hospital_folders.Hospitals
    coordinator: Path
    run: Path

    def site(self, name="hospital-0"):
        return self.hospitals.folders[name].path


def approved_run(path):
    """A run of FedPC by bits that a person of each hospital approved."""
    made = hospital_folders.hospitals(path / "sites", policy=Policy())
    coordinator = path / "coordinator"
    coordinator.mkdir()
    write_file(coordinator / "study.json", sign_study(made.coordinator, made.study))
    plan = made.plan(**about(FedPC()), requester="Dr. A. Scientist")
    for folder in made.folders.values():
        with suppress(PolicyRefusedError):
            folder.approvals().check(plan, consider=[REASON])
        session = plan.session.hex()
        folder.approvals().decide(session, "approved", folder.identity(), WEBER, note=REASON)
    made.installed = True
    run = coordinator / "runs" / "one"
    run.mkdir(parents=True)
    engine = TranscribingEngine(LocalEngine(made.handlers()), run / TRANSCRIPT_FILE)
    made.learn(run, engine, FedPC(), plan=plan)
    made.close()
    return BundledRun(made, coordinator, run)


def members(path):
    """The files of a zip by their paths."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path, files):
    """Write files as a zip, as they are."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
