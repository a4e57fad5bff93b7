"""The files engine at a site: it looks into the site's folder of the share, and answers there.

It runs within the site's own process: nothing listens, nothing connects, and what lies in the
folder is read only where the coordinator sealed it.

Leaks:
    As `folder`. Of an exception, that the call failed.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, encode
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.engines.channel import UNKNOWN_OPERATION, Call, Notice, Reply, read
from cipherdag.protocol.engines.engine import Handler
from cipherdag.protocol.engines.engine_process import STOP_S, answered
from cipherdag.protocol.engines.files import FIRST_PAUSE_S, GREETING, LONGEST_PAUSE_S
from cipherdag.protocol.engines.folder import (
    STALE_S,
    TO_COORDINATOR,
    TO_SITE,
    DirectionKey,
    Receiver,
    Sender,
)

READING: Final = "reads the shared folder"
NO_FOLDER: Final = "the shared folder cannot be used now; trying again"
NOT_A_CALL: Final = "a sealed file that is no call"

log = logging.getLogger("cipherdag.site")


class FilesSite:
    """Answers what the coordinator puts into the site's folder; use it as a context manager.

    Args:
        folder: The site's folder in the share.
        handler: Operation and message in, reply out; called by one thread.
        key: The key that the site shares with the coordinator.
        study: Name of the study.
        site: Name of the site.
        operations: The operations that the site knows; every other one is refused unread.
        numbers: A file of the site's own with the last number that was answered.
        record: Hears what a person at the site should know of.
        stale_s: Seconds, as for `Receiver`.
    """

    def __init__(
        self,
        folder: Path,
        handler: Handler,
        *,
        key: PairKey,
        study: str,
        site: str,
        operations: frozenset[str],
        numbers: Path,
        record: Callable[[Notice], None] = lambda _: None,
        stale_s: float = STALE_S,
    ) -> None:
        self._handler = handler
        self._operations = operations
        self._numbers = numbers
        self._record = record
        self._notices: Counter[str] = Counter()
        self._receiver = Receiver(
            folder / TO_SITE,
            DirectionKey(key, TO_SITE, study=study, site=site),
            self._refused,
            stale_s=stale_s,
        )
        self._sender = Sender(
            folder / TO_COORDINATOR, DirectionKey(key, TO_COORDINATOR, study=study, site=site)
        )
        self._stopping = threading.Event()
        self._serving = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        try:
            self._answered = int(self._numbers.read_text("ascii"))
        except (OSError, ValueError):  # the session itself knows what it was asked
            self._answered = 0
        self._serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._serving.join(STOP_S)

    @property
    def running(self) -> bool:
        """Whether it looks into the folder."""
        return self._serving.is_alive()

    def _serve(self) -> None:
        pause, reply, said = FIRST_PAUSE_S, None, ""
        while not self._stopping.wait(pause):
            try:
                if reply is None and (received := self._receiver.next(self._answered)):
                    reply = received[0], self._reply(*received)
                pause = min(1.5 * pause, LONGEST_PAUSE_S)
                if reply is not None:
                    self._sender.send(*reply)
                    self._answered, reply, pause = reply[0], None, FIRST_PAUSE_S
                    write_whole(self._numbers, f"{self._answered}\n")
                news = READING
            except OSError as error:
                news, pause = NO_FOLDER, LONGEST_PAUSE_S
                log.info("the shared folder: %s", error.strerror)
            if news != said:
                self._record(Notice(news, 1, refused=False))
            said = news
            self._say_refused()

    def _reply(self, number: int, content: bytes) -> bytes:
        """The sealed call's reply; a call that is none is refused."""
        try:
            call = read(content, Call)
        except MalformedMessageError:
            self._notices.update([NOT_A_CALL])
            return encode(Reply(number.to_bytes(16, "big"), "refused"))
        if call.operation == GREETING:
            return encode(Reply(call.ticket, "reply"))
        if call.operation not in self._operations or len(call.message) > MAX_MESSAGE_BYTES:
            self._notices.update([UNKNOWN_OPERATION])
            return encode(Reply(call.ticket, "refused"))
        return encode(answered(call, self._handler))

    def _refused(self, why: str, name: str) -> None:
        log.info("in the shared folder, %s: %s", why, name)
        self._notices.update([why])

    def _say_refused(self) -> None:
        notices, self._notices = self._notices, Counter()
        for why, times in notices.items():
            self._record(Notice(why, times, refused=True))
