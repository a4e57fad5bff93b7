"""Replies that tell nothing new are counted, so that whoever asks in vain fills no ledger.

A refusal, a repeat, or the word that a plan waits stands in the ledger when it first leaves in an
hour. If it leaves again it is counted, and at the end of the hour one record of each kind says how
often. Records of refusals take `HOUR_BYTES` of an hour: from then on a refusal of other bytes does
not leave. Its message has no answer, and is counted. So every byte that left stands there, every
kind of refusal too, and a day has 24 times as much at most. Starts of the process that carries
messages are counted likewise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from cipherdag.sites.record.ledger import COUNTED, ENGINE_START, REFUSAL, REPEAT, WAITS, Ledger

HOUR_BYTES: Final = {True: 16 * 1024, False: 4 * 1024}
"""Bytes of the ledger in an hour, for refusals of what the coordinator signed, and of the rest."""
SAID_AGAIN: Final = {
    REFUSAL: "refusals, sent again",
    REPEAT: "repeats, sent again",
    WAITS: "words that a plan waits, sent again",
    ENGINE_START: "starts of the process that carries messages, as before",
}

Standing = Literal["new", "again", "unsent"]


@dataclass(slots=True)
class CountedReplies:
    """What one site's process counts in an hour, whichever run its ledger is open for."""

    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _hour: str = ""
    _used: dict[bool, int] = field(default_factory=dict)
    _written: set[tuple[str, bytes]] = field(default_factory=set)
    _counts: dict[tuple[bool, str], tuple[int, int]] = field(default_factory=dict)

    def judge(self, kind: str, key: bytes, length: int, *, signed: bool, error: str) -> Standing:
        """Whether a reply is to be recorded, leaves unrecorded, or does not leave.

        ``key`` says which replies are the same one, and ``error`` is what a refusal names. A reply
        that is not new is counted.
        """
        if (kind, key) in self._written:
            self._count(SAID_AGAIN[kind], length, signed=signed, error=error)
            return "again"
        if kind == REFUSAL and self._used.get(signed, 0) >= HOUR_BYTES[signed]:
            self._count("refusals, not sent", 0, signed=signed, error=error)
            return "unsent"
        return "new"

    def starts(self, ledger: Ledger, account: str) -> bool:
        """Whether a start of the process that carries messages is to be recorded, or was counted.

        A server that closes each connection at once has it start again and again.
        """
        last, key = ledger.last, account.encode()
        if last is not None and (ENGINE_START, key) not in self._written:
            written = last.release.kind, last.release.question, last.release.time[:13]
            if written == (ENGINE_START, account, self.clock().isoformat()[:13]):
                self._written.add((ENGINE_START, key))  # by an earlier process
                return False
        standing = self.judge(ENGINE_START, key, 0, signed=False, error="")
        self._written.add((ENGINE_START, key))
        return standing == "new"

    def wrote(self, ledger: Ledger, kind: str, key: bytes, *, signed: bool) -> None:
        """Note that the reply stands in the ledger, as its last record."""
        self._written.add((kind, key))
        if kind == REFUSAL:
            self._charge(ledger, signed=signed)

    def due(self, *, at_once: bool) -> bool:
        """Whether to write now what was counted; a new hour begins where one has ended.

        The word that a plan waits stands there for good: people's decisions make room for more.
        """
        hour, before = self.clock().isoformat()[:13], self._hour
        if hour != before:
            self._hour = hour
            self._written = {each for each in self._written if each[0] == WAITS}
            self._used.clear()
        return bool(self._counts) and (at_once or hour != before)

    def write(self, ledger: Ledger) -> None:
        """Record what was counted; OutputError where it cannot be written."""
        for (signed, about), (times, length) in sorted(self._counts.items()):
            ledger.append(kind=COUNTED, values=times, length=length, question=about)
            del self._counts[signed, about]
            self._charge(ledger, signed=signed)

    def _count(self, what: str, length: int, *, signed: bool, error: str) -> None:
        key = signed, f"{what}: {error}" if error else what
        times, before = self._counts.get(key, (0, 0))
        self._counts[key] = times + 1, before + length

    def _charge(self, ledger: Ledger, *, signed: bool) -> None:
        self._used[signed] = self._used.get(signed, 0) + len(ledger.lines[-1].encode()) + 1
