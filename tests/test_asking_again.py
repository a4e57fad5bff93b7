"""Rounds asked again and again of other sites, and what a coordinator may make of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, permutations, product

import numpy as np
import pytest
from adversary import Split, expected, votes

from cipherdag.errors import ShareError
from cipherdag.protocol.messages import (
    Ask,
    Recover,
    Recovered,
    Share,
    Unmasked,
    declaration,
    fewest_survivors,
)


class Attempt:
    """A lying coordinator's attempt at the question of a `Split`; the last site colludes with it.

    The honest sites asked have answered; the colluder answers with zeros, as often as it likes.
    """

    def __init__(self, lie, number, participants):
        self.lie, self.colluder = lie, lie.everyone[-1]
        self.ask = Ask(number=number, participants=participants, question=lie.question)
        self.honest = [site for site in participants if site != self.colluder]
        self.shares = lie.call("ask", dict.fromkeys(self.honest, self.ask), Share)
        digest = self.shares[self.honest[0]].digest
        self.declared = lie.declaration(self.ask, digest)
        rounds = lie.runtime(self.colluder)._current.rounds
        self.keys = rounds.aggregation
        self.shares[self.colluder] = Share(
            digest=digest,
            share=self.keys.share(np.zeros(self.declared.length), self.declared),
            escrow=self.keys.escrow(self.declared),
            tags=tuple(rounds.agreement.tag(site, digest) for site in self.honest),
        )
        self.seeds = {self.colluder: self.keys.unmask(self.declared)}
        self.colluders_pieces = {site: self.pieces(site, ()) for site in self.honest}

    def release(self, *sites):
        requests = self.lie.unmask(self.shares)
        replies = self.lie.call("unmask", {site: requests[site] for site in sites}, Unmasked)
        self.seeds |= {site: reply.seed for site, reply in replies.items()}

    def pieces(self, vanished, helpers):
        """What helpers, and the colluder, hold of the seed of a site that released none."""
        others = [site for site in self.declared.sites if site != vanished]
        sealed = dict(zip(others, self.shares[vanished].escrow, strict=False))
        if not sealed:
            return {}
        bodies = {h: Recover(self.declared.digest, vanished, sealed[h]) for h in helpers}
        found = {h: r.piece for h, r in self.lie.call("recover", bodies, Recovered).items()}
        own = self.keys.recover(vanished, sealed[self.colluder], self.declared)
        return found | {self.colluder: own}

    def recover(self, vanished, *helpers):
        pieces = self.pieces(vanished, helpers)
        coordinator = self.lie.ward.session._aggregation
        self.seeds[vanished] = coordinator.rebuild(pieces, self.declared)

    def sum(self):
        coordinator = self.lie.ward.session._aggregation
        shares = {site: share.share for site, share in self.shares.items()}
        combined = coordinator.combine(shares, self.declared)
        return coordinator.open(combined, self.seeds, self.declared).values


def test_two_attempts_of_the_smallest_size_cannot_both_be_opened():
    """Of four sites 3 colludes; 1 answers in both attempts and releases in the second only."""
    lie = Split()
    names = list(lie.ward.tables)
    first = Attempt(lie, 2, (0, 1, 3))
    first.release(0)
    with pytest.raises(ShareError):
        first.recover(1, 0)
    lie.call("ask", {2: Ask(number=2, participants=(1, 2, 3), question=lie.question)}, Share)
    second = Attempt(lie, 3, (1, 2, 3))
    second.release(1, 2)
    assert (second.sum() == expected(lie.ward, lie.question, names[1:3])).all()


# ------------------------------------------------------------------ all orders of messages


@dataclass(frozen=True)
class Site:
    """What an honest site remembers of one question; ``asked`` holds its attempts by number."""

    asked: tuple[frozenset[int] | None, ...] = ()
    released: int | None = None

    def steps(self, index, cohorts):
        """The states after one message: asked this or something else, or told to unmask."""
        for sites in (None, *cohorts):
            if sites is None or (index in sites and self.released is None):
                yield replace(self, asked=(*self.asked, sites))
        if self.asked and self.asked[-1] is not None:
            yield replace(self, released=len(self.asked) - 1)


def views(index, cohorts, attempts):
    """For every order of messages: for each of two attempts, was it answered and released?"""
    states, reached = {Site()}, {Site()}
    while states:
        after = {new for state in states for new in state.steps(index, cohorts)}
        states = {new for new in after - reached if len(new.asked) <= 3}
        reached |= states
    return {
        tuple(
            (number < len(site.asked) and site.asked[number] == sites, site.released == number)
            for number, sites in attempts
        )
        for site in reached
    }


@pytest.mark.parametrize(("n_sites", "colluders"), [(3, 1), (4, 0), (4, 1), (5, 1), (5, 2)])
def test_no_order_of_messages_opens_two_attempts_at_one_question(n_sites, colluders):
    """The last sites collude. Up to three attempts a site; any two of them over other sites."""
    fewest = fewest_survivors(n_sites, colluders)
    everyone = range(n_sites)
    honest = everyone[: n_sites - colluders]
    cohorts = [
        frozenset(chosen)
        for size in range(fewest, n_sites + 1)
        for chosen in combinations(everyone, size)
    ]

    def opens(sites, seen):
        ask = Ask(number=1, participants=tuple(sorted(sites)), question=votes())
        threshold = declaration(ask, bytes(32), n_sites, colluders).threshold
        released = sum(seen[site][1] for site in honest if site in sites)
        enough = threshold and released + len(sites - set(honest)) >= threshold
        return released == len(sites & set(honest)) or enough

    for one, other in permutations(cohorts, 2):
        for first, second in ((0, 0), (0, 1), (0, 2), (1, 2)):
            attempts = ((first, one), (second, other))
            # an attempt says nothing unless all honest sites asked answered it
            possible = [
                [
                    seen
                    for seen in views(site, (one, other), attempts)
                    if seen[0][0] >= (site in one) and seen[1][0] >= (site in other)
                ]
                for site in honest
            ]
            for seen in product(*possible):
                both = [[view[number] for view in seen] for number in (0, 1)]
                assert not (opens(one, both[0]) and opens(other, both[1]))
