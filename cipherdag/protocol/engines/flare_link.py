"""The transport of NVIDIA FLARE, and nothing above it: frames between two certificates.

FLARE's lowest layer (F3: `Communicator`, SFM) connects, connects again, and names each end. Its
cells, jobs, deployments and commands are not started, so no frame can ask for them. Of what
arrives, FLARE decodes its own handshake (msgpack); everything else goes to one receiver as bytes.
Who may speak is decided here, by the certificate alone.

Leaks:
    Whoever sees the network learns addresses, times and lengths; a peer also the other's name.
"""

import errno
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.communicator import Communicator
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.drivers.net_utils import parse_url
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message, MessageReceiver

from cipherdag.errors import SiteUnreachableError
from cipherdag.protocol.answering import holder_of
from cipherdag.protocol.engines.channel import Credentials
from cipherdag.protocol.engines.flare_driver import LinkDriver, Peers, raise_limit_of_files

TIMES = 3
WITHIN_S = 60.0


class Again:
    """Counts what happens within a time; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._happened: deque[float] = deque(maxlen=TIMES)

    def again(self) -> bool:
        """Count one occurrence; whether it is at least the third within a minute."""
        self._happened.append(self._clock())
        return len(self._happened) == TIMES and self._clock() - self._happened[0] <= WITHIN_S


CHANNEL = 7001  # number of our channel among FLARE's applications; its own have numbers below 10
SCHEME = "satcp"
HEARTBEAT_S = 20.0
"""Seconds without a word before a heartbeat: proxies cut what is idle for a minute."""


class Link:
    """One end of the channel, named as in its certificate: a server that waits, or a site."""

    def __init__(self, name: str, peers: Peers) -> None:
        self._peers = peers
        self._communicator = Communicator(Endpoint(_dotless(name)), _ByCertificate(peers))
        manager = self._communicator.conn_manager
        manager.frame_mgr_executor.shutdown(wait=False)
        manager.frame_mgr_executor = _AtOnce()
        manager.receivers = _OneReceiver(peers)
        manager.heartbeat_monitor.interval = HEARTBEAT_S
        manager.add_endpoint_monitor(_Monitor(peers))

    def listen(self, host: str, port: int, credentials: Credentials) -> int:
        """Wait for peers on one port, and return it; ``localhost`` binds the loopback alone.

        SiteUnreachableError where the port is taken, or may not be bound.
        """
        raise_limit_of_files()
        bound = "127.0.0.1" if host == "localhost" else ""
        try:
            listener = socket.create_server((bound, port), backlog=1024)
        except OSError as error:
            raise _not_bound(bound or "localhost", port, error) from error
        listener.setblocking(False)
        driver = LinkDriver(credentials.context(server=True), self._peers, listener)
        self._start(driver, Mode.PASSIVE, host, port)
        return listener.getsockname()[1]

    def call(self, host: str, port: int, context: ssl.SSLContext) -> None:
        """Connect to a server, through the proxy that the environment names, again and again."""
        self._start(LinkDriver(context, self._peers), Mode.ACTIVE, host, port)

    def send(self, peer: str, message: bytes) -> bool:
        """Send a message to a peer; whether it is connected."""
        try:
            self._communicator.send(Endpoint(_dotless(peer)), CHANNEL, Message(None, message))
        except CommError:
            return False
        return True

    def shut_out(self, peer: str) -> None:
        """Close a peer's connection; it may come back if it is still admitted."""
        for connection in self._communicator.conn_manager.get_connections(peer) or []:
            connection.conn.close()

    def close(self) -> None:
        """Close all connections."""
        self._communicator.stop()

    def _start(self, driver: LinkDriver, mode: Mode, host: str, port: int) -> None:
        self._communicator.start()
        parameters = parse_url(f"{SCHEME}://{host}:{port}")
        self._communicator.add_connector_advanced(driver, mode, parameters, secure=True)


def _not_bound(host: str, port: int, error: OSError) -> SiteUnreachableError:
    if error.errno != errno.EADDRINUSE:
        return SiteUnreachableError(
            f"the server cannot listen on port {port}: {error.strerror}",
            remedy="Give the right to bind the port, as docs/roles/it.md says, or begin the study "
            "on another port in a new folder, with `cipherdag coordinator new --port`.",
        )
    return SiteUnreachableError(
        f"port {port} is taken: {holder_of(host, port)} listens on it",
        remedy="Stop that process, or begin the study on another port in a new folder, with "
        "`cipherdag coordinator new --port`.",
    )


def _dotless(name: str) -> str:
    """A name as FLARE has it, which refuses two equal parts between dots, as in 127.0.0.1."""
    return name.replace(".", "_")  # which no host's name contains


class _ByCertificate:
    """Answers FLARE about a peer's name: it must be the certificate's, letter by letter."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def require_match(self, claimed: str, certified: str, connection: str) -> None:
        """Refuse a name that is another one's, or is not admitted."""
        del connection
        if not certified or claimed != _dotless(certified) or not self._peers.admitted(certified):
            self._peers.refused("a connection whose certificate may not speak here")
            raise ValueError("the peer may not speak here")
        self._peers.arrived(certified)


class _OneReceiver(dict[int, Any]):
    """FLARE looks up the receiver of a frame by its channel's number: there is one."""

    def __init__(self, peers: Peers) -> None:
        super().__init__()
        self._receiver = _Receiver(peers)

    def get(self, _channel: int, _default: Any = None) -> MessageReceiver:
        """The one receiver, which refuses what is not of our channel."""
        return self._receiver


class _Receiver(MessageReceiver):  # type: ignore[misc]
    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def process_message(
        self, endpoint: Endpoint, _connection: Any, app_id: int, message: Message
    ) -> None:
        """Hand on what is of our channel."""
        if app_id == CHANNEL and message.headers is None and message.payload is not None:
            self._peers.received(endpoint.name, bytes(message.payload))
        else:
            self._peers.refused("a command of FLARE, or a frame that is not of the one channel")


class _Monitor:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def state_change(self, endpoint: Endpoint) -> None:
        """Say that a peer left; that it arrived was said when its certificate was checked."""
        if endpoint.state.name != "READY":
            self._peers.left(endpoint.name)


class _AtOnce:
    """Handles a frame where it is read: frames keep their order, and a fast sender waits."""

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do the work."""
        work(*arguments)

    def shutdown(self, *_: Any, **__: Any) -> None:
        """Nothing waits here."""
