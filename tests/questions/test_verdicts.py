"""Questions of which no sum is opened: their predicates by brute force, and by the tests' sums."""

from fractions import Fraction
from itertools import product

import msgspec
import numpy as np
import pytest
from driving import plain_verdicts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.algorithms.evidence.combined import fisher_criticals, largest_excess
from cipherdag.algorithms.fedpc.voting import PAPER, PROGRAM, VoteRule
from cipherdag.errors import ParameterError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import CombinedEvidence, combined_p
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.verdicts import SUM_BITS, EdgeVerdicts, EvidenceVerdicts


def one_edge(needed, *, abstain=True):
    skeleton = Skeleton.from_matrix(~np.eye(2, dtype=bool))
    votes = EdgeVotes(skeleton=skeleton, layer=0, test=CITestSpec(alpha=0.01), abstain=abstain)
    return EdgeVerdicts(votes, needed)


def bits_of(question, answers):
    """The verdicts on the answers of sites to the inner question."""
    return plain_verdicts(question, np.array([question.words(own) for own in answers]))


SHARES = [0.0, 1e-9, 0.1, 0.3, 1 / 3, 0.5, 2 / 3, 0.7, 0.999, 1.0]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("n_sites", [2, 3, 5, 12])
def test_one_line_of_votes_and_voters_says_what_the_table_says(share, n_sites):
    rule = VoteRule(share=share, reference=PAPER, max_cond_size=None)
    question = one_edge(rule.table(n_sites))
    assert question.predicates(n_sites).n_comparisons == 1
    for able in range(n_sites + 1):
        for cast in range(able + 1):
            answers = np.zeros((n_sites, 2))
            answers[:cast, 0], answers[:able, 1] = 1.0, 1.0
            needed = rule.needed(np.array([able]))[0]
            assert bits_of(question, answers)[0] == (able > 0 and cast < needed)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(2, 300))
def test_the_share_of_a_table_makes_the_table(numerator, denominator, n_sites):
    share = min(Fraction(numerator, denominator), Fraction(1))
    table = (0, *(int(share * able) + 1 for able in range(1, n_sites + 1)))
    found = one_edge(table).share()
    assert [int(found * able) + 1 for able in range(1, n_sites + 1)] == list(table[1:])
    assert found.denominator <= n_sites


@pytest.mark.parametrize("n_asked", [2, 3, 4, 5])
@pytest.mark.parametrize("share", SHARES)
def test_after_a_departure_those_asked_decide(n_asked, share):
    rule = VoteRule(share=share, reference=PROGRAM, max_cond_size=None)
    question = one_edge(rule.table(5), abstain=False)
    for cast in range(n_asked + 1):
        answers = [np.array([float(k < cast)]) for k in range(n_asked)]
        needed = rule.needed(np.array([n_asked]))[0]
        assert bits_of(question, answers)[0] == (cast < needed)


def summands(rng, combination, n_tests, max_rows, abstaining):
    """What one site adds up for some tests; it cannot do some of them."""
    able = rng.random(n_tests) > abstaining
    p_values = rng.uniform(size=n_tests) ** rng.choice([1.0, 3.0, 9.0])
    if combination == "weighted_p":
        rows = np.where(able, rng.integers(1, max_rows, n_tests), 0)
        return np.concatenate([np.ldexp(np.rint(np.ldexp(rows * p_values, 32)), -32), rows])
    logs = np.where(able, -2.0 * np.log(np.maximum(p_values, 1e-300)), 0.0)
    return np.concatenate([logs, able.astype(float), 5.0 * able])


def some_tests(combination, alpha, count=100, max_rows=1 << 12):
    rows = np.array([(x, y) for x, y in product(range(20), range(20)) if x < y])[:count]
    counts, members = pack_blocks([rows])
    own = CombinedEvidence.over_sites(
        CITestSpec(alpha=alpha), combination, n_variables=20, max_rows=max_rows
    )
    return msgspec.structs.replace(own, counts=counts, members=members)


