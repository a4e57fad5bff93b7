"""The ledger: every changed byte, line or end is found, and the first wrong line is named."""

import errno
import os
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.audit.auditing import export
from cipherdag.errors import LedgerError, OutputError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.results.sentences import release_lines
from cipherdag.sites.record.ledger import (
    GENESIS,
    REPAIRED,
    Ledger,
    clock_remark,
    read_releases,
    verify_ledger,
)

IDENTITY = SigningIdentity.generate()


def fill(ledger, count=4):
    for number in range(count):
        ledger.append(
            session=b"s" * 16,
            round_number=number,
            algorithm="fedpc",
            kind="edge-votes",
            values=10 + number,
            content=bytes([number]) * 80,
            protection="masking",
            sites=3,
            digest=b"d" * 32,
        )
    return ledger


def ledger(**options):
    return fill(
        Ledger("north", IDENTITY, clock=lambda: datetime(2026, 1, 2, tzinfo=UTC), **options)
    )


LINES = ledger().lines


def test_a_faithful_ledger_verifies_to_its_head():
    own = ledger()
    assert verify_ledger(own.lines) == own.head
    assert verify_ledger(own.lines, identity=IDENTITY.public.hex()).records == 4
    assert [r.values for r in read_releases(own.lines)] == [10, 11, 12, 13]


def test_an_empty_ledger_has_the_genesis_head():
    assert verify_ledger([]).hash == GENESIS
    assert Ledger("north", IDENTITY).head.records == 0


@settings(max_examples=300)
@given(line=st.integers(0, 3), data=st.data())
def test_any_changed_byte_is_found_in_its_line(line, data):
    text = bytearray(LINES[line].encode())
    position = data.draw(st.integers(0, len(text) - 1))
    value = data.draw(st.integers(32, 126).filter(lambda b: b != text[position]))
    text[position] = value
    changed = [*LINES[:line], text.decode(), *LINES[line + 1 :]]
    with pytest.raises(LedgerError) as caught:
        verify_ledger(changed)
    assert caught.value.line in (line + 1, 2 if line == 0 else line + 1)


def test_a_signature_in_capitals_is_a_changed_byte_too():
    start, signature = LINES[1].split('"signature":"')
    with pytest.raises(LedgerError, match="line 2"):
        verify_ledger([LINES[0], f'{start}"signature":"{signature.upper()}'])


def test_what_left_is_told_without_steering_the_terminal():
    own = Ledger("north\x1b[2J", IDENTITY)
    fill(own)
    told = release_lines({"north\x1b[2J": read_releases(own.lines)})
    assert all(map(str.isprintable, told))
    assert "north\\x1b[2J" in told[0]


def test_removed_doubled_and_swapped_lines_are_found():
    for changed, line in (
        (LINES[1:], 1),
        ([LINES[0], *LINES[2:]], 2),
        ([LINES[0], *LINES], 2),
        ([LINES[0], LINES[2], LINES[1], LINES[3]], 2),
    ):
        with pytest.raises(LedgerError) as caught:
            verify_ledger(changed)
        assert caught.value.line == line


def test_a_forger_without_the_key_cannot_rewrite_the_chain():
    stranger = SigningIdentity.generate()
    forged = fill(Ledger("north", stranger)).lines
    assert verify_ledger(forged).records == 4
    with pytest.raises(LedgerError, match="line 1"):
        verify_ledger(forged, identity=IDENTITY.public.hex())


def test_white_space_and_unknown_fields_are_not_canonical():
    for wrong in (LINES[0] + " ", LINES[0].replace("{", '{"x":1,', 1), "", "[]", "null"):
        with pytest.raises(LedgerError, match="line 1"):
            verify_ledger([wrong])


def test_a_ledger_file_is_continued_and_checked_first(tmp_path):
    path = tmp_path / "ledger.jsonl"
    first = ledger(path=path)
    again = fill(Ledger("north", IDENTITY, path=path), count=1)
    assert again.head.records == 5
    assert path.read_text("utf-8").splitlines() == list(again.lines)
    assert list(again.lines[:4]) == list(first.lines)
    path.write_text(path.read_text("utf-8").replace('"values":10', '"values":99'), "utf-8")
    with pytest.raises(LedgerError, match="line 1"):
        Ledger("north", IDENTITY, path=path)


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ([0, 1, 1, 2], ""),
        ([0, 5, 4, 6], "the site's clock ran backwards before line 3"),
        ([3, 2, 1, 0], "the site's clock ran backwards before line 2, 3, 4"),
    ],
)
def test_a_clock_that_runs_backwards_breaks_nothing_and_is_named(minutes, said):
    times = iter([datetime(2026, 1, 2, 3, minute, tzinfo=UTC) for minute in minutes])
    own = fill(Ledger("north", IDENTITY, clock=lambda: next(times)))
    assert verify_ledger(own.lines).records == 4
    assert clock_remark(read_releases(own.lines)) == said


