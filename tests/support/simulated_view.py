"""What a coordinator receives in a run, made anew without any site: from plan and opened sums.

The simulator is given the plan, the sums, how many variables there are, which are labels and which
determine one another, and how long the schema is. It has no row, no schema and no key of a site. Of
what some sites see it is made with their own tables and the schema, which they have, and with
nothing of the others.
"""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from adversary import RecordingEngine
from driving import parts
from mpc_cohort import holds
from replaying import facts_of
from scipy import optimize

from cipherdag.privacy.fixedpoint import plane_lengths
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.mpc.messages import Contributed
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.wire import decode
from cipherdag.privacy.wire import decode as decode_body
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.messages import (
    REQUESTS,
    Ask,
    Closed,
    Finish,
    Opened,
    Secured,
    Share,
    Unmasked,
    declaration,
    read_envelope,
)
from cipherdag.protocol.session import Session
from cipherdag.protocol.set_up_messages import Chance, Links, Offer, Ready, Seals
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.algorithms.algorithm import Facts
    from cipherdag.graphs.relations import Determined

FEW_WORDS = 6
"""Words of which every choice is tried; more have to be solved for."""
BODIES = REQUESTS | {
    "offer": Offer, "seals": Seals, "ready": Ready, "share": Share, "unmasked": Unmasked,
    "opened": Opened, "secured": Secured, "closed": Closed, "chance": Chance, "links": Links,
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


class Rest:
    """What some sites answer that pretend: the disclosed sums less the others' answers.

    Of a round of verdicts it is any words whose sums they are true of, or those that lead to the
    ``exact`` sums, by round.
    """

    def __init__(self, sums, n_sites, real=(), exact=None):
        self.pretending = n_sites - len(real)
        self._sums, self._exact = sums, exact or {}
        self._n_sites, self._real = n_sites, real
        self._last = (-1, None)

    def of(self, place, question):
        """What they answer together to one question, as whole numbers of the grid."""
        if self._last[0] != place:
            self._last = place, self._left(place, question)
        return self._last[1]

    def _left(self, place, question):
        if question.opens_bits:
            return self._words(place, question)
        scale = [2**encoding.resolution_bits for encoding, _ in parts(question)]
        lengths = [encoding.length for encoding, _ in parts(question)]
        grid = np.repeat(np.array(scale, dtype=object), lengths)
        own = sum((self._whole(one.answer(question), grid) for one in self._real), 0 * grid)
        left = self._whole(self._sums[place], grid) - own
        for encoding, part in parts(question):
            if encoding.comparison:  # one site that says so is enough
                left[part] = np.where(left[part] > 0, 1, 0)
        return left

    @staticmethod
    def _whole(values, grid):
        return np.array(
            [round(Fraction(v) * g) for v, g in zip(values.tolist(), grid, strict=True)]
        )

    def _words(self, place, question):
        predicates = question.predicates(self._n_sites)
        own = np.zeros(predicates.n_words, dtype=np.int64)
        for one in self._real:
            own += one.answer(question)
        if place in self._exact:
            return self._exact[place] - own
        return any_sums(predicates, self._sums[place] > 0, own, self.pretending / self._n_sites)


class Pretending:
    """Answers with a part of what all sites that pretend answer together."""

    def __init__(self, n_variables, position, rest):
        self.n_variables = n_variables
        self._position, self._rest = position, rest
        self._asked = 0

    def answer(self, question):
        left = self._rest.of(self._asked, question)
        self._asked += 1
        if question.opens_bits:
            # whole numbers, in as equal parts as there can be
            return left // self._rest.pretending + (
                self._position < left % self._rest.pretending
            ).astype(np.int64)
        answer = np.zeros(len(left))
        for encoding, part in parts(question):
            answer[part] = [self._part(encoding, value) for value in left[part].tolist()]
        return answer

    def _part(self, encoding, value):
        if encoding.comparison:
            return float(value) if self._position == 0 else 0.0
        scale = 2**encoding.resolution_bits
        bound = math.floor(Fraction(encoding.bound) * scale)
        for _ in range(self._position + 1):
            own = min(max(value, -bound), bound)
            value -= own
        return own / scale


