"""What sums over different sites tell by subtraction, and that groups of sites leave none of it."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from driving import overheard
from hypothesis import given, settings
from hypothesis import strategies as st
from overlapping import EXACT, LACKING, NAMES, chained, simulated, sites_of

from cipherdag import Federation, FedFCI, FedPC
from cipherdag.errors import (
    CohortError,
    KeyAgreementError,
    MissingColumnError,
    SchemaMismatchError,
    SiteUnreachableError,
)
from cipherdag.federation import in_process
from cipherdag.federation.site import Site
from cipherdag.protocol import plan as plans
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.protocol.messages import read_envelope
from cipherdag.questions.encodings import pack_blocks, segments
from cipherdag.questions.scores.score_sums import RaoSums
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.record.opened_sums import OpenedSum, differing_sites
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

ONE = ((), (), (), ("v11",))
"""The last of four sites alone lacks something."""


def declared(frames, lacking):
    """The schema that says what sites lack, whatever that tells of them."""
    schema = infer_schema([own for own in frames if len(own.columns) == len(NAMES)])
    sites = [f"site-{k}" for k in range(1, len(frames) + 1)]
    at = {
        name: tuple(site for site, less in zip(sites, lacking, strict=True) if name in less)
        for name in NAMES
    }
    return Schema(tuple(replace(own, unmeasured_at=at[own.name]) for own in schema.columns))


def federated(frames, schema):
    """A federation of sites as they are: `Federation.simulate` would form groups of them."""
    names = [f"site-{k}" for k in range(1, len(frames) + 1)]
    tables = [load_table(own, schema, site=n) for n, own in zip(names, frames, strict=True)]
    sites = tuple(Site(n, own, EXACT) for n, own in zip(names, tables, strict=True))
    return Federation(sites=sites, device="cpu")


def sums_over(frames, schema, test):
    """What stratified would open of a test, over the sites that have its variables."""
    counts, members = pack_blocks(
        [np.zeros((0, 2 + k), dtype=np.int64) for k in range(len(test) - 2)] + [np.array([test])]
    )
    question = RaoSums(categories=(0,) * 12, counts=counts, members=members, n_rows=1 << 12)
    answers = [
        SiteView.of_table(
            load_table(own, schema, site=f"site-{k}"), min_cell_size=0, device="cpu"
        ).answer(question)
        for k, own in enumerate(frames, start=1)
    ]
    sums = question.read(sum(answers))
    return sums.scores[0], sums.rows[0]


def test_without_groups_two_sums_disclose_one_site_s_correlation():
    rng = np.random.default_rng(1)
    frames = [chained(rng, n) for n in (800, 700, 900, 500)]
    frames[3]["v01"] += 2 * frames[3]["v00"]  # a correlation of its own
    frames = [own.drop(columns=list(less)) for own, less in zip(frames, ONE, strict=True)]
    schema = declared(frames, ONE)
    all_four, three = (sums_over(frames, schema, test) for test in ((0, 1), (0, 1, 11)))
    # n - 1 of one; each of three others has a number more, its square and seven hinges
    rows = all_four[1] - three[1] - 3 * 9 + 1
    own = (all_four[0] - three[0]) / rows
    assert rows == 500
    assert own == pytest.approx(np.corrcoef(frames[3]["v00"], frames[3]["v01"])[0, 1], abs=0.1)
    # so no plan over them can be made
    with pytest.raises(CohortError, match="differences of sums would tell"):
        federated(frames, schema).run(FedPC())


def test_sites_refuse_too_small_groups_whatever_the_plan_says(monkeypatch):
    rng = np.random.default_rng(1)
    frames = sites_of(rng, ONE)
    federation = federated(frames, declared(frames, ONE))
    monkeypatch.setattr(plans, "check_group_sizes", lambda *_: None)
    with pytest.raises(CohortError, match="'site-4' measured"):
        federation.run(FedPC())


@pytest.mark.parametrize("told", [lambda own: (), lambda own: (*own, 7), lambda own: own[::-1]])
def test_sites_refuse_a_plan_that_says_otherwise_than_their_schema(monkeypatch, told):
    federation = simulated(sites_of(np.random.default_rng(2)))
    member = plans.Member

    def lying(*, lacking, **others):
        return member(lacking=told(lacking), **others)

    monkeypatch.setattr(in_process, "Member", lying)
    with pytest.raises(KeyAgreementError, match="measured other variables than by the schema"):
        federation.run(FedPC())


def test_a_false_claim_of_columns_is_found_by_the_file_and_by_others():
    frames = sites_of(np.random.default_rng(2))
    honest = simulated(frames)
    schema = honest.sites[0].table.schema
    claims = Schema(
        tuple(replace(own, unmeasured_at=own.unmeasured_at[1:]) for own in schema.columns)
    )
    with pytest.raises(MissingColumnError, match="lacks this column") as caught:
        load_table(frames[0], claims, site="site-1")
    assert "unmeasured_at" in caught.value.remedy
    liar = Site("site-1", replace(honest.sites[0].table, schema=claims), EXACT)
    with pytest.raises((SchemaMismatchError, KeyAgreementError)):
        replace(honest, sites=(*honest.sites[1:], liar)).run(FedPC())


class Listening:
    """An engine of handlers that keeps every message, and at which one site may die."""

    def __init__(self, dies="", after=10**6):
        self.heard, self._dies, self._left = [], dies, after

    def wire(self, handlers):
        return LocalEngine(
            {name: partial(self.answer, name, own) for name, own in handlers.items()}
        )

    def answer(self, name, handler, operation, message):
        if name == self._dies and operation == "ask":
            self._left -= 1
            if self._left < 0:
                return SiteFailure("gone")
        reply = handler(operation, message)
        self.heard += [(name, operation, message), (name, operation, reply)]
        return reply


@pytest.mark.parametrize("algorithm", [FedPC(), FedFCI(max_cond_size=1)])
def test_no_name_travels_and_nothing_but_the_plan_says_who_lacks_what(algorithm):
    renamed = {own: f"marker-{own}-{own}" for own in NAMES}
    frames = [own.rename(columns=renamed) for own in sites_of(np.random.default_rng(7))]
    listening = Listening()
    Federation(sites=simulated(frames).sites, wire=listening.wire).run(algorithm)
    bodies = [read_envelope(message).body for _, _, message in listening.heard]
    assert len(bodies) > 50
    assert not any(b"marker" in body for body in bodies)
    saying = {
        op for (_, op, _), body in zip(listening.heard, bodies, strict=True) if b"lacking" in body
    }
    assert saying == {"invite"}


def test_sites_that_lack_a_variable_answer_zeros_to_its_tests():
    federation = simulated(sites_of(np.random.default_rng(8), discrete=range(0, 12, 2)))
    sites = [
        SiteView.of_table(site.table, min_cell_size=0, device="cpu") for site in federation.sites
    ]
    lacking = [own.table.schema.unmeasured_at(own.name) for own in federation.sites]
    told, heard, algorithm = 0, [], FedPC(evidence="fisher", test="regression")
    federation.ask("fedpc", lambda facts: overheard(algorithm.ask(facts), heard))
    for covered, _ in heard:
        question = covered.question
        if not hasattr(question, "combination"):
            continue
        for site, less in zip(sites, lacking, strict=True):
            parts = segments(question.encodings, site.answer(question))
            done = np.concatenate([np.isin(rows, less).any(axis=1) for rows in question.rows()])
            told += int(done.sum())
            assert not any(part[done].any() for part in parts)
    assert told > 100


@pytest.mark.parametrize("dies", ["site-1", "site-6"])
@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize(
    ("reveal", "said"),
    [("bits", "6 are needed|is the [a-z]+ of the secure tests"), ("sums", "6 are needed")],
)
def test_a_site_of_the_smallest_group_that_dies_ends_the_run_by_name(dies, after, reveal, said):
    """Nor can a site be spared that has a role of its own in secure tests, whatever its group."""
    sites = sites_of(np.random.default_rng(9))
    federation = simulated(sites, policy=replace(EXACT, reveal=reveal))
    listening = Listening(dies, after)
    with pytest.raises(SiteUnreachableError, match=f"'{dies}'.*({said})"):
        Federation(sites=federation.sites, wire=listening.wire).run(FedPC(reveal=reveal))


def test_of_larger_groups_a_site_may_die_and_no_more_than_are_spare():
    lacking = (LACKING[0],) * 4 + (LACKING[-1],) * 5
    allowing = replace(EXACT, reveal="sums")
    federation = simulated(sites_of(np.random.default_rng(10), lacking), policy=allowing)
    for dies in ("site-1", "site-9"):
        listening = Listening(dies, 2)
        run = Federation(sites=federation.sites, wire=listening.wire).run(FedPC(reveal="sums"))
        assert [left.site for left in run.dropouts] == [dies]
        assert run.dropouts[0].fewest == 8


def spans(one, other):
    """The fewest sites that sums of both runs tell apart, and sums of neither alone; 0: none.

    What a group shows that the other run has as a whole, or nothing of, is known from one alone.
    """
    ours = {own for own in one.groups - other.groups if own & {*other.sites}}
    theirs = {own for own in other.groups - one.groups if own & {*one.sites}}
    first, second = map(unions, (ours, theirs))
    apart = {a ^ b for a in first for b in second} - first - second - {frozenset()}
    return min(map(len, apart), default=0)


def unions(groups):
    """Those of some groups, of one at least."""
    chosen = (own for k in range(len(groups)) for own in itertools.combinations(groups, k + 1))
    return {frozenset().union(*own) for own in chosen}


def partition(assigned):
    """The run in which every site is in the group that it is assigned to; 0: it takes no part."""
    groups = {}
    for site, group in enumerate(assigned):
        if group:
            groups.setdefault(group, []).append(f"s{site}")
    alike = tuple(tuple(own) for own in groups.values())
    return OpenedSum("", "", "", tuple(sorted(itertools.chain(*alike))), measured_groups=alike)


ASSIGNED = st.lists(st.integers(0, 3), min_size=7, max_size=7)


@given(ASSIGNED, ASSIGNED)
@settings(max_examples=400, deadline=None)
def test_two_runs_tell_apart_no_fewer_sites_than_the_record_counts(one, other):
    first, second = partition(one), partition(other)
    counted, least = len(differing_sites(first, second)), spans(first, second)
    assert counted == len(differing_sites(second, first))
    assert least == 0 or 0 < counted <= least
    assert not differing_sites(first, first)
