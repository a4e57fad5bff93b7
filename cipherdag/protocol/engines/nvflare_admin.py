"""What the coordinator does at its own FLARE server besides runs: see sites, shut one out.

A certificate cannot be called back, so the server keeps a list of names that it does not admit.
It reads the list when it starts and changes it when told; both ways are used here.

Leaks:
    The server sees the names.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from typing import TYPE_CHECKING

from nvflare.fuel.flare_api.api_spec import InternalError
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from cipherdag.errors import SiteUnreachableError, writing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cipherdag.protocol.engines.nvflare_kit import Kit

SHUT_OUT = "disabled_clients.json"
RIGHT = "disable_client"
PAUSE_S = 0.2


def allow_shutting_out(server: Kit) -> None:
    """Give the coordinator's user the right to shut a site out at its own server."""
    path = server.folder / "local" / "authorization.json"
    rights = json.loads(path.read_text("utf-8"))
    rights["permissions"]["lead"][RIGHT] = "any"
    with writing(path):
        path.write_text(json.dumps(rights, indent=2) + "\n", "utf-8")


def write_shut_out(server: Path, names: tuple[str, ...]) -> None:
    """Write the names that the server refuses from its next start on."""
    path = server / SHUT_OUT
    temporary = path.with_name(path.name + ".new")
    with writing(path):
        temporary.write_text(json.dumps({"disabled_clients": sorted(names)}) + "\n", "utf-8")
        temporary.replace(path)


def shut_out(admin: Kit, name: str, *, timeout_s: float = 15.0) -> None:
    """Have a running server drop a site and refuse it from now on.

    Raises:
        SiteUnreachableError: The server does not answer or does not obey.
    """
    with _session(admin, timeout_s) as session:
        try:
            session.disable_client(name)
        except Exception as error:
            raise SiteUnreachableError(
                "the FLARE server did not shut the site out",
                remedy="Restart the server with `cipherdag coordinator start`: it then does.",
            ) from error


def connected_sites(admin: Kit, *, timeout_s: float = 5.0) -> set[str]:
    """The sites that are connected to the server.

    Raises:
        SiteUnreachableError: The server does not answer.
    """
    with _session(admin, timeout_s) as session:
        return {client.name for client in session.get_connected_client_list()}


def end_orphans(admin: Kit, *, timeout_s: float = 15.0) -> None:
    """End jobs that a coordinator left behind when it died; a site serves one job at a time.

    Call it only while no other run of the study goes on.

    Raises:
        SiteUnreachableError: The server does not answer, or a job does not end.
    """
    with _session(admin, timeout_s) as session:
        jobs = [job["job_id"] for job in session.list_jobs() if not _finished(job["status"])]
        orphans = [job for job in jobs if _aborted(session, job)]
        deadline = time.monotonic() + timeout_s
        while any(not _finished(session.get_job_status(job) or "FINISHED") for job in orphans):
            if time.monotonic() >= deadline:
                raise SiteUnreachableError(
                    "a run that a coordinator left behind does not end",
                    remedy="Restart the server with `cipherdag coordinator start`.",
                )
            time.sleep(PAUSE_S)


def _aborted(session: Session, job: str) -> bool:
    """Whether a job was told to end; a server that was restarted lists jobs that it lost."""
    try:
        session.abort_job(job)
    except InternalError:
        return False
    return True


def _finished(status: str) -> bool:
    return status.startswith("FINISHED")


def admin_session(admin: Kit, **limits: float) -> Session:
    """A session of the kit's user at the running server, within `new_secure_session`'s limits."""
    # FLARE prints its progress, which is not this process's to show
    with contextlib.redirect_stdout(io.StringIO()):
        return new_secure_session(admin.party.name, str(admin.folder.resolve()), **limits)


@contextlib.contextmanager
def _session(admin: Kit, timeout_s: float) -> Iterator[Session]:
    try:
        session = admin_session(admin, timeout=timeout_s)
    except Exception as error:
        raise SiteUnreachableError(
            "the FLARE server does not answer",
            remedy="Start it with `cipherdag coordinator start`.",
        ) from error
    try:
        yield session
    finally:
        with contextlib.suppress(Exception):
            session.close()
