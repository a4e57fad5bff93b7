"""The relay alters, replays, crosses and cuts what it carries: every time the run ends by name."""

from collections import Counter
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from mpc_cohort import Cohort, score_tests, split

from cipherdag.errors import CipherdagError, PrivacyError
from cipherdag.privacy.mpc.messages import Collected, Contributed, Keys, Relay, Square
from cipherdag.privacy.wire import decode, encode

PREDICATES = score_tests([1, 2], scores=4, variances=16, constant=1)
REPLIES = [
    *(("share", item) for item in range(4)),
    *(("prepare", item) for item in range(4)),
    *((step, item) for step in ("square", "compare", "open") for item in (2, 3)),
    ("combine", "relay"),
]
REQUESTS = [
    *(("prepare", item) for item in range(4)),
    *((step, item) for step in ("square", "compare", "open") for item in (2, 3)),
]


def vectors_of(rng):
    sums = rng.integers(PREDICATES.lowest, PREDICATES.highest, endpoint=True)
    return split(rng, PREDICATES, sums, 4)


def flip_at(at, rng, message):
    """One bit of this byte."""
    altered = bytearray(message)
    altered[at] ^= 1 << rng.integers(8)
    return bytes(altered)


def flip(rng, message):
    """One bit, anywhere."""
    return flip_at(rng.integers(len(message)), rng, message)


def cut(rng, message):
    """Some bytes fewer, or some more."""
    if rng.random() < 0.5:
        return message[: rng.integers(len(message))]
    return message + rng.bytes(1 + int(rng.integers(40)))


def scramble(rng, message):
    """A run of bytes anew."""
    at = int(rng.integers(len(message)))
    length = 1 + int(rng.integers(32))
    return message[:at] + rng.bytes(length)[: len(message) - at] + message[at + length :]


def at_place(place, change):
    """A hook that changes one message."""
    return lambda step, party, message: change(message) if (step, party) == place else message


def ended(batch_of, hook, inward, rng):
    """The class of the error that a run ends with; fails where it does not end."""
    cohort = Cohort(4)
    with pytest.raises(PrivacyError) as raised:
        cohort.run(batch_of(cohort), vectors_of(rng), hook, inward)
    assert raised.value.remedy
    return type(raised.value).__name__


def altered_at(place, inward, change, rng):
    """The class of the error of a run in which one message is another one."""

    def alter(message):
        other = change(rng, message)
        return other if other != message else other + b"\0"

    hook = at_place(place, alter)
    arguments = (None, hook) if inward else (hook, None)
    return ended(lambda item: item.batch(PREDICATES), *arguments, rng)


