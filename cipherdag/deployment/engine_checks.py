"""Checks of the process that carries messages, and what is recorded of it.

Leaks:
    Nothing leaves the site; the process gets the key of the site's certificate, no other secret.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from cryptography.x509 import load_pem_x509_certificate

from cipherdag.deployment.certificates import check_validity
from cipherdag.errors import CipherdagError, SiteNotReadyError
from cipherdag.pages.files import from_json
from cipherdag.privacy.secrecy import leave_no_core
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.engines.channel import Address, Notice, Started
from cipherdag.sites.private_files import START_LOCK, is_locked
from cipherdag.sites.study.checks import CheckResult
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.study.study import Study

MOST_SENTENCE = 120  # characters
ANNOUNCED_S = 60.0  # between two announcements of one sentence
CONSOLE = "engine.log"  # file of the process's output
CHECK = "engine's process"
log = logging.getLogger("cipherdag.site")


class EngineRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``engine.json``."""

    started: str = ""
    user: int = -1  # number of the user that the process runs as
    other_user: bool = False  # whether that is another user than that of the site's own process
    kernel: tuple[str, ...] = ()  # what the kernel enforces: ``landlock``, ``seccomp``
    opened: tuple[str, ...] = ()  # files of the site that it could open although it must not
    news: str = ""  # the last notice that was no refusal, and when
    refused: int = 0  # how many requests were refused; ``last_refused`` says the last, and when
    last_refused: str = ""

    @classmethod
    def load(cls, path: Path) -> EngineRecord:
        """Read the record of a file, empty if there is none; or raise SiteNotReadyError."""
        if not path.exists():
            return cls()
        try:
            return from_json(path.read_bytes(), cls)
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(
                f"{path} cannot be read", remedy="Delete it; it is written anew at the next start."
            ) from error

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, msgspec.json.encode(self).decode("utf-8"))

    def noticed(self, what: str, times: int, *, refused: bool) -> EngineRecord:
        """The record after a notice of the process, whose words are not trusted."""
        said = sentence(what)
        if not refused:
            return msgspec.structs.replace(self, news=f"{said}, {_now()}")
        return msgspec.structs.replace(
            self, refused=self.refused + max(times, 1), last_refused=f"{said}, {_now()}"
        )

    @property
    def separation(self) -> str:
        """The isolation of the process from the site's files, in words; "" if there is none."""
        if self.opened:
            return ""
        means = [f"user {self.user}"] if self.other_user else []
        kernel = [f"the kernel ({' and '.join(self.kernel)})"] if self.kernel else []
        return " and ".join([*means, *kernel])


def sentence(what: str) -> str:
    """Text of an untrusted process as one line of limited length."""
    return "".join(filter(str.isprintable, what))[:MOST_SENTENCE]


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def engine_address(site: SiteFolder, study: Study | None) -> Address:
    """Whom the process connects to, with which certificate, and what it must not open.

    Without a study the process is only tried, and connects to nobody. Raises SiteNotReadyError
    where the site has no certificate, or one that is not valid now.
    """
    settings = site.settings()
    protected = tuple(str(path) for path in site.protected(settings))
    try:
        certificate, root = split_chain(site.tls_chain.read_bytes())
        key = site.tls_key.read_bytes()
    except (OSError, ValueError) as error:
        raise SiteNotReadyError(
            "the site has no certificate of its study",
            remedy="Run `cipherdag site request`, send the file, and activate the answer.",
        ) from error
    if study is not None:
        check_validity(load_pem_x509_certificate(certificate), datetime.now(UTC))
    host, port = (study.host, study.port) if study is not None else ("", 0)
    return Address(settings.name, host, port, root, certificate, key, protected)


def split_chain(chain: bytes) -> tuple[bytes, bytes]:
    """Split a PEM file into a site's certificate and that of its authority, which follows it."""
    end = b"-----END CERTIFICATE-----"
    certificate, root, _ = (part.strip() for part in chain.split(end))
    return certificate + b"\n" + end + b"\n", root + b"\n" + end + b"\n"


def recorder(
    site: SiteFolder,
    record_start: Callable[[str], object],
    announce: Callable[[str], object] = lambda _: None,
) -> Callable[[Started | Notice], None]:
    """What writes an engine process's words into ledger, ``site.log`` and ``engine.json``.

    ``record_start`` writes a start into the ledger. ``announce`` gets each notice as a sentence,
    the same one at most once in `ANNOUNCED_S` seconds.
    """
    writing = threading.Lock()
    announced: dict[str, float] = {}

    def tell(notice: Notice) -> None:
        said = sentence(f"Refused: {notice.what}" if notice.refused else notice.what)
        now = time.monotonic()
        if now - announced.get(said, -math.inf) >= ANNOUNCED_S:
            announced[said] = now
            announce(f"{said[:1].upper()}{said[1:]}.".replace("?.", "?"))

    def record(said: Started | Notice) -> None:
        with writing:
            before = EngineRecord.load(site.engine_path)
            if isinstance(said, Notice):
                after = before.noticed(said.what, said.times, refused=said.refused)
                tell(said)
                if said.refused:
                    log.warning("refused %s", sentence(said.what))
                else:
                    log.info("%s", sentence(said.what))
            else:
                after = _restarted(before, said)
                record_start(_account(after))
                log.info("the process that carries messages started: %s", _account(after))
            after.save(site.engine_path)

    return record


def separation_checks(site: SiteFolder) -> list[CheckResult]:
    """Check whether the process that talks to the network can open this site's files.

    A running site's record says what its process found; otherwise one is started to try it.
    """
    if site.settings().engine != "flare":
        return []
    try:
        record = (
            EngineRecord.load(site.engine_path)
            if is_locked(site.path / START_LOCK)
            else _tried(site)
        )
    except CipherdagError as error:
        return [CheckResult(CHECK, "fail", error.message, error.remedy)]
    if record.separation:
        detail = f"cannot open this site's files, kept from them by {record.separation}"
        return [CheckResult(CHECK, "ok", detail)]
    reach = ", ".join(record.opened) or "this site's files"
    fix = (
        "Run it as another user, as docs/roles/it.md says, or on a Linux whose kernel has Landlock."
    )
    return [CheckResult(CHECK, "warn", f"nothing keeps it from {reach}", fix)]


def _tried(site: SiteFolder) -> EngineRecord:
    """The record of a process that is started as in a run, and connects to nobody."""
    from cipherdag.protocol.engines.engine_process import EngineProcess

    started: list[Started] = []

    def record(said: Started | Notice) -> None:
        if isinstance(said, Started):
            started.append(said)

    leave_no_core()
    console = site.path / CONSOLE
    with EngineProcess(engine_address(site, None), _nothing, record, console=console):
        return _restarted(EngineRecord(), started[0])


def _nothing(_operation: str, _message: bytes) -> bytes:
    raise SiteNotReadyError("a process that is only tried asks nothing")


def _restarted(before: EngineRecord, said: Started) -> EngineRecord:
    """The record after a start; what was refused before stays counted."""
    separation = said.separation
    other = separation.user not in (-1, os.getuid() if hasattr(os, "getuid") else -1)
    return msgspec.structs.replace(
        before,
        started=_now(),
        user=separation.user,
        other_user=other,
        kernel=separation.kernel,
        opened=separation.opened,
        news="",
    )


def _account(record: EngineRecord) -> str:
    means = record.separation
    return f"kept from this site's files by {means}" if means else "nothing keeps it from the files"
