"""A site behind a PySyft Datasite: the site's own process, in cipherdag's own environment.

PySyft 0.9.5 needs numpy 1.24, so the Datasite is a neighbouring process with its own interpreter.
It hands every message over a Unix-domain socket to this process, which alone sees the site's data.
The neighbour ends when this process ends, however that happens: its standard input closes.
"""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cipherdag.errors import MalformedMessageError, SiteNotReadyError
from cipherdag.protocol.engines.syft_wire import (
    ADMIN_PASSWORD,
    ANSWERED,
    COORDINATOR_PASSWORD,
    MAX_MESSAGE_BYTES,
    REFUSED,
    read_password,
    receive_request,
    send_reply,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    # what it returns is checked
    Handler = Callable[[str, bytes], object]

log = logging.getLogger("cipherdag.site")

_PASSWORD_BYTES = 32
_FRAME_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0


def prepare_syft_site(directory: Path) -> Path:
    """Create a site's private folder with two fresh random passwords of 256 bits.

    Args:
        directory: A new or empty folder; it gets mode 0700, its files 0600.

    Returns:
        The coordinator's password file: hand it to the coordinator on a safe way.

    Raises:
        SiteNotReadyError: If the folder already holds a set-up.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    for name in (ADMIN_PASSWORD, COORDINATOR_PASSWORD):
        try:
            file = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise SiteNotReadyError(
                f"'{directory.name}' already holds a set-up",
                remedy="Delete the folder first if every party shall get new passwords.",
            ) from None
        with os.fdopen(file, "w", encoding="ascii") as written:
            written.write(secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
    return directory / COORDINATOR_PASSWORD


class SyftSite:
    """Serves one site through a Datasite on a loopback port; use it as a context manager.

    Args:
        handler: ``SiteRuntime.handle``: operation and message in, reply out; never called twice
            at the same time.
        directory: The folder of `prepare_syft_site`.
        operations: The operations the site knows; every other one is refused unread.
        python: The interpreter of the environment that PySyft 0.9.5 is installed in.
        port: The loopback port of the Datasite; 0 takes a free one, see `port`.
        start_timeout_s: Seconds to wait for the Datasite to listen.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        directory: Path,
        operations: frozenset[str],
        python: Path,
        port: int = 0,
        start_timeout_s: float = 120.0,
    ) -> None:
        self._handler = handler
        self._directory = directory
        self._operations = operations
        self._python = python
        self._start_timeout_s = start_timeout_s
        self._listener: socket.socket | None = None
        self._datasite: subprocess.Popen[bytes] | None = None
        self._private: Path | None = None
        self.port = port

    def __enter__(self) -> Self:
        """Start the Datasite and answer its messages until the context ends.

        Raises:
            SiteNotReadyError: If the set-up is incomplete or the Datasite does not start.
        """
        for name in (ADMIN_PASSWORD, COORDINATOR_PASSWORD):
            read_password(self._directory / name)
        try:
            # the folder is short-lived, mode 0700, and short enough for a socket's name
            self._private = Path(tempfile.mkdtemp(prefix="cipherdag-"))
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(str(self._private / "site.sock"))
            self._listener.listen()
            threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()
            self._datasite = self._launch(self._private)
            self.port = self._wait_until_ready(self._datasite)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the Datasite and delete what it kept."""
        self._stop()

    @property
    def password(self) -> Path:
        """The coordinator's password file."""
        return self._directory / COORDINATOR_PASSWORD

    @property
    def pid(self) -> int:
        """The Datasite's process.

        Raises:
            SiteNotReadyError: If it is not started.
        """
        return self._started().pid

    def wait(self) -> int:
        """Block until the Datasite ends by itself; returns its exit status."""
        return self._started().wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._datasite is None:
            raise SiteNotReadyError("the Datasite is not started")
        return self._datasite

    def _launch(self, private: Path) -> subprocess.Popen[bytes]:
        log_file = os.open(
            self._directory / "datasite.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            return subprocess.Popen(  # noqa: S603 - the site's own interpreter, no shell
                [
                    str(self._python),
                    "-I",
                    "-m",
                    "cipherdag.protocol.engines.syft_datasite",
                    str(self._directory.resolve()),
                    str(private),
                    str(self.port),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                cwd=private,
                # nothing else is inherited: PySyft takes settings and secrets from its environment
                env={
                    "HOME": str(private),
                    "TMPDIR": str(private),
                    "PATH": os.defpath,
                    "LANG": "C.UTF-8",
                },
                start_new_session=True,
            )
        finally:
            os.close(log_file)

    def _wait_until_ready(self, datasite: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + self._start_timeout_s
        line = b""
        with selectors.DefaultSelector() as selector:
            output = datasite.stdout
            if output is None:
                raise SiteNotReadyError("the Datasite has no output to report on")
            selector.register(output, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    break
                piece = os.read(output.fileno(), 64)
                if not piece:
                    break
                line += piece
        word, _, port = line.strip().partition(b" ")
        if word != b"ready":
            raise SiteNotReadyError(
                "the Datasite did not start",
                remedy="Read datasite.log in the site's folder: is PySyft 0.9.5 installed in that "
                "environment, and the port free?",
            )
        return int(port)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(_FRAME_TIMEOUT_S)
                try:
                    operation, message = receive_request(connection)
                    send_reply(connection, *self._answer(operation, message))
                except (OSError, MalformedMessageError) as error:
                    log.warning("the Datasite's connection broke: %s", type(error).__name__)

    def _answer(self, operation: str, message: bytes) -> tuple[int, bytes]:
        if operation not in self._operations:
            log.warning("refused an operation that this site does not know")
            return REFUSED, b""
        try:
            reply = self._handler(operation, message)
        except Exception:
            log.exception("failed on %s", operation)
            return REFUSED, b""
        if not isinstance(reply, bytes) or len(reply) > MAX_MESSAGE_BYTES:
            log.error("the reply to %s is not bytes, or over the limit", operation)
            return REFUSED, b""
        return ANSWERED, reply

    def _stop(self) -> None:
        if self._datasite is not None:
            _end(self._datasite)
            self._datasite = None
        if self._listener is not None:
            # close alone would leave the thread waiting in accept
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
            self._private = None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the Datasite to stop by closing its input, then make sure."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
