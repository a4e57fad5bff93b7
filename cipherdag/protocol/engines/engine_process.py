"""The engine's process as the site's own process sees it: started, answered, and never trusted.

Leaks:
    What the site's handler replies; of an exception, that the call failed.
"""

import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing import AuthenticationError, Pipe
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Self, cast

from cipherdag.errors import MalformedMessageError, SiteNotReadyError, writing
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, decode, encode
from cipherdag.protocol.engines.channel import FRAME_BYTES, Address, Call, Notice, Reply, Started
from cipherdag.protocol.engines.engine import Handler
from cipherdag.protocol.engines.flare_engine import TOKEN_BYTES

Record = Callable[[Started | Notice], None]

MODULE = "cipherdag.protocol.engines.flare_site"
START_S = 60.0
STOP_S = 5.0
PROXIES = ("https_proxy", "http_proxy", "grpc_proxy", "no_proxy", "no_grpc_proxy")
NOTICE_PAUSE_S = 0.1
CALLS = cast("type[Call | Notice]", Call | Notice)

log = logging.getLogger("cipherdag.site")


class EngineProcess:
    """An engine's process that this process starts; use it as a context manager.

    It is given the ``address`` and certificates of its site. The ``handler`` is called by one
    thread, ``record`` hears that it started, and what it noticed, and the file ``console`` gets
    what it prints, mode 0600.
    """

    def __init__(
        self, address: Address, handler: Handler, record: Record, *, console: Path
    ) -> None:
        self._address, self._handler, self._record = address, handler, record
        self._console = console
        self._serving: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start it and wait until it has given up its files, or raise SiteNotReadyError."""
        self._connection, theirs = Pipe()
        with writing(self._console):
            said = os.open(self._console, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                # isolated: no PYTHONPATH, no start-up file of the user, nothing of this folder
                [sys.executable, "-I", "-m", MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=_environment(os.environ),
                pass_fds=[theirs.fileno()],
                cwd="/",
                start_new_session=True,
            )
        os.close(said)
        try:
            self._connection.send_bytes(encode(self._address))
            self._record(decode(_within(self._connection, START_S), Started))
        except (EOFError, OSError, MalformedMessageError) as error:
            self.__exit__()
            raise SiteNotReadyError(
                "the process that carries messages does not start", remedy=f"Read {self._console}."
            ) from error
        self._serving = threading.Thread(
            target=serve, args=(self._connection, self._handler, self._record), daemon=True
        )
        self._serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # who serves the connection closes it: closed twice, its number may be another file's
        if self._serving is None:
            self._connection.close()

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid


class EngineDoor:
    """A local door at which an engine's process of another user connects; a context manager.

    ``door`` and ``token`` are made in a folder whose group holds that user, who gets ``address``.
    """

    running = True

    def __init__(self, folder: Path, address: Address, handler: Handler, record: Record) -> None:
        self._folder = folder
        self._address, self._handler, self._record = address, handler, record
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        door, token = self._folder / "door", self._folder / "token"
        self._token = secrets.token_bytes(TOKEN_BYTES)
        with writing(self._folder):
            for path in (door, token):
                path.unlink(missing_ok=True)
            self._listener = Listener(str(door), "AF_UNIX", authkey=self._token)
            door.chmod(0o660)
            descriptor = os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                os.fchmod(file.fileno(), 0o640)
                file.write(self._token.hex())
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listener.close()
        for name in ("door", "token"):
            (self._folder / name).unlink(missing_ok=True)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                with self._listener.accept() as connection:
                    connection.send_bytes(encode(self._address))
                    self._record(decode(connection.recv_bytes(FRAME_BYTES), Started))
                    serve(connection, self._handler, self._record)
            except (OSError, EOFError, AuthenticationError, MalformedMessageError):
                if not self._ended.is_set():
                    self._record(Notice("a local connection without the token", 1, refused=True))


def serve(connection: Connection, handler: Handler, record: Record) -> None:
    """Answer an engine's process until it leaves or sends something malformed.

    The connection is closed in any case: the process then ends, and the site notices it.
    """
    try:
        while True:
            said = decode(connection.recv_bytes(FRAME_BYTES), CALLS)
            if isinstance(said, Notice):
                record(said)
                time.sleep(NOTICE_PAUSE_S)  # a process that says more waits, and fills no disk
            elif isinstance(said, Call):
                connection.send_bytes(encode(answered(said, handler)))
    except (EOFError, OSError):
        pass
    except Exception:  # what it said is malformed, or cannot be recorded
        log.exception("the engine's process is cut off")
    finally:
        connection.close()


def answered(call: Call, handler: Handler) -> Reply:
    """The handler's reply to a call; of an exception, that it failed."""
    try:
        reply: object = handler(call.operation, call.message)
    except Exception:  # its text stays in this process's own log; the caller hears one word
        log.exception("failed on %s", call.operation)
        return Reply(call.ticket, "failed")
    if isinstance(reply, bytes) and len(reply) <= MAX_MESSAGE_BYTES:
        return Reply(call.ticket, "reply", reply)
    log.error("the reply to %s is not bytes, or too long", call.operation)
    return Reply(call.ticket, "failed")


def _within(connection: Connection, seconds: float) -> bytes:
    if not connection.poll(seconds):
        raise EOFError
    return connection.recv_bytes(FRAME_BYTES)


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of the process: it inherits nothing but the variables that name proxies."""
    passed_on = {name: inherited[name] for name in PROXIES if name in inherited}
    return {"PATH": os.defpath, "LANG": "C.UTF-8"} | passed_on
