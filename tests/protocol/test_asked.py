"""Lines of bits that were found before: what they are bound to, and how they add up."""

import msgspec
import numpy as np
import pytest

from cipherdag.errors import ForgedSumError, MalformedMessageError
from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import Verdicts, sign_bits
from cipherdag.protocol.asked import UNKNOWN, Answers, Context, encoded, secure_question

KEYS = [SigningIdentity.generate() for _ in range(4)]
SITES = (0, 1, 2, 3)
CONTEXT = Context(
    b"r" * 32, b"a" * 32, Roles(2, 3, (0, 1)), [key.public for key in KEYS], tuple("abcd")
)
NAMES = [bytes([n]) * 16 for n in range(3)]


def line(bits, *, context=CONTEXT, step=1, holders=(0, 1)):
    names = b"".join(NAMES)
    question = secure_question(b"q" * 32, b"", names)
    tests = Predicates.replicated(len(bits), [(0, 4)], [[((1,), 0)]])
    batch = Batch(context.session, question, step, 1, SITES, context.roles, tests)
    said = [sign_bits(batch, np.array(bits), b"d" * 32, KEYS[each]) for each in (0, 1)]
    both = tuple(each.signature for each in said)
    whole = Verdicts(said[0].bits, said[0].dealt, both)
    about = batch, b"q" * 32, b"", names
    if len(holders) == 1:
        return context.line(*about, said[holders[0]], holders[0])
    return context.line(*about, whole, 0)


def test_bits_of_a_line_are_found_by_name_and_sites():
    answers = Answers(CONTEXT)
    answers.add(encoded([line([True, False, True])]))
    bits, _, lines = answers.of(NAMES[2] + b"z" * 16 + NAMES[1], SITES)
    assert bits.tolist() == [1, UNKNOWN, 0]
    assert len(lines) == 1
    assert answers.of(NAMES[0], SITES[:3])[0].tolist() == [UNKNOWN]


def test_two_halves_are_one_line():
    answers = Answers(CONTEXT)
    halves = [line([True, False, True], holders=(each,)) for each in (0, 1)]
    assert [bool(each) for each in halves[0].signatures] == [True, False]
    answers.add(encoded(halves))
    assert answers.lines == [line([True, False, True])]


def test_a_line_of_both_holders_comes_before_one_of_a_single_holder():
    half, whole = line([True, False, True], holders=(0,)), line([True, False, True], step=2)
    for first, second in ((half, whole), (whole, half)):
        answers = Answers(CONTEXT)
        answers.add(encoded([first]))
        assert answers.of(NAMES[0], SITES)[1].tolist() == [first is whole]
        answers.add(encoded([second]))
        assert answers.of(NAMES[0], SITES)[2] == [whole]


def test_two_halves_that_differ_in_anything_are_two_answers():
    first, second = (line([True, False, True], holders=(each,)) for each in (0, 1))
    answers = Answers(CONTEXT)
    answers.hold(first)
    with pytest.raises(ForgedSumError, match="found two answers"):
        answers.hold(msgspec.structs.replace(second, predicates=bytes(32)))


@pytest.mark.parametrize("step", [1, 2])
def test_two_answers_to_one_question_name_the_holders(step):
    answers = Answers(CONTEXT)
    answers.add(encoded([line([True, False, True])]))
    with pytest.raises(ForgedSumError, match="'a' and 'b', which find the bits, found two"):
        answers.add(encoded([line([True, True, True], step=step)]))


@pytest.mark.parametrize(
    "change",
    [
        {"run": b"b" * 32},
        {"content": b"c" * 32},
        {"sums": b"s"},
        {"step": 2},
        {"attempt": 2},
        {"sites": SITES[:3]},
        {"predicates": bytes(32)},
        {"names": NAMES[0] * 3},
        {"bits": b"\x00"},
        {"dealt": bytes(32)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_line_that_was_altered_is_refused(change):
    altered = msgspec.structs.replace(line([True, False, True]), **change)
    with pytest.raises(ForgedSumError, match="both computing parties found"):
        Answers(CONTEXT).add(encoded([altered]))


def test_a_line_is_of_the_rows_that_it_was_signed_for():
    other = Context(b"s" * 32, CONTEXT.run, CONTEXT.roles, CONTEXT.identities, CONTEXT.names)
    with pytest.raises(ForgedSumError, match="both computing parties found"):
        Answers(other).add(encoded([line([True, False, True])]))


@pytest.mark.parametrize("change", [{"names": b"x" * 47}, {"bits": b""}, {"names": b""}])
def test_a_line_that_is_cut_short_is_refused(change):
    altered = msgspec.structs.replace(line([True, False, True]), **change)
    with pytest.raises(MalformedMessageError, match="cut short"):
        Answers(CONTEXT).add(encoded([altered]))
