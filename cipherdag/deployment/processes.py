"""Processes that run until they are stopped: a site's, its engine's, and the coordinator's server.

Leaks:
    The server sees operation names, opaque message bytes and who answered.
"""

import contextlib
import functools
import logging
import math
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from cipherdag.deployment.certificates import check_validity
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.engine_checks import CONSOLE, engine_address, recorder
from cipherdag.deployment.shared_folder import site_key
from cipherdag.errors import ParameterError, SiteNotReadyError, SiteUnreachableError
from cipherdag.privacy.secrecy import leave_no_core
from cipherdag.program.versions import require_flare
from cipherdag.protocol.answering import holder_of, shown_certificate, study_of
from cipherdag.protocol.engines.engine_process import EngineDoor, EngineProcess
from cipherdag.protocol.engines.files import FilesSite
from cipherdag.protocol.messages import OPERATIONS
from cipherdag.protocol.site_log import log_into
from cipherdag.sites.policy.approvals import Approvals, how_to_decide
from cipherdag.sites.private_files import START_LOCK, locked
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.checks import certificate_checks, utc_now
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.study.study import Study

IDLE_S = 24 * 3600.0  # how long a run may wait to be resumed
Announce = Callable[[str], object]
RENEW_SERVER = "Run `cipherdag coordinator renew`, and start the server again."
LOOK_S = 5.0  # how often a started site looks whether a plan waits for a person
NOTICE_FILE, NOTICE_S = "on-waiting", 30.0  # what a site runs then, and for how long

log = logging.getLogger("cipherdag.site")


def start(
    site: SiteFolder,
    *,
    stopped: Callable[[float], bool],
    announce: Announce = lambda _: None,
    door: Path | None = None,
) -> None:
    """Run the site, and the process of FLARE, until ``stopped`` says so.

    Data, keys and sessions stay in this process. The engine's process passes on messages; it can
    neither open the site's files nor start a program. Over files there is none.

    ``stopped`` waits for some seconds and says whether to stop. ``announce`` hears once of a plan
    that waits for a person, and so does the site's program `NOTICE_FILE`; it also hears news of the
    connection. At a ``door`` the engine's process of another user connects; without one this
    process starts it. Raises SiteNotReadyError where the site is not activated, its policy is not
    valid, a key is open to others, or it runs already, and SiteUnreachableError where the engine's
    process ended by itself.
    """
    leave_no_core()
    study = site.study()
    site.policy()
    site.check_keys()
    with contextlib.ExitStack() as up:
        up.enter_context(locked(site.path / START_LOCK))
        log_into(site.log_path)
        handler = KeptSite(site.path, resumable=study.engine == "files")
        up.callback(handler.close)
        process: EngineProcess | EngineDoor | FilesSite
        if study.engine == "files":
            process, ended = _folder(site, study, handler, announce, up)
        else:
            process, ended = _flare(site, study, handler, door, announce, up)
        plans = waiting_plans(site.approvals(), notice=site.path / NOTICE_FILE)
        expiry = expiring(site.tls_chain if study.engine == "flare" else None)
        while not stopped(0.2):
            handler.forget_idle(IDLE_S)
            if not process.running:
                raise ended
            for line in (*next(plans), *next(expiry)):
                announce(line)


def waiting_plans(
    approvals: Approvals, clock: Callable[[], float] = time.monotonic, *, notice: Path | None = None
) -> Iterator[list[str]]:
    """Yield at each step a sentence on every plan that newly waits for a person.

    Plans are read every `LOOK_S` seconds. The program ``notice``, where there is one, is run with
    the session of each, of which a coordinator chooses no letter.
    """
    announced: set[str] = set()
    looked = -math.inf
    while True:
        if clock() - looked < LOOK_S:
            yield []
            continue
        looked = clock()
        try:
            waits = [run for run in approvals.runs() if approvals.waits(run)]
        except SiteNotReadyError as error:  # a torn file ends `site status`, not a run
            log.warning("%s", error)
            waits = []
        new = [run for run in waits if run.session not in announced]
        if notice is not None and notice.exists():
            for run in new:
                _notify(notice, run.session)
        yield [
            f"A plan waits for a person here: run {run.session[:8]}, {run.plan.algorithm}. "
            f"{how_to_decide(run.session)}"
            for run in new
        ]
        announced.update(run.session for run in waits)


