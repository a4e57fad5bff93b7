"""Tests that too few sites contribute to are not opened, in whatever step or bundle."""

import dataclasses

import numpy as np
import pytest
from adversary import Ward, hospitals
from driving import drive, overheard, plain_sum
from evidence_sites import discrete_site
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cipherdag import FedCMFS, FedPC, Policy
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.errors import PolicyRefusedError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import COMBINATIONS, CombinedEvidence, WeightedEvidence
from cipherdag.questions.encodings import pack_blocks, segments
from cipherdag.questions.question import Bundle, Resampled
from cipherdag.questions.threshold import (
    ContributorCounts,
    Suppressed,
    sum_with_threshold,
)

TEST = CITestSpec(alpha=0.05)
UNEVEN = (1200, 25, 24, 23)
OPEN = Policy(min_cell_size=0)
TRIPLETS = [np.array([[0, 1], [0, 2], [1, 2]]), np.array([[0, 1, 2], [1, 2, 0], [0, 2, 1]])]


def questions():
    counts, members = pack_blocks(TRIPLETS)
    about = {"counts": counts, "members": members}
    yield WeightedEvidence(n_variables=3, test=TEST, **about)
    for combination in COMBINATIONS:
        yield replace(CombinedEvidence.over_sites(TEST, combination, 3, 1 << 20), **about)


@pytest.mark.parametrize("question", list(questions()), ids=lambda own: own.label)
@given(seed=st.integers(0, 2**32), min_contributors=st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_what_is_opened_is_the_sum_of_the_tests_that_enough_sites_do(
    question, seed, min_contributors
):
    rng = np.random.default_rng(seed)
    sites = [
        discrete_site(rng.integers(0, 3, (int(rows), 3)), (3, 3, 3))
        for rows in rng.choice([8, 40, 400], 4)
    ]
    answers = [site.answer(question) for site in sites]
    able = np.sum([question.contributes(answer) for answer in answers], axis=0)
    found, asked = drive(sum_with_threshold(question, min_contributors), sites)
    whole = plain_sum(question, sites)
    if min_contributors > 1:
        assert isinstance(asked[0], ContributorCounts)
        assert (plain_sum(asked[0], sites) == able).all()
        assert (len(asked) == 2) == (able >= min_contributors).any()
    for number, (part, own) in enumerate(
        zip(segments(question.encodings, found), segments(question.encodings, whole), strict=True)
    ):
        lone = isinstance(question, CombinedEvidence) and len(part) == 1 and number == 0
        enough = (
            np.full(len(part), (able >= min_contributors).any())
            if lone
            else (able >= min_contributors)[: len(part)]
        )
        assert (part == np.where(enough, own, 0.0)).all()


@pytest.mark.parametrize(
    "algorithm",
    [
        FedPC(evidence="weighted_p"),
        FedPC(evidence="fisher", bootstrap=2),
        FedPC(evidence="vote", voting=Voting(sepset="mean")),
    ],
    ids=repr,
)
def test_in_a_run_no_sum_is_that_of_fewer_than_three_sites(algorithm):
    federation = hospitals(policy=OPEN, rows=UNEVEN)
    opened = []
    federation.ask("fedpc", lambda facts: overheard(algorithm.ask(facts), opened), seed=1)
    counts = {}
    checked = left_out = 0
    for question, sums in opened:
        start = 0
        for part in question.parts:
            inner = part.question if isinstance(part, Resampled) else part
            length = part.n_values
            own = sums[start : start + length]
            start += length
            key = (getattr(part, "replicate", 0), getattr(inner, "question", None))
            if isinstance(inner, ContributorCounts):
                counts[key] = own
                left_out += int((own < 3).sum())
            elif isinstance(inner, Suppressed):
                weights = segments(inner.encodings, own)[-1]
                assert (counts[key][weights > 0] >= 3).all()
                checked += inner.question.n_parts
    assert checked
    assert left_out, "the trial has small sites"


def test_fedcmfs_counts_first():
    federation = hospitals(policy=OPEN, rows=UNEVEN)
    heard = []

    def listening(facts):
        labelled = dataclasses.replace(facts, labels=(1,))
        return overheard(FedCMFS(reveal="sums").ask(labelled), heard)

    federation.ask("fedcmfs", listening)
    kinds = [type(question) for question, _ in heard]
    assert kinds[::2] == [ContributorCounts] * len(kinds[::2])
    assert set(kinds) <= {ContributorCounts, Suppressed}


def test_a_plan_that_opens_tests_uncounted_is_refused():
    bare, *_ = questions()
    bare = replace(bare, n_variables=5)
    everything = np.packbits(np.ones(bare.n_parts, dtype=bool)).tobytes()
    uncounted = Suppressed(question=bare, enough=everything)
    drawn = Resampled(question=uncounted, replicate=1)
    for question in (bare, uncounted, drawn, Bundle(parts=(uncounted, bare))):
        ward = Ward.opened()
        with pytest.raises(PolicyRefusedError, match="contribute"):
            ward.session.ask(question)


def test_a_plan_that_opens_more_than_was_counted_is_refused():
    ward = Ward.opened()
    bare = replace(next(questions()), n_variables=5)
    tables = list(ward.runtimes.values())
    silent = tables[0]._respondent
    answer = silent.answer

    def silently(question):
        counts = isinstance(question, ContributorCounts)
        return np.zeros(question.n_values) if counts else answer(question)

    vars(silent)["answer"] = silently
    assert ward.session.ask(ContributorCounts(question=bare)).max() == 2
    everything = np.packbits(np.ones(bare.n_parts, dtype=bool)).tobytes()
    with pytest.raises(PolicyRefusedError, match="contribute"):
        ward.session.ask(Suppressed(question=bare, enough=everything))


def test_what_one_site_alone_has_degrees_of_freedom_for_is_not_opened():
    rng = np.random.default_rng(8)
    parts = [rng.integers(0, 2, (400, 3)) for _ in range(3)]
    for own in parts[1:]:
        own[:, 1] = 0
    sites = [discrete_site(own, (2, 2, 2)) for own in parts]
    tests = [np.array([[0, 1], [0, 2]]), np.array([[0, 1, 2], [0, 2, 1]])]

    def asking():
        settings = EvidenceSettings(spec=TEST, n_variables=3, max_rows=1 << 12, min_contributors=3)
        source = yield from EVIDENCE["fisher"].open(settings)
        return (yield from source.p_values(tests))

    (given_nothing, given_one), asked = drive(asking(), sites)
    counted, opened = asked
    assert plain_sum(counted, sites).tolist() == [1, 3, 1, 3]
    for part in segments(opened.encodings, plain_sum(opened, sites))[-3:]:
        assert not part[[0, 2]].any()
    # given nothing it is constant at the others; given z, two sites alone have nothing to say
    assert given_nothing[0] == 1.0
    assert np.isnan(given_one).tolist() == [True, False]
