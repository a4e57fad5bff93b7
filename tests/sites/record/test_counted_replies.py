"""Whoever asks in vain, however long: the ledger grows little, and says how often."""

import logging
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from adversary import votes
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import decode
from cipherdag.protocol.messages import Finish, Refusal, Secure, read_envelope, seal_envelope
from cipherdag.protocol.site_log import log_into
from cipherdag.sites.record.counted_replies import HOUR_BYTES, CountedReplies
from cipherdag.sites.record.ledger import (
    COUNTED,
    ENGINE_START,
    REFUSAL,
    Ledger,
    read_releases,
    verify_ledger,
)

NAME = "hospital-0"
STRANGER = SigningIdentity.generate()
MEGABYTE = 1_000_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.now = BEGAN

    def __call__(self):
        return self.now


@pytest.fixture
def logged(tmp_path):
    """A site's log by the clock of a test."""
    logger, path = logging.getLogger("cipherdag"), tmp_path / "site.log"
    before = logger.level, logger.propagate
    log_into(path)
    handler = logger.handlers[-1]
    yield handler, path
    logger.removeHandler(handler)
    handler.close()
    logger.setLevel(before[0])
    logger.propagate = before[1]


def vain(hospitals, number):
    """One of the messages of a coordinator, or a stranger, that no site answers."""
    session, key = number.to_bytes(16, "big"), hospitals.coordinator
    finish = seal_envelope(
        key, session=session, sender="coordinator", topic="finish", body=Finish(number)
    )
    foreign = seal_envelope(
        STRANGER, session=session, sender="coordinator", topic="unmask", body=Finish(number)
    )
    return (
        ("finish", finish),
        ("unmask", foreign),
        ("unmask", finish),
        ("invite", finish),
        ("share", session),
        ("invite", session * 200),
    )[number % 6]


def named(reply):
    return decode(read_envelope(reply).body, Refusal).error


def counts(releases):
    """How often each refusal stands in a ledger, by the error that it names."""
    found = Counter()
    for each in releases:
        if each.kind == COUNTED:
            found[each.question.rsplit(": ", 1)[-1]] += each.values
    return found


def test_a_day_of_the_worst_sender_takes_less_than_a_megabyte(hospitals, logged, monkeypatch):
    """Ledger, log and all other files; and every message stands there by what was said of it."""
    hospitals.resumable = True
    handler, path = logged
    clock, folder = Clock(), hospitals.folders[NAME]
    monkeypatch.setattr(handler, "emit", dated(handler.emit, clock))
    handle = hospitals.handler(NAME)
    site = handle.__self__
    site._counted.clock = clock
    before, said, sent = size(folder), Counter(), 0
    for _ in range(24):
        for _ in range(60):
            clock.now += timedelta(seconds=60)
            reply = handle(*vain(hospitals, sent))
            said[named(reply) if reply else ""] += 1
            sent += 1
    site._write_counts(at_once=True)
    handler.close()
    lines = folder.ledger_path.read_text("utf-8").splitlines()
    verify_ledger(lines)
    releases = read_releases(lines)
    written = [each for each in releases if each.kind == REFUSAL]
    assert len(written) + sum(counts(releases).values()) == sent
    assert {*said} == {"", "MalformedMessageError", "ReplayError", "RefusedError"}
    assert all(counts(releases)[error] > 50 for error in said if error)
    assert size(folder) - before + path.stat().st_size < MEGABYTE


def dated(emit, clock):
    """The log's records, at the times of a test's clock."""

    def later(record):
        record.created = clock.now.timestamp()
        emit(record)

    return later


def size(folder):
    return sum(path.stat().st_size for path in folder.path.rglob("*") if path.is_file())


def test_a_stranger_s_refusals_leave_room_for_the_coordinator_s(hospitals):
    handle = hospitals.handler(NAME)
    strangers = [handle(*vain(hospitals, 6 * number + 1)) for number in range(40)]
    assert strangers[0]
    assert strangers[-1] == b""
    assert handle(*vain(hospitals, 0))


def test_what_is_not_sent_once_is_sent_in_the_next_hour(hospitals):
    handle, clock = hospitals.handler(NAME), Clock()
    handle.__self__._counted.clock = clock
    replies = [handle(*vain(hospitals, 6 * number)) for number in range(100)]
    assert replies[0]
    assert replies[-1] == b""
    assert handle(*vain(hospitals, 0)) == replies[0], "what stands there leaves at any time"
    clock.now += timedelta(hours=1)
    assert handle(*vain(hospitals, 6 * 99))


