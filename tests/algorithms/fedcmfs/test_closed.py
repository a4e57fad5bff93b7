"""FedCMFS by verdicts: what sums select, ranks by comparisons alone, and nothing else is asked."""

from itertools import combinations

import numpy as np
import pytest
from driving import answered, drive, plain_verdicts, respondent
from hypothesis import given, settings
from hypothesis import strategies as st
from label_tables import continuous_table, discrete_table
from labelled_runs import TABLES

from cipherdag import FedCMFS, Federation, Run
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedcmfs.hiton import EACH_WITH_EACH, Ranking, ranked
from cipherdag.errors import ParameterError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import CombinedEvidence, WeightedEvidence
from cipherdag.questions.disclosure import Quantity
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.strengths import POWERS, STEPS, ScaleVerdicts, StrengthVerdicts
from cipherdag.questions.verdicts import finest_grid_that_fits
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest

CLOSED = ("weighted_p", "fisher")
LABELS = (0, 4, 7)


def tables(kind, seed, n_sites=4):
    rng = np.random.default_rng(seed)
    if kind == "discrete":
        whole, test = discrete_table(rng, n=12, rows=4000), DiscreteTest
    else:
        whole, test = continuous_table(rng, n=12, rows=800), FisherZTest
    return [test(own) for own in np.array_split(whole, n_sites)]


def concluded(outcome):
    names = ("features", "labels", "learned", "retrieved", "dropped")
    told = {
        label: [getattr(own, name) for name in names] for label, own in outcome.by_label.items()
    }
    return told, outcome.untested


def both(tests, evidence, labels=LABELS, min_contributors=3, **choices):
    facts = Facts(
        tests[0].n_variables, len(tests), labels=labels, min_contributors=min_contributors
    )
    runs = []
    for reveal in ("sums", "bits"):
        algorithm = FedCMFS(k1=50, k2=50, evidence=evidence, reveal=reveal, **choices)
        runs.append(drive(algorithm.ask(facts), [respondent(own) for own in tests]))
    return runs


@pytest.mark.parametrize("evidence", CLOSED)
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("seed", range(3))
def test_it_selects_what_sums_select_in_fewer_rounds(kind, evidence, seed):
    (opened, asked), (closed, compared) = both(tables(kind, seed), evidence)
    assert concluded(opened) == concluded(closed)
    assert len(compared) < len(asked)
    assert all(question.opens_bits for question in compared)


@pytest.mark.parametrize("evidence", CLOSED)
@pytest.mark.parametrize("retrieval", ["paper", "interchangeable"])
def test_by_either_retrieval(evidence, retrieval):
    (opened, _), (closed, _) = both(tables("continuous", 31), evidence, retrieval=retrieval)
    assert concluded(opened) == concluded(closed)


@pytest.mark.parametrize("evidence", CLOSED)
def test_an_untestable_column_is_untested_and_one_of_few_sites_stays(evidence):
    rng = np.random.default_rng(11)
    codes = discrete_table(rng, n=8, rows=3000)
    parts = np.array_split(codes, 4)
    for number, own in enumerate(parts):
        own[:, 5] = own[:, 0] if number < 2 else 0  # a copy of the label, constant elsewhere
        own[:, 6] = 1
    tests = [DiscreteTest(p, constant="untestable") for p in parts]
    (opened, _), (closed, _) = both(tests, evidence, labels=(0,))
    assert opened.untested == (5, 6)
    # where nothing but bits is opened, two sites are enough, and one is
    assert closed.untested == (6,)
    (opened, _), _ = both(tests, evidence, labels=(0,), min_contributors=1)
    assert concluded(opened) == concluded(closed)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("evidence", CLOSED)
