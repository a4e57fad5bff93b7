"""Every kind of question: survives the wire, answers what it declares, and can be said in words."""

from __future__ import annotations

from functools import cache
from typing import get_args

import fuzzing
import msgspec
import pytest

from cipherdag.errors import MalformedMessageError
from cipherdag.protocol.messages import Ask, content_digest, decode, encode
from cipherdag.questions.question import SingleQuestion, question_kinds
from cipherdag.results.sentences import phrase
from cipherdag.sites.policy.policy import QUESTION_KINDS

KINDS = get_args(SingleQuestion)
NAMES = [kind.__name__ for kind in KINDS]


@cache
def asked():
    return fuzzing.asked_questions()


@pytest.mark.parametrize("name", NAMES)
def test_a_real_run_asks_it_and_it_survives_the_wire(name):
    question = asked()[name]
    ask = Ask(number=1, participants=(0, 1), question=question)
    assert decode(encode(ask), Ask) == ask
    assert content_digest(question) == content_digest(decode(encode(ask), Ask).question)
    assert question.label
    assert sum(encoding.length for encoding in question.encodings) > 0
    assert all(0 < encoding.bound < float("inf") for encoding in question.encodings)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_does_not_know_is_refused(name):
    plain = msgspec.to_builtins(asked()[name])
    ask = {"number": 1, "participants": [0], "question": plain | {"surprise": 1}}
    with pytest.raises(MalformedMessageError):
        decode(msgspec.msgpack.encode(ask), Ask)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_it_has_a_phrase_for_ledgers_and_a_name_for_policies(kind):
    tag = kind.__struct_config__.tag
    assert kind.leaves == phrase(tag) != tag
    assert tag in QUESTION_KINDS
    assert tag in question_kinds(asked()[kind.__name__]).split("+")
