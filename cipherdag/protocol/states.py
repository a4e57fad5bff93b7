"""The states of a session at a site, and the requests that each admits: one table.

A site admits by `TRANSITIONS`, and the coordinator sends by it. Every pair of a state and a request
either stands there or has a `refusal`. What a request has to satisfy beyond its turn is checked
where it is answered (`sites.session`). A request refused before the site acted leaves the state as
it is; one refused after that leaves the next state, so that nothing is done twice.

The set-up with a key for every two sites leads through ``offered`` and ``sealed``; that of a sparse
graph of keys through ``committed``, ``revealed`` and ``linked``; a round through ``masked`` and
``opened``; a round whose sums are never opened through ``secure``.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from cipherdag.errors import KeyAgreementError, OpeningRefusedError, PrivacyError, ReplayError


class State(StrEnum):
    """The state of a session at a site, named after what the site did last."""

    CLOSED = "closed"
    """It holds the keys of no session."""
    OFFERED = "offered"
    """It offered fresh keys, for a key with every other site."""
    SEALED = "sealed"
    """It agreed on its keys, and sealed for the others what only they may know."""
    COMMITTED = "committed"
    """It offered fresh keys for a sparse graph, and committed to a random number."""
    REVEALED = "revealed"
    """It revealed that number."""
    LINKED = "linked"
    """It agreed on keys with its neighbours on the graph that follows from all numbers."""
    READY = "ready"
    """It is set up; or its program went on, and expects the request for the next question."""
    MASKED = "masked"
    """It sent a masked answer."""
    OPENED = "opened"
    """It released the seed of that answer's self mask."""
    SECURE = "secure"
    """It sent shares of an answer, whose sums are never opened."""


class Transition(NamedTuple):
    """A site's action at a request, and the states that it may be in afterwards."""

    action: str
    states: frozenset[State]


def _to(action: str, *states: State) -> Transition:
    return Transition(action, frozenset(states))


SET_UP: Final = ("invite", "offers", "sealed", "commitments", "chances", "linked")
"""The requests of a set-up; every other one is of a round, or ends the session."""
IN_ROUNDS: Final = (State.READY, State.MASKED, State.OPENED, State.SECURE)
"""The states after the set-up."""

_INVITED = _to("checks the plan and offers fresh keys", State.OFFERED, State.COMMITTED)
_ASKED = _to("checks the last sum and answers the next question", State.MASKED, State.SECURE)
_FINISHED = _to("checks the last sum, forgets its keys and signs its result", State.CLOSED)

TRANSITIONS: Final[Mapping[tuple[State, str], Transition]] = MappingProxyType(
    {
        **{(state, "invite"): _INVITED for state in State},
        (State.OFFERED, "offers"): _to("agrees on a key with every other site", State.SEALED),
        (State.SEALED, "sealed"): _to("proves that its schema is the study's", State.READY),
        (State.COMMITTED, "commitments"): _to("reveals its random number", State.REVEALED),
        (State.REVEALED, "chances"): _to("agrees on keys with its neighbours", State.LINKED),
        (State.LINKED, "linked"): _to("proves that its schema is the study's", State.READY),
        **{(state, "ask"): _ASKED for state in IN_ROUNDS},
        (State.MASKED, "unmask"): _to("releases the seed of its self mask", State.OPENED),
        (State.OPENED, "unmask"): _to("releases the same seed again", State.OPENED),
        (State.OPENED, "recover"): _to("releases its piece of a vanished site's", State.OPENED),
        (State.OPENED, "open"): _to("decrypts the sum, one of each round", State.OPENED),
        (State.SECURE, "secure"): _to("takes the next step of its role", State.SECURE),
        **{(state, "finish"): _FINISHED for state in IN_ROUNDS},
    }
)
"""What a site does at a request in a state; where there is nothing, it refuses."""

_SEED_FIRST = OpeningRefusedError, "nothing is opened before this site released its seed"
_NO_VERDICTS = OpeningRefusedError, "no verdicts are found in this round"
_REFUSALS: Final[Mapping[tuple[State, str], tuple[type[PrivacyError], str]]] = {
    (State.OFFERED, "sealed"): (KeyAgreementError, "the seals came before the offers"),
    (State.SEALED, "offers"): (KeyAgreementError, "the offers were relayed a second time"),
    (State.COMMITTED, "chances"): (KeyAgreementError, "the numbers came before the offers"),
    (State.COMMITTED, "linked"): (KeyAgreementError, "the links came before the lot"),
    (State.REVEALED, "linked"): (KeyAgreementError, "the links came before the lot"),
    (State.REVEALED, "commitments"): (KeyAgreementError, "the offers were relayed a second time"),
    (State.LINKED, "commitments"): (KeyAgreementError, "the offers were relayed a second time"),
    (State.LINKED, "chances"): (KeyAgreementError, "the numbers were relayed a second time"),
    (State.MASKED, "recover"): _SEED_FIRST,
    (State.MASKED, "open"): _SEED_FIRST,
    (State.MASKED, "secure"): _NO_VERDICTS,
    (State.OPENED, "secure"): _NO_VERDICTS,
    (State.SECURE, "unmask"): (OpeningRefusedError, "no seed is released where sums stay closed"),
    (State.SECURE, "recover"): _SEED_FIRST,
    (State.SECURE, "open"): _SEED_FIRST,
}


def refusal(state: State, request: str) -> PrivacyError:
    """Why a state does not admit a request."""
    kind, message = _REFUSALS.get((state, request), (ReplayError, ""))
    if not message and request in SET_UP:
        message = "the message is out of step with the session's set-up"
    elif not message and state not in IN_ROUNDS:
        message = "the message is out of step: the session is not set up"
    return kind(message or "the message is not about the current round")


def check_phase(state: State, request: str) -> None:
    """Refuse a request of rounds in a set-up, of a set-up in rounds, or any when it is closed.

    Whoever sends a request without a valid signature learns no more of a session's state. Raises
    ReplayError where the request is of another phase.
    """
    if request != "invite" and (
        state == State.CLOSED or (state in IN_ROUNDS) == (request in SET_UP)
    ):
        raise refusal(state, request)


def check_turn(states: frozenset[State], request: str) -> frozenset[State]:
    """The states that may follow a request in some states; or raises the first's `refusal`."""
    admitted = [TRANSITIONS[state, request] for state in states if (state, request) in TRANSITIONS]
    if not admitted:
        raise refusal(min(states), request)
    return frozenset[State]().union(*(transition.states for transition in admitted))