def _notify(program: Path, session: str) -> None:
    """Run the site's program; one that others may change, or that fails, is logged and not run."""
    if os.name == "posix" and program.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        log.warning("%s is not run: other users can change it. Run `chmod go-w` on it", program)
        return
    none = subprocess.DEVNULL
    try:
        subprocess.run(  # noqa: S603 - a program of the site's, which only its user may change
            [program, session], check=True, timeout=NOTICE_S, stdin=none, stdout=none
        )
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("%s did not give notice of run %s: %s", program, session[:8], error)


def expiring(
    certificate: Path | None, clock: Callable[[], datetime] = utc_now, *, server: bool = False
) -> Iterator[list[str]]:
    """Yield at each step, once a day, a sentence on a certificate that soon expires, else nothing.

    Without a file there is nothing to say; with ``server`` it is that of the coordinator's server.
    """
    said = None
    while True:
        today = clock().date()
        if certificate is None or said == today:
            yield []
            continue
        said = today
        (check,) = certificate_checks(certificate, clock())
        whose = "server's" if server else "site's"
        fix = RENEW_SERVER if server else check.fix
        yield [] if check.state == "ok" else [f"The {whose} certificate: {check.finding}. {fix}"]


def _flare(
    site: SiteFolder,
    study: Study,
    handler: KeptSite,
    door: Path | None,
    announce: Announce,
    up: contextlib.ExitStack,
) -> tuple[EngineProcess | EngineDoor, SiteUnreachableError]:
    """The process that talks to the coordinator, and what to say if it ends by itself."""
    require_flare()
    from cipherdag.protocol.engines.engine_process import EngineDoor, EngineProcess

    console = site.path / CONSOLE
    ended = SiteUnreachableError(
        "the process that carries messages has ended, as where the server did not admit the site",
        site=site.settings().name,
        remedy="Read the end of `cipherdag site status`; ask the coordinator whether the site was "
        f"revoked. The process's last words are in {console}. Then run `cipherdag site start`.",
    )
    address = engine_address(site, study)
    record = recorder(site, handler.record_start, announce)
    process: EngineProcess | EngineDoor = (
        EngineProcess(address, handler.handle, record, console=console)
        if door is None
        else EngineDoor(door, address, handler.handle, record)
    )
    up.enter_context(process)
    return process, ended


def _folder(
    site: SiteFolder, study: Study, handler: KeptSite, announce: Announce, up: contextlib.ExitStack
) -> tuple[FilesSite, SiteUnreachableError]:
    """What looks into the shared folder, and what to say if it ends by itself."""
    settings = site.settings()
    served = FilesSite(
        site.path / settings.files,
        handler.handle,
        key=site_key(site, study),
        study=study.name,
        site=settings.name,
        operations=OPERATIONS,
        numbers=site.numbers_path,
        record=recorder(site, handler.record_start, announce),
    )
    ended = SiteUnreachableError(
        "nothing looks into the shared folder any more",
        site=settings.name,
        remedy=f"Read {site.log_path}, then run `cipherdag site start` again.",
    )
    return up.enter_context(served), ended


REACHED_S = 3.0  # to connect to the server's address
DOUBLED = (
    "Two processes connect as '{site}' and displace each other: have that hospital stop one of "
    "them, as where its folder was copied."
)
CLOCK_OR_RENEWAL = (
    "Set this machine's clock; if it is right, run `cipherdag coordinator renew`, and send every "
    "site its new approval."
)
HAVE_CHECKED = "sites may reach it all the same: have one run `cipherdag site check`."


