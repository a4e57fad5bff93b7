"""Sites that cannot test an edge abstain: counted first, and never opened where too few can."""

from itertools import combinations
from itertools import pairwise as pairs

import msgspec
import numpy as np
import pandas as pd
import pytest
from driving import drive, plain_sum, respondent
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.errors import PolicyRefusedError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.compute.ci_tests.ci_test import CITestResult
from cipherdag.sites.session.round import Coverage

SPEC = CITestSpec(alpha=0.05)
FULL = Skeleton.from_matrix(~np.eye(5, dtype=bool))


class Drawn:
    """A site whose tests are independent, dependent or impossible at random, by seed."""

    n_variables = 5

    def __init__(self, seed, impossible):
        self._seed, self._impossible = seed, impossible

    def p_value(self, x, y, given):
        rng = np.random.default_rng([self._seed, min(x, y), max(x, y), *sorted(given)])
        possible, p = rng.random(2)
        return np.nan if possible < self._impossible else 0.5 * (p < 0.4)

    def evaluate(self, x, y, given):
        triplets = zip(x.tolist(), y.tolist(), given.tolist(), strict=True)
        found = np.array([self.p_value(*own) for own in triplets], dtype=float)
        one = np.ones(len(found))
        return CITestResult(found, one, one, one, one.astype(np.int64))


def plain_vote(site, skeleton, x, y, layer):
    """1 keeps, 0 removes, None abstains: by every test of the layer."""
    found = []
    for own, other in ((x, y), (y, x)):
        pool = [v for v in range(5) if skeleton[own, v] and v != other]
        found += [site.p_value(x, y, chosen) for chosen in combinations(pool, layer)]
    done = [p for p in found if not np.isnan(p)]
    return int(not any(p > SPEC.alpha for p in done)) if done else None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    impossible=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    min_contributors=st.integers(1, 5),
    share=st.sampled_from([0.3, 0.5]),
)
def test_the_skeleton_is_that_of_votes_counted_one_by_one(
    seed, impossible, min_contributors, share
):
    sites = [Drawn(seed + 100_000 * k, impossible) for k in range(5)]
    algorithm = FedPC(
        evidence="vote", alpha=SPEC.alpha, max_cond_size=2, voting=Voting(vote_share=share)
    )
    outcome, asked = drive(
        algorithm.ask(Facts(5, 5, min_contributors=min_contributors)), list(map(respondent, sites))
    )
    kept = ~np.eye(5, dtype=bool)
    for layer, heard in enumerate(outcome.votes):
        start = kept.copy()
        for (x, y), votes, able in zip(heard.pairs, heard.votes, heard.voters, strict=True):
            cast = [plain_vote(site, start, x, y, layer) for site in sites]
            voters = [vote for vote in cast if vote is not None]
            if len(voters) < min_contributors or not voters:
                assert votes == able == 0
                continue
            assert (votes, able) == (sum(voters), len(voters))
            if not sum(voters) > share * len(voters):
                kept[x, y] = kept[y, x] = False
    assert (outcome.skeleton == kept).all()
    assert any(isinstance(question, ContributorCounts) for question in asked) == (
        min_contributors > 1
    )


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_what_is_opened_is_the_same_whatever_too_few_sites_say(seed):
    """One site's vote is in no sum that fewer sites than the floor contribute to."""
    rng = np.random.default_rng(seed)
    answers = {}
    for flip in (False, True):
        sites = []
        for k in range(3):
            site = Drawn(seed + 1000 * k, 0.5)
            if flip:  # other outcomes of the tests that can be done
                own = site.p_value
                site.p_value = lambda *test, own=own: own(*test) if np.isnan(own(*test)) else 0.5
            sites.append(respondent(site))
        question = EdgeVotes(skeleton=FULL, layer=int(rng.integers(1)), test=SPEC, abstain=True)
        counts = plain_sum(ContributorCounts(question=question), sites)
        enough = counts >= 3
        packed = np.packbits(enough).tobytes()
        opened = plain_sum(Suppressed(question=question, enough=packed), sites)
        answers[flip] = counts, opened[:10][~enough], opened[10:]
    for one, other in zip(answers[False], answers[True], strict=True):
        assert (one == other).all()
    assert not answers[True][1].any()


