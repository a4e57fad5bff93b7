"""Small studies for `faults.py`: over processes, over threads with short times, and over folders.

All learn one graph of the ASIA network's variables at three sites, by FedPC.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import Pipe
from pathlib import Path
from unittest.mock import patch

import numpy as np
import psutil
from hospital_checks import session_of
from hospitals import SITES, Hospitals, Study, edges_of, wait_for
from loopback import free_port
from nvflare.fuel.f3.sfm import heartbeat_monitor

from cipherdag import FedPC
from cipherdag.audit.auditing import verify
from cipherdag.deployment import processes
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.engine_checks import engine_address
from cipherdag.errors import CipherdagError
from cipherdag.federation.connected import ConnectedFederation
from cipherdag.graphs.networks import asia
from cipherdag.protocol.engines import engine_process, flare_driver, flare_link
from cipherdag.protocol.engines.channel import Credentials
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.engines.flare_engine import connected_sites
from cipherdag.protocol.engines.flare_site import SiteEngine
from cipherdag.results.site_result import site_result
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.site_folder import SiteFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from documents import call
from forward_proxy import ForwardProxy

LEARN = FedPC()
CUTS = (0, 900, 1700, 3000)
NO_LIMIT = 10**9


class Enrolled(Hospitals):
    """A study whose commands run in this process, but for servers and sites."""

    def command(self, *words, code=0):
        """Run one command; its exit code must be ``code``."""
        ended_with, said = call([str(word) for word in words])
        if ended_with != code:
            raise SystemExit(f"cipherdag {words} gave {ended_with}, not {code}:\n{said}")
        return said


def enrolled(work):
    """The folders of a coordinator and three sites, and the edges that they should learn."""
    rows = asia().sample(CUTS[-1], np.random.default_rng(1))
    parts = [rows[slice(*ends)] for ends in pairwise(CUTS)]
    study = Study(dict(zip(SITES, parts, strict=True)), infer_schema(parts), "fedpc", {})
    address = ("--host", "localhost", "--port", str(free_port()))
    hospitals = Enrolled(work, address, dict.fromkeys(SITES, address))
    code = hospitals.enrol(study.tables, study.schema)
    for name in SITES:
        path = work / name / "policy.toml"
        limits = {"max_runs": NO_LIMIT, "max_rounds_per_day": NO_LIMIT}
        path.write_text(replace(Policy.load(path), **limits).dumps(), "utf-8")
    return hospitals, code, edges_of(study.in_process(work))


@dataclass(frozen=True, slots=True)
class OverFolders(ConnectedFederation):
    """A coordinator whose messages an engine of this process carries."""

    engine: LocalEngine | None = None

    @contextlib.contextmanager
    def _reached(self, folder):
        del folder
        yield self.engine


class Folders:
    """A study whose sites answer in this process, from copies of a study's folders."""

    def __init__(self, template, work, expected):
        self.expected = expected
        self.work = Path(shutil.copytree(template, work))
        self.sites, self.before = {}, lambda: None
        self.start_all()
        coordinator = CoordinatorFolder(self.work / "coordinator")
        engine = LocalEngine({name: self._handler(name) for name in SITES})
        self.federation = OverFolders(coordinator, purpose="to compare", engine=engine)

    def _handler(self, name):
        def handle(operation, message):
            self.before()
            return self.sites[name].handle(operation, message)

        return handle

    def start(self, name, folder=None):
        """Start a site's process, which answers from its folder or another one."""
        self.sites[name] = KeptSite(folder or self.work / name, lock_wait_s=0.0)

    def stop(self, name):
        """End it."""
        self.sites[name].close()

    def start_all(self):
        """Start every site."""
        for name in SITES:
            self.start(name)

    def stop_all(self):
        """End every site."""
        for name in SITES:
            self.stop(name)


class OverFlare:
    """A study over FLARE, each of whose sites has a proxy on its way."""

    timeout_s = 5.0
    """How long a run with a fault in it waits for a site; others wait for a minute."""

    def __init__(self, work, proxies):
        self.hospitals, self.code, self.expected = enrolled(work)
        self.work, self.up = work, contextlib.ExitStack()
        self.proxies = {name: self.up.enter_context(each) for name, each in proxies.items()}
        self.federation = ConnectedFederation(
            CoordinatorFolder(work / "coordinator"),
            purpose="to compare",
            timeout_s=60.0,
            start_s=60.0,
        )

    def run_first(self):
        """Make the run whose result is read after every fault, and which shows what a run takes."""
        self.wait_for_sites()
        self.federation.run(LEARN)  # which takes longer than all others
        begun = time.monotonic()
        self.federation.run(LEARN)
        self.run_s = time.monotonic() - begun
        self.earlier = last_session(self.work / "coordinator")

    def wait_for_sites(self):
        """Wait until every site is connected, for the third look in a row."""
        folder, seen = self.work / "coordinator", []

        def connected():
            seen.append(connected_sites(folder, wait_s=60.0) == set(SITES))
            return all(seen[-3:]) and len(seen) >= 3

        wait_for(connected, "the sites")

    def settle(self):
        """Take every fault off the lines, and wait until every site is connected."""
        for proxy in self.proxies.values():
            proxy.idle_s = proxy.forgets_s = proxy.cut_after = None
            proxy.loss = 0.0
            proxy.seen.clear()
        self.wait_for_sites()

    def close(self):
        """End all processes."""
        self.up.close()