@dataclass
class Simulated:
    """What a view is made from.

    Attributes:
        plan: The plan; its sites get other keys.
        make: The plan's algorithm.
        sums: The opened sums, or the verdicts in their place, in order.
        n_variables: How many there are.
        labels: Positions of the labels.
        determined: Which variables follow from others.
        schema: What the sites seal for one another: anything as long, or the very schema where the
            view is that of sites.
        inside: The sites whose view it is, by position, with their tables; none for the
            coordinator's.
        exact: Sums in the place of verdicts that they may know, by place in ``sums``.
    """

    plan: Any
    make: Any
    sums: list
    n_variables: int
    labels: tuple
    determined: Determined
    schema: bytes
    inside: Mapping[int, Any] = field(default_factory=dict)
    exact: Mapping[int, np.ndarray] = field(default_factory=dict)

    def run(self):
        """A run of which nobody but the sites inside has a row."""
        coordinator = SigningIdentity.generate()
        keys = {member.name: SigningIdentity.generate() for member in self.plan.cohort}
        cohort = tuple(
            msgspec.structs.replace(member, identity=keys[member.name].public)
            for member in self.plan.cohort
        )
        plan = msgspec.structs.replace(self.plan, cohort=cohort)
        engine = RecordingEngine(self._handlers(plan, keys, coordinator.public))
        session = Session(engine, coordinator, plan)
        facts = facts_of(plan, session.open(), session.labels, session.determined)
        outcome = run_program(session, Replay(self.make.ask(facts), facts.present))
        told = {name: last.result for name, last in session.finish().items()}
        return View(plan, engine, session.rounds, outcome, facts, told)

    def _handlers(self, plan, keys, coordinator):
        policy = Policy(
            algorithms=frozenset({plan.algorithm}), questions=QUESTION_KINDS, allow_unprotected=True
        )
        real = {
            place: SiteView.of_table(table, min_cell_size=0, device="cpu")
            for place, table in self.inside.items()
        }
        rest = Rest(self.sums, len(keys), tuple(real.values()), self.exact)
        outside = [place for place in range(len(keys)) if place not in real]
        handlers = {}
        for place, (name, key) in enumerate(keys.items()):
            profile = SiteProfile(
                name=name,
                identity=key,
                coordinator=coordinator,
                pinned={member.name: member.identity for member in plan.cohort},
                schema=self.schema,
                rows=0,
                labels=self.labels,
                determined=self.determined,
            )
            own = real.get(place)
            if own is None:
                own = Pretending(self.n_variables, outside.index(place), rest)
            handlers[name] = SiteRuntime(profile, own, policy, Ledger(name, key)).handle
        return handlers


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
    """The first plane of every site's share of every round, as parts of its modulus.

    Of secure tests it is what the site sealed, as parts of 2**64.
    """
    shares = {member.name: [] for member in plan.cohort}
    for operation, site, reply in engine.received:
        if operation == "ask":
            shares[site].append(decode(read_envelope(reply).body, Share))
    everyone = tuple(range(len(plan.cohort)))
    found = {site: [] for site in shares}
    for number, question in enumerate(asked_questions):
        for site, own in shares.items():
            if question.opens_bits:
                found[site].append(_sealed_words(own[number].share) / 2.0**64)
                continue
            declared = declaration(question, everyone, own[number].digest, plan)
            length = plane_lengths(declared, WORD_MODULI)[0]
            words = np.frombuffer(own[number].share, dtype="<u8")
            found[site].append(words[:length] / WORD_MODULI[0])
    return {site: np.concatenate(own) for site, own in found.items()}


