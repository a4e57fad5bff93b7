"""Rounds asked again and again of other sites, and what a coordinator may make of that."""

from dataclasses import dataclass, replace
from itertools import combinations, permutations, product
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from adversary import CrashError, Split, Ward, expected, refused, send_instead, silence, votes

from cipherdag.errors import (
    CohortError,
    InconsistentQuestionError,
    KeyAgreementError,
    ReplayError,
    ShareError,
    SiteUnreachableError,
)
from cipherdag.privacy.key_graph import KeyBounds, KeyGraph
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import (
    Ask,
    Recover,
    Recovered,
    Share,
    Unmasked,
    declaration,
    read_envelope,
)
from cipherdag.protocol.plan import fewest_survivors


class Attempt:
    """A lying coordinator's attempt at the question of a `Split`; the last site colludes with it.

    The honest sites asked have answered; the colluder answers with zeros, as often as it likes.
    """

    def __init__(self, lie, number, participants):
        self.lie, self.colluder = lie, lie.everyone[-1]
        self.ask = lie.same(number, participants)
        self.honest = [site for site in participants if site != self.colluder]
        self.shares = lie.call("ask", dict.fromkeys(self.honest, self.ask), Share)
        digest = self.shares[self.honest[0]].digest
        self.declared = lie.declaration(self.ask, digest)
        rounds = lie.runtime(self.colluder)._current.rounds
        self.keys = rounds.keys.aggregation
        self.shares[self.colluder] = Share(
            digest=digest,
            share=self.keys.share(np.zeros(self.declared.length), self.declared),
            escrow=self.keys.escrow(self.declared),
            tags=rounds.keys.agreement.tags(self.honest, digest),
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
        coordinator = self.lie.ward.session._protection
        self.seeds[vanished] = coordinator.rebuild(pieces, self.declared)

    def sum(self):
        coordinator = self.lie.ward.session._protection
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
    lie.call("ask", {2: lie.same(2, (1, 2, 3))}, Share)
    second = Attempt(lie, 3, (1, 2, 3))
    second.release(1, 2)
    assert (second.sum() == expected(lie.ward, lie.question, names[1:3])).all()


def test_the_plan_s_colluders_bind_sites_with_lax_policies():
    """A coordinator that names few survivors all the same is not believed."""
    ward = Ward(n_sites=6)
    plan = msgspec.structs.replace(ward.session._plan, colluders=3, min_survivors=1)
    ward.session = ward.scripts.session(ward.engine, ward.coordinator, plan)
    ward.session.open()
    respondents = list(ward.runtimes.values())
    for participants, answered in (((0, 1, 2, 3), False), ((0, 1, 2, 3, 4), True)):
        ask = ward.asking(votes(), participants=participants)
        reply = respondents[0].handle("ask", ward.message("ask", ask))
        assert (read_envelope(reply).topic == "share") == answered
        assert answered or refused(reply) is CohortError


def test_sites_that_leave_while_a_sum_is_opened_end_the_run_by_name():
    ward = Ward.opened("bfv", n_sites=4)
    silence(ward, "hospital-2", "unmask")
    silence(ward, "hospital-1", "open")
    assert (ward.session.ask(votes()) == expected(ward, votes(), list(ward.tables))).all()
    with pytest.raises(SiteUnreachableError, match="2 of 4 sites remain, 3 are needed") as caught:
        ward.session.ask(votes(0.2))
    assert caught.value.site == "hospital-2"


@pytest.mark.parametrize(
    "pieces", [lambda share: (), lambda share: tuple(bytes(len(p)) for p in share.escrow)]
)
def test_a_site_that_leaves_with_bad_pieces_behind_it_is_named(pieces):
    ward = Ward.opened(n_sites=4)
    silence(ward, "hospital-1", "unmask")
    send_instead(ward, "hospital-1", escrow=pieces)
    with pytest.raises((KeyAgreementError, ShareError), match="hospital-1"):
        ward.session.ask(votes())


def test_a_site_whose_word_has_a_wrong_length_is_left_out():
    ward = Ward.opened(n_sites=4)
    send_instead(ward, "hospital-1", tags=lambda share: (*share.tags[:-1], bytes(1 << 20)))
    others = [site for site in ward.tables if site != "hospital-1"]
    assert (ward.session.ask(votes()) == expected(ward, votes(), others)).all()
    assert "too long" in ward.session.dropouts[0].reason


def test_a_site_whose_word_is_false_stops_the_run_and_is_named():
    ward = Ward.opened(n_sites=4)
    send_instead(ward, "hospital-1", tags=lambda share: tuple(bytes(16) for _ in share.tags))
    with pytest.raises(InconsistentQuestionError, match="'hospital-1' did not agree"):
        ward.session.ask(votes())


def test_what_was_said_of_a_round_given_up_is_not_said_again():
    """Old messages, byte for byte, after the question was asked again and opened."""
    ward = Ward.opened(n_sites=4)
    silence(ward, "hospital-2", "ask")
    ward.session.ask(votes())
    runtime = ward.runtimes["hospital-0"]
    messages = [(o, m) for o, s, m in ward.engine.sent if s == "hospital-0"]
    asks = [m for o, m in messages if o == "ask"]
    assert refused(runtime.handle("ask", asks[0])) is ReplayError
    (unmask,) = [m for o, m in messages if o == "unmask"]
    before = runtime.handle("unmask", unmask)
    ward.session.ask(votes(0.2))
    # only the very last message of a kind is answered again, by the bytes that it had before
    assert refused(runtime.handle("unmask", unmask)) is ReplayError
    assert refused(runtime.handle("ask", asks[1])) is ReplayError
    assert before in [r for o, s, r in ward.engine.received if s == "hospital-0"]


def test_a_sum_that_one_site_missed_is_remembered_by_enough_others():
    """A site said to have left is in the sum without releasing its seed, so it records nothing."""
    lie = Split()
    names = list(lie.ward.tables)
    attempt = Attempt(lie, 2, lie.everyone)
    attempt.release(0, 1)
    attempt.recover(2, 0, 1)
    assert (attempt.sum() == expected(lie.ward, lie.question, names[:3])).all()
    records = [lie.runtime(site)._sums for site in (0, 1, 2)]
    later = bytes(16)
    assert records[2].change(later, names[:3]) is None
    # whoever released its seed joins no run with other sites without a person, so that whatever
    # is combined with this sum still covers 0 and 1
    for size in (2, 3):
        for cohort in combinations((*names, "hospital-9"), size):
            for site in (0, 1):
                assert names[site] not in cohort or records[site].change(later, cohort) is not None


# the set-up is three calls and a round two; a site dies in the second round, for good
@pytest.mark.parametrize(("dies", "crashes"), list(product((6, 7), (6, 7, 8, 9))))
def test_a_crash_while_a_site_leaves_opens_no_second_sum(tmp_path, dies, crashes):
    ward = Ward(n_sites=5)
    honest, calls = ward.engine.call, []

    def call(operation, messages, *, timeout_s):
        calls.append(operation)
        number = len(calls)
        gone = "hospital-2" if number >= dies else ""
        alive = {site: m for site, m in messages.items() if site != gone}
        replies = honest(operation, alive, timeout_s=timeout_s)
        if number == crashes:
            raise CrashError
        return replies | dict.fromkeys(messages.keys() - alive.keys(), SiteFailure("timeout"))

    def life():
        session = ward.new_session(journal=Journal(tmp_path / "journal.jsonl"))
        session.open()
        return [session.ask(votes(alpha)) for alpha in (0.01, 0.05, 0.1)]

    ward.engine.call = call
    with pytest.raises(CrashError):
        life()
    # its share is lost with the coordinator, and the others released their seeds: no way on
    if dies == 7 and crashes in (7, 8):
        with pytest.raises(ReplayError, match="step 2 of the plan is not the next one"):
            life()
        return
    names = list(ward.tables)
    others = [site for site in names if site != "hospital-2"]
    summed = [names, names if (dies, crashes) == (7, 9) else others, others]
    for alpha, total, sites in zip((0.01, 0.05, 0.1), life(), summed, strict=True):
        assert (total == expected(ward, votes(alpha), sites)).all()


def test_an_answer_is_forgotten_once_it_is_in_a_sum():
    lie = Split()
    rounds = lie.runtime(0)._current.rounds
    assert rounds._answered is not None
    lie.call("unmask", lie.unmask(), Unmasked)
    assert rounds._answered is None


# ------------------------------------------------------------------ all orders of messages


@dataclass(frozen=True)
class Site:
    """An honest site: by number what it was asked, of whom, and which of these it released."""

    asked: tuple[tuple[str, frozenset[int]] | None, ...] = ()
    released: tuple[int, ...] = ()

    def steps(self, index, attempts):
        """The states after one more message: an attempt, something else, or to unmask."""
        opened = [self.asked[number] for number in self.released]
        for question, sites in attempts:
            fresh = all(question != other and sites <= present for other, present in opened)
            if index in sites and fresh:
                yield replace(self, asked=(*self.asked, (question, sites)))
        yield replace(self, asked=(*self.asked, None))
        last = len(self.asked) - 1
        if self.asked and self.asked[-1] is not None and last not in self.released:
            yield replace(self, released=(*self.released, last))


def views(index, attempts, numbers):
    """After any order of messages: was each attempt, under its number, answered and released?"""
    found, fresh = set(), {Site()}
    while fresh:
        found |= fresh
        after = {new for site in fresh for new in site.steps(index, attempts)} - found
        fresh = {site for site in after if len(site.asked) <= 3}
    return {
        tuple(
            (site.asked[n : n + 1] == (attempt,), n in site.released and site.asked[n] == attempt)
            for attempt, n in zip(attempts, numbers, strict=True)
        )
        for site in found
    }


def bounds_of(n_sites, colluders, sparse):
    return KeyBounds.fewest(n_sites, colluders, 1) if sparse else None


@pytest.mark.parametrize("questions", ["qq", "qr"])
@pytest.mark.parametrize(
    ("n_sites", "colluders", "sparse"),
    [(3, 1, False), (4, 0, False), (4, 1, False), (5, 1, False), (5, 2, False), (6, 1, True)],
)
def test_no_order_of_messages_opens_sums_to_subtract(n_sites, colluders, sparse, questions):
    """Of one question no two sums, and of two questions the later one over no other sites.

    The last sites collude, and each site is asked up to three times; keys lie on a ring, or every
    two sites share one.
    """
    bounds, everyone = bounds_of(n_sites, colluders, sparse), range(n_sites)
    fewest = n_sites - 1 if sparse else fewest_survivors(n_sites, colluders)
    graph = KeyGraph(tuple(everyone), bounds.degree) if sparse else KeyGraph.complete(n_sites)
    honest = set(everyone[: n_sites - colluders])
    sizes = range(fewest, n_sites + 1)
    cohorts = [frozenset(c) for size in sizes for c in combinations(everyone, size)]

    def opens(sites, seen):
        ask = Ask(number=1, participants=tuple(sorted(sites)), step=1, content=bytes(32))
        plan = SimpleNamespace(
            cohort=everyone, colluders=colluders, key_bounds=bounds, min_survivors=fewest
        )
        threshold = declaration(votes(), ask.participants, bytes(32), plan).threshold
        tell = {site for site in sites if site not in honest or seen[site]}
        return all(
            site in tell or 0 < threshold <= len(tell & set(graph.peers(site, sites)))
            for site in honest & sites
        )

    for one, other in permutations(cohorts, 2):
        attempts = tuple(zip(questions, (one, other), strict=True))
        for numbers in ((0, 0), (0, 1), (0, 2), (1, 2)):
            # a sum is noise unless all honest sites asked answered it
            possible = [
                [
                    seen
                    for seen in views(site, attempts, numbers)
                    if all(seen[k][0] or site not in attempts[k][1] for k in (0, 1))
                ]
                for site in sorted(honest)
            ]
            for seen in product(*possible):
                both = all(opens(attempts[k][1], [view[k][1] for view in seen]) for k in (0, 1))
                assert not both or (questions == "qr" and other < one)