def test_a_site_refuses_votes_with_abstentions_that_were_not_counted():
    votes = EdgeVotes(skeleton=FULL, layer=0, test=SPEC, abstain=True)
    coverage = Coverage(min_contributors=3)
    with pytest.raises(PolicyRefusedError, match="counted first"):
        coverage.check(votes, 4)
    coverage.check(msgspec.structs.replace(votes, abstain=False), 4)  # of all sites, as ever
    coverage.opened(ContributorCounts(question=votes), np.array([3.0] * 9 + [2.0]), 4)
    every = np.packbits(np.ones(10, dtype=bool)).tobytes()
    with pytest.raises(PolicyRefusedError, match="contribute"):
        coverage.check(Suppressed(question=votes, enough=every), 4)
    coverage.check(Suppressed(question=votes, enough=np.packbits(np.arange(10) < 9).tobytes()), 4)


@pytest.mark.parametrize("left", [4, 3])
def test_votes_that_too_few_sites_may_be_left_of_are_not_opened(left):
    """A site that left may have been one of three that can test an edge."""
    votes = EdgeVotes(skeleton=FULL, layer=0, test=SPEC, abstain=True)
    counts = np.array([3.0, 4.0] * 5)
    coverage = Coverage(min_contributors=3, planned=3)
    coverage.opened(ContributorCounts(question=votes), counts, 4)
    asked = Suppressed(question=votes, enough=np.packbits(np.ones(10, dtype=bool)).tobytes())
    coverage.check(asked, left)
    found = coverage.suppress(asked, np.ones(20), left)
    assert (found == np.tile(counts - (4 - left) >= 3, 2)).all()
    stricter = Coverage(min_contributors=4, planned=3)
    stricter.opened(ContributorCounts(question=votes), counts + 1, 4)
    stricter.check(asked, 4)
    with pytest.raises(PolicyRefusedError, match="contribute"):
        stricter.check(asked, 3)


def test_sites_do_not_abstain_in_the_order_of_the_original_program():
    with pytest.raises(ValueError, match="stable"):
        EdgeVotes(skeleton=FULL, layer=0, test=SPEC, order="sequential", abstain=True)


def chain(rows):
    """Six variables of four categories, each a noisy copy of the one before."""
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, 4, rows)]
    for _ in range(5):
        codes.append(np.where(rng.random(rows) < 0.6, codes[-1], rng.integers(0, 4, rows)))
    return pd.DataFrame(np.column_stack(codes), columns=list("uvwxyz")).astype(str)


def uneven(policy, reference="auto"):
    """A chain at two large hospitals and a small one, which has 40 rows for tables of 16 cells."""
    data = chain(4040)
    sites = {"a": data[:2000], "b": data[2000:4000], "c": data[4000:]}
    algorithm = FedPC(evidence="vote", voting=Voting(reference=reference))
    return Federation.simulate(sites, policy=policy, device="cpu").run(algorithm)


def test_a_small_hospital_does_not_keep_edges_that_the_others_remove():
    two = Policy(min_sites=2, tolerated_colluders=0)
    found = uneven(two)
    assert [{e.source, e.target} for e in found.finding.graph.edges] == [
        set(p) for p in pairs("uvwxyz")
    ]
    for reference in ("paper", "code"):  # there a site that cannot test keeps the edge
        assert len(uneven(two, reference).finding.graph.edges) == 15


def test_edges_that_too_few_sites_can_test_stay_and_are_named():
    found = uneven(Policy(min_sites=3))
    (stays,) = [own for own in found.finding.evidence.remarks if "not put to the vote" in own]
    assert int(stays.split()[0]) == 15
    found = uneven(Policy(min_sites=2))  # two, of which one may collude
    assert any("not put to the vote" in own for own in found.finding.evidence.remarks)
    found = uneven(Policy(min_sites=2, tolerated_colluders=0))
    assert not any("not put to the vote" in own for own in found.finding.evidence.remarks)
