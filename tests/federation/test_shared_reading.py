"""What sites of one process read for each other: nothing that any of them would have refused."""

import os
from dataclasses import replace

import numpy as np
import pytest
from adversary import Ward
from cohort import agreed_keys, declare, masking_sites, opened_sum
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import (
    ForgedSumError,
    KeyAgreementError,
    MalformedMessageError,
    SignatureError,
)
from cipherdag.federation.in_process import SharedReading
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.homomorphic_mac import MacKey
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.protection_kind import MASKING
from cipherdag.privacy.wire import pack
from cipherdag.protocol.messages import COORDINATOR, Finish, content_digest, seal_envelope
from cipherdag.protocol.plan import SESSION_BYTES
from cipherdag.protocol.set_up_messages import beacon_of, commitment
from cipherdag.questions.pooled_data import Columns

ANSWERS = [np.array([1.0, 0.0, 2.0]), np.array([0.0, 3.0, 1.0]), np.array([1.0, 1.0, 1.0])]
SESSION = bytes(SESSION_BYTES)


@pytest.fixture(scope="module")
def round_of_three():
    """Three sites, what they shared, and the sum of it as it travels."""
    sites, declared = masking_sites(3), declare(3, Segment(3, 4.0, 4))
    opened = opened_sum(sites, MASKING.coordinator(), ANSWERS, declared)
    return sites, declared, opened.content


def test_what_the_first_site_accepts_the_others_need_not_check_again(round_of_three):
    sites, declared, content = round_of_three
    reading = SharedReading(bytes(32)).reading
    found = [reading.sum(pack(content), declared, site) for site in sites]
    assert all(own is found[0] for own in found)
    assert found[0][0] == content
    assert np.array_equal(found[0][1], sum(ANSWERS))


@given(st.data())
def test_a_forged_sum_is_refused_whoever_was_sent_the_true_one_before(round_of_three, data):
    sites, declared, content = round_of_three
    reading = SharedReading(bytes(32)).reading
    if data.draw(st.booleans()):
        reading.sum(pack(content), declared, sites[0])
    place = data.draw(st.integers(0, len(content) - 1))
    forged = bytearray(content)
    forged[place] ^= 1 << data.draw(st.integers(0, 7))
    for site in sites:  # a refusal is not remembered as anything else, either
        with pytest.raises(ForgedSumError):
            reading.sum(pack(bytes(forged)), declared, site)
    with pytest.raises(MalformedMessageError):
        reading.sum(pack(content[:-8]), declared, sites[1])
    assert np.array_equal(reading.sum(pack(content), declared, sites[2])[1], sum(ANSWERS))


def test_a_sum_of_another_question_or_for_another_key_is_checked_anew(round_of_three):
    sites, declared, content = round_of_three
    reading = SharedReading(bytes(32)).reading
    reading.sum(pack(content), declared, sites[0])
    with pytest.raises(ForgedSumError):
        reading.sum(pack(content), replace(declared, digest=bytes(32)), sites[1])
    stranger = MASKING.site(0, agreed_keys(2)[0], MacKey(bytes(range(1, 33))), b"")
    with pytest.raises(ForgedSumError):
        reading.sum(pack(content), declared, stranger)


class _Listening:
    """A site that only keeps what came in."""

    def __init__(self):
        self.heard = []

    def answer(self, message):
        self.heard.append(message)
        return b""


def test_a_message_is_opened_once_for_all_and_anew_if_altered():
    coordinator = SigningIdentity.generate()
    sealed = seal_envelope(
        coordinator, session=SESSION, sender=COORDINATOR, topic="finish", body=Finish(rounds=1)
    )
    sites = [_Listening() for _ in range(3)]
    shared = SharedReading(coordinator.public)
    doors = [shared.door(site) for site in sites]
    altered = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for door, message in zip(doors, (sealed, bytes(bytearray(sealed)), altered), strict=True):
        door("finish", message)
    first, second, third = (site.heard[0] for site in sites)
    assert first is second
    assert first.request == Finish(rounds=1)
    assert isinstance(third.content, SignatureError)
    doors[0]("ask", sealed)  # the same bytes, sent for something else
    assert not sites[0].heard[1].signed


def test_numbers_are_checked_against_their_commitments_once():
    plan = Ward().session._plan
    chances = [os.urandom(32) for _ in plan.cohort]
    committed = [commitment(plan, site, own) for site, own in enumerate(chances)]
    reading = SharedReading(bytes(32)).reading
    for _ in range(2):
        assert reading.beacon(plan, list(committed), list(chances)) == beacon_of(
            plan, committed, chances
        )
        for others in ([*chances[:-1], os.urandom(32)], chances[::-1]):
            with pytest.raises(KeyAgreementError, match="committed"):
                reading.beacon(plan, committed, others)
        with pytest.raises(KeyAgreementError, match="committed"):
            reading.beacon(plan, committed[::-1], chances)
    with pytest.raises(KeyAgreementError, match="committed"):
        reading.beacon(Ward().session._plan, committed, chances)


def test_a_question_is_digested_once_for_all_sites():
    reading = SharedReading(bytes(32)).reading
    asked = [Columns(n_variables=n) for n in (2, 3, 3, *range(4, 40))]
    for question in (*asked, *asked):
        assert reading.content(question) == content_digest(question)
        assert reading.content(question) is reading.content(question)
    assert reading.content(asked[1]) == reading.content(asked[2])
