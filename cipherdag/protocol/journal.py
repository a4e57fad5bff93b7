"""A coordinator writes a session down: its journal, and digests of the replies that it received.

So a crash loses no round and repeats none, and each site's ledger can be held against the digests.
After a crash finished rounds are not asked again, and an unfinished one is asked again by the same
bytes, to which the sites give the same replies; only a round that was given up is asked again under
the next number.

Leaks:
    Whoever reads the digests learns who answered what, and how long; whoever reads the journal
    learns what the coordinator learnt: the sums of all rounds.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import MalformedMessageError, OutputError, UnreadableRunError
from cipherdag.graphs.relations import Relation
from cipherdag.pages.files import from_json
from cipherdag.protocol.durable_files import append_entries, read_entries
from cipherdag.protocol.engines.engine import Engine, SiteFailure
from cipherdag.protocol.messages import read_envelope
from cipherdag.protocol.plan import PLAN_FORMAT, Plan
from cipherdag.protocol.progress import DropOut, RoundReport


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="started"):
    """The plan, before any site was asked; its session is named after it."""

    plan: Plan


class KeysAgreed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="opened"):
    """The session was set up; ``received`` counts bytes by site, and roles follow from ``beacon``.

    ``rows`` are the sites' digests of their rows.
    """

    transcript: bytes
    n_variables: int
    received: dict[str, int]
    labels: tuple[int, ...] = ()
    beacon: bytes = b""
    relations: tuple[Relation[int], ...] = ()
    rows: tuple[bytes, ...] = ()


class GivenUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="given-up"):
    """A round without a sum: who goes on, who left since the last, and bits found before."""

    number: int
    present: tuple[int, ...]
    left: tuple[DropOut, ...] = ()
    known: tuple[bytes, ...] = ()


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="opening"):
    """The requests to both computing parties for the bits of a round, by position, before sending.

    After a crash they are asked by the same bytes, and answer as before: they sign bits once.
    ``received`` are the bytes of the round until then, by site.
    """

    number: int
    requests: dict[int, bytes]
    received: dict[str, int]


class Summed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="summed"):
    """A round's sum, the positions of the sites that go on, and the round's report.

    ``values`` is the sum, or verdicts, as little-endian float64; ``opened``, packed, sites check.
    """

    content: bytes
    present: tuple[int, ...]
    values: bytes
    opened: bytes
    report: RoundReport

    @property
    def array(self) -> FloatVector:
        """The sum, shape (number of values,)."""
        return np.frombuffer(self.values, dtype="<f8").astype(np.float64)


Entry = Started | KeysAgreed | GivenUp | Opening | Summed


class Record(Protocol):
    """A record that a session is written to: a `Journal`, or one of a run of this process."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries that the session resumes from, oldest first."""

    @property
    def reports(self) -> tuple[RoundReport, ...]:
        """The rounds of sessions before this one, which goes on counting after them."""

    def write(self, entry: Entry) -> None:
        """Write an entry down before the session goes on."""


class Journal:
    """Appends ``entries`` to a file, each on disk before the run goes on; one JSON object a line.

    The file is made with mode 0600; entries already in it are read, the oldest first. OutputError
    where it cannot be written, is not a journal, or another revision began it.
    """

    reports = ()  # of other sessions: a journal is of one

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "rb") as file:
                first = file.readline()
        except OSError as error:
            raise OutputError(
                f"{path} cannot be opened: {error.strerror}",
                remedy="Name the folder of a run under runs/, which this user may write.",
            ) from error
        if _is_of_another_revision(first):
            raise OutputError(
                f"{path} is the journal of a run that another revision of cipherdag began",
                remedy="Start a new run; its results, ledgers and policies still read.",
            )
        unread = UnreadableRunError(f"{path} is not the journal of a run")
        self.entries: tuple[Entry, ...] = (*read_entries(path, Entry, unread),)

    @property
    def plan(self) -> Plan | None:
        """The plan of the session, or None in a new journal."""
        first = self.entries[0] if self.entries else None
        return first.plan if isinstance(first, Started) else None

    def write(self, entry: Entry) -> None:
        """Append an entry and see it to the disk, or raise OutputError."""
        append_entries(self._path, entry)
        self.entries += (entry,)


def _is_of_another_revision(first: bytes) -> bool:
    """Whether a journal's first line holds an invite, as older ones, or another plan format."""
    try:
        start = from_json(first, dict[str, Any])
    except ValueError:
        return False
    plan = start.get("plan")
    same_format = isinstance(plan, dict) and plan.get("format") == PLAN_FORMAT
    return start.get("type") == "started" and not same_format


class Resumption:
    """Takes a session up again from its journal's entries, oldest first.

    ``started`` has the plan, ``opened`` the set-up, if it was finished, and ``opening`` the
    requests for bits in the round that was cut short, if it has any.
    """

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        padded: tuple[Entry | None, ...] = (*entries, None, None)
        first, second, *_ = padded
        if first is not None and not isinstance(first, Started):
            raise UnreadableRunError("the journal does not begin with the start of a session")
        self.started = first
        self.opened = second if isinstance(second, KeysAgreed) else None
        self.opening: Opening | None = None
        self._left = list(entries[1 + (self.opened is not None) :])

    def next_ended(self) -> GivenUp | Summed | None:
        """The next round that ended, or None where the journal does."""
        entry, self.opening = None, None
        while self._left and (entry is None or isinstance(entry, Opening)):
            entry = self._left.pop(0)
        if entry is None or isinstance(entry, Opening):
            self.opening = entry
            return None
        if not isinstance(entry, GivenUp | Summed):
            raise UnreadableRunError("the journal's entries are out of order")
        return entry


JOURNAL_FILE = "journal.jsonl"
TRANSCRIPT_FILE = "transcript.jsonl"


class Received(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply: from whom, about what, and the SHA-256 that the site's ledger records of it.

    ``envelope`` is this digest of the whole reply, and so is ``content``; an earlier revision had
    the digest of the reply's body in ``content``.
    """

    site: str
    session: str
    topic: str
    bytes: int
    envelope: str
    content: str = ""


class TranscribingEngine:
    """Writes down what another engine brings back; OutputError for a file of something else."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine, self._path = engine, path
        if path.exists():
            read_transcript(path)  # a line that a crash cut short would spoil the next one

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """Sends each site its message; see `Engine.call`."""
        replies = self._engine.call(operation, messages, timeout_s=timeout_s)
        came = ((site, reply) for site, reply in replies.items() if isinstance(reply, bytes))
        append_entries(self._path, *(received(site, reply) for site, reply in came))
        return replies


def received(site: str, reply: bytes) -> Received:
    """The record of one reply; one that is not a message is recorded as such."""
    digest = hashlib.sha256(reply).hexdigest()
    try:
        envelope = read_envelope(reply)
    except MalformedMessageError:
        return Received(site, "", "garbage", len(reply), digest)
    return Received(site, envelope.session.hex(), envelope.topic, len(reply), digest, digest)


def read_plan(path: Path) -> Plan:
    """The plan of a run, from its journal's first line, or an OutputError without one."""
    try:
        with path.open("rb") as file:
            return from_json(file.readline(), Started).plan
    except (OSError, ValueError) as error:
        raise UnreadableRunError(f"{path} is not the journal of a run") from error


def read_transcript(path: Path) -> list[Received]:
    """The replies of a run; one that a crash cut short is cut off the file. Or an OutputError."""
    unread = UnreadableRunError(f"{path} is not the transcript of a run")
    if not path.exists():
        raise unread
    return read_entries(path, Received, unread)