def _sealed_words(share):
    """What a site sealed for others, as words."""
    said = decode_body(share, Contributed)
    sealed = b"".join((said.first, said.dealt, said.again, said.rest))
    return np.frombuffer(sealed[: len(sealed) // 8 * 8], dtype="<u8")


def any_sums(predicates, verdicts, own, share):
    """What sites that pretend add to some words so that these verdicts are true of the sums.

    No square decides: its word is next to nothing, and what is taken from it as large as can be.
    Verdicts are those of the lines of each test.

    Args:
        predicates: What is asked of the sums.
        verdicts: The bits, shape (tests,).
        own: What the other sites answer, shape (words,).
        share: The share of the sums' bounds that those who pretend can fill.
    """
    low, high = (np.trunc(share * ends).astype(np.int64) for ends in
                 (predicates.lowest, predicates.highest))  # fmt: skip
    lines = [([], int(constant)) for constant in predicates.constants]
    for place, word, factor in predicates.linear.tolist():
        lines[place][0].append((word, factor))
    square = set(predicates.quadratic[:, 1:3].ravel().tolist())
    forms = set(predicates.quadratic[:, 0].tolist())
    taken = sorted({word for place in forms for word, _ in lines[place][0]} - square)
    for place in forms:
        lines[place] = ([], 0)  # does not hold
    ends = np.cumsum(predicates.sizes).tolist()
    tests = [lines[end - size : end] for end, size in zip(ends, predicates.sizes, strict=True)]
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, test in enumerate(tests):
        words = tuple(sorted({word for terms, _ in test for word, _ in terms}))
        met = [other for other in groups if set(other) & set(words)]
        members = [one for other in met for one in groups.pop(other)]
        groups[tuple(sorted({*words, *itertools.chain(*met)}))] = [*members, place]
    added = np.zeros_like(own)
    added[list(square)] = -own[list(square)]
    added[taken] = high[taken]
    for words, members in groups.items():
        if len(words) > FEW_WORDS and square.isdisjoint(words):
            chosen = _solved(words, [tests[place] for place in members], verdicts[members], own)
            added[list(words)] = chosen
            continue
        some = [
            [-int(own[word]), 1 - int(own[word])]
            if word in square
            else _candidates(word, own, low, high, members, tests)
            for word in words
        ]
        added[list(words)] = next(
            choice
            for choice in itertools.product(*some)
            if all(
                _holds(tests[place], dict(zip(words, choice, strict=True)), own) == verdicts[place]
                for place in members
            )
        )
    assert (holds(predicates, own + added) == verdicts).all()
    return added


def _solved(words, tests, verdicts, own):
    """What is added to words that many tests of one line share: a point that the bits allow."""
    column = {word: place for place, word in enumerate(words)}
    forms = np.zeros((len(tests), len(words)))
    least = np.zeros(len(tests))
    for row, (((terms, constant),), dependent) in enumerate(zip(tests, verdicts, strict=True)):
        sign = 1 if dependent else -1
        for word, factor in terms:
            forms[row, column[word]] = sign * factor
        least[row] = (1 if dependent else 0) - sign * constant
    # as far from every threshold as can be, so that rounding turns no bit
    margin = np.ones((len(tests), 1))
    found = optimize.linprog(
        np.append(np.zeros(len(words)), -1.0),
        A_ub=np.hstack([-forms, margin]),
        b_ub=-least,
        bounds=[(None, None)] * len(words) + [(0.0, 1000.0)],
    )
    assert found.success, found.message
    return np.rint(found.x[:-1]).astype(np.int64) - own[list(words)]


def _candidates(word, own, low, high, members, tests):
    """What may be added to a word: its ends, nothing, and what reaches the constants just so."""
    found = {int(low[word]), int(high[word]), 0, 1, -1}
    for place in members:
        for terms, constant in tests[place]:
            factor = dict(terms).get(word, 0)
            if factor:
                edge = -constant // factor - int(own[word])
                found |= {edge - 1, edge, edge + 1}
    return sorted((own for own in found if low[word] <= own <= high[word]), key=abs)


def _holds(test, added, own):
    return any(
        sum(factor * (int(own[word]) + added[word]) for word, factor in terms) + constant > 0
        for terms, constant in test
    )
