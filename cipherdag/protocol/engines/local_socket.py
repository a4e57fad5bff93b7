"""A local socket through which processes of one machine and one user ask each other.

It lies in a folder of mode 0700 and asks for a token that a file of mode 0600 holds. A run asks the
coordinator's server in this way.

Leaks:
    Nothing beyond the messages.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Self

from cipherdag.errors import SiteNotReadyError, writing
from cipherdag.privacy.wire import MAX_OPERATION_BYTES
from cipherdag.protocol.engines.channel import FRAME_BYTES

Handler = Callable[[str, bytes], bytes]

ADDRESS_FILE = ".address"
TOKEN_BYTES = 32

log = logging.getLogger("cipherdag.local")


class LocalSocket:
    """Answers what is asked in a folder until the context ends.

    Args:
        folder: ``.address`` in it says where the socket is, and the token.
        handler: Operation and message in, reply out; it may be called by several threads.
        most: How many may wait for an answer at once.
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
            descriptor = os.open(self._address, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{self._private / 'socket'}\n{self._token.hex()}\n")
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
    """Have the process that serves a folder answer one message.

    Raises:
        SiteNotReadyError: It does not run, or made no answer.
    """
    try:
        address, token = (folder / ADDRESS_FILE).read_text("utf-8").split("\n")[:2]
        with Client(address, "AF_UNIX", bytes.fromhex(token)) as connection:
            connection.send_bytes(operation.encode())
            connection.send_bytes(message)
            return connection.recv_bytes(FRAME_BYTES)
    except (OSError, EOFError, ValueError, AuthenticationError) as error:
        raise SiteNotReadyError("the process that serves the folder did not answer") from error