def test_its_result_has_the_features_of_sums_and_no_number(kind, evidence, tmp_path):
    table, labels = TABLES[kind]
    chosen = {"k1": 100, "k2": 100, "evidence": evidence}
    sums = Federation.split(table, 4, labels=labels).run(FedCMFS(**chosen))
    sites = Federation.split(table, 4, labels=labels)
    closed = sites.run(FedCMFS(**chosen, reveal="bits"))
    names, named = (
        {label: [own.feature for own in found] for label, found in run.finding.features.items()}
        for run in (sums, closed)
    )
    assert names == named
    found = [own for chosen in closed.finding.features.values() for own in chosen]
    assert found
    assert all(own.strength is None and own.p_value is None for own in found)
    assert "Strengths and p-values stayed closed" in closed.page()
    frame = closed.table("features")
    assert frame["strength"].isna().all()
    assert set(frame["rank"]) >= {1}
    assert Run.load(closed.save(tmp_path / "out")).finding.features == closed.finding.features


def test_the_plan_says_what_is_opened_and_needs_comparison():
    declared = {each.quantity for each in FedCMFS(reveal="bits").disclosures()}
    assert {Quantity.STRONGER, Quantity.SCALE, Quantity.LABELS} < declared
    assert not {Quantity.P_VALUES, Quantity.STRENGTHS} & declared
    for evidence in ("stratified",):
        with pytest.raises(ParameterError, match="needs evidence weighted_p or fisher"):
            FedCMFS(evidence=evidence, reveal="bits")
    with pytest.raises(ParameterError, match="needs 2 sites"):
        FedCMFS(reveal="bits").ask(Facts(5, 1, labels=(0,)))


# ranks


def ranking(strength, position=None):
    """Ranks by comparisons of numbers; the places, and every comparison that was made."""
    seen = []

    def compare(pairs):
        assert (pairs[:, 0] < pairs[:, 1]).all()
        seen.extend(map(tuple, pairs.tolist()))
        yield pairs
        return np.array([float(strength(i, j)) for i, j in pairs.tolist()])

    order, heard = answered(ranked(position, compare), lambda _: None)
    return order, seen, len(heard)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=160))
def test_the_order_is_a_stable_sort_and_no_pair_is_compared_twice(values):
    order, seen, rounds = ranking(lambda i, j: values[j] > values[i], len(values))
    assert order == sorted(range(len(values)), key=lambda own: (-values[own], own))
    assert len(seen) == len(set(seen))
    assert rounds <= 1 or len(values) > EACH_WITH_EACH


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 120), st.integers(0, 2**32))
def test_comparisons_that_contradict_one_another_end_in_one_order(count, seed):
    rng = np.random.default_rng(seed)
    told = rng.integers(0, 2, (count, count))
    order, seen, _ = ranking(lambda i, j: told[i, j], count)
    assert sorted(order) == list(range(count))
    assert order == ranking(lambda i, j: told[i, j], count)[0]
    assert len(seen) == len(set(seen))


def test_of_many_it_compares_few():
    values = np.random.default_rng(0).permutation(200)
    _, seen, rounds = ranking(lambda i, j: values[j] > values[i], 200)
    assert len(seen) < 200 * 199 / 2 / 4
    assert rounds <= 4


# questions


def pairs_question(kind=WeightedEvidence, count=4):
    rows = np.array([[0, place + 1] for place in range(count)])
    counts, members = pack_blocks([rows])
    weighted = WeightedEvidence(
        n_variables=count + 1, test=CITestSpec(alpha=0.05), counts=counts, members=members
    )
    return weighted if kind is WeightedEvidence else CombinedEvidence.about(weighted, "fisher")