class Processes(OverFlare):
    """The commands that people start, as processes."""

    def __init__(self, work):
        super().__init__(work, {name: ForwardProxy() for name in SITES})
        self.started = {}
        for name in ("coordinator", *SITES):
            self.start(name)
        self.run_first()

    def start(self, name):
        """Start the server or a site, behind its proxy."""
        party = "coordinator" if name == "coordinator" else "site"
        with proxied(self.proxies.get(name)):
            begun = self.hospitals.started(party, "start", "--dir", self.work / name)
            self.started[name] = contextlib.ExitStack()
            self.started[name].enter_context(begun)
        self.up.callback(self.started[name].close)

    def stop(self, name):
        """Stop it as a person does."""
        self.started[name].close()

    def numbers(self, name):
        """The numbers of a site's processes: its engine's, too."""
        folder = str(self.work / name)
        (process,) = (each for each in self.hospitals.running if each.args[-1] == folder)
        return [process.pid, *(each.pid for each in psutil.Process(process.pid).children())]


class Threads(OverFlare):
    """The same connections in threads, with short times: a silence lasts 3 seconds and not 60."""

    silence_s, heartbeat_s, tick_s = 3.0, 0.6, 0.2

    def __init__(self, work):
        super().__init__(work, {"all": ForwardProxy()})
        for module, name, seconds in (
            (flare_driver, "SILENCE_S", self.silence_s),
            (flare_link, "HEARTBEAT_S", self.heartbeat_s),
            (heartbeat_monitor, "HEARTBEAT_TICK", self.tick_s),
        ):
            self.up.enter_context(patch.object(module, name, seconds))
        self.up.enter_context(proxied(self.proxies["all"]))
        ended = threading.Event()
        server = CoordinatorFolder(work / "coordinator")
        self._start(processes.serve, server, stopped=ended.wait)
        self.up.callback(ended.set)
        for name in SITES:
            self._start_site(SiteFolder(work / name))
        self.run_first()

    def _start(self, work, *arguments, **options):
        thread = threading.Thread(target=work, args=arguments, kwargs=options, daemon=True)
        thread.start()
        self.up.callback(thread.join)

    def _start_site(self, site):
        ours, theirs = Pipe()
        answers = KeptSite(site.path)
        self.up.callback(answers.close)
        address = engine_address(site, site.study())
        shown = Credentials(address.root, address.certificate, address.key)
        engine = SiteEngine(address, shown.context(server=False), theirs)
        self.up.callback(engine._link.close)  # noqa: SLF001 - a process ends without it
        self._start(engine_process.serve, ours, answers.handle, lambda _: None)
        self.up.callback(theirs.close)
        self._start(engine.run)
        self.up.callback(hang_up, ours)


def hang_up(connection):
    """End a local connection so that both ends notice, which whoever reads it then closes."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxied(proxy):
    """An environment that names this proxy and no other."""
    before = dict(os.environ)
    for name in [each for each in os.environ if "proxy" in each.lower()]:
        del os.environ[name]
    if proxy is not None:
        os.environ["https_proxy"] = proxy.address
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def ended(work, expected):
    """How a run ends: in the same graph, in a named error with a remedy, or else."""
    try:
        same = edges_of(work().to_dict()) == expected
    except CipherdagError as error:
        return type(error).__name__ if error.remedy else f"{type(error).__name__} without a remedy"
    except Exception as error:  # noqa: BLE001 - an error without a name is what is looked for
        return f"UNNAMED {type(error).__name__}: {error}"
    return "same graph" if same else "ANOTHER GRAPH"


def lost(work, session, expected):
    """What a fault destroyed: a ledger that does not verify, or the result of an earlier run."""
    for name in SITES:
        try:
            verify(work / name)
            result = site_result(SiteFolder(work / name), session)
        except CipherdagError as error:
            return f"{name}: {type(error).__name__}: {error}"
        if edges_of(result.to_dict()) != expected:
            return f"{name} reads another result"
    return ""


def last_session(coordinator):
    """The session of the coordinator's last run."""
    return session_of(last_run(coordinator))[:8]


def last_run(coordinator):
    """The folder of the coordinator's last run."""
    return max((coordinator / "runs").iterdir())
