"""All parties of secure tests in one process, and a hook that alters what any of them sends."""

import hashlib
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from cipherdag.errors import ParameterError
from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.privacy.mpc.batch import COORDINATOR, Batch, Roles
from cipherdag.privacy.mpc.messages import Passed, Relay
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.wire import decode, encode

SESSION = hashlib.sha256(b"session").digest()
QUESTION = hashlib.sha256(b"question").digest()
BEACON = hashlib.sha256(b"beacon").digest()
IDENTITIES = [SigningIdentity.generate() for _ in range(4)]
"""Signing costs little, making keys more: four are enough for cohorts of any size."""


def fixed_roles(n_sites):
    """Dealer 0, twin 1, holders 2 and 3, as far as there are sites."""
    if n_sites == 2:
        return Roles(COORDINATOR, None, (0, 1))
    return Roles(0, None, (1, 2)) if n_sites == 3 else Roles(0, 1, (2, 3))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether one form is positive.

    Attributes:
        quadratic: (word, word, coefficient) of every product; a square names a word twice.
        linear: (word, coefficient).
        constant: What is added.
    """

    quadratic: tuple[tuple[int, int, int], ...] = ()
    linear: tuple[tuple[int, int], ...] = ()
    constant: int = 0


def spelled_out(lowest, highest, tests):
    """The predicates of tests that are lists of comparisons."""
    forms = list(chain.from_iterable(tests))
    quadratic = [
        (at, min(i, j), max(i, j), factor)
        for at, form in enumerate(forms)
        for i, j, factor in form.quadratic
    ]
    linear = [(at, j, factor) for at, form in enumerate(forms) for j, factor in form.linear]
    try:
        return Predicates(
            np.array(lowest, dtype=np.int64),
            np.array(highest, dtype=np.int64),
            np.array([len(test) for test in tests], dtype=np.int64),
            np.array(sorted(quadratic), dtype=np.int64).reshape(-1, 4),
            np.array(sorted(linear), dtype=np.int64).reshape(-1, 3),
            np.array([form.constant for form in forms], dtype=np.int64),
        )
    except OverflowError:
        raise ParameterError("a bound, coefficient or constant reaches 2**62") from None


def score_tests(sizes, *, scores, variances, constant=0):
    """Tests of "U^2 > V + constant for any component", within these bounds."""
    count = int(np.sum(sizes))
    forms = [Comparison(((k, k, 1),), ((count + k, -1),), -constant) for k in range(count)]
    ends = np.cumsum([0, *sizes]).tolist()
    tests = [forms[first:end] for first, end in pairwise(ends)]
    lowest, highest = [-scores] * count + [0] * count, [scores] * count + [variances] * count
    return spelled_out(lowest, highest, tests)


def holds(predicates, sums):
    """Every test's bit from the very sums, in Python integers."""
    forms = [int(item) for item in predicates.constants]
    x = [int(item) for item in sums]
    for place, i, j, item in predicates.quadratic.tolist():
        forms[place] += item * x[i] * x[j]
    for place, j, item in predicates.linear.tolist():
        forms[place] += item * x[j]
    ends = np.cumsum(predicates.sizes).tolist()
    starts = predicates.starts.tolist()
    return np.array([max(forms[a:b]) > 0 for a, b in zip(starts, ends, strict=True)])


def split(rng, predicates, sums, n_sites):
    """Vectors of so many sites that add up to the sums, each within the bounds of the sums."""
    vectors = np.zeros((n_sites, len(sums)), dtype=np.int64)
    left = np.array(sums, dtype=np.int64)
    for vector in vectors[:-1]:
        low = np.maximum(predicates.lowest, left - predicates.highest)
        high = np.minimum(predicates.highest, left - predicates.lowest)
        vector[:] = rng.integers(low, high, endpoint=True)
        left = left - vector
    vectors[-1] = left
    return vectors


