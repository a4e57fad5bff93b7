"""A site's own process logs here what must not leave the site."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cipherdag.errors import writing
from cipherdag.pages.files import printable

SITE_LOG: Final = "site.log"
QUIET_S: Final = 120.0
"""Seconds after which a sentence that did not come again is over; a coordinator asks sooner."""
STILL_S: Final = 3600.0
"""Seconds between lines that say how often a sentence came while it still comes."""
LONGEST: Final = 2000  # letters of a sentence, which may quote what somebody sent
MOST_KEPT: Final = 100
"""How many different sentences are remembered, however many a coordinator causes."""
HOUR_BYTES: Final = 8 * 1024
"""Bytes of an hour for sentences of one pattern, however many of them somebody causes."""


def log_into(path: Path) -> None:
    """Send the package's log to one file, and to no engine's handler; or raise OutputError."""
    logger = logging.getLogger("cipherdag")
    with writing(path):
        handler = OnceHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)  # the command's own level shows errors alone
    logger.propagate = False


@dataclass(slots=True)
class _Said:
    """A sentence that was written, and how often it came again without being written."""

    record: logging.LogRecord
    text: str
    written: float
    last: float
    again: int = 0


@dataclass(slots=True)
class _Hour:
    """What sentences of one pattern took of an hour; the last that had no room, and how many."""

    last: logging.LogRecord
    began: float
    used: int = 0
    left_out: int = 0


class OnceHandler(logging.FileHandler):
    """Writes a sentence once while it keeps coming, and how often it came when it is over.

    A coordinator that waits for a person, or for a site to be mended, asks every few seconds and
    gets the same refusal. It is written when it comes first. After that one line says how often and
    how long it came: each hour, when it has not come for a while, when something is said that is no
    warning, such as that a run begins, and when the log is closed. Sentences of one pattern take
    `HOUR_BYTES` of an hour; how many more came is said with the first after it.
    """

    def __init__(self, path: Path, *, encoding: str) -> None:
        super().__init__(path, encoding=encoding)
        self._sentences: dict[tuple[object, ...], _Said] = {}
        self._hours: dict[str, _Hour] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        sentences = self._sentences
        change = record.levelno < logging.WARNING
        for key in [
            k for k, said in sentences.items() if change or record.created > said.last + QUIET_S
        ]:
            self._sum_up(sentences.pop(key))
        failure = repr(record.exc_info[1]) if record.exc_info else ""
        text = printable(record.getMessage())[:LONGEST]  # now: what it is made of may change
        pattern = f"{record.name} {record.msg}"[:LONGEST]  # by the code: it has few
        record = logging.makeLogRecord({**record.__dict__, "msg": text, "args": ()})  # a copy
        key = (record.name, record.levelno, text, failure)
        said = sentences.get(key)
        if said is None and not self._fits(pattern, record):
            return
        if change:
            super().emit(record)
        elif said is None:
            if len(sentences) >= MOST_KEPT:
                self._sum_up(sentences.pop(next(iter(sentences))))
            sentences[key] = _Said(record, text, record.created, record.created)
            super().emit(record)
        else:
            said.again, said.last = said.again + 1, record.created
            if record.created - said.written >= STILL_S:
                self._sum_up(said)
                said.written, said.again = record.created, 0

    def _fits(self, pattern: str, record: logging.LogRecord) -> bool:
        """Whether the hour has room for another sentence of this pattern; else it is counted."""
        if pattern not in self._hours and len(self._hours) >= MOST_KEPT:
            pattern = ""
        began, hour = record.created // STILL_S, self._hours.get(pattern)
        if hour is None or hour.began != began:
            if hour is not None:
                self._say_left_out(hour)
            hour = self._hours[pattern] = _Hour(record, began)
        if hour.used >= HOUR_BYTES:
            hour.last, hour.left_out = record, hour.left_out + 1
            return False
        hour.used += len(self.format(record).encode())
        return True

    def _say_left_out(self, hour: _Hour) -> None:
        if hour.left_out:
            text = f"{hour.left_out} more of this kind in the hour, the last: {hour.last.msg}"
            self._say(hour.last, text[: LONGEST // 10], hour.last.created)

    def close(self) -> None:
        """Say how often each came, and close the file."""
        for said in self._sentences.values():
            self._sum_up(said)
        self._sentences.clear()
        for hour in self._hours.values():
            self._say_left_out(hour)
        self._hours.clear()
        super().close()

    def _sum_up(self, said: _Said) -> None:
        if not said.again:
            return
        times = "once more" if said.again == 1 else f"{said.again} times more"
        text = f"{times} in {_duration(said.last - said.written)}: {said.text}"
        self._say(said.record, text, said.last)

    def _say(self, about: logging.LogRecord, text: str, created: float) -> None:
        fields = {"name": about.name, "levelno": about.levelno, "levelname": about.levelname}
        super().emit(logging.makeLogRecord({**fields, "msg": text, "created": created}))


def _duration(seconds: float) -> str:
    if seconds < 90.0:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min"