def serve(
    coordinator: CoordinatorFolder,
    *,
    stopped: Callable[[float], bool],
    announce: Callable[[str], object] = lambda _: None,
) -> None:
    """Run the server that the sites connect to until ``stopped`` says so.

    It waits for some seconds and says whether to stop. ``announce`` hears what a person should know
    of the server's address, and of sites.

    Raises:
        ParameterError: The study's engine has no server.
        SiteNotReadyError: It runs already, or its certificate is not valid at this machine's time.
        SiteUnreachableError: Its port is taken or may not be bound, or another process of this
            machine answers at its address.
    """
    study = coordinator.study()
    if study.engine != "flare":
        raise ParameterError(
            "a study over files has no server to start",
            remedy="Start the sites; `cipherdag coordinator run` then reaches them.",
        )
    require_flare()
    from cipherdag.protocol.engines.channel import Credentials
    from cipherdag.protocol.engines.flare_relay import Relay

    @functools.lru_cache(1)
    def pinned(_changed: int) -> frozenset[str]:
        return frozenset(coordinator.study().pinned)

    server = coordinator.path / "server"
    check_validity(
        load_pem_x509_certificate((server / "server.crt").read_bytes()),
        datetime.now(UTC),
        remedy=CLOCK_OR_RENEWAL,
    )
    credentials = Credentials(
        *((server / name).read_bytes() for name in ("root.crt", "server.crt", "server.key"))
    )
    with locked(coordinator.path / START_LOCK):
        log_into(coordinator.path / "server.log")
        with Relay(
            coordinator.path,
            host=study.host,
            port=study.port,
            credentials=credentials,
            admitted=lambda: pinned(coordinator.study_path.stat().st_mtime_ns),
        ) as relay:
            for remark in reached(study.host, study.port, server / "server.crt"):
                announce(remark)
            said: set[str] = set()
            expiry = expiring(server / "server.crt", server=True)
            while not stopped(0.2):
                for remark in next(expiry):
                    announce(remark)
                relay.close_shut_out()
                for site in relay.doubled() - said:
                    said.add(site)
                    announce(DOUBLED.format(site=site))
                for what in relay.misdated() - said:
                    said.add(what)
                    announce(f"{what} It says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.")


def reached(host: str, port: int, certificate: Path) -> list[str]:
    """Whether this server answers at its address, seen from this machine; remarks if not.

    SiteUnreachableError where another process of this machine answers there.
    """
    expected = load_pem_x509_certificate(certificate.read_bytes()).public_bytes(Encoding.DER)
    try:
        addresses = {each[4][0] for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return [f"This machine cannot look up {host}; {HAVE_CHECKED}"]
    remarks, reached = [], False
    for address in sorted(map(str, addresses)):
        try:
            connection = socket.create_connection((address, port), timeout=REACHED_S)
        except OSError:
            continue
        here = connection.getsockname()[0] == connection.getpeername()[0]
        shown = shown_certificate(connection)
        reached = reached or shown == expected
        if shown != expected:
            remarks.append(_another(address, port, shown, here=here))
    if not (reached or remarks):
        remarks.append(f"This machine cannot reach {host}:{port}; {HAVE_CHECKED}")
    return remarks


def _another(address: str, port: int, shown: bytes, *, here: bool) -> str:
    """A remark that another server answers; if it is a process of this machine, it is an error."""
    if here:
        raise SiteUnreachableError(
            f"in place of this server {holder_of(address, port)} answers at {address}, port {port}",
            remedy="Stop that process, or begin the study on another port in a new folder, with "
            "`cipherdag coordinator new --port`.",
        )
    study = study_of(shown)
    who = f"the server of the study '{study}'" if study else "another server"
    return f"Seen from this machine, {who} answers at {address}, port {port}; {HAVE_CHECKED}"
