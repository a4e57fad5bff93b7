"""The coordinator's server: it runs until it is stopped, and says whether sites can reach it.

Leaks:
    The server sees operation names, opaque message bytes and who answered.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from cipherdag.deployment.certificates import check_validity
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.site_process import expiring
from cipherdag.errors import ParameterError, SiteUnreachableError
from cipherdag.program.versions import require_flare
from cipherdag.protocol.answering import holder_of, shown_certificate, study_of
from cipherdag.protocol.site_log import log_into
from cipherdag.sites.private_files import START_LOCK, locked

REACHED_S = 3.0
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

    Raises:
        SiteUnreachableError: Another process of this machine answers there.
    """
    expected = load_pem_x509_certificate(certificate.read_bytes()).public_bytes(Encoding.DER)
    try:
        addresses = {each[4][0] for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return [f"This machine cannot look up {host}; {HAVE_CHECKED}"]
    remarks, found = [], False
    for address in sorted(map(str, addresses)):
        try:
            connection = socket.create_connection((address, port), timeout=REACHED_S)
        except OSError:
            continue
        here = connection.getsockname()[0] == connection.getpeername()[0]
        shown = shown_certificate(connection)
        found = found or shown == expected
        if shown != expected:
            remarks.append(_another(address, port, shown, here=here))
    if not (found or remarks):
        remarks.append(f"This machine cannot reach {host}:{port}; {HAVE_CHECKED}")
    return remarks


def _another(address: str, port: int, shown: bytes, *, here: bool) -> str:
    """A remark that another server answers; where it is of this machine, the error."""
    if here:
        raise SiteUnreachableError(
            f"in place of this server {holder_of(address, port)} answers at {address}, port {port}",
            remedy="Stop that process, or begin the study on another port in a new folder, with "
            "`cipherdag coordinator new --port`.",
        )
    study = study_of(shown)
    who = f"the server of the study '{study}'" if study else "another server"
    return f"Seen from this machine, {who} answers at {address}, port {port}; {HAVE_CHECKED}"