def test_of_many_lines_some_are_named():
    times = iter([datetime(2026, 1, 2, 3, 59 - minute, tzinfo=UTC) for minute in range(8)])
    own = fill(fill(Ledger("north", IDENTITY, clock=lambda: next(times))))
    assert clock_remark(read_releases(own.lines)).endswith("before line 2, 3, 4, 5, 6, ...")


def test_a_ledger_s_table_holds_no_formula_of_a_coordinator_s(tmp_path):
    """The algorithm's name is the coordinator's own word."""
    own = Ledger("north", IDENTITY, path=tmp_path / "ledger.jsonl")
    about = {"values": 0, "content": b"", "protection": "", "sites": 0, "digest": b""}
    own.append(session=b"", round_number=0, algorithm="=1+1", kind="refusal", **about)
    export(tmp_path / "ledger.jsonl", tmp_path / "ledger.csv", "csv")
    assert ",'=1+1," in (tmp_path / "ledger.csv").read_text("utf-8")


# a disk that fails


@pytest.mark.parametrize("cut", [1, 20, -2])
def test_a_line_that_a_crash_cut_short_is_taken_off_and_that_is_noted(tmp_path, cut):
    path = tmp_path / "ledger.jsonl"
    whole = ledger(path=path).lines
    path.write_bytes("".join(f"{line}\n" for line in whole[:3]).encode() + whole[3].encode()[:cut])
    again = Ledger("north", IDENTITY, path=path)
    assert list(again.lines[:3]) == list(whole[:3])
    noted = read_releases(again.lines)[3]
    assert (noted.kind, noted.line, noted.values, noted.bytes) == (REPAIRED, 4, 0, 0)
    fill(again, count=1)
    assert path.read_text("utf-8").splitlines() == list(again.lines)
    assert verify_ledger(again.lines, identity=IDENTITY.public.hex()).records == 5
    assert Ledger("north", IDENTITY, path=path).head == again.head  # and is not noted again


def test_a_first_line_that_was_cut_short_within_a_letter_is_taken_off(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes('{"release":{"site":"Ä'.encode()[:-1])
    assert [own.kind for own in read_releases(Ledger("north", IDENTITY, path=path).lines)] == [
        REPAIRED
    ]


@pytest.mark.parametrize("change", [b"\xff\xfe\n", b"{}\n", b"\n"])
def test_whole_lines_that_are_wrong_are_no_crash_s_doing(tmp_path, change):
    path = tmp_path / "ledger.jsonl"
    ledger(path=path)
    path.write_bytes(path.read_bytes() + change)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="line 5"):
        Ledger("north", IDENTITY, path=path)
    assert path.read_bytes() == before


class FullDisk:
    """The calls of `os` that fail once the disk is full: the line is cut, and the write fails."""

    def __init__(self, monkeypatch, path):
        self.full = False
        self._path, self._fsync = path, os.fsync
        monkeypatch.setattr("cipherdag.sites.private_files.os.fsync", self.fsync)

    def fsync(self, descriptor):
        if self.full:
            os.ftruncate(descriptor, self._path.stat().st_size - 30)
            raise OSError(errno.ENOSPC, "No space left on device")
        self._fsync(descriptor)


def test_a_line_that_cannot_be_written_leaves_nothing_of_it(tmp_path, monkeypatch):
    """Else the next line would follow half a line, and the ledger be spoilt for good."""
    path = tmp_path / "ledger.jsonl"
    disk = FullDisk(monkeypatch, path)
    own = ledger(path=path)
    before = path.read_bytes()
    disk.full = True
    for _ in range(2):
        with pytest.raises(OutputError, match="No space left"):
            fill(own, count=1)
        assert path.read_bytes() == before
        assert len(own.lines) == 4
    disk.full = False
    fill(own, count=2)
    assert Ledger("north", IDENTITY, path=path).lines == own.lines
    assert verify_ledger(own.lines).records == 6
