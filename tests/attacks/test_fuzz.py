"""Malformed bytes at every decoder: named errors and nothing else."""

import logging
import re
import time
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from adversary import Ward
from fuzzing import asked_questions, attack, bodies, targets

import cipherdag
from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, decode
from cipherdag.protocol.engines import channel
from cipherdag.protocol.messages import (
    LONG,
    OPERATIONS,
    REPLIES,
    SHORT_BYTES,
    Ask,
    Open,
    Refusal,
    Share,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.plan import Member
from cipherdag.protocol.set_up_messages import Chances, Commitments, Linked, Offers, Sealed
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


SPARSE = {
    Offers: "envelopes", Sealed: "envelopes", Commitments: "envelopes", Chances: "envelopes",
    Linked: "links", Share: "tags", Open: "seeds", Ask: "participants",
}  # fmt: skip


@pytest.mark.parametrize("kind", SPARSE)
def test_a_list_longer_than_any_cohort_takes_no_memory(kind):
    """Two bytes an entry, and of ten million entries nothing to read: once 8 bytes of each."""
    name = SPARSE[kind].encode()
    content = b"\x81" + bytes([0xA0 + len(name)]) + name
    content += b"\xdd" + (10_000_000).to_bytes(4, "big")
    content += (b"\x01" if kind is Ask else b"\xc4\x00") * 10_000_000
    tracemalloc.start()
    with pytest.raises(MalformedMessageError):
        decode(content, kind)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_short_message_may_not_be_long():
    assert {*REPLIES, *REPLIES.values()} > LONG
    for topic in sorted({*OPERATIONS, *REPLIES.values(), "refusal", "no-such"}):
        said = "not an envelope" if topic in LONG else "longer than the limit"
        with pytest.raises(MalformedMessageError, match=said):
            read_envelope(bytes(SHORT_BYTES + 1), topic)


def test_a_hundred_thousand_invented_sites_are_refused_unread():
    ward = Ward()
    invented = (Member(f"s{n}", n.to_bytes(32, "big")) for n in range(100_000))
    plan = msgspec.structs.replace(ward.session._plan, cohort=tuple(invented))
    about = {"session": plan.session, "sender": "coordinator", "topic": "invite", "body": plan}
    message = seal_envelope(ward.coordinator, **about)
    began = time.process_time()
    reply = next(iter(ward.runtimes.values())).handle("invite", message)
    assert time.process_time() - began < 0.1
    body = decode(read_envelope(reply).body, Refusal)
    assert body.message == "the message is longer than the limit"


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
