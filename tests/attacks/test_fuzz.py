"""Malformed bytes at every decoder: named errors and nothing else."""

import logging
import re
import tracemalloc
from pathlib import Path

import pytest
from fuzzing import asked_questions, attack, bodies, targets

import cipherdag
from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, decode
from cipherdag.protocol.engines import channel
from cipherdag.protocol.messages import read_envelope
from cipherdag.questions.question import question_kinds


def test_six_thousand_hostile_inputs_meet_named_errors_only(caplog):
    caplog.set_level(logging.CRITICAL, logger="cipherdag.site")
    found = targets()
    refused = attack(6_000, seed=20, found=found)
    # a site answers refusals instead of raising them, so its doors never raise at all
    assert all(refused[t.name] == 0 for t in found if t.name.startswith("site "))
    # of some 45 each; of a schema, which is text, half of what is altered can still be read
    assert all(refused[t.name] > 5 for t in found if not t.name.startswith("site "))


def test_a_message_that_claims_to_be_huge_costs_no_memory():
    claims = b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"
    tracemalloc.start()
    for claim in claims:
        for kind in bodies():
            with pytest.raises(MalformedMessageError):
                decode(claim + b"\x01" * 100, kind)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_a_message_beyond_the_limit_is_refused_unread():
    for size, said in ((0, "not an envelope"), (1, "longer than the limit")):
        with pytest.raises(MalformedMessageError, match=said):
            read_envelope(bytes(MAX_MESSAGE_BYTES + size))


def test_no_engine_carries_a_longer_message_than_a_site_reads():
    assert MAX_MESSAGE_BYTES == 256 * 2**20
    assert channel.FRAME_BYTES == MAX_MESSAGE_BYTES + 64 * 1024
    package = Path(cipherdag.__file__).parent
    setting = re.compile(r"^ *\w*message_bytes\b[^=\n]*= (.*)$", re.IGNORECASE | re.MULTILINE)
    values = [v for path in package.rglob("*.py") for v in setting.findall(path.read_text("utf-8"))]
    assert values == ["256 * 1024 * 1024"]


def test_every_kind_of_question_is_fed():
    kinds = {kind.__name__ for kind in question_kinds().values()}
    assert set(asked_questions()) == kinds
