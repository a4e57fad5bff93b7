"""Questions of which no sum is opened: their sets by brute force, and by the tests' own sums."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest
from cipherdag.questions.closed.by_count import LARGEST_SUM, ByCount, joined
from driving import plain_verdicts
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.algorithms.evidence.closed import excess_amounts, fisher_amounts
from cipherdag.algorithms.fedpc.voting import VoteRule
from cipherdag.errors import ParameterError
from cipherdag.privacy.fixedpoint import MAX_COMPARED
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import CombinedEvidence, combined_p
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.question import Skeleton
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.verdicts import RELIABLE, EdgeVerdicts, EvidenceVerdicts


def one_edge(needed, *, abstain=True):
    skeleton = Skeleton.from_matrix(~np.eye(2, dtype=bool))
    votes = EdgeVotes(skeleton=skeleton, layer=0, test=CITestSpec(alpha=0.01), abstain=abstain)
    return EdgeVerdicts(votes, needed)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("reference", ["paper", "code"])
@pytest.mark.parametrize(("n_sites", "fewest"), [(3, 3), (5, 3), (7, 1), (12, 4)])
def test_every_number_of_votes_and_voters(share, reference, n_sites, fewest):
    rule = VoteRule(share=share, reference=reference, max_cond_size=None)
    question = one_edge(rule.table(n_sites, fewest))
    for able in range(n_sites + 1):
        for cast in range(able + 1):
            answers = np.zeros((n_sites, 2))
            answers[:cast, 0], answers[:able, 1] = 1.0, 1.0
            total = sum(question.numbers(own) for own in answers)
            needed = rule.needed(np.array([able]))[0]
            falls = plain_verdicts(question, total, n_sites)[0]
            assert falls == (able >= fewest and cast < needed)


@pytest.mark.parametrize("n_asked", [3, 4, 5])
def test_after_a_departure_those_asked_decide(n_asked):
    rule = VoteRule(share=0.5, reference="code", max_cond_size=None)
    question = one_edge(rule.table(5, 3), abstain=False)
    for cast in range(n_asked + 1):
        total = sum(question.numbers(np.array([float(k < cast)])) for k in range(n_asked))
        needed = rule.needed(np.array([n_asked]))[0]
        assert plain_verdicts(question, total, n_asked)[0] == (cast < needed)


def summands(rng, combination, n_tests, max_rows, abstaining):
    """What one site adds up for some tests; it cannot do some of them."""
    able = rng.random(n_tests) > abstaining
    p_values = rng.uniform(size=n_tests) ** rng.choice([1.0, 3.0, 9.0])
    if combination == "weighted_p":
        rows = np.where(able, rng.integers(1, max_rows, n_tests), 0)
        return np.concatenate([np.ldexp(np.rint(np.ldexp(rows * p_values, 32)), -32), rows])
    logs = np.where(able, -2.0 * np.log(np.maximum(p_values, 1e-300)), 0.0)
    reliability = np.where(able, rng.choice([1.0, 1.7, 5.0], n_tests), 0.0)
    return np.concatenate([logs, able.astype(float), reliability])


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(["fisher", "weighted_p"]),
    st.integers(3, 12),
    st.integers(1, 5),
    st.sampled_from([0.001, 0.01, 0.05, 0.3]),
    st.sampled_from([0.0, 0.4, 0.8]),
    st.integers(0, 2**32),
)
def test_tests_say_what_the_p_value_of_their_sums_says(
    combination, n_sites, fewest, alpha, abstaining, seed
):
    rng, max_rows = np.random.default_rng(seed), 1 << 12
    rows = np.array([(x, y) for x, y in product(range(20), range(20)) if x < y])[:100]
    counts, members = pack_blocks([rows])
    own = CombinedEvidence.over_sites(
        CITestSpec(alpha=alpha), combination, n_variables=20, max_rows=max_rows
    )
    own = msgspec.structs.replace(own, counts=counts, members=members)
    made = fisher_amounts(alpha, n_sites, fewest) if combination == "fisher" else (
        excess_amounts(max_rows, n_sites, fewest))  # fmt: skip
    question = EvidenceVerdicts(own, *made)
    answers = [summands(rng, combination, 100, max_rows, abstaining) for _ in range(n_sites)]
    numbers = np.array([question.numbers(answer) for answer in answers])
    bound = np.repeat([e.bound for e in question.encodings], [e.length for e in question.encodings])
    assert ((numbers >= 0) & (numbers <= bound) & (numbers == np.rint(numbers))).all()
    bits = plain_verdicts(question, numbers.sum(axis=0), n_sites)
    sums = np.sum(answers, axis=0)
    p_value = combined_p(own, sums)
    weight = np.array([answer[-100:] > 0 for answer in answers]).sum(axis=0)
    enough = weight >= fewest
    # nobody counts on a p-value that lies on the border to a step of the grid
    clear = np.isnan(p_value) | (np.abs(p_value - alpha) > 1e-3 * alpha)
    if combination == "weighted_p":
        expected = enough & (p_value > alpha)
        assert (bits[clear] == expected[clear]).all()
        return
    independent, reliable = np.split(bits, 2)
    total = sums[200:]
    close = np.abs(total - 5.0) < 0.01
    assert (reliable == (enough & (total >= 5.0)))[~close | (total == 5.0)].all()
    chi_square = stats.chi2.sf(sums[:100], 2 * np.maximum(weight, 1))
    off = np.abs(chi_square - alpha) > 1e-3 * alpha
    assert (independent == (enough & (chi_square > alpha)))[off].all()


def test_a_test_without_degrees_of_freedom_counts_with_the_mean():
    own = CombinedEvidence.over_sites(CITestSpec(alpha=0.01), "fisher", 3, 1000)
    counts, members = pack_blocks([np.array([[0, 1]])])
    own = msgspec.structs.replace(own, counts=counts, members=members)
    question = EvidenceVerdicts(own, *fisher_amounts(0.01, 4, 3))
    idle, telling = np.array([0.0, 0.0, 5.0]), np.array([2.0, 1.0, 5.0])
    assert question.numbers(idle).tolist() == question.numbers(telling).tolist()


def test_fisher_s_verdicts_keep_their_level():
    """Of independent pairs alpha are called dependent, whatever sites abstain."""
    rng, alpha, n_sites, n_tests = np.random.default_rng(8), 0.05, 6, 20000
    amounts, bits = fisher_amounts(alpha, n_sites, 3)
    able = rng.random((n_sites, n_tests)) > 0.3
    logs = -2.0 * np.log(rng.uniform(size=(n_sites, n_tests)))
    steps = np.minimum(np.rint(np.ldexp(logs, bits)), amounts.largest)
    total = np.array([amounts.numbers(a, s) for a, s in zip(able, steps, strict=True)]).sum(axis=0)
    low, high, _ = amounts.sets(n_tests, n_sites)
    independent = ((low <= total) & (total <= high)).any(axis=0)
    asked = able.sum(axis=0) >= 3
    assert not independent[~asked].any()
    dependent = int((~independent[asked]).sum())
    assert stats.binomtest(dependent, int(asked.sum()), alpha).pvalue > 1e-4


@pytest.mark.parametrize("n_sites", [3, 10, 50, 100])
def test_sums_have_few_enough_bits_for_every_protection(n_sites):
    for made in (fisher_amounts(0.01, n_sites, 3), fisher_amounts(1e-9, n_sites, 3)):
        assert n_sites * made[0].bound <= LARGEST_SUM
        assert made[1] >= 8
    with pytest.raises(ParameterError, match="smaller max_rows"):
        excess_amounts(1 << 33, n_sites, 3)


def test_too_many_sites_for_fisher_s_verdicts_are_refused_by_name():
    question = CombinedEvidence.over_sites(CITestSpec(alpha=0.01), "fisher", 2, 1 << 20)
    assert EvidenceVerdicts(question, *fisher_amounts(0.01, 723, 3)).fewest == 3
    with pytest.raises(ParameterError, match="fewer sites"):
        fisher_amounts(0.01, 724, 3)


@pytest.mark.parametrize("max_rows", [1677720, 1677721])
def test_a_declared_number_of_rows_never_makes_sums_too_large_for_one_residue(max_rows):
    """These came to just below 2**35, which is more than half of the smallest modulus."""
    assert LARGEST_SUM == MAX_COMPARED
    amounts, bits = excess_amounts(max_rows, 4, 3)
    assert 4 * amounts.bound <= MAX_COMPARED
    assert bits == 8


@pytest.mark.parametrize(
    ("low", "high", "largest"),
    [
        ((0, 0), (0, 0), 1),  # true of no site at all
        ((0, 0), (-1, 2), 1),
        ((0, -1), (-1, 1), 1),
        ((0,), (-1,), 1),
        ((0, 0), (-1, 0), -1),
        ((0, 0, 0), (-1, -1, 5), LARGEST_SUM),
    ],
)
def test_amounts_that_cannot_be_are_refused(low, high, largest):
    with pytest.raises(ValueError, match="amounts|at most"):
        ByCount(low=low, high=high, largest=largest)


@pytest.mark.parametrize("needed", [(1, 1), (0, 3), (0, -1), ()])
def test_votes_that_cannot_be_needed_are_refused(needed):
    with pytest.raises(ValueError, match="."):
        one_edge(needed)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_sets_of_several_questions_stand_side_by_side(widths):
    parts = []
    for width in widths:
        high = (-1, *(k * RELIABLE // 2 for k in range(1, width + 1)))
        own = ByCount(low=(0,) * (width + 1), high=high, largest=RELIABLE)
        parts.append(own.sets(2, width))
    low, high, most = joined(parts)
    assume(low.size)
    for number, (first, last, largest) in enumerate(parts):
        columns = slice(2 * number, 2 * number + 2)
        assert (low[: len(first), columns] == first).all()
        assert (high[: len(last), columns] == last).all()
        assert (low[len(first) :, columns] > high[len(last) :, columns]).all()
        assert (most[columns] == largest).all()
