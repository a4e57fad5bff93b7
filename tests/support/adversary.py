"""A coordinator and sites that can be told to lie, and an engine that records all it carries."""

import contextlib
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pandas as pd
from driving import plain_sum
from scripted import Installed, Scripts, about
from site_logs import refused

from cipherdag.federation import in_process
from cipherdag.federation.simulated import Federation
from cipherdag.federation.simulated import _in_one_process as policy_here
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import decode, encode, pack
from cipherdag.program.program import Program
from cipherdag.program.replay import Replay
from cipherdag.program.run import carry_out
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import (
    Ask,
    Closed,
    Secured,
    Share,
    Unmask,
    Unmasked,
    content_digest,
    declaration,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.protocol.session import Session
from cipherdag.protocol.set_up_messages import Links, Seals
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.verdicts import EdgeVerdicts
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime

ROWS = (1237, 1429, 1613)
NAMES = ("Cholesterol", "Theatre", "Theft", "Zyrtec-dose", "Ängina")
FULL = Skeleton.from_matrix(~np.eye(5, dtype=bool))
CATEGORIES = ("never-smoked", "smokes-daily")


def patients(rows, seed):
    """Discrete data with telling names and categories; a chain with some noise."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((rows, len(NAMES)), dtype=int)
    codes[:, 0] = rng.integers(0, 2, rows)
    for column in range(1, len(NAMES)):
        flip = rng.random(rows) < 0.2
        codes[:, column] = codes[:, column - 1] ^ flip
    return pd.DataFrame(np.array(CATEGORIES)[codes], columns=list(NAMES))


def hospitals(protection="masking", policy=None, rows=ROWS):
    own, sites = policy or policy_here(None, protection), loaded(tuple(rows)).sites
    sites = tuple(replace(site, policy=own) for site in sites)
    return Federation(sites=sites, protection=protection, device="cpu")


@cache
def loaded(rows):
    data = {f"hospital-{k}": patients(n, k) for k, n in enumerate(rows)}
    return Federation.simulate(data, device="cpu")


class RecordingEngine(LocalEngine):
    """Delivers faithfully, remembers everything, and lets a liar change messages on the way.

    ``tamper(operation, site, message)`` changes what a site receives, ``forge(operation, site,
    reply)`` what the coordinator receives.
    """

    def __init__(self, handlers, tamper=None, forge=None):
        super().__init__(handlers)
        self.sent = []
        self.received = []
        self.tamper = tamper or (lambda operation, site, message: message)
        self.forge = forge or (lambda operation, site, reply: reply)

    def call(self, operation, messages, *, timeout_s):
        messages = {s: self.tamper(operation, s, m) for s, m in messages.items()}
        self.sent += [(operation, s, m) for s, m in messages.items()]
        replies = super().call(operation, messages, timeout_s=timeout_s)
        replies = {s: self.forge(operation, s, r) for s, r in replies.items()}
        self.received += [(operation, s, r) for s, r in replies.items()]
        return replies


def recorded(federation, tamper=None, forge=None):
    """The federation with a recording engine, and the list the engine will be put in."""
    engines = []

    def wire(handlers):
        engines.append(RecordingEngine(handlers, tamper, forge))
        return engines[-1]

    return replace(federation, wire=wire), engines


class Ward:
    """Sites, a coordinator's key and a session, all in the test's hands.

    Its plans ask what the test asks, or what an algorithm of some parameters asks.
    """

    def __init__(self, protection="masking", n_sites=3, policy=None, algorithm=None, labels=()):
        self.labels = labels
        own = policy or Policy(allow_unprotected=protection == "none")
        rows = (ROWS * ((n_sites + 2) // 3))[:n_sites]
        self.federation = hospitals(protection, own, rows)
        self.tables = {site.name: site.table for site in self.federation.sites}
        self.coordinator = SigningIdentity.generate()
        self.identities = {name: SigningIdentity.generate() for name in self.tables}
        self.pinned = {name: key.public for name, key in self.identities.items()}
        self.scripts = Scripts() if algorithm is None else Installed()
        self.about = {} if algorithm is None else about(algorithm)
        self.ledgers = {name: Ledger(name, key) for name, key in self.identities.items()}
        self.runtimes = {name: self.runtime(name) for name in self.tables}
        self.engine = RecordingEngine({n: r.handle for n, r in self.runtimes.items()})
        self.policy = own
        self.session = self.new_session(protection)

    @classmethod
    def opened(cls, *about, **more):
        """With its session open."""
        ward = cls(*about, **more)
        ward.session.open()
        return ward

    def runtime(self, name, **changes):
        table = self.tables[name]
        profile = SiteProfile(
            name=name,
            identity=self.identities[name],
            coordinator=self.coordinator.public,
            pinned=self.pinned,
            schema=table.schema.canonical(),
            rows=table.rows,
            labels=self.labels,
        )
        respondent = SiteView.of_table(table, min_cell_size=0, device="cpu")
        policy = self.federation.sites[0].policy
        return SiteRuntime(
            replace(profile, **changes),
            respondent,
            policy,
            self.ledgers[name],
            programs=self.scripts.program,
        )

    def new_session(self, protection="masking", members=None, journal=None, **options):
        cohort = members or [Member(name=n, identity=k) for n, k in self.pinned.items()]
        own = {key: options.pop(key) for key in ("colluders", "algorithm") if key in options}
        plan = (journal.plan if journal is not None else None) or make_plan(
            cohort, **({"protection": protection, "algorithm": "fedpc"} | self.about | own)
        )
        return self.scripts.session(self.engine, self.coordinator, plan, journal=journal, **options)

    def asking(self, question, **about):
        """The request that a coordinator sends for a question which the plan asks."""
        return self.scripts.asking(self.session._plan, question, **about)

    def message(self, topic, body, *, key=None, session=None):
        """Bytes as this coordinator, or another key, would sign them."""
        return seal_envelope(
            key or self.coordinator,
            session=session or self.session._plan.session,
            sender="coordinator",
            topic=topic,
            body=body,
        )


REPLIES = {
    "offers": Seals,
    "chances": Links,
    "ask": Share,
    "unmask": Unmasked,
    "secure": Secured,
    "finish": Closed,
}


def send_instead(ward, site, operation="ask", **changes):
    """From now on the site signs other replies than it made; each change is made of the old."""

    def forge(asked, sender, reply):
        if (asked, sender) != (operation, site):
            return reply
        envelope = read_envelope(reply)
        said = decode(envelope.body, REPLIES[operation])
        return seal_envelope(
            ward.identities[site],
            session=ward.session._plan.session,
            sender=site,
            topic=envelope.topic,
            body=msgspec.structs.replace(said, **{key: new(said) for key, new in changes.items()}),
        )

    ward.engine.forge = forge


def tags_for(receiver, shares, graph=None):
    """What the other sites asked told one of them with their shares, in their order."""
    found = []
    for sender in shares:
        near = shares if graph is None else graph.neighbours(sender)
        others = [site for site in shares if site != sender and site in near]
        found += [shares[sender].tags[others.index(receiver)]] if receiver in others else []
    return tuple(found)


def votes(alpha=0.01):
    return EdgeVotes(skeleton=FULL, layer=0, test=CITestSpec(alpha=alpha))


def verdicts(alpha=0.01, n_sites=4):
    """Which edges fall, by a majority of at least three."""
    needed = tuple(0 if able < 3 else able // 2 + 1 for able in range(n_sites + 1))
    return EdgeVerdicts(votes(alpha), needed)


def silence(ward, site, operation, *, after=False):
    """From ``operation`` on the site is dead; ``after``: it still does the work, unheard."""
    dead = set()
    honest = ward.engine.call

    def call(name, messages, *, timeout_s):
        if name == operation and site in messages:
            dead.add(site)
            if after:
                honest(name, {site: messages[site]}, timeout_s=timeout_s)
        alive = {s: m for s, m in messages.items() if s not in dead}
        replies = honest(name, alive, timeout_s=timeout_s)
        return replies | {s: SiteFailure("timeout") for s in messages if s in dead}

    ward.engine.call = call


def expected(ward, question, sites):
    return plain_sum(question, [ward.runtimes[site]._respondent for site in sites])


class Split:
    """A round stopped after the shares, so that a test can play the lying coordinator."""

    def __init__(self, protection="masking", n_sites=4):
        self.ward = Ward(protection, n_sites=n_sites)
        self.ward.session.open()
        self.graph = self.ward.session._graph
        self.everyone = tuple(range(n_sites))
        self.question = votes()
        ask = self.ward.asking(self.question)
        self.shares = self.call("ask", dict.fromkeys(self.everyone, ask), Share)
        self.digest = self.shares[0].digest
        self.declared = self.declaration(ask, self.digest)

    def declaration(self, ask, digest):
        """What a round's shares are for, as coordinator and sites have it."""
        return declaration(self.question, ask.participants, digest, self.ward.session._plan)

    def runtime(self, position):
        return list(self.ward.runtimes.values())[position]

    def reply(self, operation, position, body):
        return self.runtime(position).handle(operation, self.ward.message(operation, body))

    def call(self, operation, bodies, kind):
        return {
            p: decode(read_envelope(self.reply(operation, p, b)).body, kind)
            for p, b in bodies.items()
        }

    def same(self, number, participants=None):
        """The request for the question again."""
        return self.ward.asking(self.question, number=number, participants=participants)

    def other(self, question, number=2, participants=None):
        """The request for a question that the plan does not ask."""
        same = self.same(number, participants)
        return msgspec.structs.replace(same, content=content_digest(question))

    def following(self, question, shares, number=2, participants=None):
        """The request for the plan's next question, with the sum of these shares."""
        about = {"number": number, "participants": participants, "step": 2}
        return self.ward.asking(question, previous=self.opened(shares), **about)

    def opened(self, shares):
        """The sum of the shares of all sites asked, as the coordinator sends it to the sites."""
        seeds = self.call("unmask", self.unmask(shares), Unmasked)
        digest = next(iter(shares.values())).digest
        ask = self.runtime(next(iter(shares)))._current.rounds.current.ask
        declared = self.declaration(ask, digest)
        coordinator = self.ward.session._protection
        combined = coordinator.combine({p: s.share for p, s in shares.items()}, declared)
        return pack(
            coordinator.open(combined, {p: s.seed for p, s in seeds.items()}, declared).content
        )

    def ask(self, number, participants):
        """The question again, of some sites; their shares."""
        return self.call("ask", dict.fromkeys(participants, self.same(number, participants)), Share)

    def unmask(self, shares=None):
        """The request for each site asked, with the tags that the others made for it."""
        shares = shares or self.shares
        return {
            site: Unmask(share.digest, tags_for(site, shares, self.graph))
            for site, share in shares.items()
        }


def every_integer(message):
    """All integers anywhere in a message, envelopes and bodies opened."""
    found = set()

    def walk(item):
        if isinstance(item, bool):
            return
        if isinstance(item, int):
            found.add(item)
        elif isinstance(item, float):
            if item.is_integer():
                found.add(int(item))
        elif isinstance(item, dict):
            for value in item.values():
                walk(value)
        elif isinstance(item, list | tuple):
            for value in item:
                walk(value)
        elif isinstance(item, bytes):
            try:
                walk(msgspec.msgpack.decode(item))
            except (msgspec.DecodeError, ValueError, RecursionError):
                return

    walk(message)
    return found


__all__ = ["CATEGORIES", "NAMES", "ROWS", "RecordingEngine", "Split", "Ward", "encode",
           "every_integer", "expected", "hospitals", "patients", "recorded", "refused",
           "silence", "tags_for", "verdicts", "votes"]  # fmt: skip


class CrashError(Exception):
    """The coordinator's process ends here."""


class CrashingEngine(RecordingEngine):
    """Delivers the ``count``-th call of an operation and never tells what came back."""

    def __init__(self, handlers, operation, count):
        super().__init__(handlers)
        self._operation, self._left = operation, count

    def call(self, operation, messages, *, timeout_s):
        replies = super().call(operation, messages, timeout_s=timeout_s)
        self._left -= operation == self._operation
        if self._left == 0:
            raise CrashError
        return replies


def crash_and_resume(trial, path, *, after):
    """A run whose coordinator crashes after so many rounds and goes on by its journal."""
    federation = trial.federation()
    coordinator = SigningIdentity.generate()
    keys = {site.name: SigningIdentity.generate() for site in federation.sites}
    pinned = {name: key.public for name, key in keys.items()}
    names = federation.sites[0].table.schema.names
    algorithm = trial.algorithm

    def a_run_of_its_own(_, facts):
        named = replace(facts, names=names)
        return Program(Replay(algorithm.ask(named)), named)

    handlers = {
        site.name: in_process._runtime(
            site,
            keys[site.name],
            coordinator.public,
            pinned,
            Ledger(site.name, keys[site.name]),
            federation.device,
            a_run_of_its_own,
            in_process.SharedReading(coordinator.public),
        ).handle
        for site in federation.sites
    }
    plan = make_plan(
        [Member(name=name, identity=key) for name, key in pinned.items()],
        algorithm=algorithm.name,
        protection=federation.protection,
        seed=1,
    )

    def life(engine):
        session = Session(engine, coordinator, plan, journal=Journal(path))
        return carry_out(session, plan, a_run_of_its_own)

    with contextlib.suppress(CrashError):
        life(CrashingEngine(handlers, "ask", after + 1))
    again = RecordingEngine(handlers)
    done = life(again)
    # a round of bits that was cut short is a second attempt at its step
    asked = (message for operation, _, message in again.sent if operation == "ask")
    rounds = {decode(read_envelope(message).body, Ask).step for message in asked}
    assert len(rounds) == len(done.rounds) - after, "a round that had ended was asked again"
    return done
