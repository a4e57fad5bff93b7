"""A secure sum of zeros between three pretend sites in this process, by the real protocol.

Leaks:
    Nothing: no data, key or ledger of a real site is touched.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import AggregateRangeError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.plan import Member, Protection, make_plan
from cipherdag.protocol.replay import Replay
from cipherdag.protocol.session import Session
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.question import Question
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.program import Program
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime

N_VARIABLES = 4
NAMES = ("pretend-1", "pretend-2", "pretend-3")


class _Zeros(SiteView):
    """Answers every question with zeros."""

    def answer(self, question: Question) -> FloatVector:
        return np.zeros(question.n_values)


def rehearse(protection: Protection) -> None:
    """Sum zeros once.

    Raises:
        AggregateRangeError: The sum is not zero.
        CipherdagError: Whatever else would stop a run on this machine.
    """
    coordinator = SigningIdentity.generate()
    keys = {name: SigningIdentity.generate() for name in NAMES}
    pinned = {name: key.public for name, key in keys.items()}
    handlers = {
        name: SiteRuntime(
            SiteProfile(
                name=name,
                identity=key,
                coordinator=coordinator.public,
                pinned=pinned,
                schema=b"rehearsal",
                rows=0,
            ),
            _Zeros(None, None, (0,) * N_VARIABLES),
            Policy(),
            Ledger(name, key),
            programs=lambda _, facts: Program(Replay(_one_question()), facts),
        ).handle
        for name, key in keys.items()
    }
    members = [Member(name=name, identity=key) for name, key in pinned.items()]
    plan = make_plan(members, algorithm="fedpc", protection=protection)
    session = Session(LocalEngine(handlers), coordinator, plan)
    session.open()
    total = session.run(Replay(_one_question()))
    session.finish()
    if total.any():
        raise AggregateRangeError("a sum of zeros is not zero")


def _one_question() -> Generator[Question, FloatVector, FloatVector]:
    everything = ~np.eye(N_VARIABLES, dtype=bool)
    return (
        yield EdgeVotes(
            skeleton=Skeleton.from_matrix(everything),
            layer=0,
            test=CITestSpec(name="g2", alpha=0.01),
        )
    )
