"""Faults of `faults.py` that no run begins with: wrong clocks, and ports that others have.

Each function brings one about once, and says how it ended, what comes next and what was lost.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import ssl
import threading
from unittest.mock import patch

from fault_cases import finished, runs
from hospitals import SITES, wait_for
from loopback import LoopbackStudy, free_port

from cipherdag.deployment import certificates, engine_checks, enrolment, processes
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.errors import CipherdagError
from cipherdag.protocol import answering
from cipherdag.protocol.engines.channel import Notice
from cipherdag.protocol.engines.engine_process import EngineProcess
from cipherdag.sites.study.checks import connection_checks
from cipherdag.sites.study.site_folder import SiteFolder

WORKS = "works"
SHORT_S = 0.2
BEHIND, AHEAD = (-400.0, -0.5), (0.5, 400.0)
"""Days. A site's certificate is valid for 90 of them, the server's for 1095."""


# clocks


def misdated(make, rng):
    """One machine's clock is wrong by days or years; then it is set, and certificates renewed."""
    study, whose = make(), str(rng.choice(list(CLOCKS)))
    session = runs(study, 1)
    study.stop_all()
    coordinator = CoordinatorFolder(study.work / "coordinator")
    site = SiteFolder(study.work / str(rng.choice(SITES)))
    work, *spans = CLOCKS[whose]
    days = float(rng.uniform(*spans[rng.integers(2)]))
    end = work(coordinator, site, days)
    coordinator.renew()
    approve(coordinator, site)
    with served(coordinator), connected(site) as heard:
        wait_for(lambda: any("connected to" in what for what in heard), "the site")
    study.start_all()
    return {"whose": whose, "days": round(days), "end": end} | finished(study, session)


def site_starts(_, site, days):
    """What a site says that starts while its clock is wrong."""
    with clock(days, engine_checks):
        return named(lambda: engine_checks.engine_address(site, site.study()))


def site_activates(coordinator, site, days):
    """What a site says that activates a renewed certificate while its clock is wrong."""
    coordinator.renew()
    with clock(days, enrolment):
        return named(lambda: approve(coordinator, site))


def server_starts(coordinator, _, days):
    """What a server says that starts while its clock is wrong."""
    with clock(days, processes):
        return named(lambda: processes.serve(coordinator, stopped=lambda _: True))


def server_renewed(coordinator, site, days):
    """What a site says to a server whose certificate was renewed by a clock that was wrong."""
    with clock(days, certificates, processes):
        certificates.certify_server(coordinator.path, host="localhost")
        with served(coordinator), connected(site) as heard:
            wait_for(lambda: any("the clock" in what for what in heard), "a word of the clock")
            row = tls_row(coordinator, site)
    return "named by the site" if "clock says" in row.finding else f"UNNAMED {row}"


def site_renewed(coordinator, site, days):
    """What a server says of a site whose certificate has the dates of a clock that was wrong."""
    with clock(days, certificates, enrolment, engine_checks):
        coordinator.renew()
        approve(coordinator, site)
        address = engine_checks.engine_address(site, site.study())
    certificates.certify_server(coordinator.path, host="localhost")
    with served(coordinator) as said, connected(site, address):
        wait_for(lambda: any("the clock" in what for what in said), "a word of the clock")
    return "named by the server"


CLOCKS = {
    "a site that starts": (site_starts, BEHIND, (91.0, 400.0)),
    "a site that activates": (site_activates, BEHIND, (91.0, 400.0)),
    "a server that starts": (server_starts, BEHIND, (1096.0, 1500.0)),
    "a coordinator that renewed": (server_renewed, AHEAD, (-1500.0, -1096.0)),
    "a site that renewed": (site_renewed, AHEAD, (-400.0, -91.0)),
}


