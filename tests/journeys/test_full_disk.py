"""A disk that is full, at a site and at the coordinator: a named error, and no line cut short."""

import contextlib
import errno
import os
import signal

import hospital_folders
import msgspec
import pytest
from driving import outcome_over

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import CipherdagError, OutputError
from cipherdag.protocol import durable_files
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.journal import Journal, TranscribingEngine, read_transcript
from cipherdag.protocol.site_log import log_into
from cipherdag.sites.private_files import lock
from cipherdag.sites.record.ledger import ledger_lines, verify_ledger
from cipherdag.sites.record.opened_sums import OpenedSum
from cipherdag.sites.record.run_record import SUMS_FILE, CheckedSum

resource = pytest.importorskip("resource")


@contextlib.contextmanager
def full_at(size):
    """No file of this process may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@contextlib.contextmanager
def hospitals(path):
    path.mkdir()
    made = hospital_folders.hospitals(path)
    made.installed = True
    try:
        yield made
    finally:
        made.close()


def whole(path, kind):
    """The lines of a file, none of which is cut short."""
    content = path.read_bytes() if path.exists() else b""
    assert content.endswith(b"\n") or not content
    return [msgspec.json.decode(line, type=kind) for line in content.splitlines()]


def one_run(made, folder, size):
    """A run on a disk that is full at some size, and the error that ended it."""
    folder.mkdir()
    journal = Journal(folder / "journal.jsonl")
    plan = made.plan(parameters=msgspec.to_builtins(FedPC(evidence="vote")))
    engine = TranscribingEngine(LocalEngine(made.handlers()), folder / "transcript.jsonl")
    session = made.session({}, engine=engine, plan=plan, journal=journal)
    try:
        with full_at(size):
            n_variables = session.open()
            outcome_over(session, n_variables=n_variables)
            session.finish()
    except CipherdagError as error:
        return error
    return None


@pytest.mark.parametrize("size", [0, 300, 700, 1500, 2500, 4000, 6000, 9000, 12_000])
def test_on_a_full_disk_errors_have_names_and_lines_are_whole(tmp_path, size, caplog):
    with hospitals(tmp_path / "study") as made:
        error = one_run(made, tmp_path / "run", size)
        assert isinstance(error, CipherdagError)
        assert not [own for own in caplog.records if own.exc_info]
        for folder in made.folders.values():
            if folder.ledger_path.exists():
                verify_ledger(ledger_lines(folder.ledger_path.read_text("utf-8")))
            whole(folder.sums_path, OpenedSum)
            for sums in folder.runs.glob(f"*/{SUMS_FILE}"):
                whole(sums, CheckedSum)
        assert Journal(tmp_path / "run" / "journal.jsonl").entries or size < 2500
        if (tmp_path / "run" / "transcript.jsonl").exists():
            read_transcript(tmp_path / "run" / "transcript.jsonl")


def test_with_room_enough_the_same_run_ends(tmp_path):
    with hospitals(tmp_path / "study") as made:
        assert one_run(made, tmp_path / "run", 1 << 30) is None


WRITERS = {
    "private file": lambda path: write_whole(path, "x" * 100),
    "durable lines": lambda path: durable_files.append(path, b"x" * 100 + b"\n"),
    "lock": lambda path: lock(path / "not a folder"),
    "log": lambda path: log_into(path / "not a folder"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_cannot_be_written_is_named_with_its_reason(tmp_path, name):
    path = tmp_path / "file"
    path.write_bytes(b"before\n")
    with full_at(20), pytest.raises(OutputError, match=r"file.* cannot be written: \w+"):
        WRITERS[name](path)
    assert path.read_bytes() == b"before\n"
    assert [own.name for own in tmp_path.iterdir()] == ["file"]


def test_a_write_that_the_disk_refuses_only_at_the_end_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    durable_files.append(path, b"first\n")

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        durable_files.append(path, b"second\n")
    monkeypatch.undo()
    durable_files.append(path, b"third\n")
    assert path.read_bytes() == b"first\nthird\n"
    assert path.stat().st_mode & 0o077 == 0


def test_a_reply_cut_short_by_a_crash_spoils_no_later_one(tmp_path):
    with hospitals(tmp_path / "study") as made:
        assert one_run(made, tmp_path / "run", 1 << 30) is None
    path = tmp_path / "run" / "transcript.jsonl"
    replies = read_transcript(path)
    path.write_bytes(path.read_bytes()[:-20])
    TranscribingEngine(LocalEngine({}), path)
    assert path.read_bytes().endswith(b"\n")
    assert read_transcript(path) == replies[:-1]
