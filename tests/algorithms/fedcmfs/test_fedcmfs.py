"""FedCMFS: exact under an oracle, equal to a plain HITON-PC, and free of orders."""

import math

import hiton_pc
import msgspec
import numpy as np
import original_fedpc as original
import pytest
from driving import drive, plain_sum, respondent
from hypothesis import given, settings
from hypothesis import strategies as st
from label_tables import (
    SPEC,
    Rounded,
    continuous_table,
    discrete_table,
    draw_labels,
    found,
    oracle_outcome,
    planted_tables,
)
from oracle import OracleTest, random_dag

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.fedcmfs.combined_triplets import remember
from cipherdag.algorithms.fedcmfs.hiton import Triplets, parents_and_children
from cipherdag.errors import ParameterError, SchemaError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import WeightedEvidence, weighted_means
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.question import Bundle
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.ci_tests.ci_test import CITestResult
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest


def test_the_true_parents_and_children_of_every_label_under_an_oracle():
    rng = np.random.default_rng(2027)
    algorithm = FedCMFS(k1=100, k2=100, max_cond_size=None)
    for _ in range(50):
        n = int(rng.integers(3, 12))
        dag = random_dag(n, float(rng.uniform(1, 3)), rng)
        labels = draw_labels(rng, n)
        outcome, _ = oracle_outcome(dag, labels, algorithm)
        for label in labels:
            assert found(outcome, label) == set(np.flatnonzero((dag | dag.T)[label]))


def test_the_papers_retrieval_adds_a_mediated_cause_that_is_no_parent():
    # X -> D -> C and H -> D, H -> C: no set of X's own neighbours separates X from C
    x, d, c, h = range(4)
    dag = np.zeros((4, 4), dtype=bool)
    dag[[x, d, h, h], [d, c, d, c]] = True
    both = {
        retrieval: oracle_outcome(dag, (d, c), FedCMFS(k1=100, k2=100, retrieval=retrieval))[0]
        for retrieval in ("paper", "interchangeable")
    }
    assert both["paper"].by_label[c].features == (x, h)
    assert both["interchangeable"].by_label[c].features == (h,)


def learn(sites, target, alpha=0.05, max_cond_size=3, n_variables=None):
    triplets = Triplets(
        n_variables=n_variables or sites[0].n_variables,
        test=CITestSpec(alpha=alpha),
        max_cond_size=max_cond_size,
        part="FedCFL",
        max_rows=1 << 20,
    )
    return drive(parents_and_children(triplets, target), sites)


@pytest.mark.parametrize(
    ("draw", "test", "plain"),
    [
        (discrete_table, DiscreteTest, original.g2_test),
        (continuous_table, FisherZTest, original.fisher_z_test),
    ],
)
@pytest.mark.parametrize("seed", range(8))
def test_one_site_equals_a_plain_hiton_pc(seed, draw, test, plain):
    rows = draw(np.random.default_rng(seed))
    for target in range(3):
        outcome, _ = learn([respondent(test(rows))], target)
        assert list(outcome.members) == hiton_pc.parents_and_children(rows, target, plain, 0.05)


class Scripted:
    """A test that reads p and dependence from a function of x, y and the set."""

    def __init__(self, n_variables, answer, rows=100):
        self.n_variables = n_variables
        self._answer = answer
        self._rows = rows

    def evaluate(self, x, y, given):
        outcomes = [
            self._answer(*sorted((a, b)), tuple(sorted(s)))
            for a, b, s in zip(x.tolist(), y.tolist(), given.tolist(), strict=True)
        ]
        p_value, dependence = np.array(outcomes, dtype=float).reshape(-1, 2).T
        rows = np.full(len(p_value), self._rows)
        return CITestResult(p_value, dependence, np.ones(len(p_value)), dependence, rows)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), limit=st.sampled_from([0, 1, 2, 3, None]))
def test_asking_ahead_never_changes_what_a_search_concludes(seed, limit):
    """On evidence that no distribution could produce, so that members come and go."""
    n = 9
    codes = {}
    rng = np.random.default_rng(seed)

    def answer(x, y, given):
        if (x, y, given) not in codes:
            p = rng.choice([0.0, 1.0, math.nan], p=[0.80, 0.17, 0.03])
            codes[x, y, given] = p, rng.integers(0, 4)
        return codes[x, y, given]

    outcome, asked = learn([respondent(Scripted(n, answer))], 4, max_cond_size=limit)
    expected = hiton_pc.parents_and_children(
        np.zeros((1, n)),
        4,
        lambda _, x, y, s: answer(*sorted((x, y)), tuple(sorted(s))),
        0.05,
        largest=n if limit is None else limit,
    )
    assert list(outcome.members) == expected
    assert len(asked) <= 1 + 2 * n


C, D, E, F, NOISE = range(5)


