"""Verdicts on numbers: those of opened sums, and nothing of tests that too few sites do."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import pandas as pd
import pytest
from driving import drive, plain_sum
from evidence_sites import cut, gaussian_site, gaussian_values
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.errors import MixedTypesError, PolicyRefusedError
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.coverage import Contributors, Covered
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import CITestSpec, finds_verdicts
from cipherdag.questions.scores.score_weights import ScoreWeights
from cipherdag.questions.verdicts import CellVerdicts
from cipherdag.sites.answers.table_respondent import table_respondent

MAX_ROWS = 1 << 12
TESTS = [
    np.array([[0, 1], [0, 2], [0, 3], [1, 3]]),
    np.array([[0, 2, 1], [1, 3, 2]]),
    np.array([[0, 3, 1, 2]]),
]


def asking(tests, n_variables, n_sites, *, closed, alpha=0.01, fewest=3, name="auto"):
    own = EvidenceSettings(
        spec=CITestSpec(name=name, alpha=alpha), n_variables=n_variables, max_rows=MAX_ROWS,
        present=Presence(n_sites), fewest=fewest,
    )  # fmt: skip
    source = yield from EVIDENCE["stratified"].source(own, closed=closed)
    found = yield from source.p_values(tests)
    return np.concatenate(found), dict(source.tally)


def by_hand(parts, triplet, fewest):
    """p-value of the weighted mean of Fisher's z over sites; None where too few do the test."""
    x, y, *given = triplet
    total = weight = able = 0
    for rows in parts:
        own = rows[~np.isnan(rows).any(axis=1)]
        if len(own) - len(given) - 3 <= 0 or (own[:, [x, y]] == own[0, [x, y]]).all(axis=0).any():
            continue
        inverse = np.linalg.inv(np.cov(own[:, triplet], rowvar=False))
        r = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
        w = len(own) - len(given) - 3
        total, weight, able = total + w * np.arctanh(r), weight + w, able + 1
    return 2.0 * stats.norm.sf(abs(total) / np.sqrt(weight)) if able >= fewest else None


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 2**32),
    st.integers(3, 8),
    st.sampled_from([90, 300, 2000]),
    st.sampled_from([0.001, 0.01, 0.1]),
    st.sampled_from([2, 3]),
)
def test_verdicts_are_those_of_the_p_values_of_opened_sums(seed, n_sites, rows, alpha, fewest):
    rng = np.random.default_rng(seed)
    parts = cut(gaussian_values(rng, max(rows, 40 * n_sites), 4), n_sites, rng)
    parts = [own + rng.normal(0.0, 3.0, 4) for own in parts]  # means of every site's own
    sites = [gaussian_site(own) for own in parts]
    shared = {"alpha": alpha, "fewest": fewest}
    (verdicts, _), _ = drive(asking(TESTS, 4, n_sites, closed=True, **shared), sites)
    (p_values, _), _ = drive(asking(TESTS, 4, n_sites, closed=False, **shared), sites)
    clear = np.abs(np.log(p_values / alpha)) > 0.2
    np.testing.assert_array_equal(verdicts[clear], (p_values > alpha)[clear])
    for triplet, p_value in zip((t.tolist() for own in TESTS for t in own), p_values, strict=True):
        np.testing.assert_allclose(p_value, by_hand(parts, triplet, fewest), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("n_sites", [3, 10])
def test_the_level_holds_at_sites_of_their_own_means_and_spreads(n_sites):
    rng = np.random.default_rng(n_sites)
    p, alpha = 60, 0.01
    parts = [
        rng.normal(rng.normal(0, 2, p), rng.uniform(0.1, 9, p), (50, p)) for _ in range(n_sites)
    ]
    sites = [gaussian_site(own) for own in parts]
    pairs = np.column_stack(np.triu_indices(p, 1))
    (found, _), _ = drive(asking([pairs], p, n_sites, closed=True), sites)
    dependent = int((found == 0.0).sum())
    assert stats.binomtest(dependent, len(pairs), alpha).pvalue > 1e-3
    assert set(found.tolist()) <= {0.0, 1.0}


def test_of_a_test_that_too_few_sites_do_only_their_number_is_opened():
    rng = np.random.default_rng(3)
    parts = [gaussian_values(rng, 60, 3) for _ in range(4)]
    for own in parts[:2]:
        own[:, 2] = 1.0  # varies at two sites
    sites = [gaussian_site(own) for own in parts]
    generator = asking([np.array([[0, 1], [0, 2]]), np.array([[0, 2, 1]])], 3, 4, closed=True)
    heard, total = [], None
    while True:
        try:
            question = generator.send(total)
        except StopIteration as finished:
            found, tally = finished.value
            break
        total = plain_sum(question, sites)
        heard.append((question, total))
    columns, (counted, counts), (opened, weights), (compared, bits) = heard
    assert isinstance(columns[0], Columns)
    assert isinstance(counted, Contributors)
    assert counts.tolist() == [4, 2, 2]
    assert isinstance(opened, Covered)
    assert weights.tolist() == [4 * 57, 0, 0]
    assert isinstance(compared, CellVerdicts)
    assert finds_verdicts(compared)
    assert set(bits.tolist()) <= {0.0, 1.0}
    assert len(bits) == 1
    assert found[1] == 1.0  # given nothing: it does not vary at the others
    assert np.isnan(found[2])
    assert tally == {"numbers within sites": 2, "varies at too few sites": 1}


def test_scores_that_are_no_correlations_are_refused():
    counts, members = pack_blocks([np.array([[0, 1]])])
    for name, combination in (("auto", "stouffer"), ("numbers", "fisher")):
        scores = CombinedEvidence(
            n_variables=2, test=CITestSpec(name=name, alpha=0.01), combination=combination,
            counts=counts, members=members,
        )  # fmt: skip
        with pytest.raises(ValueError, match="weighted z of correlations"):
            ScoreWeights(scores=scores)
    good = ScoreWeights(scores=msgspec.structs.replace(scores, combination="stouffer"))
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(good), type=ScoreWeights)
    assert read == good


