"""Keys that a coordinator, or a site that sides with it, slips into the set-up."""

import msgspec
import pytest
from adversary import Ward

from cipherdag.errors import KeyAgreementError, SignatureError
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.messages import (
    Envelope,
    Refusal,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.set_up_messages import Offer, Offers

LOW_ORDER = (bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f")
LIAR, HONEST = "hospital-2", ("hospital-0", "hospital-1")


def relayed(change):
    """What each honest site says to offers of which the last is `change(ward, offers)`."""
    ward = Ward()
    said = {}

    def tamper(operation, site, message):
        if operation != "offers":
            return message
        offers = decode(read_envelope(message).body, Offers).envelopes
        return ward.message("offers", Offers(envelopes=(*offers[:2], change(ward, offers))))

    def forge(operation, site, reply):
        if operation == "offers":
            said[site] = reply
        return reply

    ward.engine.tamper, ward.engine.forge = tamper, forge
    with pytest.raises((KeyAgreementError, SignatureError)):
        ward.session.open()
    errors = set()
    for site in HONEST:
        envelope = read_envelope(said[site])
        assert envelope.topic == "refusal"
        errors.add(type(refusal_error(decode(envelope.body, Refusal), site)))
    return errors


def signed(ward, offer, *, key=None, session=None):
    """An offer as the lying site, or whoever has the key, would sign it."""
    return seal_envelope(
        key or ward.identities[LIAR],
        session=session or ward.session._plan.session,
        sender=LIAR,
        topic="offer",
        body=offer,
    )


def offer_of(envelope):
    return decode(read_envelope(envelope).body, Offer)


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_key_of_low_order_that_a_site_signs_is_refused_by_every_other(point):
    def change(ward, offers):
        return signed(ward, msgspec.structs.replace(offer_of(offers[2]), x25519=point))

    assert relayed(change) == {KeyAgreementError}


@pytest.mark.parametrize("keys", [("x25519",), ("mlkem",), ("x25519", "mlkem")])
@pytest.mark.parametrize("victim", [0, 1])
def test_another_site_s_key_under_one_s_own_signature_is_refused(keys, victim):
    def change(ward, offers):
        copied = {name: getattr(offer_of(offers[victim]), name) for name in keys}
        return signed(ward, msgspec.structs.replace(offer_of(offers[2]), **copied))

    assert relayed(change) == {KeyAgreementError}


def test_a_key_that_the_coordinator_signs_in_a_site_s_name_is_refused():
    def change(ward, offers):
        return signed(ward, offer_of(offers[2]), key=ward.coordinator)

    assert relayed(change) == {SignatureError}


def test_an_unsigned_key_is_refused():
    def change(ward, offers):
        envelope = msgspec.msgpack.decode(offers[2], type=Envelope)
        return encode(msgspec.structs.replace(envelope, signature=bytes(64)))

    assert relayed(change) == {SignatureError}


def test_a_key_of_another_session_is_refused():
    def change(ward, offers):
        return signed(ward, offer_of(offers[2]), session=bytes(16))

    assert relayed(change) == {SignatureError}


def test_a_key_for_another_plan_is_refused():
    def change(ward, offers):
        return signed(ward, msgspec.structs.replace(offer_of(offers[2]), plan_digest=bytes(32)))

    assert relayed(change) == {KeyAgreementError}


@pytest.mark.parametrize("content", [b"", bytes(31), bytes(33)])
def test_a_key_of_another_length_is_refused(content):
    def change(ward, offers):
        return signed(ward, msgspec.structs.replace(offer_of(offers[2]), x25519=content))

    assert relayed(change) == {KeyAgreementError}
