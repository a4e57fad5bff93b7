"""FLARE's driver for TCP with limits: on strangers, on frames, and on what waits to be sent.

Leaks:
    Whoever sees the network learns addresses, times and lengths.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.aio_conn import AioConnection
from nvflare.fuel.f3.drivers.aio_tcp_driver import AioTcpDriver
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from cipherdag.protocol.engines.channel import FRAME_BYTES
from cipherdag.protocol.forward_proxy import proxy_to

HANDSHAKE_S = 10.0
HANDSHAKE_BYTES = 4096
SHORT_BYTES = 64 * 1024  # longest frame of a peer from whom no message is waited for
FRAME_S = 600.0  # how long a frame may take to arrive once it has begun
SILENCE_S = 60.0
"""After so long without a byte the other end is gone: whoever lives sends a heartbeat sooner."""
BUFFER_BYTES = 4 * 1024 * 1024
WAITING_PER_ADDRESS = 32
WAITING_IN_ALL = 512
MOST_UNSENT = 1024
"""Frames of one connection that wait to be sent, each of which takes memory, however short."""
OTHER_SERVER = "a server whose certificate is not the coordinator's"
SERVER_DATES = "the server's certificate, not valid at this machine's time: is the clock right?"
PEER_DATES = "a certificate that is not valid at this machine's time: is the clock right?"
NOT_NOW = (9, 10)
"""OpenSSL's numbers for a certificate that is not valid yet, and for one that has expired."""
_COUNTING = threading.Lock()
KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A peer that is gone without a word is noticed after 40 seconds."""


@dataclass(frozen=True, slots=True)
class Peers:
    """Callbacks that say who may be at the other end, and hear what happens there."""

    admitted: Callable[[str], bool]  # whether a certificate of this name may speak
    # gets the peer's name and the bytes of every message; must not block
    received: Callable[[str, bytes], None]
    arrived: Callable[[str], None]  # gets the name of a peer that has connected, possibly once more
    left: Callable[[str], None]  # gets the name of a peer that is gone
    refused: Callable[[str], None]  # gets a fixed sentence about what was refused, or that refused
    # whether a long message of this peer is waited for; others are short
    expects: Callable[[str], bool]
    # hears that a server closed the connection before it said its name
    turned_away: Callable[[], None] = lambda: None


class LinkConnection(AioConnection):  # type: ignore[misc]
    """FLARE's connection with limits on what is read, and on what waits to be sent."""

    longest: Callable[[], int] = staticmethod(lambda: HANDSHAKE_BYTES)
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
        head = await self._bytes(PREFIX_LEN)
        length = Prefix.from_bytes(head).length
        if not PREFIX_LEN <= length <= self.longest():
            raise CommError(CommError.BAD_DATA, "a frame is longer than it may be")
        async with asyncio.timeout(FRAME_S):
            return head + await self._bytes(length - PREFIX_LEN)

    async def _bytes(self, count: int) -> bytes:
        """Read exactly ``count`` bytes; time out after `SILENCE_S` without any.

        A router may drop a connection silently.
        """
        parts = []
        while count:
            async with asyncio.timeout(SILENCE_S):
                parts.append(await self.reader.read(count))
            if not parts[-1]:
                raise asyncio.IncompleteReadError(b"", count)
            count -= len(parts[-1])
        return b"".join(parts)

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


class LinkDriver(AioTcpDriver):  # type: ignore[misc]
    """FLARE's TCP driver with our TLS, proxy and limits; the end without a listener calls."""

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
                tunnel = await asyncio.to_thread(
                    proxy.connect, host, int(port), timeout_s=HANDSHAKE_S
                )
                where = {"sock": tunnel, "server_hostname": host}
            reader, writer = await asyncio.open_connection(
                **where, limit=BUFFER_BYTES, ssl=self.ssl_context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except ssl.SSLCertVerificationError as error:
            self._peers.refused(SERVER_DATES if _by_dates(error) else OTHER_SERVER)
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
        same_address = [task for task, theirs in self._waiting.items() if theirs == address]
        if len(same_address) >= WAITING_PER_ADDRESS:
            self._close_waiting(same_address[0])
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
        except (OSError, TimeoutError, ssl.SSLError) as error:
            if _by_dates(error):
                self._peers.refused(PEER_DATES)
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
        connection = LinkConnection(self.connector, self.aio_ctx, reader, writer, secure=True)
        self.add_connection(connection)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await connection.handshake()
            named = self.conn_monitor.sfm_conns[connection.name].sfm_endpoint
            if named is None:
                return
            self._waiting.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
            peer = named.endpoint.name
            connection.longest = lambda: FRAME_BYTES if self._peers.expects(peer) else SHORT_BYTES
            await connection.read_loop()
        except (OSError, EOFError, TimeoutError, CommError, KeyError, ssl.SSLError):
            if self._listener is None and connection.longest() == HANDSHAKE_BYTES:
                self._peers.turned_away()
        finally:
            writer.transport.abort()
            self.close_connection(connection)


def _by_dates(error: Exception) -> bool:
    """Whether a certificate was refused because it is not valid at this machine's time."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in NOT_NOW


def _keep_alive(connection: Any) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def raise_limit_of_files() -> None:
    """Raises the limit of open connections to what this user may have."""
    try:
        import resource
    except ModuleNotFoundError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