def test_a_site_that_allows_variances_answers_weights_and_no_scores():
    counts, members = pack_blocks([np.array([[0, 1]])])
    scores = CombinedEvidence(
        n_variables=2, test=CITestSpec(name="numbers", alpha=0.01), combination="stouffer",
        counts=counts, members=members,
    )  # fmt: skip
    question = ScoreWeights(scores=scores)
    policy = Policy(reveal="variances")
    policy.check_question(Covered(question=question, enough=b"\1"), round_number=1, values_so_far=0)
    with pytest.raises(PolicyRefusedError, match="no sum but variances"):
        policy.check_question(question.with_differences(), round_number=1, values_so_far=0)


# whole runs


@cache
def linear_rows():
    """a -> c <- b, c -> d: effects that no sample of this size misses; and e by categories of c."""
    rng, n = np.random.default_rng(7), 6000
    a, b = rng.normal(size=(2, n))
    c = a + b + rng.normal(size=n)
    d = 0.8 * c + rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d})


@cache
def linear(protection):
    federation = Federation.split(linear_rows(), 4, seed=0, protection=protection, device="cpu")
    return federation.run(FedPC(reveal="verdicts", alpha=1e-3))


def test_of_numbers_the_graph_is_that_of_opened_sums_by_the_same_rule():
    assert {(e.source, e.target, e.mark) for e in linear("masking").graph.edges} == {
        ("a", "c", "-->"), ("b", "c", "-->"), ("c", "d", "-->"),
    }  # fmt: skip
    federation = Federation.split(linear_rows(), 4, seed=0, device="cpu")
    opened = federation.run(FedPC(alpha=1e-3))
    assert opened.graph == linear("masking").graph


def test_weights_alone_are_told_beside_bits():
    found = linear("masking")
    assert {own.kind for own in found.rounds} == {
        "columns", "contributors+score-weights", "covered+score-weights",
        "cell-verdicts+score-weights",
    }  # fmt: skip
    (said,) = FedPC(reveal="verdicts").disclosures()
    assert "about how many rows they have for it together" in said
    assert all(own.p_value is None for own in found.evidence.edges)


def test_categories_numbers_and_both_together_are_each_tested_in_their_way():
    rows = linear_rows()
    rng = np.random.default_rng(8)
    noise = rng.normal(size=(2, len(rows)))
    rows = rows.assign(
        e=np.where(rows["c"] + noise[0] > 0, "yes", "no"),
        f=np.where(noise[1] > 0, "yes", "no"),
    )
    federation = Federation.split(rows, 4, seed=0, device="cpu")
    sites = [table_respondent(s.table, min_cell_size=0, device="cpu") for s in federation.sites]
    tests = [np.array([[0, 1], [2, 3], [4, 5], [2, 4], [0, 5]]), np.array([[0, 3, 2], [3, 4, 2]])]
    generator = asking(tests, 6, 4, closed=True)
    (found, tally), asked = drive(generator, sites)
    assert found.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    assert tally == {"numbers within sites": 3, "stratified": 1, "scores within sites": 3}
    opened = {
        type(part).__name__
        for question in asked
        for part in parts_of(question)
        if not finds_verdicts(part) and not isinstance(part, Contributors | Columns)
    }
    assert opened == {"Covered"}
    assert federation.run(FedPC(reveal="verdicts", max_cond_size=1)).graph.edges


def test_a_test_of_numbers_is_refused_where_some_columns_are_categories():
    rows = linear_rows().assign(e="yes")
    rows.loc[::2, "e"] = "no"
    federation = Federation.split(rows, 3, seed=0, device="cpu")
    with pytest.raises(MixedTypesError, match="takes numbers"):
        federation.run(FedPC(reveal="verdicts", test="fisherz"))
