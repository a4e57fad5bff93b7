"""Keys that a coordinator, or a site that sides with it, slips into the set-up."""

import msgspec
import pytest
from adversary import Ward

from cipherdag.errors import KeyAgreementError, SignatureError
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.messages import Envelope, Refusal, read_envelope, seal_envelope
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


def own_offer(**fields):
    """The lying site's own offer with other fields."""
    return lambda ward, offers: signed(ward, msgspec.structs.replace(offer_of(offers[2]), **fields))


def with_keys_of(victim, *keys):
    """Another site's keys under the lying site's signature."""
    return lambda ward, offers: own_offer(
        **{name: getattr(offer_of(offers[victim]), name) for name in keys}
    )(ward, offers)


def unsigned(_, offers):
    envelope = msgspec.msgpack.decode(offers[2], type=Envelope)
    return encode(msgspec.structs.replace(envelope, signature=bytes(64)))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        *((own_offer(x25519=point), KeyAgreementError) for point in LOW_ORDER),
        *((own_offer(x25519=bytes(length)), KeyAgreementError) for length in (0, 31, 33)),
        (own_offer(plan_digest=bytes(32)), KeyAgreementError),
        *(
            (with_keys_of(victim, *keys), KeyAgreementError)
            for victim in (0, 1)
            for keys in (("x25519",), ("mlkem",), ("x25519", "mlkem"))
        ),
        (unsigned, SignatureError),
        (
            lambda ward, offers: signed(ward, offer_of(offers[2]), key=ward.coordinator),
            SignatureError,
        ),
        (lambda ward, offers: signed(ward, offer_of(offers[2]), session=bytes(16)), SignatureError),
    ],
)
def test_a_key_that_is_slipped_in_is_refused_by_every_honest_site(change, error):
    assert relayed(change) == {error}