@pytest.mark.parametrize("retrieval", ["paper", "interchangeable"])
def test_retrieval_recovers_a_feature_hidden_by_a_correlated_label(retrieval):
    selected = 0
    for seed in range(10):
        sites = [respondent(FisherZTest(table)) for table in planted_tables(seed)]
        outcome, _ = drive(
            FedCMFS(k1=100, k2=100, retrieval=retrieval).ask(Facts(5, 3, labels=(C, D))), sites
        )
        own = outcome.by_label[C]
        assert D in own.learned
        assert E not in own.learned
        assert E in own.retrieved
        assert NOISE not in own.features
        selected += E in own.features
        without, _ = drive(FedCMFS(k1=0, k2=100).ask(Facts(5, 3, labels=(C, D))), sites)
        assert E not in without.by_label[C].features
    assert selected >= 8  # FedCFC keeps it wherever E's own search meets C before D


def test_scripted_evidence_brings_back_what_a_label_had_hidden():
    dag = np.zeros((5, 5), dtype=bool)
    dag[[E, F, C], [C, C, D]] = True
    oracle = OracleTest(dag)

    def answer(x, y, s):
        hidden = (x, y) == (C, E) and D in s
        return (1.0 if hidden or oracle.separated(x, y, s) else 0.0), 1.0 + (C in (x, y))

    sites = [respondent(Scripted(5, answer))]
    for retrieval in ("paper", "interchangeable"):
        outcome, _ = drive(
            FedCMFS(k1=100, k2=100, retrieval=retrieval).ask(Facts(5, 3, labels=(C, D))), sites
        )
        assert outcome.by_label[C].learned == (D, F)
        assert outcome.by_label[C].retrieved == (E,)
        assert outcome.by_label[C].features == (E, F)
        assert outcome.by_label[C].labels == (D,)
        assert outcome.by_label[D].features == ()


def test_correction_drops_the_weakest_features_that_lack_the_label():
    # a descendant that no set of the label's own neighbours separates from it
    label, a, b, h = range(4)
    dag = np.zeros((4, 4), dtype=bool)
    dag[[label, a, h, h], [a, b, a, b]] = True
    for k2, expected in ((0, (a, b)), (50, (a,)), (100, (a,))):
        outcome, _ = oracle_outcome(dag, (label,), FedCMFS(k1=0, k2=k2))
        assert outcome.by_label[label].features == expected
        assert outcome.by_label[label].dropped == tuple({a, b} - set(expected))


def test_rounds_do_not_grow_with_the_number_of_labels():
    rng = np.random.default_rng(8)
    dag = random_dag(30, 2.0, rng)
    rounds = {}
    for labels in ((3, 4, 5), tuple(range(15))):
        alone = [len(oracle_outcome(dag, (v,), FedCMFS(k1=0, k2=0))[1]) for v in labels]
        _, asked = oracle_outcome(dag, labels, FedCMFS(k1=0, k2=0))
        rounds[labels] = len(asked)
        assert len(asked) == max(alone)
    assert max(rounds.values()) <= 1 + 30


def test_no_triplet_is_asked_twice_and_every_round_is_one_question():
    tables = planted_tables(1)
    sites = [respondent(FisherZTest(table)) for table in tables]
    _, asked = drive(FedCMFS(k1=100, k2=100, reveal="sums").ask(Facts(5, 3, labels=(C, D))), sites)
    seen = [
        (frozenset(row[:2]), frozenset(row[2:]))
        for question in asked
        for rows in question.rows()
        for row in rows.tolist()
    ]
    assert {type(question) for question in asked} == {WeightedEvidence}
    assert {question.part for question in asked} == {"FedCFL", "FedCFR", "FedCFC"}
    assert len(seen) == len(set(seen))


def test_memory_answers_as_the_sites_would(monkeypatch):
    monkeypatch.setattr("cipherdag.algorithms.fedcmfs.combined_triplets.SLICE", 7)
    rng = np.random.default_rng(4)
    site = respondent(FisherZTest(continuous_table(rng, n=6)))
    questions = [random_bundle(rng, 6) for _ in range(30)]

    def asking():
        sums = []
        for question in questions:
            sums.append((yield question))  # noqa: PERF401 (a comprehension cannot yield)
        return sums

    remembered, asked = drive(remember(asking()), [site])
    for question, sums in zip(questions, remembered, strict=True):
        assert np.array_equal(sums, plain_sum(question, [site]))
    assert sum(sum(question.counts) for question in asked) <= 15 * (1 + 4 + 6)
    assert all(sum(question.counts) <= 7 for question in asked)


def random_bundle(rng, n):
    parts = []
    for _ in range(int(rng.integers(1, 4))):
        blocks = [
            np.array([rng.permutation(n)[: 2 + size] for _ in range(int(rng.integers(0, 5)))])
            for size in range(int(rng.integers(1, 4)))
        ]
        parts.append(evidence(n, [b.reshape(-1, 2 + s) for s, b in enumerate(blocks)]))
    return parts[0] if len(parts) == 1 else Bundle(parts=tuple(parts))


def evidence(n, blocks, **changes):
    counts, members = pack_blocks([np.asarray(block, dtype=np.uint16) for block in blocks])
    fields = {"n_variables": n, "test": SPEC, "counts": counts, "members": members}
    return WeightedEvidence(**(fields | changes))


