"""The files engine: every message to a site is a file, and so is every reply.

Each site has a folder in the share, with one for what goes to it and one for what comes back
(`folder`). There is no server and no open port: both ends look into the folder, and read what the
other sealed. What the share does not bring is waited for until the step's time is over. A site's
end runs within the site's own process.

Leaks:
    As `folder`: to whoever reads the share, numbers, times and lengths of messages, sites' names.
    Of an exception at a site, that the call failed.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from cipherdag.errors import MalformedMessageError, ParameterError
from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, MAX_OPERATION_BYTES, decode, encode
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.engines.channel import TICKET_BYTES, UNKNOWN_OPERATION, Call, Notice, Reply
from cipherdag.protocol.engines.engine import Handler, SiteFailure
from cipherdag.protocol.engines.engine_process import STOP_S, answered
from cipherdag.protocol.engines.folder import (
    STALE_S,
    TO_COORDINATOR,
    TO_SITE,
    DirectionKey,
    Receiver,
    Sender,
)

GREETING: Final = "greeting"  # an operation that every started site answers with nothing
FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.5
REASONS: Final = {"busy": "timeout"}

log = logging.getLogger("cipherdag.engine")


class FilesEngine:
    """Carries messages to the sites of a study through a shared folder; see `Engine`.

    The ``share`` has a folder for every site, and ``keys`` those that the coordinator shares with
    each. The file ``numbers`` of the coordinator's own holds the last number that was used.
    """

    def __init__(
        self, share: Path, keys: Mapping[str, PairKey], *, study: str, numbers: Path
    ) -> None:
        self._numbers = numbers
        self._links = {
            site: _Link(share / site, key, study=study, site=site) for site, key in keys.items()
        }

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """Sends each site its message, all at once; see `Engine.call`.

        ParameterError where a message or the operation's name is too long; nothing is sent then.
        OutputError where the number of the message cannot be written down.
        """
        if len(operation.encode()) > MAX_OPERATION_BYTES:
            raise ParameterError("the operation's name is longer than 64 bytes")
        for site, message in messages.items():
            if len(message) > MAX_MESSAGE_BYTES:
                raise ParameterError("a message is longer than an engine carries", site=site)
        deadline = time.monotonic() + timeout_s
        replies: dict[str, bytes | SiteFailure] = {
            site: SiteFailure("unreachable") for site in messages
        }
        number = self._next_number()
        waiting = {site: link for site, link in self._links.items() if site in messages}
        pause = FIRST_PAUSE_S
        while True:
            for site, link in [*waiting.items()]:
                reply = link.exchange(number, operation, messages[site])
                if reply is not None:
                    replies[site] = _outcome(reply)
                    del waiting[site]
                    pause = FIRST_PAUSE_S
            if not waiting or time.monotonic() >= deadline:
                break
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(1.5 * pause, LONGEST_PAUSE_S)
        for site, link in waiting.items():
            replies[site] = SiteFailure("timeout" if link.sent == number else "unreachable")
        return replies

    def present(self, *, timeout_s: float) -> set[str]:
        """The sites that answer a greeting."""
        replies = self.call(GREETING, dict.fromkeys(self._links, b""), timeout_s=timeout_s)
        return {site for site, reply in replies.items() if isinstance(reply, bytes)}

    def _next_number(self) -> int:
        """A number above all before, also where the file was lost: the clock's milliseconds."""
        try:
            last = int(self._numbers.read_text("ascii"))
        except (OSError, ValueError):
            last = 0
        number = max(last + 1, time.time_ns() // 1_000_000)
        write_whole(self._numbers, f"{number}\n")
        return number


class _Link:
    """The two folders of one site, and the number that was sent last; 0 before."""

    def __init__(self, folder: Path, key: PairKey, *, study: str, site: str) -> None:
        self._site = site
        self._sender = Sender(folder / TO_SITE, DirectionKey(key, TO_SITE, study=study, site=site))
        self._receiver = Receiver(
            folder / TO_COORDINATOR,
            DirectionKey(key, TO_COORDINATOR, study=study, site=site),
            lambda why, name: log.warning("refused, of site '%s', %s: %s", site, why, name),
        )
        self._said = ""
        self.sent = 0

    def exchange(self, number: int, operation: str, message: bytes) -> Reply | None:
        """Send a message once, and look for its reply."""
        ticket = number.to_bytes(TICKET_BYTES, "big")
        try:
            if self.sent != number:
                self._sender.send(number, encode(Call(ticket, operation, message)))
                self.sent = number
            received = self._receiver.next(number - 1)
        except OSError as error:
            self._note(f"{error.strerror}")
            return None
        if received is None or received[0] != number:
            return None
        try:
            reply = decode(received[1], Reply)
        except MalformedMessageError:
            reply = None
        return reply if reply is not None and reply.ticket == ticket else Reply(ticket, "failed")

    def _note(self, why: str) -> None:
        """Say why the folder cannot be used, once while the reason is the same."""
        if why != self._said:
            log.warning("the shared folder of '%s' cannot be used, waiting: %s", self._site, why)
        self._said = why


def _outcome(reply: Reply) -> bytes | SiteFailure:
    if reply.outcome == "reply":
        return reply.reply
    return SiteFailure(REASONS.get(reply.outcome, "failed"))


READING: Final = "reads the shared folder"
NO_FOLDER: Final = "the shared folder cannot be used now; trying again"
NOT_A_CALL: Final = "a sealed file that is no call"

site_log = logging.getLogger("cipherdag.site")


class FilesSite:
    """Answers what the coordinator puts into the site's folder; use it as a context manager.

    The ``handler`` is called by one thread. The ``key`` is the one that the site shares with the
    coordinator. Operations that the site does not know are refused unread. The file ``numbers`` of
    the site's own holds the last number that was answered, and ``record`` hears what a person at
    the site should know of. ``stale_s`` is as for `Receiver`.
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
                site_log.info("the shared folder: %s", error.strerror)
            if news != said:
                self._record(Notice(news, 1, refused=False))
            said = news
            self._say_refused()

    def _reply(self, number: int, content: bytes) -> bytes:
        """The sealed call's reply; a call that is none is refused."""
        try:
            call = decode(content, Call)
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
        site_log.info("in the shared folder, %s: %s", why, name)
        self._notices.update([why])

    def _say_refused(self) -> None:
        notices, self._notices = self._notices, Counter()
        for why, times in notices.items():
            self._record(Notice(why, times, refused=True))
