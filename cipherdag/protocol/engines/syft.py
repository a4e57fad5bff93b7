"""The PySyft engine: one Datasite per site, one endpoint, bytes in and bytes out.

It needs the environment of ``constraints-syft.txt`` (PySyft 0.9.5, numpy 1.24). Each round is one
synchronous call per site over HTTP, signed with a key that the sites pin; nobody logs in, no job
queue takes part. PySyft decodes no site's bytes here (`syft_wire`). Nothing encrypts, so anything
but loopback must be ``https``, ended by the proxy in ``docs/engines/syft-proxy.conf``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from cipherdag.errors import CipherdagError, ParameterError, SiteNotReadyError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import MAX_OPERATION_BYTES
from cipherdag.protocol.addresses import check_datasite_url
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.syft_wire import (
    ANSWERED,
    CALL_DOMAIN,
    ENVELOPE_BYTES,
    SYFT_MESSAGE_BYTES,
    SYFT_VERSION,
    call_parts,
    write_call,
)

log = logging.getLogger("cipherdag.engine")

_UNAUTHORIZED = 401
_OK = 200
_PROXY_ALONE = frozenset({502, 503, 504})
_PIECE_BYTES = 1024 * 1024
_SET_UP = "Install constraints-syft.txt in an environment of its own: docs/engines/pysyft.md."


@dataclass(frozen=True, slots=True)
class SyftLink:
    """The address and the certificates by which the coordinator reaches one Datasite.

    Args:
        url: ``https://HOST[:PORT]``, or ``http://127.0.0.1:PORT`` on the same machine.
        authority: The certificate authority that signed the site's certificate; None trusts
            the public ones.
        certificate: The coordinator's own certificate and private key, if the proxy asks for one.

    Raises:
        ParameterError: If the address is not https and not loopback.
    """

    url: str
    authority: Path | None = None
    certificate: tuple[Path, Path] | None = None

    def __post_init__(self) -> None:
        """Refuse an address that would send messages in the clear."""
        check_datasite_url(self.url)


class SyftEngine:
    """Carries messages through one PySyft Datasite per site; see `Engine`.

    Args:
        links: How to reach each site, by the site's name.
        key: The file of the Ed25519 key that the sites know as the coordinator's, mode 0600.

    Raises:
        SiteNotReadyError: If PySyft 0.9.5 is not installed here.
        PolicyRefusedError: If others can read the key.
        OutputError: If there is no key.
    """

    def __init__(self, links: Mapping[str, SyftLink], *, key: Path) -> None:
        _check_version()
        self._key = SigningIdentity.load(key)
        self._datasites = {site: _Datasite(site, link) for site, link in links.items()}

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """Sends each site its message; see `Engine.call`.

        Raises:
            ParameterError: If a message is longer than 128 MiB or the operation's name than 64
                bytes; nothing is sent then.
        """
        if len(operation.encode()) > MAX_OPERATION_BYTES:
            raise ParameterError("the operation's name is longer than 64 bytes")
        for site, message in messages.items():
            if len(message) > SYFT_MESSAGE_BYTES:
                raise ParameterError(
                    f"a message of {len(message)} bytes is over the {SYFT_MESSAGE_BYTES} bytes "
                    "that the PySyft engine carries",
                    site=site,
                    remedy="Choose another engine, or questions with shorter answers.",
                )
        deadline = time.monotonic() + timeout_s
        replies: dict[str, bytes | SiteFailure] = {
            site: SiteFailure("unreachable") for site in messages
        }
        pending = {
            site: self._datasites[site].submit(operation, message, self._key, deadline)
            for site, message in messages.items()
            if site in self._datasites
        }
        wait(pending.values(), timeout=timeout_s)
        for site, reply in pending.items():
            # a straggler blocks only its own site: each has a thread of its own
            came = not reply.cancel() and reply.done()
            replies[site] = reply.result() if came else SiteFailure("timeout")
        return replies

    def present(self, *, timeout_s: float) -> set[str]:
        """The sites whose Datasite answers at its address and says that it is theirs."""
        deadline = time.monotonic() + timeout_s
        asked = {
            site: datasite.submit_greeting(deadline) for site, datasite in self._datasites.items()
        }
        wait(asked.values(), timeout=timeout_s)
        return {site for site, greeted in asked.items() if greeted.done() and greeted.result()}

    def close(self) -> None:
        """Close every connection."""
        for datasite in self._datasites.values():
            datasite.close()


class _Metadata(msgspec.Struct):
    """A Datasite's account of itself: whose it is, and its identifier."""

    site: str
    id: str


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
        self._server = ""

    def submit(
        self, operation: str, message: bytes, key: SigningIdentity, deadline: float
    ) -> Future[bytes | SiteFailure]:
        return self._thread.submit(self._exchange, operation, message, key, deadline)

    def submit_greeting(self, deadline: float) -> Future[bool]:
        return self._thread.submit(self._greet, deadline)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session.close()

    def _exchange(
        self, operation: str, message: bytes, key: SigningIdentity, deadline: float
    ) -> bytes | SiteFailure:
        import requests

        try:
            status, body = self._call(operation, message, key, deadline)
            if status == _UNAUTHORIZED:
                # the site was restarted, so the message was not read: look again, once
                self._server = ""
                status, body = self._call(operation, message, key, deadline)
            if status == _UNAUTHORIZED:
                raise SiteNotReadyError(
                    "its Datasite does not accept this coordinator's key",
                    site=self._site,
                    remedy="Have the site activate your newest approval and start again; its "
                    "site.log and datasite.log say more.",
                )
            reply = _opened(body) if status == _OK else None
        except (requests.Timeout, TimeoutError):
            return SiteFailure("timeout")
        except requests.ConnectionError:
            return SiteFailure("unreachable")
        except (requests.RequestException, ValueError) as error:
            log.warning("a site's reply cannot be read: %s", type(error).__name__)
            return SiteFailure("failed")
        return SiteFailure("failed") if reply is None else reply

    def _call(
        self, operation: str, message: bytes, key: SigningIdentity, deadline: float
    ) -> tuple[int, bytes]:
        if not self._server:
            self._server = self._find(deadline)
        parts = call_parts(self._server, self._site, operation, message)
        body = write_call(key.sign(CALL_DOMAIN, *parts), operation, message)
        return self._request("POST", "api_call", deadline, data=body)

    def _find(self, deadline: float) -> str:
        """The Datasite's identifier, if it is this site's."""
        status, body = self._request("GET", "metadata", deadline)
        try:
            metadata = msgspec.json.decode(body if status == _OK else b"", type=_Metadata)
        except (msgspec.DecodeError, RecursionError):
            raise ValueError("no metadata") from None
        if metadata.site != self._site:
            raise SiteNotReadyError(
                f"its address leads to the Datasite of {metadata.site[:64]!r}",
                site=self._site,
                remedy="Have the site correct url or port in site.toml and send a new request.",
            )
        return metadata.id

    def _greet(self, deadline: float) -> bool:
        import requests

        try:
            self._find(deadline)
        except (requests.RequestException, TimeoutError, CipherdagError, ValueError):
            return False
        return True

    def _request(
        self, method: str, path: str, deadline: float, **content: Any
    ) -> tuple[int, bytes]:
        import requests

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
            if response.status_code in _PROXY_ALONE:
                raise requests.ConnectionError
            received = bytearray()
            for piece in response.iter_content(_PIECE_BYTES):
                received += piece
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(received) > SYFT_MESSAGE_BYTES + ENVELOPE_BYTES:
                    raise ValueError("a reply is longer than a message may be")
            return response.status_code, bytes(received)


def _opened(body: bytes) -> bytes | None:
    """The reply in a Datasite's, or None where the site refused."""
    return body[1:] if body[:1] == bytes([ANSWERED]) else None


def _check_version() -> None:
    """Refuse another PySyft; importing it would take seconds that not every command needs."""
    try:
        installed = version("syft")
    except PackageNotFoundError:
        raise SiteNotReadyError("PySyft is not installed here", remedy=_SET_UP) from None
    if installed != SYFT_VERSION:
        raise SiteNotReadyError(
            f"the PySyft engine needs version {SYFT_VERSION}, not {installed}", remedy=_SET_UP
        )
