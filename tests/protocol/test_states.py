"""Every pair of a session's state and a request: a legal transition, or the documented refusal."""

from contextlib import suppress
from functools import cache

import msgspec
import pytest
from adversary import Ward, refused, silence, verdicts, votes
from site_logs import why

from cipherdag.errors import ReplayError
from cipherdag.protocol import plan as plans
from cipherdag.protocol.messages import (
    OPERATIONS,
    REPLIES,
    REQUESTS,
    Ask,
    Finish,
    Open,
    Recover,
    Secure,
    Unmask,
    read_envelope,
)
from cipherdag.protocol.set_up_messages import Chances, Commitments, Linked, Offers, Sealed
from cipherdag.protocol.states import IN_ROUNDS, SET_UP, TRANSITIONS, State, check_turn, refusal

BODIES = {
    "offers": Offers(envelopes=()),
    "sealed": Sealed(envelopes=()),
    "commitments": Commitments(envelopes=()),
    "chances": Chances(envelopes=()),
    "linked": Linked(links=(), secrets=b"", content=b""),
    "ask": Ask(number=1, participants=(0,), step=1, content=bytes(32)),
    "unmask": Unmask(digest=b"", tags=()),
    "recover": Recover(digest=b"", vanished=0, piece=b""),
    "open": Open(digest=b"", combined=b"", seeds=()),
    "secure": Secure(digest=b"", verb="prepare", content=b""),
    "finish": Finish(rounds=0),
}
SPARSE = (State.COMMITTED, State.REVEALED, State.LINKED)
BEFORE = {
    State.OFFERED: "offers", State.SEALED: "sealed", State.COMMITTED: "commitments",
    State.REVEALED: "chances", State.LINKED: "linked", State.MASKED: "unmask",
    State.SECURE: "secure",
}  # fmt: skip
"""The request before which a coordinator stops, so that a site is in a state."""
PAIRS = [(state, operation) for state in State for operation in sorted(OPERATIONS)]
LEGAL = [pair for pair in PAIRS if pair in TRANSITIONS]
ILLEGAL = [pair for pair in PAIRS if pair not in TRANSITIONS]


class StoppedError(Exception):
    """The coordinator has come as far as it should."""


@pytest.fixture(autouse=True)
def small_graphs(monkeypatch):
    monkeypatch.setattr(plans, "COMPLETE_UP_TO", 5)


def until(ward, operation, run):
    """The site and the message that a coordinator would send next, stopped before this request."""
    stopped = []

    def tamper(sent, site, message):
        if sent == operation:
            stopped.extend((site, message))
            raise StoppedError
        return message

    ward.engine.tamper = tamper
    with suppress(StoppedError):
        run()
    ward.engine.tamper = lambda sent, site, message: message
    return stopped


def brought_to(state, protection="masking"):
    """A ward with a site in this state, and what that site would be sent next, if anything."""
    ward = Ward(protection, n_sites=8 if state in SPARSE else 4)
    if state == State.CLOSED:
        return ward, "hospital-0", b""

    def run():
        ward.session.open()
        if state in (State.MASKED, State.OPENED):
            ward.session.ask(votes())
        if state == State.SECURE:
            ward.session.ask(verdicts())

    site, message = until(ward, BEFORE.get(state), run) or ("hospital-0", b"")
    assert ward.runtimes[site]._current.state == state
    return ward, site, message


at = cache(brought_to)
"""A ward whose site is refused everything, and stays as it is."""


def legal(state, operation):
    """A ward, its site in this state, and a message of this operation that it has to admit."""
    ward, site, message = brought_to(state, "bfv" if operation == "open" else "masking")
    session = ward.session
    if operation == "invite":
        plan = ward.new_session()._plan
        return ward, site, ward.message("invite", plan, session=plan.session)
    if operation == "ask" and state in (State.MASKED, State.SECURE):  # the round is given up
        question = votes() if state == State.MASKED else verdicts()
        return ward, site, ward.message("ask", ward.asking(question, number=2))
    if operation == "finish" and state in (State.MASKED, State.SECURE):
        return ward, site, ward.message("finish", Finish(rounds=1))
    if BEFORE.get(state) == operation:
        return ward, site, message
    if (state, operation) == (State.OPENED, "unmask"):
        sent = [m for o, s, m in ward.engine.sent if (o, s) == ("unmask", site)]
        return ward, site, sent[-1]
    if operation == "recover":
        ward, *_ = brought_to(State.READY)
        silence(ward, "hospital-2", "unmask")
    elif operation == "open":
        ward, *_ = brought_to(State.READY, "bfv")
    session = ward.session
    run = session.finish if operation == "finish" else lambda: session.ask(votes(0.02))
    return ward, *until(ward, operation, run)


@pytest.mark.parametrize(("state", "operation"), LEGAL)
def test_a_legal_transition_is_answered_and_leads_as_the_table_says(state, operation):
    ward, site, message = legal(state, operation)
    runtime = ward.runtimes[site]
    assert runtime._current.state == state
    reply = runtime.handle(operation, message)
    assert read_envelope(reply).topic == REPLIES[operation]
    assert runtime._current.state in TRANSITIONS[state, operation].states


@pytest.mark.parametrize(("state", "operation"), ILLEGAL)
def test_every_other_transition_is_refused_and_changes_nothing(state, operation):
    ward, site, _ = at(state)
    runtime = ward.runtimes[site]
    body = BODIES[operation]
    rounds = runtime._current.rounds
    if hasattr(body, "digest") and rounds is not None and rounds.current is not None:
        body = msgspec.structs.replace(body, digest=rounds.current.declared.digest)
    reply = runtime.handle(operation, ward.message(operation, body))
    expected = refusal(state, operation)
    assert (refused(reply), why(reply)) == (type(expected), expected.message)
    assert runtime._current.state == state


def test_the_table_names_every_request_and_reaches_every_state():
    assert {operation for _, operation in TRANSITIONS} == OPERATIONS == set(REQUESTS)
    reached = frozenset().union(*(transition.states for transition in TRANSITIONS.values()))
    assert reached == set(State)
    assert all(transition.action for transition in TRANSITIONS.values())
    for state, operation in LEGAL:
        assert operation == "invite" or (operation in SET_UP) != (state in IN_ROUNDS)


def test_a_coordinator_sends_nothing_that_no_site_would_admit():
    ward = Ward()
    with pytest.raises(ReplayError, match="not set up"):
        ward.session._channel.exchange("finish", {0: Finish(rounds=0)}, Finish)
    assert not ward.engine.sent
    assert check_turn(frozenset({State.READY}), "ask") == {State.MASKED, State.SECURE}
    with pytest.raises(ReplayError, match="current round"):
        check_turn(frozenset({State.READY}), "unmask")