class Cohort:
    """Parties of one session; `run` takes a batch from vectors to bits.

    ``hook(step, party, message)`` may alter a message that a party sends, ``inward`` one that it is
    sent; ``clock`` and ``sent`` have seconds and bytes of every step and party.
    """

    def __init__(self, n_sites, roles=None, random_bytes=os.urandom, linked=None):
        self.n_sites = n_sites
        self.roles = roles or fixed_roles(n_sites)
        self.names = [f"site-{k}" for k in range(n_sites)]
        self.identities = [IDENTITIES[k % 4] for k in range(n_sites)]
        parties = [*range(n_sites), *([COORDINATOR] if self.roles.dealer == COORDINATOR else [])]
        hubs = {self.roles.dealer, *self.roles.sites} if linked is None else linked
        keys = {}
        for item in parties:
            for other in hubs - {item}:
                pair = min(item, other), max(item, other)
                keys.setdefault(pair, hashlib.sha256(repr(pair).encode()).digest())
        self.keys = {item: {} for item in parties}
        for (first, second), key in keys.items():
            self.keys[first][second] = self.keys[second][first] = PairKey(key)
        self.parties = {item: self.party(item, random_bytes) for item in parties}
        self.clock, self.sent = defaultdict(float), defaultdict(int)

    def party(self, item, random_bytes=os.urandom):
        """A fresh object of one party."""
        identity = None if item == COORDINATOR else self.identities[item]
        return Party(
            SESSION, item, self.keys[item], self.roles, self.names, identity, random_bytes
        )  # fmt: skip

    def batch(self, predicates, number=1, attempt=0, sites=None):
        """A batch over all sites."""
        sites = tuple(range(self.n_sites)) if sites is None else tuple(sites)
        return Batch(SESSION, QUESTION, number, attempt, sites, self.roles, predicates)

    def run(self, batch, vectors, hook=None, inward=None):
        """The bits, as every site accepts them."""
        content = self.opened(batch, vectors, hook, inward)
        found = [
            self.parties[site].accept(content, batch, [item.public for item in self.identities])
            for site in batch.sites
        ]
        assert all((item == found[0]).all() for item in found)
        return found[0]

    def opened(self, batch, vectors, hook=None, inward=None):
        """`Verdicts` of a batch."""
        hook = hook or (lambda step, party, message: message)
        inward = inward or (lambda step, party, message: message)
        relay = Relay(batch, self.names)
        members = [*batch.sites]
        members += [COORDINATOR] if batch.roles.dealer == COORDINATOR else []
        self.seats = {item: self.parties[item].begin(batch) for item in members}
        replies = {
            item: hook(
                "share", item, self.timed("share", item, self.seats[item].share, vectors[item])
            )
            for item in batch.sites
        }
        for step in ("prepare", "square", "compare", "open"):
            requests = self.timed(f"relay {step}", "relay", getattr(relay, step), replies)
            replies = {}
            for item, request in requests.items():
                verb = getattr(self.seats[item], step)
                reply = self.timed(step, item, verb, inward(step, item, request))
                replies[item] = hook(step, item, reply)
        return hook("combine", "relay", relay.combine(replies))

    def resealed(self, step, party, message, change):
        """What a holder that deviates sends: its share changed, and sealed anew."""
        seat, (first, second) = self.seats[party], self.roles.holders
        other = second if party == first else first
        kind = {"prepare": "masked sums", "square": "masked forms", "compare": "labels"}[step]
        context = seat._context(kind, party, other, seat._exchanged)
        content = seat._keys[other].unseal(decode(message, Passed).content, context)
        return encode(Passed(seat._keys[other].seal(change(content), context)))

    def timed(self, step, party, verb, *arguments):
        """Call a verb and note what it took and what it sent."""
        before = time.process_time()
        reply = verb(*arguments)
        self.clock[step, party] += time.process_time() - before
        if isinstance(reply, bytes):
            self.sent[step, party] += len(reply)
        return reply


__all__ = [
    "COORDINATOR",
    "Cohort",
    "Comparison",
    "Predicates",
    "holds",
    "score_tests",
    "spelled_out",
    "split",
]
