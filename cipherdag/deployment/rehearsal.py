"""A secure sum of zeros between three pretend sites in this process, by the real protocol.

Leaks:
    Nothing: no data, key or ledger of a real site is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import AggregateRangeError
from cipherdag.privacy.identity import SigningIdentity
from cipherdag.protocol.engines.local import LocalEngine
from cipherdag.protocol.messages import Member, Protection
from cipherdag.protocol.session import Session
from cipherdag.questions.question import CITestSpec, FloatVector, Question, Skeleton
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.sites.answers.respondent import Respondent
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.runtime import SiteProfile, SiteRuntime

if TYPE_CHECKING:
    from cipherdag.sites.compute.ci_tests.ci_test import CITest

N_VARIABLES = 4
NAMES = ("pretend-1", "pretend-2", "pretend-3")


class _Zeros(Respondent):
    """Answers every question with zeros."""

    def answer(self, question: Question) -> FloatVector:
        return np.zeros(sum(encoding.length for encoding in question.encodings))


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
            _Zeros(N_VARIABLES, _no_test),
            Policy(),
            Ledger(name, key),
        ).handle
        for name, key in keys.items()
    }
    session = Session(
        LocalEngine(handlers),
        coordinator,
        [Member(name=name, identity=key) for name, key in pinned.items()],
        protection=protection,
        algorithm="fedpc",
    )
    session.open()
    everything = ~np.eye(N_VARIABLES, dtype=bool)
    question = EdgeVotes(
        skeleton=Skeleton.from_matrix(everything), layer=0, test=CITestSpec(name="g2", alpha=0.01)
    )
    total = session.ask(question)
    session.finish()
    if total.any():
        raise AggregateRangeError("a sum of zeros is not zero")


def _no_test(spec: CITestSpec) -> CITest:
    raise AggregateRangeError(f"the rehearsal computes no '{spec.name}'")