@contextlib.contextmanager
def clock(days, *modules):
    """The clock of a machine on which some modules run, wrong by so many days."""

    class Wrong(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return dt.datetime.now(tz) + dt.timedelta(days=days)

    with contextlib.ExitStack() as wrong:
        for module in modules:
            wrong.enter_context(patch.object(module, "datetime", Wrong))
        yield


def approve(coordinator, site):
    """Install the approval that the coordinator made last for a site."""
    path = coordinator.path / "approvals" / f"{site.settings().name}.approval"
    enrolment.activate(site, path, code=coordinator.fingerprint)


@contextlib.contextmanager
def connected(site, address=None):
    """A site's engine in another process, and what it says."""
    heard = []

    def record(said):
        if isinstance(said, Notice):
            heard.append(said.what)

    address = address or engine_checks.engine_address(site, site.study())
    console = site.path / "engine.log"
    with EngineProcess(address, lambda _, sent: sent, record, console=console):
        yield heard


# ports


def held(make, rng):
    """A program that is no server of ours has the port when the server starts."""
    coordinator = opened(make(), "lungs", free_port())
    port, before = coordinator.study().port, contents(coordinator)
    kind = str(rng.choice(list(STRANGERS)))
    host = str(rng.choice(["127.0.0.1", ""]))
    with patch.object(answering, "HANDSHAKE_S", SHORT_S), stranger(kind, port, rng, host):
        end = named(lambda: processes.serve(coordinator, stopped=lambda _: True))
    return {"kind": kind, "end": end} | starts(coordinator, before)


def doubled(make, rng):
    """The server of another study has the port."""
    folder, port = make(), free_port()
    names = ["lungs", "hearts"] if rng.random() < 0.5 else ["hearts", "lungs"]
    first, second = (opened(folder / name, name, port) for name in names)
    before = contents(second)
    with served(first):
        try:
            processes.serve(second, stopped=lambda _: True)
            end = "UNNAMED start"
        except CipherdagError as error:
            naming = f"the study '{names[0]}'" in error.message
            end = type(error).__name__ if naming else f"UNNAMED {error}"
    return {"end": end} | starts(second, before)


def strange(make, rng):
    """What is not our server answers at the port when `site check` looks."""
    study = LoopbackStudy.make(make(), ("north",))
    kind = str(rng.choice([*STRANGERS, "another study"]))
    with contextlib.ExitStack() as up:
        up.enter_context(patch.object(answering, "HANDSHAKE_S", SHORT_S))
        if kind == "another study":
            up.enter_context(served(opened(study.folder / "hearts", "hearts", study.port)))
        else:
            up.enter_context(stranger(kind, study.port, rng))
        row = checked(study)
    end = f"row {row.check} fails" if row.state == "fail" and row.fix else f"UNNAMED {row}"
    with study.relay():
        after = checked(study)
    return {"kind": kind, "end": end, "next": WORKS if after.state == "ok" else str(after)} | {
        "lost": ""
    }


def silent(connection, _):
    """Hold a connection and say nothing."""
    connection.settimeout(30.0)
    while connection.recv(4096):
        pass


def closing(connection, _):
    """Close a connection at once."""


def http(connection, _):
    """Answer as a web server does."""
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def noise(connection, rng):
    """Answer with bytes drawn at random."""
    connection.recv(4096)
    connection.sendall(rng.bytes(int(rng.integers(1, 4096))))


STRANGERS = {each.__name__: each for each in (silent, closing, http, noise)}


@contextlib.contextmanager
def stranger(kind, port, rng, host="127.0.0.1"):
    """A program that listens on a port."""
    ended = threading.Event()

    def listen(server):
        with contextlib.suppress(OSError):
            while not ended.is_set():
                connection, _ = server.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection):
        with connection, contextlib.suppress(OSError, ssl.SSLError):
            STRANGERS[kind](connection, rng)

    with socket.create_server((host, port)) as server:
        thread = threading.Thread(target=listen, args=(server,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


def opened(folder, study, port):
    """A coordinator's folder of a new study."""
    return CoordinatorFolder.create(
        folder / "coordinator", study=study, host="localhost", port=port
    )


def contents(coordinator):
    """Every file of a coordinator but the server's log."""
    files = (path for path in coordinator.path.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.suffix != ".log"}


def starts(coordinator, before):
    """Whether the server starts once the port is free, and what of its folder was changed."""
    after = contents(coordinator)
    changed = [path.name for path in before if after.get(path) != before[path]]
    with served(coordinator) as said:
        return {"next": "; ".join(said) or WORKS, "lost": ", ".join(changed)}


@contextlib.contextmanager
def served(coordinator):
    """A coordinator's server, and what it announces."""
    said, up, ended, failed = [], threading.Event(), threading.Event(), []

    def stopped(seconds):
        up.set()
        return ended.wait(seconds)

    def serve():
        try:
            processes.serve(coordinator, stopped=stopped, announce=said.append)
        except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
            failed.append(error)
        finally:
            up.set()

    thread = threading.Thread(target=serve)
    thread.start()
    up.wait()
    if failed:
        raise failed[0]
    try:
        yield said
    finally:
        ended.set()
        thread.join()


def checked(study):
    """What `site check` finds of the server: the last row on the connection."""
    key, chain = (study.folder / "north" / name for name in ("site.key", "site.crt"))
    return [*connection_checks("localhost", study.port, key, chain, study="study")][-1]


def tls_row(coordinator, site):
    """The same, of a site's folder."""
    port = coordinator.study().port
    return [*connection_checks("localhost", port, site.tls_key, site.tls_chain, study="study")][-1]


def named(work):
    """The name of the error in which something ends, which has to say what to do."""
    try:
        work()
    except CipherdagError as error:
        return type(error).__name__ if error.remedy else f"UNNAMED {error}, without a remedy"
    return "UNNAMED: no error"