def test_messages_cut_or_scrambled_anywhere_end_the_run():
    rng, found = np.random.default_rng(0), Counter()
    for trial in range(1000):
        inward, change = trial % 2, (cut, scramble)[trial // 2 % 2]
        places = REQUESTS if inward else REPLIES
        place = places[int(rng.integers(len(places)))]
        found[altered_at(place, inward, change, rng)] += 1
    assert found.total() == 1000
    assert {"ShareError", "MalformedMessageError", "ComparisonKeyError"} <= {*found}


@pytest.mark.slow
def test_a_bit_altered_in_any_byte_of_any_message_ends_the_run():
    rng, found = np.random.default_rng(1), Counter()
    cohort = Cohort(4)
    sizes = recorded(cohort, cohort.batch(PREDICATES), rng)
    for inward, places in enumerate((REPLIES, REQUESTS)):
        for place in places:
            for at in range(len(sizes[inward][place])):
                change = partial(flip_at, at)
                found[altered_at(place, inward, change, rng)] += 1
    assert found.total() > 5000
    assert {"ShareError", "MalformedMessageError", "ComparisonKeyError", "ForgedSumError"} <= {
        *found
    }


def recorded(cohort, batch, rng):
    """All replies and requests of an honest run."""
    replies, requests = {}, {}

    def hook(step, party, message):
        replies[step, party] = message
        return message

    def inward(step, party, message):
        requests[step, party] = message
        return message

    cohort.run(batch, vectors_of(rng), hook, inward)
    return replies, requests


@pytest.mark.parametrize("later", [{"number": 2}, {"attempt": 1}], ids=str)
def test_every_message_of_an_earlier_batch_is_refused(later):
    rng = np.random.default_rng(2)
    for which, places in ((0, REPLIES), (1, REQUESTS)):
        for place in places:
            cohort = Cohort(4)
            old = recorded(cohort, cohort.batch(PREDICATES), rng)[which]
            hook = at_place(place, lambda _, old=old, place=place: old[place])
            arguments = (None, hook) if which else (hook, None)
            with pytest.raises(PrivacyError):
                cohort.run(cohort.batch(PREDICATES, **later), vectors_of(rng), *arguments)


def test_every_message_of_another_step_or_party_is_refused():
    rng = np.random.default_rng(3)
    crossed = 0
    for which, places in ((0, REPLIES), (1, REQUESTS)):
        for place, source in permutations(places, 2):
            cohort, seen, sent = Cohort(4), {}, []

            def cross(step, party, message, seen=seen, sent=sent, place=place, source=source):
                seen[step, party] = message
                if (step, party) != place or source not in seen:
                    return message
                sent.append(source)
                return seen[source]

            arguments = (None, cross) if which else (cross, None)
            try:
                cohort.run(cohort.batch(PREDICATES), vectors_of(rng), *arguments)
            except PrivacyError:
                crossed += 1
            else:
                assert not sent  # there was nothing yet that could be crossed
    assert crossed > 100


def fields(message, kind):
    said = decode(message, kind)
    return {name: getattr(said, name) for name in said.__struct_fields__}


def test_sealed_parts_are_for_one_role_of_one_site():
    # swap two sealed parts inside one message: each is bound to who sent it to whom, and what it is
    rng = np.random.default_rng(4)

    def swapped(kind, first, second):
        def change(message):
            item = fields(message, kind)
            item[first], item[second] = item[second], item[first]
            return encode(kind(**item))

        return change

    def reordered(name):
        def change(message):
            item = fields(message, Collected)
            one, two, *rest = item[name]
            item[name] = (two, one, *rest)
            return encode(Collected(**item))

        return change

    for hook, inward in (
        (at_place(("share", 3), swapped(Contributed, "first", "dealt")), None),
        (at_place(("share", 2), swapped(Contributed, "dealt", "again")), None),
        (at_place(("share", 0), swapped(Contributed, "seed", "first")), None),
        (None, at_place(("prepare", 2), reordered("parts"))),
        (None, at_place(("prepare", 3), reordered("parts"))),
        (None, at_place(("prepare", 0), reordered("commitments"))),
        (None, at_place(("square", 2), swapped(Square, "seed", "check"))),
        (at_place(("prepare", 0), lambda item: encode(
            Keys(fields(item, Keys)["common"], fields(item, Keys)["seeds"][::-1]))), None),
    ):  # fmt: skip
        ended(lambda item: item.batch(PREDICATES), hook, inward, rng)


def test_missing_and_uninvited_answers_are_refused():
    rng = np.random.default_rng(5)
    cohort = Cohort(4)
    replies, _ = recorded(cohort, cohort.batch(PREDICATES), rng)
    relay = Relay(cohort.batch(PREDICATES), cohort.names)
    for step, before in (
        ("prepare", "share"),
        ("square", "prepare"),
        ("compare", "square"),
        ("open", "compare"),
        ("combine", "open"),
    ):
        item = {party: message for (at, party), message in replies.items() if at == before}
        getattr(relay, step)(item)
        for wrong in ({**item, 7: b""}, dict(list(item.items())[1:])):
            with pytest.raises(PrivacyError):
                getattr(relay, step)(wrong)


def test_no_error_quotes_what_a_party_keeps_secret():
    rng = np.random.default_rng(6)
    for place in REPLIES:
        cohort = Cohort(4)
        vectors = vectors_of(rng)
        hook = at_place(place, lambda message: flip(rng, message))
        with pytest.raises(CipherdagError) as raised:
            cohort.run(cohort.batch(PREDICATES), vectors, hook)
        text = str(raised.value) + raised.value.remedy + repr(raised.value)
        assert not any(name in text for name in ("b'", "0x", "array("))
