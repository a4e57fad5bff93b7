"""NVIDIA FLARE as an engine: the algorithm stays in this process, a server job relays its bytes.

The job is two small JSON files. It carries no code and no parameter of a site: a site's own kit
says which class may run there and which folder it serves.

Leaks:
    The FLARE server sees operation names, opaque message bytes and who answered.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from nvflare.fuel.flare_api.api_spec import (
    InternalError,
    JobNotRunning,
    NoConnection,
    NoReply,
    SessionClosed,
)

from cipherdag.errors import CohortError, PolicyRefusedError, SiteUnreachableError, writing
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.nvflare_admin import admin_session
from cipherdag.protocol.engines.nvflare_kit import RELAY_CONTROLLER, SITE_EXECUTOR
from cipherdag.protocol.engines.nvflare_relay import COMMAND_TOPIC, INLINE_BYTES, PART_BYTES
from cipherdag.protocol.engines.nvflare_site import CLIENT_CONFIG, client_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvflare.fuel.flare_api.flare_api import Session

    from cipherdag.protocol.engines.nvflare_kit import Kit

JOB_NAME = "cipherdag"
SERVER_CONFIG = "config_fed_server.json"
COMMAND_TIMEOUT_S = 60.0
WAIT_S = 10.0
PAUSE_S = 0.2
NO_ANSWER = (NoConnection, NoReply, SessionClosed)


class FlareEngine:
    """Carries messages to the sites of a FLARE project; a context manager for one thread.

    One server job serves one engine. A site that died and came back is reached again by a fresh
    job. What the sites hold of a session lies in their own processes and outlives the job; a site
    whose own process ended holds nothing any more.

    Args:
        kit: The coordinator's own kit.
        sites: Every site that may be called.
        start_s: Seconds that the project may take to come up, or a site to rejoin.
        probe_s: Seconds of silence after which a site that owes a reply is pinged.
        misses: Pings in a row without an answer that make a site dead.
        executor: The one class that the sites' kits allow.

    Raises:
        SiteUnreachableError: The FLARE server does not answer, or the job ended at once, as where
            no site's kit allows it.
        PolicyRefusedError: The server refused the job.
        CohortError: There is no site, or one appears twice.
    """

    def __init__(
        self,
        kit: Kit,
        *,
        sites: Sequence[str],
        start_s: float = 15.0,
        probe_s: float = 3.0,
        misses: int = 5,
        executor: str = SITE_EXECUTOR,
    ) -> None:
        if not sites or len(set(sites)) != len(sites):
            raise CohortError("a FLARE engine needs at least one site, and each only once")
        self._kit = kit
        self._sites = tuple(sites)
        self._start_s = start_s
        self._relay = {"start_s": start_s, "probe_s": probe_s, "misses": misses}
        self._executor = executor
        self._lost: dict[str, float] = {}
        self._absent: set[str] = set()
        self._job = ""
        self._session = self._connect()
        try:
            self._start_job()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """See `Engine.call`."""
        if self._returned(set(messages) & (set(self._lost) | self._absent)):
            self._start_job()
        served = {
            site: message
            for site, message in messages.items()
            if site in self._sites and site not in self._absent
        }
        try:
            replies = self._round(operation, served, timeout_s) if served else {}
        except (*NO_ANSWER, InternalError, JobNotRunning, RuntimeError):
            replies = {}
        now = time.time()
        for site in messages:
            reply = replies.setdefault(site, SiteFailure("unreachable"))
            if isinstance(reply, bytes):
                self._lost.pop(site, None)
            elif reply.reason == "unreachable":
                self._lost.setdefault(site, now)
        return {site: replies[site] for site in messages}

    def close(self) -> None:
        """Have the job end and close the session; the server and the sites stay up.

        It is not waited for: a site's own process serves the next job while the last one ends.
        """
        with contextlib.suppress(Exception):
            self._end_job(wait=False)
        with contextlib.suppress(Exception):
            self._session.close()

    def _round(
        self, operation: str, messages: Mapping[str, bytes], timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        ticket = secrets.token_hex(16)
        digests = {site: hashlib.sha256(blob).hexdigest() for site, blob in messages.items()}
        blobs = {digests[site]: blob for site, blob in messages.items()}
        inline: dict[str, str] = {}
        for digest, blob in blobs.items():
            if sum(map(len, inline.values())) + len(blob) <= INLINE_BYTES:
                inline[digest] = base64.b64encode(blob).decode()
            else:
                self._upload(digest, blob)
        step: dict[str, Any] = {
            "step": "send",
            "operation": operation,
            "messages": digests,
            "inline": inline,
            "timeout_s": timeout_s,
        }
        # the relay settles every site in time; the slack is for a relay that is gone
        deadline = time.monotonic() + timeout_s + COMMAND_TIMEOUT_S
        replies: dict[str, bytes | SiteFailure] = {}
        while True:
            said = self._ask({**step, "ticket": ticket, "wait_s": WAIT_S, "known": list(replies)})
            for site, done in said["done"].items():
                replies[site] = self._collect(ticket, site, done)
            if not said["pending"] or time.monotonic() > deadline:
                return replies
            step = {"step": "take"}

    def _upload(self, digest: str, blob: bytes) -> None:
        offset = 0
        while offset < len(blob):
            part = base64.b64encode(blob[offset : offset + PART_BYTES]).decode()
            step = {"step": "put", "digest": digest, "offset": offset, "part": part}
            size = self._ask(step)["size"]
            if size <= offset:
                raise RuntimeError("the relay takes no longer message")
            offset = size

    def _collect(self, ticket: str, site: str, done: dict[str, Any]) -> bytes | SiteFailure:
        if "reason" in done:
            return SiteFailure(str(done["reason"]))
        if "reply" in done:
            return base64.b64decode(done["reply"], validate=True)
        whole = bytearray()
        while len(whole) < done["size"]:
            step = {"step": "part", "ticket": ticket, "site": site, "offset": len(whole)}
            part = base64.b64decode(self._ask(step)["part"], validate=True)
            if not part:
                return SiteFailure("failed")
            whole += part
        return bytes(whole)

    def _ask(self, step: dict[str, Any]) -> dict[str, Any]:
        """One step at the relay, repeated once over a new session if the old one was closed."""
        for attempt in (1, 2):
            try:
                answer: dict[str, Any] = self._session.do_app_command(
                    self._job, COMMAND_TOPIC, step
                )
                break
            except (NoConnection, SessionClosed):
                if attempt == 2:  # noqa: PLR2004
                    raise
                with contextlib.suppress(Exception):
                    self._session.close()
                self._session = self._connect()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def _connect(self) -> Session:
        deadline = time.monotonic() + self._start_s
        while True:
            try:
                left = max(1.0, deadline - time.monotonic())
                return admin_session(self._kit, timeout=left, command_timeout=COMMAND_TIMEOUT_S)
            except Exception as error:
                if time.monotonic() >= deadline:
                    raise SiteUnreachableError(
                        "the FLARE server does not answer",
                        remedy="Check that the server runs and that this kit is of its project.",
                    ) from error
                time.sleep(PAUSE_S)

    def _start_job(self) -> None:
        """Submit a job for the sites that are up, and wait until its relay answers."""
        with contextlib.suppress(Exception):
            self._end_job()
        present = self._wait_for_sites()
        self._absent = set(self._sites) - set(present)
        self._lost.clear()
        if not present:
            raise SiteUnreachableError("no site is connected to the FLARE server")
        with tempfile.TemporaryDirectory() as folder:
            job = write_job(
                Path(folder) / JOB_NAME, present, executor=self._executor, relay=self._relay
            )
            try:
                self._job = self._session.submit_job(str(job))
            except Exception as error:
                raise PolicyRefusedError(f"the FLARE server refused the job: {error}") from error
        deadline = time.monotonic() + self._start_s
        while True:
            try:
                self._session.do_app_command(self._job, COMMAND_TOPIC, {"step": "hello"})
            except Exception as error:
                status = self._session.get_job_status(self._job) or ""
                if status.startswith("FINISHED"):
                    raise SiteUnreachableError(
                        f"the FLARE job ended at once: {status}",
                        remedy="See console.log in the kits of the server and of the sites.",
                    ) from error
                if time.monotonic() >= deadline:
                    raise SiteUnreachableError("the FLARE job does not start") from error
                time.sleep(PAUSE_S)
            else:
                return

    def _wait_for_sites(self) -> list[str]:
        deadline = time.monotonic() + self._start_s
        while True:
            seen = set(self._last_seen())
            if seen.issuperset(self._sites) or time.monotonic() >= deadline:
                return [site for site in self._sites if site in seen]
            time.sleep(PAUSE_S)

    def _last_seen(self) -> dict[str, float]:
        with contextlib.suppress(*NO_ANSWER):
            clients = self._session.get_connected_client_list()
            return {client.name: float(client.last_connect_time) for client in clients}
        return {}

    def _returned(self, sites: set[str]) -> bool:
        """Whether a site that was lost or absent has spoken to the server since."""
        if not sites:
            return False
        seen = self._last_seen()
        return any(seen.get(site, 0.0) > self._lost.get(site, 0.0) for site in sites)

    def _end_job(self, *, wait: bool = True) -> None:
        if not self._job:
            return
        job, self._job = self._job, ""
        self._session.abort_job(job)
        deadline = time.monotonic() + self._start_s
        while wait and time.monotonic() < deadline:
            if (self._session.get_job_status(job) or "FINISHED").startswith("FINISHED"):
                return
            time.sleep(PAUSE_S)


def write_job(
    folder: Path, sites: Sequence[str], *, executor: str, relay: Mapping[str, float]
) -> Path:
    """Write the job's three small files.

    Args:
        folder: The job's folder, made here.
        sites: The sites that take part.
        executor: The one class that the sites' kits allow.
        relay: Arguments of the relay in the server job.

    Returns:
        ``folder``.
    """
    workflow = {"id": "relay", "path": RELAY_CONTROLLER, "args": dict(relay)}
    parts: dict[str, Any] = {
        "meta.json": {
            "name": JOB_NAME,
            "resource_spec": {},
            "min_clients": 1,
            "deploy_map": {"coordinator": ["server"], "site": list(sites)},
        },
        f"coordinator/config/{SERVER_CONFIG}": {
            "format_version": 2,
            "workflows": [workflow],
            "task_data_filters": [],
            "task_result_filters": [],
            "components": [],
        },
        f"site/config/{CLIENT_CONFIG}": client_config(executor),
    }
    for name, content in parts.items():
        path = folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return folder
