"""The transport of NVIDIA FLARE, and nothing above it: frames between two certificates.

FLARE's lowest layer (F3: `Communicator`, SFM) connects, connects again, and names each end. Its
cells, jobs, deployments and commands are not started, so no frame can ask for them. Of what
arrives, FLARE decodes its own handshake (msgpack); everything else goes to one receiver as bytes.
FLARE leaves two things to its users that this module adds: who may speak is decided by the
certificate alone, and connections that show none are few and short.

Leaks:
    Whoever sees the network learns addresses, times and lengths; a peer also the other's name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.communicator import Communicator
from nvflare.fuel.f3.drivers.aio_conn import AioConnection
from nvflare.fuel.f3.drivers.aio_tcp_driver import AioTcpDriver
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.drivers.net_utils import parse_url
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message, MessageReceiver
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from cipherdag.errors import SiteUnreachableError
from cipherdag.protocol.engines.channel import FRAME_BYTES
from cipherdag.protocol.forward_proxy import proxy_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from cipherdag.protocol.engines.credentials import Credentials

CHANNEL = 7001
"""Number of our channel among FLARE's applications; its own have numbers below 10."""
SCHEME = "satcp"
HANDSHAKE_S = 10.0
HANDSHAKE_BYTES = 4096
BUFFER_BYTES = 4 * 1024 * 1024
WAITING_PER_ADDRESS = 32
WAITING_IN_ALL = 512
MOST_UNSENT = 1024
"""Frames of one connection that wait to be sent, each of which takes memory, however short."""
_COUNTING = threading.Lock()
KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A peer that is gone without a word is noticed after 40 seconds."""


@dataclass(frozen=True, slots=True)
class Peers:
    """Who may be at the other end, and who hears of it.

    Attributes:
        admitted: Whether a certificate of this name may speak.
        received: Gets the peer's name and the bytes of every message; must not block.
        arrived: Gets the name of a peer that has connected, possibly once more.
        left: Gets the name of a peer that is gone.
        refused: Gets a fixed sentence about what was refused.
    """

    admitted: Callable[[str], bool]
    received: Callable[[str, bytes], None]
    arrived: Callable[[str], None]
    left: Callable[[str], None]
    refused: Callable[[str], None]


class Link:
    """One end of the channel: a server that waits for sites, or a site that calls its server.

    Args:
        name: This end's name, which is that of its certificate.
        peers: Who may be at the other end.
    """

    def __init__(self, name: str, peers: Peers) -> None:
        self._peers = peers
        self._communicator = Communicator(Endpoint(_dotless(name)), _ByCertificate(peers))
        manager = self._communicator.conn_manager
        manager.frame_mgr_executor.shutdown(wait=False)
        manager.frame_mgr_executor = _AtOnce()
        manager.receivers = _OneReceiver(peers)
        manager.add_endpoint_monitor(_Monitor(peers))

    def listen(self, host: str, port: int, credentials: Credentials) -> int:
        """Wait for peers on one port; ``localhost`` binds the loopback interface only.

        Returns:
            The port.

        Raises:
            SiteUnreachableError: The port is taken, or may not be bound.
        """
        _raise_limit_of_files()
        bound = "127.0.0.1" if host == "localhost" else ""
        try:
            listener = socket.create_server((bound, port), backlog=1024)
        except OSError as error:
            raise SiteUnreachableError(
                f"the server cannot listen on port {port}: {error.strerror}",
                remedy="Stop what uses the port, or give the right to bind it: docs/roles/it.md.",
            ) from error
        listener.setblocking(False)
        driver = _Driver(credentials.context(server=True), self._peers, listener)
        self._start(driver, Mode.PASSIVE, host, port)
        taken: int = listener.getsockname()[1]
        return taken

    def call(self, host: str, port: int, context: ssl.SSLContext) -> None:
        """Connect to a server, through the proxy that the environment names, again and again."""
        self._start(_Driver(context, self._peers), Mode.ACTIVE, host, port)

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

    def _start(self, driver: _Driver, mode: Mode, host: str, port: int) -> None:
        self._communicator.start()
        parameters = parse_url(f"{SCHEME}://{host}:{port}")
        self._communicator.add_connector_advanced(driver, mode, parameters, secure=True)


def _dotless(name: str) -> str:
    """A name as FLARE has it, which refuses two equal parts between dots, as in 127.0.0.1."""
    return name.replace(".", "_")  # which no host's name contains


class _ByCertificate:
    """What FLARE asks about a peer's name: it must be the certificate's, letter by letter."""

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


class _Connection(AioConnection):  # type: ignore[misc]
    """FLARE's connection with limits on what is read, and on what waits to be sent."""

    longest = HANDSHAKE_BYTES
    _unsent = 0

    def send_frame(self, frame: bytes) -> None:
        """Send a frame; a peer that asks for answers and does not read them is cut."""
        with _COUNTING:
            self._unsent += 1
        if self._unsent > MOST_UNSENT:
            self.close()
        else:
            super().send_frame(frame)

    def close(self) -> None:
        """Cut the connection, from whichever thread."""
        self.closing = True
        self.aio_ctx.get_event_loop().call_soon_threadsafe(self.writer.transport.abort)

    async def _async_read_frame(self) -> bytes:
        await asyncio.sleep(0)  # others' turn, and that of the answers to this peer
        head = await self.reader.readexactly(PREFIX_LEN)
        length = Prefix.from_bytes(head).length
        if not PREFIX_LEN <= length <= self.longest:
            raise CommError(CommError.BAD_DATA, "a frame is longer than it may be")
        return bytes(head + await self.reader.readexactly(length - PREFIX_LEN))

    async def _async_send_frame(self, frame: bytes) -> None:
        if self.writer.transport.get_write_buffer_size() > 2 * FRAME_BYTES:
            self.close()  # the peer does not read
            return
        await super()._async_send_frame(frame)
        with _COUNTING:
            self._unsent -= 1

    async def handshake(self) -> None:
        """Read the first frame, by which the peer says its name."""
        self.process_frame(await self._async_read_frame())


