"""A refusal in a round says nothing: one body, one length, whatever the reason and the site."""

import msgspec
import pytest
from adversary import FULL, Ward, refused, votes

from cipherdag.errors import (
    BoundExceededError,
    CipherdagError,
    DataError,
    InconsistentQuestionError,
    PolicyRefusedError,
    RefusedError,
    ReplayError,
    SiteComputationError,
)
from cipherdag.privacy.wire import decode
from cipherdag.protocol.messages import REPLIES, Refusal, Unmask, read_envelope
from cipherdag.protocol.states import SET_UP
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import read_releases

SITE = "hospital-1"
IN_ROUNDS = sorted(set(REPLIES) - set(SET_UP))


class Raising:
    """A respondent that fails with an error of its own."""

    n_variables = 5

    def __init__(self, error):
        self.error = error

    def answer(self, question):
        raise self.error


def asked(ward):
    ward.session.open()
    return ward.runtimes[SITE].handle("ask", ward.message("ask", ward.asking(votes())))


def failing(error):
    def reply():
        ward = Ward()
        ward.runtimes[SITE]._respondent = Raising(error)
        return asked(ward)

    return reply


def over_limits(**limits):
    return lambda: asked(Ward(policy=Policy(**limits)))


def off_plan():
    ward = Ward.opened()
    ask = ward.asking(votes())
    other = msgspec.structs.replace(ask, content=bytes(32))
    return ward.runtimes[SITE].handle("ask", ward.message("ask", other))


def out_of_step():
    ward = Ward.opened()
    return ward.runtimes[SITE].handle("unmask", ward.message("unmask", Unmask(bytes(32), ())))


def too_large_a_test():
    ward = Ward.opened()
    kernel = EdgeVotes(skeleton=FULL, layer=0, test=CITestSpec(alpha=0.01, name="fisherz"))
    return ward.runtimes[SITE].handle("ask", ward.message("ask", ward.asking(kernel)))


REASONS = {
    "a bound": (failing(BoundExceededError("47 rows are more than 40")), BoundExceededError),
    "the data": (failing(DataError("cell 'Alice'", rows=1429)), DataError),
    "a bug": (failing(ZeroDivisionError("1429 / 0")), SiteComputationError),
    "a long text": (failing(PolicyRefusedError("x" * 10_000)), PolicyRefusedError),
    "max_rounds": (over_limits(max_rounds=0), PolicyRefusedError),
    "max_values": (over_limits(max_values=0), PolicyRefusedError),
    "another question": (off_plan, InconsistentQuestionError),
    "out of step": (out_of_step, ReplayError),
    "columns": (too_large_a_test, CipherdagError),
}


@pytest.mark.parametrize("reason", REASONS)
def test_no_reason_is_told_from_another_by_what_leaves(reason):
    reply, error = REASONS[reason][0](), REASONS[reason][1]
    assert issubclass(refused(reply), error)
    envelope = read_envelope(reply)
    assert decode(envelope.body, Refusal) == Refusal(error=RefusedError.__name__, message="")
    expected = off_plan()
    assert len(reply) == len(expected)
    assert envelope.body == read_envelope(expected).body


@pytest.mark.parametrize("operation", IN_ROUNDS)
def test_every_operation_of_a_round_is_refused_alike(operation):
    ward = Ward.opened()
    lengths = set()
    for message in (b"", b"\xff" * 99, ward.message(operation, Unmask(bytes(32), ()))):
        reply = ward.runtimes[SITE].handle(operation, message)
        assert decode(read_envelope(reply).body, Refusal).message == ""
        lengths.add(len(reply))
    assert lengths == {len(off_plan())}


def test_the_ledger_holds_the_same_of_every_refusal():
    ward = Ward()
    failing_ = ward.runtimes[SITE]._respondent = Raising(None)
    ward.session.open()
    ask = ward.asking(votes())
    for error in (BoundExceededError("47 rows"), DataError("cell 'Alice'"), ZeroDivisionError("x")):
        failing_.error = error
        ward.runtimes[SITE].handle("ask", ward.message("ask", ask))
    said = [own for own in read_releases(ward.ledgers[SITE].lines) if own.kind == "refusal"]
    assert len(said) == 3
    assert len({(own.bytes, own.values, own.round, own.question) for own in said}) == 1


def test_a_coordinator_sees_which_site_refused_and_no_more():
    ward = Ward(n_sites=4)
    ward.runtimes[SITE]._respondent = Raising(BoundExceededError("47 rows are more than 40"))
    ward.session.open()
    ward.session.ask(votes())
    (left,) = ward.session.dropouts
    assert (left.site, left.step, left.reason, left.in_sum) == (
        SITE,
        "share",
        "it refused; its own log says why",
        False,
    )
