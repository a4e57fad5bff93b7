"""Every kind of question: survives the wire, answers what it declares, and can be said in words."""

import gc
from copy import copy
from functools import cache
from typing import get_type_hints

import fuzzing
import msgspec
import numpy as np
import pytest

from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.messages import Ask, content_digest
from cipherdag.questions.question import Bundle, Question, Resampled, question_kinds
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.results.sentences import phrase
from cipherdag.sites.policy.policy import QUESTION_KINDS

KINDS = [*question_kinds().values()]
NAMES = [kind.__name__ for kind in KINDS]
PLAIN = [kind.__name__ for kind in KINDS if get_type_hints(kind).get("question") is not Question]
"""Those that are about no question of any kind, which no message could carry alone either."""


@cache
def asked():
    return fuzzing.asked_questions()


@pytest.mark.parametrize("name", NAMES)
def test_a_real_run_asks_it_and_says_what_it_is(name):
    question = asked()[name]
    assert question.label
    assert question.n_values > 0
    assert all(0 < encoding.bound < float("inf") for encoding in question.encodings)
    if question.countable:
        every = np.ones(question.n_parts, dtype=bool)
        assert question.value_mask(every).tolist() == [True] * question.n_values


@pytest.mark.parametrize("name", PLAIN)
def test_it_is_read_back_with_the_same_digest(name):
    question = asked()[name]
    written = msgspec.msgpack.encode(question, order="deterministic")
    read = msgspec.msgpack.decode(written, type=type(question))
    assert read == question
    assert content_digest(read) == content_digest(question)


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


@pytest.mark.parametrize("name", PLAIN)
def test_what_it_does_not_know_is_refused(name):
    question = asked()[name]
    plain = msgspec.to_builtins(question)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain | {"surprise": 1}, type(question))


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
    assert phrase(tag) != tag or not kind.discloses
    assert tag in QUESTION_KINDS
    assert tag in asked()[kind.__name__].tags


def test_a_kind_that_does_not_say_what_leaves_a_site_is_refused():
    kind = msgspec.defstruct("Silent", [], bases=(Question,), frozen=True, tag="silent")
    with pytest.raises(TypeError, match="Silent does not say what it discloses"):
        question_kinds()
    del kind
    gc.collect()
    assert "silent" not in question_kinds()


def test_what_is_not_made_for_it_stands_in_no_other_question():
    sums = asked()["FamilyRegrets"]
    for kind, fields in (
        (Resampled, {"replicate": 1}),
        (ContributorCounts, {}),
        (Suppressed, {"enough": b""}),
    ):
        with pytest.raises(ValueError, match="of this kind"):
            kind(question=sums, **fields)
    with pytest.raises(ValueError, match="no bundle"):
        Bundle(parts=(Bundle(parts=(sums,)),))
