"""From an engine's process to the site's own, over a socket that only the site's user can reach.

FLARE starts a process for every job and ends it with the job. A site's data, keys and sessions do
not live there but in the process of ``cipherdag site start``: so a session outlives a job, no
secret of it is ever written down, and no code of an engine shares a process with data.

Leaks:
    Nothing beyond the messages; the socket lies in a folder of mode 0700.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cipherdag.errors import SiteNotReadyError, writing
from cipherdag.protocol.limits import MAX_MESSAGE_BYTES, MAX_OPERATION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    Handler = Callable[[str, bytes], bytes]

ADDRESS_FILE = ".address"
MAX_WAITING = 8

log = logging.getLogger("cipherdag.site")


class SiteSocket:
    """Answers for one site until the context ends.

    Args:
        folder: The site's folder; ``.address`` in it says where the socket is.
        handler: Operation and message in, reply out; it may be called by several threads.
    """

    def __init__(self, folder: Path, handler: Handler) -> None:
        self._address = folder / ADDRESS_FILE
        self._handler = handler
        self._ended = threading.Event()
        self._waiting = threading.Semaphore(MAX_WAITING)

    def __enter__(self) -> Self:
        # a socket's name is short, a site's folder need not be
        with writing(tempfile.gettempdir()):
            self._private = Path(tempfile.mkdtemp(prefix="cipherdag-"))
            self._listener = Listener(str(self._private / "site"), "AF_UNIX")
        with writing(self._address):
            self._address.unlink(missing_ok=True)
            descriptor = os.open(self._address, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(str(self._private / "site"))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with contextlib.suppress(OSError), Client(str(self._private / "site"), "AF_UNIX"):
            pass  # wakes the thread that waits for a caller
        self._thread.join()
        self._listener.close()
        self._address.unlink(missing_ok=True)
        shutil.rmtree(self._private, ignore_errors=True)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection = self._listener.accept()
            except OSError:
                continue  # a caller that left before it was let in
            if self._ended.is_set() or not self._waiting.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            with connection:
                operation = connection.recv_bytes(MAX_OPERATION_BYTES).decode()
                message = connection.recv_bytes(MAX_MESSAGE_BYTES)
                connection.send_bytes(self._handler(operation, message))
        except (OSError, EOFError, UnicodeDecodeError) as error:
            log.warning("an engine's process left: %s", type(error).__name__)
        except Exception:  # its text stays in this process's own log; the caller hears nothing
            log.exception("no answer could be made")
        finally:
            self._waiting.release()


def ask_site(folder: Path, operation: str, message: bytes) -> bytes:
    """Have the site of a folder answer one message.

    Raises:
        SiteNotReadyError: Its process does not run, or made no answer.
    """
    try:
        address = (folder / ADDRESS_FILE).read_text("utf-8")
        with Client(address, "AF_UNIX") as connection:
            connection.send_bytes(operation.encode())
            connection.send_bytes(message)
            return connection.recv_bytes(MAX_MESSAGE_BYTES)
    except (OSError, EOFError) as error:
        raise SiteNotReadyError(
            "the site's own process did not answer",
            remedy="Start the site with `cipherdag site start`; its own log says more.",
        ) from error
