"""A site behind a PySyft Datasite: the site's own process, in cipherdag's own environment.

PySyft 0.9.5 needs numpy 1.24, so the Datasite is a neighbouring process with its own interpreter.
It hands every message over a Unix-domain socket to this process, which alone sees the site's data.
The neighbour ends when this process ends, however that happens: its standard input closes.
"""

from __future__ import annotations

import logging
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from cipherdag.errors import MalformedMessageError, SiteNotReadyError, writing
from cipherdag.protocol.engines.channel import UNKNOWN_OPERATION, Notice, Started
from cipherdag.protocol.engines.confinement import Confinement
from cipherdag.protocol.engines.engine import Handler
from cipherdag.protocol.engines.syft_wire import (
    ANSWERED,
    REFUSED,
    SYFT_MESSAGE_BYTES,
    UNSIGNED,
    receive_request,
    send_reply,
)

log = logging.getLogger("cipherdag.site")

NOT_SIGNED = "a request that the coordinator did not sign for this site"
_FRAME_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0


class SyftSite:
    """Serves one site through a Datasite on a loopback port; use it as a context manager.

    Args:
        handler: ``SiteRuntime.handle``: operation and message in, reply out; never called twice
            at the same time.
        name: The site's name; a message to another site is refused unread.
        coordinator: The public key, 32 bytes, that the coordinator signs its calls with.
        log: The file that gets what PySyft says, mode 0600.
        operations: The operations the site knows; every other one is refused unread.
        python: The interpreter of the environment that PySyft 0.9.5 is installed in.
        port: The loopback port of the Datasite; 0 takes a free one, see `port`.
        start_timeout_s: Seconds to wait for the Datasite to listen.
        protected: Paths that the Datasite must not be able to open.
        record: Hears that it started, and what it refused.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        name: str,
        coordinator: bytes,
        log: Path,
        operations: frozenset[str],
        python: Path,
        port: int = 0,
        start_timeout_s: float = 120.0,
        protected: tuple[str, ...] = (),
        record: Callable[[Started | Notice], None] = lambda _: None,
    ) -> None:
        self._handler = handler
        self._name = name
        self._coordinator = coordinator
        self._log = log
        self._operations = operations
        self._python = python
        self._start_timeout_s = start_timeout_s
        self._protected = protected
        self._record = record
        self._listener: socket.socket | None = None
        self._datasite: subprocess.Popen[bytes] | None = None
        self._private: Path | None = None
        self.port = port

    def __enter__(self) -> Self:
        """Start the Datasite and answer its messages until the context ends.

        Raises:
            SiteNotReadyError: If the Datasite does not start.
        """
        try:
            # the folder is short-lived, mode 0700, and short enough for a socket's name
            self._private = Path(tempfile.mkdtemp(prefix="cipherdag-"))
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(str(self._private / "site.sock"))
            self._listener.listen()
            threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()
            self._datasite = self._launch(self._private)
            self.port = self._wait_until_ready(self._datasite)
            written = (self._private / "separation").read_bytes()
            separation = msgspec.json.decode(written, type=Confinement)
            self._record(Started(self._datasite.pid, separation))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the Datasite and delete what it kept."""
        self._stop()

    @property
    def running(self) -> bool:
        """Whether the Datasite lives."""
        return self._datasite is not None and self._datasite.poll() is None

    @property
    def pid(self) -> int:
        """The Datasite's process.

        Raises:
            SiteNotReadyError: If it is not started.
        """
        if self._datasite is None:
            raise SiteNotReadyError("the Datasite is not started")
        return self._datasite.pid

    def _launch(self, private: Path) -> subprocess.Popen[bytes]:
        with writing(self._log):
            log_file = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(  # noqa: S603 - the site's own interpreter, no shell
                [
                    str(self._python),
                    "-I",
                    "-m",
                    "cipherdag.protocol.engines.syft_start",
                    msgspec.json.encode(self._protected).decode(),
                    self._name,
                    self._coordinator.hex(),
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
        except OSError as error:
            raise SiteNotReadyError(
                f"'{self._python}' cannot be run: {error.strerror}",
                remedy="Name the interpreter of PySyft's environment: docs/engines/pysyft.md.",
            ) from error
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
                remedy=f"Read {self._log}: is PySyft 0.9.5 installed in that environment, and the "
                "port free?",
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
            # the Datasite itself says so of what the coordinator did not sign
            unsigned = operation == UNSIGNED
            self._record(Notice(NOT_SIGNED if unsigned else UNKNOWN_OPERATION, 1, refused=True))
            return REFUSED, b""
        try:
            reply = self._handler(operation, message)
        except Exception:
            log.exception("failed on %s", operation)
            return REFUSED, b""
        if not isinstance(reply, bytes) or len(reply) > SYFT_MESSAGE_BYTES:
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
