"""The process that answers for a site, and the engine's process that carries its messages."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from cipherdag.deployment.engine_checks import CONSOLE, engine_address, recorder
from cipherdag.deployment.shared_folder import site_key
from cipherdag.errors import SiteNotReadyError, SiteUnreachableError
from cipherdag.privacy.secrecy import leave_no_core
from cipherdag.program.versions import require_flare
from cipherdag.protocol.engines.engine_process import EngineDoor, EngineProcess
from cipherdag.protocol.engines.files_site import FilesSite
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
    that waits for a person, and news of the connection. At a ``door`` the engine's process of
    another user connects; without one this process starts it.

    Raises:
        SiteNotReadyError: The site is not activated, its policy is not valid, a key is open to
            others, or it runs already.
        SiteUnreachableError: The engine's process ended by itself.
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
        plans = waiting_plans(site.approvals())
        expiry = expiring(site.tls_chain if study.engine == "flare" else None)
        while not stopped(0.2):
            handler.forget_idle(IDLE_S)
            if not process.running:
                raise ended
            for line in (*next(plans), *next(expiry)):
                announce(line)


def waiting_plans(
    approvals: Approvals, clock: Callable[[], float] = time.monotonic
) -> Iterator[list[str]]:
    """At each step the plans that wait for a person and were not told of, in words.

    They are looked through every `LOOK_S` seconds.
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
        yield [
            f"A plan waits for a person here: run {run.session[:8]}, {run.plan.algorithm}. "
            f"{how_to_decide(run.session)}"
            for run in waits
            if run.session not in announced
        ]
        announced.update(run.session for run in waits)


def expiring(
    certificate: Path | None,
    clock: Callable[[], datetime] = utc_now,
    *,
    server: bool = False,
) -> Iterator[list[str]]:
    """At each step what is to be said of a certificate that soon expires: once a day, in words.

    Without a file there is nothing to say; ``server`` says that it is the coordinator's server's.
    """
    said = None
    while True:
        today = clock().date()
        if certificate is None or said == today:
            yield []
            continue
        said = today
        (found,) = certificate_checks(certificate, clock())
        whose = "server's" if server else "site's"
        fix = RENEW_SERVER if server else found.fix
        yield [] if found.state == "ok" else [f"The {whose} certificate: {found.finding}. {fix}"]


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
        f"shut out. The process's last words are in {console}. Then run `cipherdag site start`.",
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
    site: SiteFolder,
    study: Study,
    handler: KeptSite,
    announce: Announce,
    up: contextlib.ExitStack,
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
