"""Results of checks, and checks of the connection to the coordinator: name, port and TLS.

Leaks:
    The coordinator sees a connection that ends after the handshake, with the site's certificate.
"""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from cryptography import x509

from cipherdag.errors import CipherdagError
from cipherdag.protocol.answering import shown_certificate, study_of
from cipherdag.protocol.forward_proxy import ForwardProxy, ProxyRefusedError, proxy_to

State = Literal["ok", "warn", "fail"]
TIMEOUT_S = 5.0
ACCEPTED_S = 0.5
MIN_DAYS = 30


class Fix(StrEnum):
    """What to do about what keeps a site from the coordinator."""

    EXPIRED = (
        "Set this machine's clock; if it is right, have the coordinator run `cipherdag "
        "coordinator renew` and start its server again."
    )
    EARLY = (
        "Set this machine's clock; if it is right, the coordinator's is fast: have it set, "
        "and its certificates renewed."
    )
    NAME = "Use the host name that the coordinator gave to `coordinator new`."
    WRONG_ROOT = (
        "A proxy that opens TLS, or another server, answers in its place. Ask your "
        "network's people to let this connection through unopened."
    )
    ANOTHER_STUDY = (
        "Ask the coordinator for the port: another study's server has this one. One "
        "of both has to be on another port."
    )
    PROXY = (
        "A proxy or another service answers on this port. Ask the coordinator for the port, "
        "and your network's people for a direct way out."
    )
    UNKNOWN = "Compare host in site.toml with the coordinator's; ask your network's people."
    SILENT = "A firewall drops the connection: have outgoing connections to this port allowed."
    CLOSED = "Is the coordinator started, and is the port right?"
    NO_PROXY = "Correct the variable, or name the coordinator in no_proxy."
    PROXY_REFUSES = (
        "Ask your network's people to let CONNECT to the coordinator's host and port "
        "through; 407 means that the proxy wants a user in its address."
    )
    CUT = (
        "The server does not accept this site's certificate, or a firewall cuts TLS. Ask the "
        "coordinator whether the site was revoked, and whether its server's clock is right."
    )