def asked_by(ranking, question, dependent):
    """Everything a ranking asks, where every verdict is false."""
    outcome, heard = answered(
        ranking.strengths(question, dependent),
        lambda own: np.zeros(sum(e.length for e in own.encodings)),
    )
    return [own for own, _ in heard], outcome


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 12), st.booleans())
def test_a_bit_names_the_larger_sum_over_sites_that_have_both(seed, n_sites, equal):
    rng = np.random.default_rng(seed)
    question = pairs_question()
    size = 10.0 ** rng.integers(0, 10)
    rows = rng.integers(0, 2, (n_sites, 4)) * rng.integers(5, 5000, (n_sites, 1))
    strengths = np.where(rows > 0, rng.uniform(0.0, size, (n_sites, 4)), 0.0)
    if equal:
        strengths[:, 1], rows[:, 1] = strengths[:, 0], rows[:, 0]
    answers = np.concatenate([np.zeros((n_sites, 4)), strengths, rows], axis=1)
    scale = ScaleVerdicts(question)
    reached = plain_verdicts(scale, np.array([scale.words(own) for own in answers]))
    total = strengths.max(axis=1).sum()
    able = (rows > 0).any()
    power = int(reached.sum())
    assert (reached == (np.arange(POWERS) < power)).all()
    if able:
        slack = 1.0 + n_sites / STEPS
        assert 4.0**power > total
        assert power == 0 or total * slack * STEPS >= 4.0 ** (power - 1)
    else:
        assert power == 0
        return
    pairs = np.array(list(combinations(range(4), 2)))
    half, bits = finest_grid_that_fits(lambda own: 1 << own, n_sites, "too many")
    own = StrengthVerdicts(question, half, bits - 2 * power, pack_integers(pairs))
    told = plain_verdicts(own, np.array([own.words(answer) for answer in answers]))
    for (i, j), bit in zip(pairs.tolist(), told, strict=True):
        common = (rows[:, i] > 0) & (rows[:, j] > 0)
        difference = (strengths[:, j] - strengths[:, i])[common].sum()
        step = n_sites * 4.0**power / half
        if not common.any() or difference < -step or (equal and (i, j) == (0, 1)):
            assert not bit
        elif difference > step:
            assert bit


@pytest.mark.parametrize("evidence", CLOSED)
def test_a_ranking_asks_of_dependent_pairs_alone_and_of_one_nothing(evidence):
    question = pairs_question(count=6)
    own = Ranking(evidence, 5)
    chosen = np.array([True, False, True, True, False, False])
    asked, found = asked_by(own, question, chosen)
    assert [type(part) for part in asked] == (
        [ScaleVerdicts, StrengthVerdicts] if evidence == "weighted_p" else [StrengthVerdicts]
    )
    for part in asked:
        assert part.question.rows()[0].tolist() == [[0, 1], [0, 3], [0, 4]]
    # none is stronger than an earlier one
    assert found.tolist() == [3, 0, 2, 1, 0, 0]
    for few in (0, 1):
        asked, found = asked_by(own, question, np.arange(6) < few)
        assert asked == []
        assert found.tolist() == [float(place < few) for place in range(6)]


def test_questions_that_cannot_be_are_refused():
    good = {"question": pairs_question(), "largest": 8, "grid_bits": 0}
    StrengthVerdicts(**good, pairs=pack_integers(np.array([[0, 1]])))
    for wrong in ([[0, 0]], [[0, 4]], [[-1, 2]]):
        with pytest.raises(ValueError, match="two different pairs"):
            StrengthVerdicts(**good, pairs=pack_integers(np.array(wrong)))
    with pytest.raises(ValueError, match="two 64-bit integers"):
        StrengthVerdicts(**good, pairs=b"12345678")
    with pytest.raises(ValueError, match="logarithms of p"):
        StrengthVerdicts(
            **good | {"question": CombinedEvidence.about(pairs_question(), "weighted_p")},
            pairs=pack_integers(np.array([[0, 1]])),
        )
    with pytest.raises(ValueError, match="largest size"):
        StrengthVerdicts(**good | {"largest": 0}, pairs=pack_integers(np.array([[0, 1]])))


def test_every_round_is_of_verdicts_however_many_labels_there_are():
    (_, _), (_, asked) = both(tables("discrete", 2), "weighted_p", labels=tuple(range(6)))
    kinds = {type(part) for question in asked for part in question.parts}
    assert StrengthVerdicts in kinds
    assert WeightedEvidence not in kinds
