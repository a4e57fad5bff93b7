"""The ledger: every changed byte, line or end is found, and the first wrong line is named."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import LedgerError
from cipherdag.privacy.identity import SigningIdentity
from cipherdag.sites.record.ledger import GENESIS, Ledger, read_releases, verify_ledger

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