class _Driver(AioTcpDriver):  # type: ignore[misc]
    """FLARE's asynchronous TCP driver with our TLS, our proxy, and a limit on strangers.

    Args:
        context: TLS of this end.
        peers: Hears of what is refused.
        listener: The socket to accept on; None at the end that calls.
    """

    def __init__(
        self, context: ssl.SSLContext, peers: Peers, listener: socket.socket | None = None
    ) -> None:
        super().__init__()
        self.ssl_context = context
        self._peers = peers
        self._listener = listener
        self._waiting: dict[asyncio.Task[None], str] = {}
        self._running: asyncio.Task[Any] | None = None

    async def _tcp_connect(self, host: str, port: str) -> None:
        proxy = await asyncio.to_thread(proxy_to, host)
        try:
            where: dict[str, Any] = {"host": host, "port": int(port)}
            if proxy is not None:
                way = await asyncio.to_thread(proxy.connect, host, int(port), timeout_s=HANDSHAKE_S)
                where = {"sock": way, "server_hostname": host}
            reader, writer = await asyncio.open_connection(
                **where,
                limit=BUFFER_BYTES,
                ssl=self.ssl_context,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except ssl.SSLCertVerificationError:
            self._peers.refused("a server whose certificate is not the coordinator's")
            raise
        await self._serve(reader, writer)

    async def _tcp_listen(self, host: str, port: str) -> None:
        del host, port
        listener = self._listener
        if listener is None:
            raise CommError(CommError.BAD_CONFIG, "there is no socket to listen on")
        loop = asyncio.get_running_loop()
        with listener:
            while not self.connector.stopped.is_set():
                try:
                    accepted, (address, *_) = await loop.sock_accept(listener)
                except OSError:  # too many files are open: those that wait longest are closed
                    self._close_oldest()
                    await asyncio.sleep(0.1)
                    continue
                self._make_room(address)
                task = loop.create_task(self._welcome(accepted))
                self._waiting[task] = address
                task.add_done_callback(partial(self._ended, accepted))
                await asyncio.sleep(0)  # else a flood of strangers leaves nobody a turn

    async def _async_run(self, mode: Mode) -> None:
        self._running = asyncio.current_task()
        await super()._async_run(mode)

    def shutdown(self) -> None:
        """Close everything."""
        self.close_all()
        if self._running is not None:
            self.aio_ctx.get_event_loop().call_soon_threadsafe(self._running.cancel)

    def _make_room(self, address: str) -> None:
        """Close the strangers that have waited longest, of this address before any others."""
        own = [task for task, theirs in self._waiting.items() if theirs == address]
        if len(own) >= WAITING_PER_ADDRESS:
            self._close_waiting(own[0])
        elif len(self._waiting) >= WAITING_IN_ALL:
            self._close_oldest()

    def _close_oldest(self) -> None:
        for task in [*self._waiting][:1]:
            self._close_waiting(task)

    def _close_waiting(self, task: asyncio.Task[None]) -> None:
        del self._waiting[task]  # at once: the next one that comes closes another one
        task.cancel()
        self._peers.refused("a connection that showed no certificate")

    def _ended(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        """Close the socket of a connection, even of one that was over before it began."""
        self._waiting.pop(task, None)
        accepted.close()

    async def _welcome(self, accepted: socket.socket) -> None:
        """Shake hands with a stranger in a limited time, and serve it from then on."""
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                reader, writer = await self._encrypted(accepted)
        except (OSError, TimeoutError, ssl.SSLError):
            return
        await self._serve(reader, writer)

    async def _encrypted(
        self, accepted: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=BUFFER_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=self.ssl_context, ssl_handshake_timeout=HANDSHAKE_S
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _keep_alive(writer.get_extra_info("socket"))
        connection = _Connection(self.connector, self.aio_ctx, reader, writer, secure=True)
        self.add_connection(connection)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await connection.handshake()
            if self.conn_monitor.sfm_conns[connection.name].sfm_endpoint is None:
                return
            self._waiting.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
            connection.longest = FRAME_BYTES
            await connection.read_loop()
        except (OSError, EOFError, TimeoutError, CommError, KeyError, ssl.SSLError):
            return
        finally:
            writer.transport.abort()
            self.close_connection(connection)


def _keep_alive(own: Any) -> None:
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option):
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _raise_limit_of_files() -> None:
    """As many open connections as this user may have."""
    try:
        import resource
    except ModuleNotFoundError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
