"""Site folders of a study, activated without FLARE, for the tests of onboarding."""

import hashlib
import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import adversary
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scripted import Scripts, about

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.registry import ALGORITHMS, program_digest
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.federation.checkpoint import StartedRun
from cipherdag.federation.connected import ConnectedFederation
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.program.program import installed_program
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.private_files import lock
from cipherdag.sites.record.ledger import read_releases
from cipherdag.sites.session.serving import KeptSite, open_site
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.study.study import FORMAT, Study, StudySite, sign_study
from cipherdag.sites.study.study_files import write_file

NAMES = ("hospital-0", "hospital-1", "hospital-2")
ROOT = "ab" * 32


@dataclass
class Hospitals:
    """A coordinator's key and the folders of some sites."""

    coordinator: SigningIdentity
    folders: dict[str, SiteFolder]
    study: Study
    held: list[int] = field(default_factory=list)
    scripts: Scripts = field(default_factory=Scripts)
    installed: bool = False
    """Whether sites run the algorithms that they have, instead of what a test asks."""
    resumable: bool = False
    """Whether a run outlasts a site's process, as over files."""

    @property
    def programs(self):
        return installed_program if self.installed else self.scripts.program

    @property
    def members(self):
        return [Member(name=site.name, identity=site.identity) for site in self.study.sites]

    def pin(self, **changes):
        """Sign a study with some changes and put it into every folder."""
        self.study = msgspec.structs.replace(self.study, **changes)
        for folder in self.folders.values():
            write_file(folder.study_path, sign_study(self.coordinator, self.study))

    def open(self, name):
        """The site as its handler has it; its lock is released by `close`."""
        folder = self.folders[name]
        self.held.append(lock(folder.path / ".lock", wait_s=0.0))
        own = folder, folder.identity(), folder.study()
        return open_site(*own, programs=self.programs, looked_at=set())

    def handler(self, name):
        """What an engine's process has answered."""
        handler = KeptSite(
            self.folders[name].path,
            lock_wait_s=0.0,
            programs=self.programs,
            resumable=self.resumable,
        ).handle
        self.held.append(handler.__self__.held)
        return handler

    def handlers(self):
        return {name: self.handler(name) for name in self.folders}

    def restart(self, handlers, name):
        """The site's process ends, with all that it held in memory, and another one starts."""
        os.close(handlers[name].__self__.held)
        self.held.remove(handlers[name].__self__.held)
        handlers[name] = self.handler(name)

    def plan(self, *, names=None, **options: Any):
        members = [m for m in self.members if names is None or m.name in names]
        said = {"protection": "masking", "algorithm": "fedpc"} | options
        if said["algorithm"] == "fedpc":
            said = {"parameters": {"evidence": "vote"}} | said
        program = program_digest(said["algorithm"]) if said["algorithm"] in ALGORITHMS else ""
        return make_plan(members, **({"program": program, "purpose": "a test"} | said))

    def session(self, handlers, *, names=None, engine=None, plan=None, journal=None, **options):
        return self.scripts.session(
            engine or LocalEngine(handlers),
            self.coordinator,
            plan
            or (journal.plan if journal is not None else None)
            or self.plan(names=names, **options),
            journal=journal,
        )

    def learn(self, run, engine, algorithm, *, plan=None, **options):
        """A connected run, in a folder under the coordinator's that a second call goes on with."""
        coordinator = run.parent.parent
        if not (run / "started.json").exists():
            run.mkdir(parents=True, exist_ok=True)
            (coordinator / "keys").mkdir(exist_ok=True)
            self.coordinator.save(coordinator / "keys" / "identity.pem")
            plan = plan or self.plan(**about(algorithm), **options)
            StartedRun(plan=plan, source={}).write(run)
        federation = ConnectedFederation(CoordinatorFolder(coordinator))
        return federation.learn(engine, run, StartedRun.read(run), None)

    def kinds(self, name):
        """The kinds of all that left a site, by its ledger."""
        lines = self.folders[name].ledger_path.read_text("utf-8").splitlines()
        return [release.kind for release in read_releases(lines)]

    def carry_out(self, handlers, algorithm, plan, *, rounds=None, finishes=True, **options):
        """The questions and sums of a plan's rounds, of all or the first of them."""
        session = self.session(handlers, plan=plan, **options)
        facts = Facts(session.open(), len(plan.cohort), min_contributors=plan.min_contributors)
        asking, sums, opened = algorithm.ask(facts), None, []
        while rounds is None or len(opened) < rounds:
            try:
                question = asking.send(sums)
            except StopIteration:
                break
            facts.present.n_sites = session.n_summed or len(plan.cohort)
            sums = session.ask(question)
            opened.append((question, sums))
        if finishes:
            session.finish()
        return opened

    def forget(self, names=None):
        """Take away what sites know of bits that were found, so that they are found again."""
        for name in names or self.folders:
            self.folders[name].asked_path.unlink(missing_ok=True)

    def close(self):
        """Release every lock, as the end of the processes would."""
        while self.held:
            os.close(self.held.pop())


@cache
def written(n_sites):
    """The texts of the schema and of every site's data."""
    tables = [adversary.patients(adversary.ROWS[k % 3], k) for k in range(n_sites)]
    return infer_schema(tables, min_cell_size=0).dumps(), [
        own.to_csv(index=False) for own in tables
    ]


def hospitals(tmp_path, *, policy=None, names=NAMES):
    coordinator = SigningIdentity.generate()
    folders, sites = {}, []
    for name in names:
        settings = SiteSettings(name=name, device="cpu")
        folder = SiteFolder.create(
            tmp_path / name, settings, policy or Policy(approve_runs="automatic", reveal="sums")
        )
        # a key of its name, since a site draws its noise from its key
        folder.identity_path.unlink()
        seed = hashlib.sha256(name.encode()).digest()
        SigningIdentity(Ed25519PrivateKey.from_private_bytes(seed)).save(folder.identity_path)
        folders[name] = folder
        sites.append(StudySite(name=name, identity=folder.identity().public))
    schema, data = written(len(names))
    for folder, rows in zip(folders.values(), data, strict=True):
        (folder.path / "schema.toml").write_text(schema, encoding="utf-8")
        (folder.path / "data.csv").write_text(rows, encoding="utf-8")
    study = Study(
        format=FORMAT,
        name="study",
        version=1,
        issued="2026-01-01T00:00:00+00:00",
        host="localhost",
        port=8002,
        coordinator=coordinator.public,
        root=ROOT,
        min_sites=3,
        protections=("bfv", "masking"),
        sites=tuple(sites),
    )
    made = Hospitals(coordinator, folders, study)
    made.pin()
    return made
