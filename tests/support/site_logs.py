"""What sites wrote into their own logs: why they refused, which no reply of a round says."""

from cipherdag.errors import CipherdagError, RefusedError
from cipherdag.privacy.wire import decode
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.messages import Refusal, read_envelope
from cipherdag.sites.session.runtime import SiteRuntime

REASONS: dict[bytes, CipherdagError] = {}
"""Every refusal of this process, and its reason."""


def _listen():
    refuse = SiteRuntime._refusal

    def refusing(self, message, error, text):
        reply = refuse(self, message, error, text)
        error.site = error.site or self._profile.name
        REASONS[reply] = error
        return reply

    SiteRuntime._refusal = refusing


_listen()


def refused(reply):
    """The class of the error for which a site refused; the reply says it in the set-up only."""
    envelope = read_envelope(reply)
    assert envelope.topic == "refusal"
    told = type(refusal_error(decode(envelope.body, Refusal), "x"))
    return type(REASONS[reply]) if told is RefusedError else told


def why(reply):
    """The text of that error."""
    assert refused(reply)
    return REASONS[reply].message


def reason_since(known):
    """The first reason that a site wrote down after so many."""
    return list(REASONS.values())[known]