def test_counts_are_written_once_their_hour_is_over_or_the_site_ends(hospitals):
    handle, clock = hospitals.handler(NAME), Clock()
    site, path = handle.__self__, hospitals.folders[NAME].ledger_path
    site._counted.clock = clock
    for _ in range(10):
        handle(*vain(hospitals, 0))
    site.forget_idle(1e9)
    assert [each.kind for each in read(path)] == [REFUSAL]
    clock.now += timedelta(hours=1)
    site.forget_idle(1e9)
    site.forget_idle(1e9)
    assert [(each.kind, each.values) for each in read(path)][1:] == [(COUNTED, 9)]
    for _ in range(3):
        handle(*vain(hospitals, 0))
    hospitals.held.remove(site.held)
    site.close()
    assert [(each.kind, each.values) for each in read(path)][2:] == [(REFUSAL, 0), (COUNTED, 2)]
    assert read(path)[1].bytes == 9 * read(path)[0].bytes


def read(path):
    return read_releases(path.read_text("utf-8").splitlines())


@given(st.integers(0, 2**32), st.integers(1, 120))
def test_every_reply_is_written_or_counted_within_its_hour_s_bytes(seed, n_replies):
    source, clock = random.Random(seed), Clock()
    ledger, counted = Ledger("north", STRANGER), CountedReplies(clock=clock)
    long = "x" * source.choice([0, 400])
    for _ in range(n_replies):
        clock.now += timedelta(seconds=source.choice([0, 1, 60, 1800]))
        if counted.due(at_once=False):
            counted.write(ledger)
        key, signed = source.randbytes(source.choice([1, 4])), source.random() < 0.7
        about = {"signed": signed, "error": source.choice(["ReplayError", "CohortError"])}
        if counted.judge(REFUSAL, key, 200, **about) == "new":
            ledger.append(kind=REFUSAL, content=key, question=long)
            counted.wrote(ledger, REFUSAL, key, signed=signed)
    if counted.due(at_once=True):
        counted.write(ledger)
    releases = read_releases(ledger.lines)
    written = sum(each.kind == REFUSAL for each in releases)
    assert written + sum(counts(releases).values()) == n_replies
    hours = 1 + int((clock.now - BEGAN) / timedelta(hours=1))
    longest = max(map(len, ledger.lines)) + 1
    # of counts an hour has four kinds at most: sent again or not, of two errors, signed or not
    most = sum(HOUR_BYTES.values()) + 2 * longest
    assert sum(len(line) + 1 for line in ledger.lines) <= hours * most + 8 * longest


def test_starts_of_the_engine_s_process_are_counted_by_the_hour(hospitals):
    """A server that closes each connection at once has it start anew each ten seconds."""
    clock, folder = Clock(), hospitals.folders[NAME]
    for _ in range(3):
        handle = hospitals.handler(NAME)
        site = handle.__self__
        clock.now = datetime.now(UTC)
        site._counted.clock = clock
        for _ in range(50):
            site.record_start("kept from this site's files by the kernel (landlock)")
        site._write_counts(at_once=True)
        hospitals.close()
    starts = [each for each in read(folder.ledger_path) if each.kind == ENGINE_START]
    assert len(starts) <= 3
    assert len(read(folder.ledger_path)) <= 2 * 3


def test_a_refused_message_is_not_stored(hospitals):
    """Where a run outlasts its site's process each message was written down, up to 64 MB each."""
    hospitals.resumable = True
    handlers = hospitals.handlers()
    session = hospitals.session(handlers)
    session.open()
    stored = hospitals.folders[NAME].session_path
    before = stored.stat().st_size
    body = Secure(b"d" * 32, "open", bytes(2 * MEGABYTE))
    long = seal_envelope(
        hospitals.coordinator,
        session=session._plan.session,
        sender="coordinator",
        topic="secure",
        body=body,
    )
    assert named(handlers[NAME]("secure", long)) == "RefusedError"
    assert stored.stat().st_size == before
    session.ask(votes())
    assert stored.stat().st_size > before


def test_an_older_ledger_has_the_same_bytes_as_before():
    """Counting changed no field of a record: what was written before reads, and is canonical."""
    ledger = Ledger("north", STRANGER)
    ledger.append(kind=REFUSAL, content=b"reply")
    fields = msgspec.json.decode(ledger.lines[0])["release"]
    assert sorted(fields) == [
        "algorithm", "bytes", "content", "digest", "identity", "kind", "line", "previous",
        "protection", "round", "session", "site", "sites", "time", "values",
    ]  # fmt: skip