Causes = tuple[tuple[str, str, Fix], ...]
TLS_CAUSES = (
    ("WRONG_VERSION_NUMBER", "what answers does not speak TLS", Fix.PROXY),
    ("HTTP_REQUEST", "what answers does not speak TLS", Fix.PROXY),
    ("UNEXPECTED_EOF", "the connection was cut during the handshake", Fix.CUT),
)
OTHER_NAME = "the server's certificate is for another host name"
CERTIFICATE_CAUSES = (
    ("expired", "the server's certificate has expired", Fix.EXPIRED),
    ("not yet valid", "the server's certificate is not valid yet", Fix.EARLY),
    ("hostname", OTHER_NAME, Fix.NAME),
    ("ip address", OTHER_NAME, Fix.NAME),
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check: its subject, its state, what was found, and what to do about it.

    ``warn`` stops nothing; ``fail`` means that a run would not go well.
    """

    check: str
    state: State
    finding: str
    fix: str = ""

    @classmethod
    def failed(cls, check: str, error: Exception) -> Self:
        """A check that ended in an error, with its remedy if it has one."""
        if isinstance(error, CipherdagError):
            return cls(check, "fail", error.message, error.remedy)
        return cls(check, "fail", str(error))


def connection_checks(
    host: str, port: int, key: Path, chain: Path, *, study: str = ""
) -> Iterator[CheckResult]:
    """Look up the coordinator, connect, and shake hands with the site's own certificate.

    Where the environment names a forward proxy, the connection goes through it, as a run's does.
    Without a certificate chain a server is only asked which study it is of.
    """
    proxy = proxy_to(host)
    reached = _looked_up(host, port) if proxy is None else _through(proxy)
    yield reached
    if reached.state == "fail":
        return
    try:
        with _connected(host, port, proxy) as raw:
            yield CheckResult("port", "ok", f"port {port} accepts connections")
            verified = _tls(raw, host, key, chain) if chain.exists() else None
        if verified is None or verified.fix is Fix.WRONG_ROOT:
            with _connected(host, port, proxy) as raw:
                verified = _named_server(raw, study, verified)
        elif verified.fix in (Fix.EARLY, Fix.EXPIRED):
            with _connected(host, port, proxy) as raw:
                verified = _dated(raw, verified)
        yield verified
    except ProxyRefusedError as error:
        said = error.answer or "nothing that is HTTP"
        yield CheckResult("port", "fail", f"the proxy answers: {said}", Fix.PROXY_REFUSES)
    except TimeoutError:
        yield CheckResult(
            "port", "fail", f"port {port} does not answer within {TIMEOUT_S:.0f} s", Fix.SILENT
        )
    except OSError:
        yield CheckResult("port", "fail", f"port {port} refuses connections", Fix.CLOSED)


def _connected(host: str, port: int, proxy: ForwardProxy | None) -> socket.socket:
    if proxy is None:
        return socket.create_connection((host, port), timeout=TIMEOUT_S)
    return proxy.connect(host, port, timeout_s=TIMEOUT_S)


def _named_server(raw: socket.socket, study: str, verified: CheckResult | None) -> CheckResult:
    """Name the study that the server's certificate names, where its root cannot be verified."""
    shown = shown_certificate(raw)
    theirs = study_of(shown)
    if theirs and (verified is not None or theirs != study):
        finding = f"the server of the study '{theirs}' answers, and it is not this study's"
        return CheckResult("TLS", "fail", finding, Fix.ANOTHER_STUDY)
    if verified is not None:
        return verified
    if theirs:
        finding = f"a server answers that calls itself one of '{theirs}'; activation verifies it"
        return CheckResult("TLS", "ok", finding)
    if shown:
        return CheckResult("TLS", "fail", "no study's server answers", Fix.WRONG_ROOT)
    return CheckResult("TLS", "fail", "what answers does not speak TLS", Fix.PROXY)


def _dated(raw: socket.socket, verified: CheckResult) -> CheckResult:
    """Both times, where the server's certificate is not valid at this machine's."""
    try:
        shown = x509.load_der_x509_certificate(shown_certificate(raw))
    except ValueError:
        return verified
    begins, ends = shown.not_valid_before_utc, shown.not_valid_after_utc
    finding = (
        f"{verified.finding}: it is from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC, and "
        f"this machine's clock says {utc_now():%Y-%m-%d %H:%M}"
    )
    return replace(verified, finding=finding)


def _looked_up(host: str, port: int) -> CheckResult:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return CheckResult("DNS", "fail", f"the name {host} cannot be looked up", Fix.UNKNOWN)
    return CheckResult("DNS", "ok", f"{host} is {addresses[0][4][0]}")


def _through(proxy: ForwardProxy) -> CheckResult:
    """Check that the proxy, which resolves the coordinator's name, can be reached."""
    named = f"{proxy.host}:{proxy.port}, which {proxy.variable} names"
    try:
        socket.create_connection((proxy.host, proxy.port), timeout=TIMEOUT_S).close()
    except (OSError, UnicodeError):
        return CheckResult("proxy", "fail", f"{named}, cannot be reached", Fix.NO_PROXY)
    return CheckResult("proxy", "ok", named)


def certificate_checks(certificate: Path, now: datetime) -> Iterator[CheckResult]:
    """Check how long the site's certificate remains valid."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        fix = "Activate the site again in a new folder."
        yield CheckResult("certificate", "fail", "it cannot be read", fix)
        return
    left, until = (loaded.not_valid_after_utc - now).days, f"{loaded.not_valid_after_utc:%Y-%m-%d}"
    here = f"this machine's clock says {now:%Y-%m-%d %H:%M}"
    fix = (
        "Have the coordinator run `cipherdag coordinator renew`. Stop the site, run "
        "`cipherdag site activate` with its new approval, which needs no code, then "
        "`cipherdag site start`: only a start takes a new certificate."
    )
    if now < loaded.not_valid_before_utc:
        begins = f"{loaded.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        finding = f"it is not valid yet: it is from {begins} on, and {here}"
        yield CheckResult("certificate", "fail", finding, Fix.EARLY)
    elif left < 0:
        finding = f"it expired on {until}, and {here}"
        yield CheckResult("certificate", "fail", finding, f"If the clock is right: {fix}")
    elif left < MIN_DAYS:
        yield CheckResult("certificate", "warn", f"it expires in {left} days, on {until}", fix)
    else:
        yield CheckResult("certificate", "ok", f"{left} days left, until {until}")


def _tls(raw: socket.socket, host: str, key: Path, chain: Path) -> CheckResult:
    context = ssl.create_default_context(cafile=chain)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(chain, key)
    try:
        with context.wrap_socket(raw, server_hostname=host) as tls:
            # TLS 1.3 tells of a refused certificate after the handshake, and of an accepted one not
            tls.settimeout(ACCEPTED_S)
            with suppress(TimeoutError):
                if not tls.recv(1):
                    return CheckResult("TLS", "fail", "the server cuts the connection", Fix.CUT)
            return CheckResult(
                "TLS", "ok", f"{tls.version()}, the study's own certificate authority"
            )
    except ssl.SSLCertVerificationError as error:
        said, unknown = error.verify_message.lower(), "its certificate is not of the study's root"
        return _fault(CERTIFICATE_CAUSES, said, unknown, Fix.WRONG_ROOT)
    except ssl.SSLError as error:
        reason = error.reason or ""
        return _fault(TLS_CAUSES, reason, f"the handshake failed ({reason.lower()})", Fix.CUT)
    except TimeoutError:
        return CheckResult("TLS", "fail", "what answers does not speak TLS", Fix.PROXY)
    except OSError:
        return CheckResult("TLS", "fail", "the connection was cut during the handshake", Fix.CUT)


def _fault(causes: Causes, said: str, finding: str, cause: Fix) -> CheckResult:
    """The first of the causes that speaks of what was said, or another one."""
    named = ((what, why) for word, what, why in causes if word in said)
    finding, cause = next(named, (finding, cause))
    return CheckResult("TLS", "fail", finding, cause)


def utc_now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)
