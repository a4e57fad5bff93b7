"""The coordinator's server: it admits sites, and carries the messages of runs on this machine.

A run is a process of its own and reaches the server by a local socket in the coordinator's folder.
The server holds no key but that of its certificate, and no code that reads a message.

Leaks:
    The server sees operation names, opaque message bytes and who answered.
"""

import logging
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.engines.channel import TICKET_BYTES, Call, Credentials, Reply
from cipherdag.protocol.engines.flare_driver import PEER_DATES, Peers
from cipherdag.protocol.engines.flare_engine import (
    CONNECTED,
    DELIVER,
    ConnectedSites,
    Delivered,
    Delivery,
    LocalSocket,
)
from cipherdag.protocol.engines.flare_link import Again, Link

log = logging.getLogger("cipherdag.server")

MOST_WAITING = 4096


@dataclass(slots=True)
class _Waiting:
    """A call that a site has not answered yet."""

    site: str
    answered: threading.Event = field(default_factory=threading.Event)
    outcome: str = "timeout"
    reply: bytes = b""

    def settle(self, outcome: str, reply: bytes = b"") -> None:
        self.outcome, self.reply = outcome, reply
        self.answered.set()


class Relay:
    """Carries messages until the context ends.

    Runs find the local socket through the coordinator's ``folder``. ``host`` is the host name of
    the server's certificate, and ``port`` its one port; 0 takes a free one. ``admitted`` gives the
    names of the sites that may connect now, whenever one connects. SiteUnreachableError where the
    port cannot be bound.
    """

    def __init__(
        self,
        folder: Path,
        *,
        host: str,
        port: int,
        credentials: Credentials,
        admitted: Callable[[], Collection[str]],
    ) -> None:
        self._admitted = admitted
        self._lock = threading.Lock()
        self._waiting: dict[bytes, _Waiting] = {}
        self._connected: set[str] = set()
        self._overdue: dict[str, tuple[str, bytes]] = {}
        self._displaced: defaultdict[str, Again] = defaultdict(Again)
        self._doubled: set[str] = set()
        self._misdated: set[str] = set()
        peers = Peers(
            admitted=lambda name: name in admitted(),
            received=self._received,
            arrived=self._arrived,
            left=self._left,
            refused=self._refused,
            expects=self._expects,
        )
        self._link = Link(host, peers)
        self.port = self._link.listen(host, port, credentials)
        self._runs = LocalSocket(folder, self._asked, most=MOST_WAITING)

    def __enter__(self) -> Self:
        self._runs.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.__exit__()
        self._link.close()

    def close_shut_out(self) -> None:
        """Close the connections of sites that may not connect any more."""
        for site in self._connected - set(self._admitted()):
            log.warning("closed the connection of '%s', which is revoked", site)
            self._link.shut_out(site)

    def doubled(self) -> set[str]:
        """Sites of which two processes kept displacing each other, since the last call of this."""
        with self._lock:
            doubled, self._doubled = self._doubled, set()
        return doubled

    def misdated(self) -> set[str]:
        """Sentences on certificates refused by their dates since the last call: a clock is off."""
        with self._lock:
            misdated, self._misdated = self._misdated, set()
        return misdated

    def _refused(self, what: str) -> None:
        log.warning("refused %s", what)
        if what == PEER_DATES:
            with self._lock:
                self._misdated.add(f"Refused {what}")

    def _asked(self, operation: str, message: bytes) -> bytes:
        if operation == CONNECTED:
            with self._lock:
                return encode(ConnectedSites(tuple(sorted(self._connected))))
        if operation == DELIVER:
            return encode(self._deliver(decode(message, Delivery)))
        raise MalformedMessageError("a run asked for what the server does not do")

    def _deliver(self, asked: Delivery) -> Delivered:
        ticket = secrets.token_bytes(TICKET_BYTES)
        waiting = _Waiting(asked.site)
        with self._lock:
            if asked.site not in self._connected:
                return Delivered("unreachable")
            if self._overdue.get(asked.site, ("", b""))[0] == asked.run:
                return Delivered("busy")  # it still computes what this run gave up
            self._waiting[ticket] = waiting
        try:
            call = Call(ticket, asked.operation, asked.message)
            if not self._link.send(asked.site, encode(call)):
                return Delivered("unreachable")
            if not waiting.answered.wait(asked.timeout_s):
                with self._lock:
                    self._overdue[asked.site] = (asked.run, ticket)
            return Delivered(waiting.outcome, waiting.reply)
        finally:
            with self._lock:
                del self._waiting[ticket]

    def _expects(self, site: str) -> bool:
        """Whether a reply of this site is waited for, or was given up and may still come."""
        with self._lock:
            asked = any(waiting.site == site for waiting in self._waiting.values())
            return asked or site in self._overdue

    def _received(self, site: str, content: bytes) -> None:
        try:
            reply = decode(content, Reply)
        except MalformedMessageError:
            log.warning("refused bytes of '%s' that are no reply", site)
            return
        with self._lock:
            waiting = self._waiting.get(reply.ticket)
            if self._overdue.get(site, ("", b""))[1] == reply.ticket:
                del self._overdue[site]
        if waiting is not None and waiting.site == site:
            waiting.settle(reply.outcome, reply.reply)

    def _arrived(self, site: str) -> None:
        """A site that connects once more has lost what it was asked over its old connection."""
        self._give_up(site)
        with self._lock:
            if site in self._connected and self._displaced[site].again():
                self._doubled.add(site)
                log.warning("connections of '%s' displace each other", site)
            self._connected.add(site)
        log.info("site '%s' is connected", site)

    def _left(self, site: str) -> None:
        with self._lock:
            self._connected.discard(site)
        self._give_up(site)
        log.info("site '%s' is gone", site)

    def _give_up(self, site: str) -> None:
        with self._lock:
            self._overdue.pop(site, None)
            lost = [waiting for waiting in self._waiting.values() if waiting.site == site]
        for waiting in lost:
            waiting.settle("unreachable")