def verdicts_of(combination, alpha, n_sites, *, count=100, max_rows=1 << 12, both=False):
    own = some_tests(combination, alpha, count, max_rows)
    if combination == "weighted_p":
        largest, bits = largest_excess(max_rows, n_sites)
        return EvidenceVerdicts(own, bits, largest, both=both)
    critical, bits = fisher_criticals(alpha, n_sites)
    return EvidenceVerdicts(own, bits, critical[-1] + 1, critical)


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(["fisher", "weighted_p"]),
    st.integers(2, 12),
    st.sampled_from([0.001, 0.01, 0.05, 0.3, 0.49, 0.5, 0.51, 0.9]),
    st.sampled_from([0.0, 0.4, 0.8]),
    st.integers(0, 2**32),
)
def test_verdicts_are_those_of_the_sums(combination, n_sites, alpha, abstaining, seed):
    rng = np.random.default_rng(seed)
    question = verdicts_of(combination, alpha, n_sites, both=combination == "weighted_p")
    answers = [summands(rng, combination, 100, 1 << 12, abstaining) for _ in range(n_sites)]
    first, second = np.split(bits_of(question, answers), 2)
    sums = np.sum(answers, axis=0)
    if combination == "weighted_p":
        p_value = combined_p(question.question, sums)
        done = sums[100:] > 0
        # nobody counts on a p-value that lies on the border to a step of the grid
        clear = ~done | (np.abs(p_value - alpha) > 1e-3 * alpha)
        assert (first[clear] == (done & (p_value > alpha))[clear]).all()
        assert (second[clear] == (done & (p_value < alpha))[clear]).all()
        return
    able = np.array([answer[100:200] for answer in answers]).sum(axis=0)
    assert (second == (able > 0)).all()
    chi_square = stats.chi2.sf(sums[:100], 2 * np.maximum(able, 1))
    clear = (able > 0) & (np.abs(chi_square - alpha) > 1e-3 * alpha)
    independent = first == 0 if question.says_dependent else first == 1
    assert (independent == (chi_square > alpha))[clear].all()


@pytest.mark.parametrize("alpha", [1e-9, 1e-3, 0.01, 0.05, 0.3, 0.45, 0.5, 0.55, 0.7, 0.99])
@pytest.mark.parametrize("n_sites", [2, 3, 10, 60])
def test_the_chain_of_lines_is_the_table_of_critical_values(alpha, n_sites):
    """Exact at every value and the next sum above it, however many sites have a test."""
    question = verdicts_of("fisher", alpha, n_sites, count=1)
    for asked in {2, n_sites // 2 + 1, n_sites}:
        predicates = question.predicates(asked)
        assert predicates.n_comparisons <= asked
        for able in range(1, asked + 1):
            last = question.critical[able - 1]
            for total in (0, last, last + 1, asked * question.largest):
                words = np.zeros((asked, 2), dtype=np.int64)
                words[:, 0] = [total // asked + (k < total % asked) for k in range(asked)]
                words[:able, 1] = 1
                beyond, some = plain_verdicts(question, words)
                assert beyond == ((total > last) == question.says_dependent)
                assert some


def test_a_test_without_degrees_of_freedom_counts_no_site_and_no_sum():
    question = verdicts_of("fisher", 0.01, 4, count=1)
    assert question.words(np.array([3.0, 0.0, 5.0])).tolist() == [0, 0]
    assert question.words(np.array([3.0, 1.0, 0.0]))[1] == 1


def test_fisher_s_verdicts_keep_their_level():
    """Of independent pairs alpha are called dependent, whatever sites abstain."""
    rng, alpha, n_sites, n_tests = np.random.default_rng(8), 0.05, 6, 190
    question, dependent, asked = verdicts_of("fisher", alpha, n_sites, count=n_tests), 0, 0
    for _ in range(100):
        able = rng.random((n_sites, n_tests)) > 0.3
        logs = np.where(able, -2.0 * np.log(rng.uniform(size=able.shape)), 0.0)
        answers = np.concatenate([logs, able, 5.0 * able], axis=1)
        first, some = np.split(bits_of(question, answers), 2)
        assert (some == able.any(axis=0)).all()
        dependent += int(first[some > 0].sum())
        asked += int(some.sum())
    assert stats.binomtest(dependent, asked, alpha).pvalue > 1e-4


@pytest.mark.parametrize("n_sites", [2, 10, 50, 100, 1000])
def test_sums_have_few_enough_bits(n_sites):
    for alpha in (0.01, 1e-9):
        critical, bits = fisher_criticals(alpha, n_sites)
        assert n_sites * (critical[-1] + 1) < 1 << SUM_BITS - 1
        assert bits >= 8
    with pytest.raises(ParameterError, match="smaller max_rows"):
        largest_excess(1 << 33, n_sites)


@pytest.mark.parametrize(
    "changes",
    [
        {"grid_bits": -1}, {"grid_bits": SUM_BITS}, {"largest": 0}, {"largest": 1 << SUM_BITS},
        {"critical": ()}, {"critical": (-1,)}, {"critical": (5, 1 << 40)}, {"both": True},
        {"question": some_tests("weighted_p", 0.01)},
    ],
)  # fmt: skip
def test_evidence_that_cannot_be_is_refused(changes):
    good = verdicts_of("fisher", 0.01, 4)
    with pytest.raises(ValueError, match="."):
        msgspec.structs.replace(good, **changes).__post_init__()


@pytest.mark.parametrize("needed", [(1, 1), (0, 3), (0, -1), (), (0,), (0, 1, 1, 3), (0, 0, 1)])
def test_votes_that_cannot_be_needed_are_refused(needed):
    with pytest.raises(ValueError, match="."):
        one_edge(needed)
