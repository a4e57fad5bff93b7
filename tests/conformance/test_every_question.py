"""Every kind of question: survives the wire, answers what it declares, and can be said in words."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import get_args

import fuzzing
import msgspec
import pytest

from cipherdag.errors import MalformedMessageError
from cipherdag.protocol.messages import Ask, content_digest
from cipherdag.protocol.wire import decode, encode
from cipherdag.questions.question import Question, SingleQuestion, question_kinds
from cipherdag.results.sentences import phrase
from cipherdag.sites.policy.policy import QUESTION_KINDS

KINDS = get_args(SingleQuestion)
NAMES = [kind.__name__ for kind in KINDS]


@cache
def asked():
    return fuzzing.asked_questions()


@pytest.mark.parametrize("name", NAMES)
def test_a_real_run_asks_it_and_it_has_one_digest(name):
    question = asked()[name]
    written = msgspec.msgpack.encode(question, order="deterministic")
    read = msgspec.msgpack.decode(written, type=Question)
    assert read == question
    assert content_digest(read) == content_digest(question)
    assert question.label
    assert sum(encoding.length for encoding in question.encodings) > 0
    assert all(0 < encoding.bound < float("inf") for encoding in question.encodings)


@pytest.mark.parametrize("name", NAMES)
def test_its_digest_covers_every_field(name):
    question = asked()[name]
    seen = {content_digest(question)}
    for own in question.__struct_fields__:
        for other in ("surprise", [7]):
            changed = copy(question)
            msgspec.structs.force_setattr(changed, own, other)
            assert content_digest(changed) not in seen
            seen.add(content_digest(changed))


@pytest.mark.parametrize("name", NAMES)
def test_what_it_does_not_know_is_refused(name):
    plain = msgspec.to_builtins(asked()[name])
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain | {"surprise": 1}, SingleQuestion)


@pytest.mark.parametrize("name", NAMES)
def test_no_message_carries_it(name):
    question = asked()[name]
    ask = Ask(number=1, participants=(0, 1), step=1, content=content_digest(question))
    assert decode(encode(ask), Ask) == ask
    plain = msgspec.to_builtins(ask) | {"question": msgspec.to_builtins(question)}
    with pytest.raises(MalformedMessageError):
        decode(msgspec.msgpack.encode(plain), Ask)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_it_has_a_phrase_for_ledgers_and_a_name_for_policies(kind):
    tag = kind.__struct_config__.tag
    assert kind.leaves == phrase(tag) != tag
    assert tag in QUESTION_KINDS
    assert tag in question_kinds(asked()[kind.__name__]).split("+")
