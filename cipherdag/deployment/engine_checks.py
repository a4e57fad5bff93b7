"""What an engine's process is given, what is written down of it, and whether it is kept apart.

Leaks:
    Nothing leaves the site; the engine's process gets the key of the site's certificate, and no
    other secret.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from cryptography.x509 import load_pem_x509_certificate

from cipherdag.deployment.certificates import check_validity
from cipherdag.errors import CipherdagError, SiteNotReadyError
from cipherdag.privacy.secrecy import leave_no_core
from cipherdag.protocol.engines.channel import Address, Notice, Started
from cipherdag.sites.private_files import START_LOCK, is_locked
from cipherdag.sites.record.engine_record import EngineRecord, sentence
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.finding import Finding
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.study.study import Study

CONSOLE = "engine.log"
CHECK = "engine's process"

log = logging.getLogger("cipherdag.site")


def engine_address(site: SiteFolder, study: Study | None) -> Address:
    """Whom the process connects to, with which certificate, and what it must not open.

    Args:
        site: The site's folder.
        study: The active study; without one the process is only tried, and connects to nobody.

    Raises:
        SiteNotReadyError: The site has no certificate, or one that is not valid now.
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
    """A site's certificate and its authority's, PEM, of the file that holds both."""
    end = b"-----END CERTIFICATE-----"
    certificate, root, _ = (part.strip() for part in chain.split(end))
    return certificate + b"\n" + end + b"\n", root + b"\n" + end + b"\n"


def recorder(site: SiteFolder, kept: KeptSite) -> Callable[[Started | Notice], None]:
    """Writes down what an engine's process says: ledger, ``site.log`` and ``engine.json``."""
    writing = threading.Lock()

    def record(said: Started | Notice) -> None:
        with writing:
            before = EngineRecord.load(site.engine_path)
            if isinstance(said, Notice):
                after = before.noticed(said.what, said.times, refused=said.refused)
                if said.refused:
                    log.warning("refused %s", sentence(said.what))
                else:
                    log.info("%s", sentence(said.what))
            else:
                after = _restarted(before, said)
                kept.record_start(_account(after))
                log.info("the process that carries messages started: %s", _account(after))
            after.save(site.engine_path)

    return record


def separation_findings(site: SiteFolder) -> list[Finding]:
    """Whether the process that talks to the network can open this site's files.

    Of a started site it is what the running process found; else one is started to try it.
    """
    if site.settings().datasite is not None:
        return []
    try:
        record = (
            EngineRecord.load(site.engine_path)
            if is_locked(site.path / START_LOCK)
            else _tried(site)
        )
    except CipherdagError as error:
        return [Finding(CHECK, "fail", error.message, error.remedy)]
    if record.separation:
        found = f"cannot open this site's files, kept from them by {record.separation}"
        return [Finding(CHECK, "ok", found)]
    reach = ", ".join(record.opened) or "this site's files"
    fix = (
        "Run it as another user, as docs/roles/it.md says, or on a Linux whose kernel has Landlock."
    )
    return [Finding(CHECK, "warn", f"nothing keeps it from {reach}", fix)]


def _tried(site: SiteFolder) -> EngineRecord:
    """What a process finds that is started as in a run, and connects to nobody."""
    from cipherdag.protocol.engines.engine_process import EngineProcess

    found: list[Started] = []

    def record(said: Started | Notice) -> None:
        if isinstance(said, Started):
            found.append(said)

    leave_no_core()
    console = site.path / CONSOLE
    with EngineProcess(engine_address(site, None), _nothing, record, console=console):
        return _restarted(EngineRecord(), found[0])


def _nothing(_operation: str, _message: bytes) -> bytes:
    raise SiteNotReadyError("a process that is only tried asks nothing")


def _restarted(before: EngineRecord, said: Started) -> EngineRecord:
    own = said.separation
    other = own.user not in (-1, os.getuid() if hasattr(os, "getuid") else -1)
    return before.restarted(user=own.user, other_user=other, kernel=own.kernel, opened=own.opened)


def _account(record: EngineRecord) -> str:
    means = record.separation
    return f"kept from this site's files by {means}" if means else "nothing keeps it from the files"
