"""The PySyft engine: one Datasite per site, one endpoint, bytes in and bytes out.

It needs the environment of ``constraints-syft.txt`` (PySyft 0.9.5, numpy 1.24). Each round is one
synchronous ``api.call`` per site over HTTP; no job queue takes part. PySyft encrypts nothing, so
anything but loopback must be ``https``, ended by the proxy in ``docs/engines/syft-proxy.conf``.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cipherdag.errors import CipherdagError, ParameterError, SiteNotReadyError
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.syft_wire import (
    ANSWERED,
    COORDINATOR_EMAIL,
    ENDPOINT,
    ENVELOPE_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_OPERATION_BYTES,
    SYFT_VERSION,
    read_password,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from pathlib import Path

log = logging.getLogger("cipherdag.engine")

_UNAUTHORIZED = 401
_OK = 200
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SyftLink:
    """How the coordinator reaches one Datasite.

    Args:
        url: ``https://HOST[:PORT]``, or ``http://127.0.0.1:PORT`` on the same machine.
        password: The file with the coordinator's password at that site, mode 0600.
        authority: The certificate authority that signed the site's certificate; None trusts
            the public ones.
        certificate: The coordinator's own certificate and private key, if the proxy asks for one.

    Raises:
        ParameterError: If the address is not https and not loopback.
    """

    url: str
    password: Path
    authority: Path | None = None
    certificate: tuple[Path, Path] | None = None

    def __post_init__(self) -> None:
        """Refuse an address that would send passwords and messages in the clear."""
        parts = urlsplit(self.url)
        encrypted = parts.scheme == "https" and parts.hostname is not None
        if not encrypted and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
            raise ParameterError(
                f"'{self.url}' is neither https nor loopback",
                remedy="Put the TLS proxy of docs/engines/syft-proxy.conf in front of the site.",
            )


class SyftEngine:
    """Carries messages through one PySyft Datasite per site; see `Engine`.

    Args:
        links: How to reach each site, by the site's name.

    Raises:
        SiteNotReadyError: If PySyft 0.9.5 is not installed here.
    """

    def __init__(self, links: Mapping[str, SyftLink]) -> None:
        _check_syft()
        self._datasites = {site: _Datasite(site, link) for site, link in links.items()}

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """See `Engine.call`.

        Raises:
            ParameterError: If a message is longer than 128 MiB or the operation's name than 64
                bytes; nothing is sent then.
        """
        if len(operation.encode()) > MAX_OPERATION_BYTES:
            raise ParameterError("the operation's name is longer than 64 bytes")
        for site, message in messages.items():
            if len(message) > MAX_MESSAGE_BYTES:
                raise ParameterError(
                    f"a message of {len(message)} bytes is over the {MAX_MESSAGE_BYTES} bytes "
                    "that the PySyft engine carries",
                    site=site,
                    remedy="Choose another engine, or questions with shorter answers.",
                )
        deadline = time.monotonic() + timeout_s
        replies: dict[str, bytes | SiteFailure] = {
            site: SiteFailure("unreachable") for site in messages
        }
        pending = {
            site: self._datasites[site].submit(operation, message, deadline)
            for site, message in messages.items()
            if site in self._datasites
        }
        wait(pending.values(), timeout=timeout_s)
        for site, reply in pending.items():
            # a straggler blocks only its own site: each has a thread of its own
            replies[site] = SiteFailure("timeout") if reply.cancel() else _outcome(reply)
        return replies

    def close(self) -> None:
        """Close every connection."""
        for datasite in self._datasites.values():
            datasite.close()


class _Datasite:
    """One site's Datasite, spoken to by one thread."""

    def __init__(self, site: str, link: SyftLink) -> None:
        import requests

        self._site = site
        self._link = link
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="syft")
        self._session = requests.Session()
        # a kept connection may end just when the next round is sent, and a round is sent only once
        self._session.headers["Connection"] = "close"
        # no proxy and no netrc from the environment
        self._session.trust_env = False
        self._session.verify = str(link.authority) if link.authority is not None else True
        if link.certificate is not None:
            self._session.cert = (str(link.certificate[0]), str(link.certificate[1]))
        self._login: tuple[Any, Any] | None = None

    def submit(
        self, operation: str, message: bytes, deadline: float
    ) -> Future[bytes | SiteFailure]:
        return self._thread.submit(self._exchange, operation, message, deadline)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session.close()

    def _exchange(self, operation: str, message: bytes, deadline: float) -> bytes | SiteFailure:
        import requests

        try:
            status, body = self._call(operation, message, deadline)
            if status == _UNAUTHORIZED:
                # the site was restarted, so the message was not read: log in anew, once
                self._login = None
                status, body = self._call(operation, message, deadline)
            reply = _opened(body) if status == _OK else None
        except (requests.Timeout, TimeoutError):
            return SiteFailure("timeout")
        except requests.ConnectionError:
            return SiteFailure("unreachable")
        except CipherdagError:
            raise
        except Exception as error:  # noqa: BLE001 - PySyft raises whatever a site's bytes provoke
            log.warning("a site's reply cannot be read: %s", type(error).__name__)
            return SiteFailure("failed")
        return SiteFailure("failed") if reply is None else reply

    def _call(self, operation: str, message: bytes, deadline: float) -> tuple[int, bytes]:
        from syft.client.api import SyftAPICall
        from syft.serde.serialize import _serialize

        if self._login is None:
            self._login = self._log_in(deadline)
        server, key = self._login
        call = SyftAPICall(
            server_uid=server,
            path="api.call",
            args=[ENDPOINT],
            kwargs={"operation": operation, "message": message},
            blocking=True,
        )
        body: bytes = _serialize(call.sign(key), to_bytes=True)
        return self._request("POST", "api_call", deadline, data=body)

    def _log_in(self, deadline: float) -> tuple[Any, Any]:
        """The Datasite's identifier and the signing key of the coordinator's account there."""
        import json

        from syft.serde.deserialize import _deserialize
        from syft.service.user.user import UserPrivateKey
        from syft.types.uid import UID

        _, metadata = self._request("GET", "metadata", deadline)
        password = read_password(self._link.password)
        status, body = self._request(
            "POST", "login", deadline, json={"email": COORDINATOR_EMAIL, "password": password}
        )
        if status == _UNAUTHORIZED:
            raise SiteNotReadyError(
                "the coordinator's password is not accepted",
                site=self._site,
                remedy="Ask the site for the password file of its present set-up.",
            )
        account = _deserialize(body, from_bytes=True)
        if not isinstance(account, UserPrivateKey):
            raise TypeError("the login brought no key")
        return UID.from_string(json.loads(metadata)["id"]), account.signing_key

    def _request(
        self, method: str, path: str, deadline: float, **content: Any
    ) -> tuple[int, bytes]:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        with self._session.request(
            method,
            f"{self._link.url.rstrip('/')}/api/v2/{path}",
            timeout=left,
            stream=True,
            allow_redirects=False,
            **content,
        ) as response:
            received = bytearray()
            for piece in response.iter_content(_PIECE_BYTES):
                received += piece
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(received) > MAX_MESSAGE_BYTES + ENVELOPE_BYTES:
                    raise OverflowError
            return response.status_code, bytes(received)


def _opened(body: bytes) -> bytes | None:
    """The reply inside PySyft's envelopes, or None where the site refused."""
    from syft.client.api import SignedSyftAPICall
    from syft.serde.deserialize import _deserialize
    from syft.service.response import SyftSuccess

    signed = _deserialize(body, from_bytes=True)
    if not isinstance(signed, SignedSyftAPICall) or not signed.is_valid:
        return None
    result = signed.message.data
    if not isinstance(result, SyftSuccess):
        return None
    reply = result.value.syft_action_data
    if not isinstance(reply, bytes) or reply[:1] != bytes([ANSWERED]):
        return None
    return reply[1:]


def _outcome(reply: Future[bytes | SiteFailure]) -> bytes | SiteFailure:
    return reply.result() if reply.done() else SiteFailure("timeout")


def _is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _check_syft() -> None:
    remedy = "Install constraints-syft.txt in an environment of its own: docs/engines/pysyft.md."
    try:
        import syft
    except ImportError:
        raise SiteNotReadyError("PySyft is not installed here", remedy=remedy) from None
    if getattr(syft, "__version__", "") != SYFT_VERSION:
        raise SiteNotReadyError(f"the PySyft engine needs version {SYFT_VERSION}", remedy=remedy)