def test_weighted_means_are_over_the_sites_with_a_reliable_test():
    p = {0: 0.2, 1: 0.6, 2: math.nan}
    r = {0: 0.5, 1: 0.1, 2: math.nan}
    n = {0: 300, 1: 100, 2: 1000}
    sites = [
        respondent(Scripted(3, lambda x, y, s, k=k: (p[k], r[k]), rows=n[k])) for k in range(3)
    ]
    question = evidence(3, [[(0, 1)], [(0, 1, 2)]])
    mean_p, mean_r = weighted_means(question, plain_sum(question, sites))
    assert mean_p == pytest.approx([0.3, 0.3])  # (300 x 0.2 + 100 x 0.6) / 400
    assert mean_r == pytest.approx([0.4])  # (300 x 0.5 + 100 x 0.1) / 400
    mean_p, mean_r = weighted_means(question, plain_sum(question, sites[2:]))
    assert np.isnan(mean_p).all()
    assert np.isnan(mean_r).all()


def test_a_site_where_a_variable_is_constant_weighs_nothing():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(200, 3))
    codes[:, 1] = 1
    plain = DiscreteTest(codes)
    careful = DiscreteTest(codes, constant="untestable")
    question = evidence(3, [[(0, 1), (0, 2)], [(0, 2, 1), (2, 1, 0)]])
    without, answer = (
        SiteView(codes, None, (2, 2, 2), make_test=lambda _, test=test: test).answer(question)
        for test in (plain, careful)
    )
    assert (without[-4:] == 200).all()
    assert answer[-4:].tolist() == [0, 200, 200, 0]
    assert answer[:4].tolist()[0] == 0
    assert answer[4] == 0


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(5, 400),
    levels=st.integers(2, 6),
    seed=st.integers(0, 1000),
    same=st.booleans(),
)
def test_the_declared_bounds_hold_even_for_copies(rows, levels, seed, same):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, levels, size=(rows, 3))
    if same:
        codes[:, 1] = codes[:, 0]
    test = DiscreteTest(codes, min_rows_per_cell=0.0)
    question = evidence(3, [[(0, 1), (1, 2)], [(0, 1, 2)]], max_rows=rows)
    Rounded(respondent(test)).answer(question)


def test_a_question_survives_the_wire_and_hostile_ones_are_refused():
    question = evidence(5, [[(0, 1), (3, 2)], [], [(4, 1, 2, 0)]])
    encoded = msgspec.msgpack.encode(question)
    assert msgspec.msgpack.decode(encoded, type=WeightedEvidence) == question
    assert [rows.tolist() for rows in question.rows()] == [[[0, 1], [3, 2]], [], [[4, 1, 2, 0]]]
    for bad in (
        {"members": question.members[:-1]},
        {"members": question.members + b"\0\0"},
        {"counts": (2, -1, 1)},
        {"counts": (2, 0, 1, 0, 0)},
        {"n_variables": 4},
        {"n_variables": 0},
        {"n_variables": 20_000},
        {"max_rows": 1},
        {"max_rows": 1 << 40},
        {"part": "FedCFX"},
        {"members": np.array([0, 0, 3, 2, 4, 1, 2, 0], dtype="<u2").tobytes()},
        {"members": np.array([0, 1, 3, 2, 4, 1, 2, 2], dtype="<u2").tobytes()},
        {"members": np.array([0, 1, 3, 2, 4, 1, 2, 4], dtype="<u2").tobytes()},
    ):
        fields = msgspec.to_builtins(question) | {"members": question.members} | bad
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=WeightedEvidence)


def test_one_variable_one_label_and_nothing_to_find():
    outcome, asked = oracle_outcome(np.zeros((1, 1), dtype=bool), (0,), FedCMFS())
    assert outcome.by_label[0].features == ()
    assert outcome.untested == (0,)
    assert asked == []
    outcome, asked = oracle_outcome(np.zeros((3, 3), dtype=bool), (0, 1), FedCMFS())
    assert outcome.by_label[0].features == outcome.by_label[1].features == ()
    assert outcome.untested == ()
    assert len(asked) == 1


def test_variables_that_no_site_could_test_are_named():
    def answer(x, y, s):
        return (math.nan if 2 in (x, y) else 1.0), 0.0

    sites = [respondent(Scripted(4, answer))]
    assert drive(FedCMFS().ask(Facts(4, 3, labels=(0,))), sites)[0].untested == (2,)
    assert drive(FedCMFS().ask(Facts(4, 3, labels=(0, 2))), sites)[0].untested == (2,)


@pytest.mark.parametrize("labels", [(0, 0), (3,), (-1,)])
def test_labels_must_be_variables(labels):
    with pytest.raises(ParameterError, match="label"):
        FedCMFS().ask(Facts(3, 3, labels=labels))
    with pytest.raises(SchemaError, match="no column is marked as a label"):
        FedCMFS().ask(Facts(3, 3))
