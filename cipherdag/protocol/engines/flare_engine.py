"""NVIDIA FLARE as an engine: a run hands its messages to the coordinator's server.

Both are processes of one machine and one user. The run asks the server over a local socket, which
lies in a folder of mode 0700 and asks for a token that a file of mode 0600 holds. No module of
FLARE is loaded for it.

Leaks:
    The server sees operation names, opaque message bytes and who answered.
"""

import contextlib
import logging
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Self

from cipherdag.errors import CohortError, SiteNotReadyError, SiteUnreachableError, writing
from cipherdag.privacy.wire import MAX_OPERATION_BYTES, Body, decode, encode
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.engines.channel import FRAME_BYTES
from cipherdag.protocol.engines.engine import Handler, SiteFailure

ADDRESS_FILE = ".address"
TOKEN_BYTES = 32

log = logging.getLogger("cipherdag.local")


class LocalSocket:
    """Answers what is asked in a folder until the context ends.

    ``.address`` in the folder says where the socket is, and the token. The ``handler`` may be
    called by several threads; at most ``most`` callers wait for an answer at once.
    """

    def __init__(self, folder: Path, handler: Handler, *, most: int) -> None:
        self._address = folder / ADDRESS_FILE
        self._handler = handler
        self._ended = threading.Event()
        self._waiting = threading.Semaphore(most)

    def __enter__(self) -> Self:
        # a socket's name is short, the folder's need not be
        with writing(tempfile.gettempdir()):
            self._private = Path(tempfile.mkdtemp(prefix="cipherdag-"))
            self._token = secrets.token_bytes(TOKEN_BYTES)
            self._listener = Listener(
                str(self._private / "socket"), "AF_UNIX", backlog=128, authkey=self._token
            )
        with writing(self._address):
            self._address.unlink(missing_ok=True)
        write_whole(self._address, f"{self._private / 'socket'}\n{self._token.hex()}\n")
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # wakes the thread that waits for a caller; it may have ended, so nothing is waited for here
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(self._private / "socket"))
        self._thread.join()
        self._listener.close()
        self._address.unlink(missing_ok=True)
        shutil.rmtree(self._private, ignore_errors=True)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection = self._listener.accept()
            except (OSError, EOFError, AuthenticationError):
                if not self._ended.is_set():
                    log.warning("refused a local connection without the token")
                continue
            if self._ended.is_set() or not self._waiting.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            with connection:
                operation = connection.recv_bytes(MAX_OPERATION_BYTES).decode()
                message = connection.recv_bytes(FRAME_BYTES)
                connection.send_bytes(self._handler(operation, message))
        except (OSError, EOFError, UnicodeDecodeError) as error:
            log.warning("a caller left: %s", type(error).__name__)
        except Exception:  # its text stays in this process's own log; the caller hears nothing
            log.exception("no answer could be made")
        finally:
            self._waiting.release()


def ask(folder: Path, operation: str, message: bytes) -> bytes:
    """Have the process that serves a folder answer one message, or raise SiteNotReadyError."""
    try:
        address, token = (folder / ADDRESS_FILE).read_text("utf-8").split("\n")[:2]
        with Client(address, "AF_UNIX", bytes.fromhex(token)) as connection:
            connection.send_bytes(operation.encode())
            connection.send_bytes(message)
            return connection.recv_bytes(FRAME_BYTES)
    except (OSError, EOFError, ValueError, AuthenticationError) as error:
        raise SiteNotReadyError("the process that serves the folder did not answer") from error


DELIVER, CONNECTED = "deliver", "connected"
PAUSE_S = 0.1
START_S = 15.0
REASONS = {"unreachable": "unreachable", "timeout": "timeout", "busy": "timeout"}  # else failed


class Delivery(Body, frozen=True):
    """One message of a run for one site, and how many seconds its reply is waited for."""

    run: str
    site: str
    operation: str
    message: bytes
    timeout_s: float


class Delivered(Body, frozen=True):
    """The outcome of a delivery: a reply, or why there is none."""

    outcome: str
    reply: bytes = b""


class ConnectedSites(Body, frozen=True):
    """Names of the sites that are connected now."""

    names: tuple[str, ...]


class FlareEngine:
    """Carries messages to the sites that are connected to the coordinator's server.

    The server and the ``sites`` have ``start_s`` seconds to come up; then those that are there are
    enough, and none is a SiteUnreachableError. CohortError for no site, or one named twice.
    """

    def __init__(self, folder: Path, *, sites: Sequence[str], start_s: float = 15.0) -> None:
        if not sites or len(set(sites)) != len(sites):
            raise CohortError("a FLARE engine needs at least one site, and each only once")
        self._folder = folder
        self._run = secrets.token_hex(8)
        self._sites = frozenset(sites)
        self._wait_for_sites(start_s)

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """Send as `Engine.call` does, all at once; raises SiteUnreachableError without a server."""
        if not messages:
            return {}
        with ThreadPoolExecutor(len(messages)) as callers:
            asked = {
                site: callers.submit(
                    self._deliver, Delivery(self._run, site, operation, message, timeout_s)
                )
                for site, message in messages.items()
            }
            return {site: reply.result() for site, reply in asked.items()}

    def _deliver(self, asked: Delivery) -> bytes | SiteFailure:
        if asked.site not in self._sites:
            return SiteFailure("unreachable")
        try:
            done = decode(ask(self._folder, DELIVER, encode(asked)), Delivered)
        except SiteNotReadyError:
            connected_sites(self._folder)  # raises if it is the server that is down
            return SiteFailure("unreachable")
        if done.outcome == "reply":
            return done.reply
        return SiteFailure(REASONS.get(done.outcome, "failed"))

    def _wait_for_sites(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not (connected := connected_sites(self._folder, wait_s=seconds)) >= self._sites:
            if time.monotonic() < deadline:
                time.sleep(PAUSE_S)
            elif connected & self._sites:
                return
            else:
                raise SiteUnreachableError(
                    "no site is connected to the coordinator's server",
                    remedy="Have the sites run `cipherdag site check` and `site start`.",
                )


def connected_sites(folder: Path, *, wait_s: float = START_S) -> frozenset[str]:
    """Sites connected now; SiteUnreachableError if the server is not up within ``wait_s``."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return frozenset(decode(ask(folder, CONNECTED, b""), ConnectedSites).names)
        except SiteNotReadyError as error:
            if time.monotonic() >= deadline:
                raise SiteUnreachableError(
                    "the coordinator's server is not started",
                    remedy=f"Start it with `cipherdag coordinator start --dir {folder}`.",
                ) from error
        time.sleep(PAUSE_S)
