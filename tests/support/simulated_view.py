"""What a coordinator receives in a run, made anew without any site: from plan and opened sums.

The simulator is given the plan, the sums, how many variables there are and which are labels, and
how long the schema is. It has no row, no schema and no key of a site.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np
from adversary import RecordingEngine
from driving import parts

from cipherdag.algorithms.algorithm import Facts
from cipherdag.privacy.fixedpoint import plane_lengths, word_moduli
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.messages import (
    REQUESTS,
    Ask,
    Closed,
    Compared,
    Finish,
    Offer,
    Opened,
    Ready,
    Seals,
    Share,
    Unmasked,
    declaration,
    read_envelope,
)
from cipherdag.protocol.plan import Member
from cipherdag.protocol.replay import Replay
from cipherdag.protocol.session import Session
from cipherdag.protocol.verdict_rounds import accepted
from cipherdag.protocol.wire import decode
from cipherdag.questions.question import finds_verdicts
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.runtime import SiteProfile, SiteRuntime

BODIES = REQUESTS | {
    "offer": Offer, "seals": Seals, "ready": Ready, "share": Share, "unmasked": Unmasked,
    "opened": Opened, "compared": Compared, "closed": Closed,
}  # fmt: skip


@dataclass
class View:
    """A finished run as its coordinator has it."""

    plan: object
    engine: RecordingEngine
    rounds: tuple
    outcome: object
    facts: Facts
    told: dict


class Pretending:
    """Answers with a part of the sum that was opened; the parts of all sites are that sum."""

    def __init__(self, n_variables, position, n_sites, sums):
        self.n_variables = n_variables
        self._position, self._n_sites = position, n_sites
        self._sums = iter(sums)

    def answer(self, question):
        total = next(self._sums)
        if finds_verdicts(question):
            total = self._any_sums(question, total)
        answer = np.zeros(len(total))
        for encoding, part in parts(question):
            answer[part] = [self._part(encoding, value) for value in total[part].tolist()]
        return answer

    def _any_sums(self, question, verdicts):
        """Some sums of which the verdicts are true: 0 is the least of those of which none is."""
        sets = accepted(question, self._n_sites)
        there = sets.low <= sets.high
        first = sets.low[there.argmax(axis=0), np.arange(len(verdicts))]
        assert there.any(axis=0)[verdicts > 0].all()
        return np.where(verdicts > 0, first, 0).astype(float)

    def _part(self, encoding, value):
        if encoding.comparison:
            return value if self._position == 0 else 0.0
        unit = Fraction(1, 2**encoding.resolution_bits)
        bound = Fraction(encoding.bound)
        left = Fraction(value)
        for _ in range(self._position + 1):
            own = min(max(left, -bound), bound)
            left -= own
        assert own % unit == 0
        return float(own)


def simulated(plan, sums, *, n_variables, labels, schema_bytes, make):
    """The view of a coordinator, from what it may know.

    Args:
        plan: The plan; its sites get other keys.
        sums: The opened sums, in order.
        schema_bytes: How long the schema is that the sites seal for one another.
        make: The plan's algorithm.
    """
    coordinator = SigningIdentity.generate()
    keys = {member.name: SigningIdentity.generate() for member in plan.cohort}
    cohort = tuple(Member(name=name, identity=key.public) for name, key in keys.items())
    plan = msgspec.structs.replace(plan, cohort=cohort)
    policy = Policy(
        algorithms=frozenset({plan.algorithm}), questions=QUESTION_KINDS, allow_unprotected=True
    )
    handlers = {}
    for position, (name, key) in enumerate(keys.items()):
        profile = SiteProfile(
            name=name,
            identity=key,
            coordinator=coordinator.public,
            pinned={member.name: member.identity for member in cohort},
            schema=bytes(schema_bytes),
            rows=0,
            labels=labels,
        )
        respondent = Pretending(n_variables, position, len(cohort), sums)
        handlers[name] = SiteRuntime(profile, respondent, policy, Ledger(name, key)).handle
    engine = RecordingEngine(handlers)
    session = Session(engine, coordinator, plan)
    facts = Facts(
        session.open(),
        len(cohort),
        labels=session.labels,
        seed=plan.seed,
        fewest=plan.min_contributors,
    )
    outcome = session.run(Replay(make.ask(facts), facts.present))
    told = {name: last.result for name, last in session.finish().items()}
    return View(plan, engine, session.rounds, outcome, facts, told)


def outline(message):
    """Who says what, every number in it, and how long all else is."""
    envelope = read_envelope(message)
    body = decode(envelope.body, BODIES[envelope.topic])
    return envelope.sender, envelope.topic, _outline(body)


def _outline(value):
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, tuple):
        return tuple(map(_outline, value))
    if isinstance(value, msgspec.Struct):
        return tuple((name, _outline(getattr(value, name))) for name in value.__struct_fields__)
    return value


def asked(engine):
    """What the coordinator asked of whom: digests of questions, and how long the sums are."""
    found = []
    for operation, site, message in engine.sent:
        if operation not in ("ask", "finish"):
            continue
        body = decode(read_envelope(message).body, REQUESTS[operation])
        length = len(zlib.decompress(body.previous)) if body.previous else 0
        if isinstance(body, Ask):
            found.append((site, body.number, body.participants, body.step, body.content, length))
        else:
            assert isinstance(body, Finish)
            found.append((site, body.rounds, length))
    return found


def questions(plan, facts, sums, make):
    """What the plan asks, from its sums alone."""
    replay, found = Replay(make.ask(facts), facts.present), []
    question = replay.advance(1, None)
    for step, own in enumerate(sums, start=2):
        found.append(question)
        question = replay.advance(step, own, len(plan.cohort))
    assert question is None
    return found, replay.outcome


def masked_words(engine, asked_questions, plan):
    """The first plane of every site's share of every round, as parts of the round's modulus."""
    shares = {member.name: [] for member in plan.cohort}
    for operation, site, reply in engine.received:
        if operation == "ask":
            shares[site].append(decode(read_envelope(reply).body, Share))
    everyone = tuple(range(len(plan.cohort)))
    found = {site: [] for site in shares}
    for number, question in enumerate(asked_questions):
        for site, own in shares.items():
            declared = declaration(question, everyone, own[number].digest, plan)
            moduli = word_moduli(declared)
            length = plane_lengths(declared, moduli)[0]
            words = np.frombuffer(own[number].share, dtype="<u8")
            found[site].append(words[:length] / moduli[0])
    return {site: np.concatenate(own) for site, own in found.items()}
