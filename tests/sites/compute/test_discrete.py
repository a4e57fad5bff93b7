import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import random_of_size
from scipy import stats

from cipherdag import Federation, FedPC
from cipherdag.errors import ParameterError
from cipherdag.sites.compute.ci_tests.ci_test import CachedCITest, canonical
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.device import resolve_device
from cipherdag.statistics.contingency import buckets

FIELDS = ("p_value", "statistic", "dof", "dependence", "rows")


def slow_test(codes, x, y, given, *, statistic, dof, min_rows_per_cell):
    """One test, configuration by configuration: p-value, statistic, dof, rows."""
    levels = np.maximum(codes.max(axis=0) + 1, 1).astype(float)
    names = [x, y, *given]
    kept = codes[(codes[:, names] >= 0).all(axis=1)][:, names]
    cells = math.prod(levels[name] for name in names)
    if len(kept) == 0 or len(kept) / cells < min_rows_per_cell:
        return math.nan, math.nan, math.nan, len(kept)
    value, adjusted = 0.0, 0
    for configuration in {tuple(row) for row in kept[:, 2:].tolist()}:
        part = kept[(kept[:, 2:] == np.array(configuration, dtype=int)).all(axis=1)]
        table = np.zeros((int(levels[x]), int(levels[y])))
        np.add.at(table, (part[:, 0], part[:, 1]), 1)
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        if statistic == "g2":
            positive = table > 0
            value += 2 * (table[positive] * np.log(table[positive] / expected[positive])).sum()
        else:
            value += ((table - expected) ** 2 / expected).sum()
        adjusted += (table.shape[0] - 1) * (table.shape[1] - 1)
    if dof == "adjusted":
        freedom = adjusted
    else:
        freedom = (levels[x] - 1) * (levels[y] - 1) * math.prod(levels[s] for s in given)
    p_value = stats.chi2.sf(value, freedom) if freedom else 1.0
    if any(is_copy(codes[:, own], codes[:, other]) for own in (x, y) for other in given):
        p_value = math.nan
    return p_value, value, freedom, len(kept)


def is_copy(one, other):
    """Whether two columns that vary say the same in other words."""
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    told = {(a, b) for a, b in pairs if a >= 0}
    return (
        all((a < 0) == (b < 0) for a, b in pairs)
        and len({a for a, _ in told}) == len(told) == len({b for _, b in told}) > 1
    )


def table_of(rng, rows, levels, missing=0.0):
    """Codes with dependence, skewed levels (so that margins are empty) and missing cells."""
    codes = np.stack([rng.binomial(k - 1, 0.35, rows) for k in levels], axis=1).astype(np.int32)
    for column in range(1, len(levels)):
        copied = rng.random(rows) < 0.4
        codes[copied, column] = np.minimum(codes[copied, column - 1], levels[column] - 1)
    codes[rng.random(codes.shape) < missing] = -1
    return codes


def check_against_slow(test, codes, tests, **options):
    found = test.evaluate(*tests)
    for index in range(len(tests[0])):
        x, y, members = (part[index].tolist() for part in tests)
        wanted = slow_test(codes, x, y, members, **options)
        got = [float(getattr(found, name)[index]) for name in ("p_value", "statistic", "dof")]
        np.testing.assert_allclose([*got, found.rows[index]], wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_equal(found.dependence[index], found.statistic[index])


def assert_identical(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("statistic", ["g2", "pearson"])
@pytest.mark.parametrize("dof", ["adjusted", "plain"])
@pytest.mark.parametrize(
    ("rows", "missing", "min_rows_per_cell"),
    [
        (600, 0.0, 5.0),
        (600, 0.1, 5.0),
        (150, 0.3, 0.0),
        (5, 0.0, 0.0),
        (2, 0.0, 0.0),
        (1, 0.0, 0.0),
    ],
)
def test_agrees_with_a_slow_reference(statistic, dof, rows, missing, min_rows_per_cell):
    rng = np.random.default_rng(7)
    codes = table_of(rng, rows, (2, 3, 4, 1, 2, 6, 15), missing)
    options = {"statistic": statistic, "dof": dof, "min_rows_per_cell": min_rows_per_cell}
    test = DiscreteTest(codes, **options)
    for size in range(5):
        check_against_slow(test, codes, random_of_size(rng, 7, size, 25), **options)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 80),
    st.lists(st.integers(1, 5), min_size=3, max_size=5),
    st.sampled_from([0.0, 0.2, 0.9]),
    st.sampled_from(["g2", "pearson"]),
    st.sampled_from(["adjusted", "plain"]),
    st.sampled_from([0.0, 0.7, 5.0]),
)
def test_agrees_with_the_reference_on_any_small_table(
    seed, rows, levels, missing, statistic, dof, least
):
    rng = np.random.default_rng(seed)
    codes = table_of(rng, rows, levels, missing)
    options = {"statistic": statistic, "dof": dof, "min_rows_per_cell": least}
    test = DiscreteTest(codes, **options)
    for size in range(len(levels) - 1):
        check_against_slow(test, codes, random_of_size(rng, len(levels), size, 4), **options)


@pytest.mark.parametrize(("statistic", "power"), [("g2", "log-likelihood"), ("pearson", "pearson")])
def test_a_single_table_agrees_with_scipy(statistic, power):
    codes = table_of(np.random.default_rng(1), 800, (3, 4))
    table = np.zeros((3, 4))
    np.add.at(table, tuple(codes.T), 1)
    wanted = stats.chi2_contingency(table, correction=False, lambda_=power)
    found = DiscreteTest(codes, statistic=statistic).evaluate(*one_test(0, 1))
    np.testing.assert_allclose(found.statistic[0], wanted.statistic, rtol=1e-9)
    np.testing.assert_allclose(found.p_value[0], wanted.pvalue, rtol=1e-9)
    assert found.dof[0] == wanted.dof


@pytest.mark.parametrize(("statistic", "peer"), [("g2", "gsq"), ("pearson", "chisq")])
def test_agrees_with_causal_learn(statistic, peer):
    from causallearn.utils.cit import CIT

    rng = np.random.default_rng(2)
    codes = table_of(rng, 2000, (2, 3, 2, 3, 2, 4))
    theirs = CIT(codes, peer)
    ours = DiscreteTest(codes, statistic=statistic, min_rows_per_cell=0.0)
    for size in range(4):
        x, y, members = random_of_size(rng, 6, size, 15)
        wanted = [theirs(int(a), int(b), s.tolist()) for a, b, s in zip(x, y, members, strict=True)]
        np.testing.assert_allclose(ours.evaluate(x, y, members).p_value, wanted, rtol=0, atol=1e-9)


def one_test(x, y, *members):
    return np.array([x]), np.array([y]), np.array([members], dtype=np.int64)


def test_reliability_counts_the_rows_left_per_cell():
    codes = np.array(list(itertools.product(range(2), range(2), range(2))) * 5)
    assert DiscreteTest(codes).evaluate(*one_test(0, 1, 2)).p_value[0] == 1.0
    short = codes[:-1]
    found = DiscreteTest(short).evaluate(*one_test(0, 1, 2))
    assert found.rows[0] == 39
    for name in ("p_value", "statistic", "dof", "dependence"):
        assert math.isnan(getattr(found, name)[0])
    gap = codes.copy()
    gap[3, 2] = -1
    test = DiscreteTest(gap)
    assert math.isnan(test.evaluate(*one_test(0, 1, 2)).p_value[0])
    assert test.evaluate(*one_test(0, 1)).rows[0] == 40
    assert not math.isnan(test.evaluate(*one_test(0, 1)).p_value[0])


def test_a_constant_column_is_independent_of_everything():
    codes = table_of(np.random.default_rng(3), 200, (3, 1, 2))
    found = DiscreteTest(codes).evaluate(*one_test(0, 1, 2))
    assert (found.p_value[0], found.statistic[0], found.dof[0]) == (1.0, 0.0, 0.0)


def test_given_a_copy_nothing_can_be_tested_and_votes_keep_both():
    rng = np.random.default_rng(3)
    cause = rng.integers(0, 3, 2000)
    effect = np.where(rng.random(2000) < 0.5, cause, rng.integers(0, 3, 2000))
    codes = np.column_stack([cause, np.array([2, 0, 1])[cause], effect])
    found = DiscreteTest(codes).evaluate(
        np.array([0, 0, 1, 0]), np.array([2, 2, 2, 1]), np.array([[1], [1], [0], [2]])
    )
    assert np.isnan(found.p_value[:3]).all()
    assert found.p_value[3] < 1e-100
    coarser = np.column_stack([cause, cause > 1, effect]).astype(np.int64)
    assert DiscreteTest(coarser).evaluate(
        np.array([1]), np.array([2]), np.array([[0]])
    ).p_value == [1.0]
    columns = dict(zip("abc", codes.T.astype(str), strict=True))
    federation = Federation.split(pd.DataFrame(columns), 3, device="cpu")
    graph = federation.run(FedPC(evidence="vote")).finding.graph
    assert len(graph.edges) == 3


def test_a_column_that_is_all_missing_leaves_no_rows():
    codes = table_of(np.random.default_rng(3), 200, (3, 2, 2))
    codes[:, 1] = -1
    for least in (0.0, 5.0):
        test = DiscreteTest(codes, min_rows_per_cell=least)
        for tests in (one_test(0, 1), one_test(0, 2, 1)):
            found = test.evaluate(*tests)
            assert math.isnan(found.p_value[0])
            assert found.rows[0] == 0
        assert not math.isnan(test.evaluate(*one_test(0, 2)).p_value[0])


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("statistic", ["g2", "pearson"])
def test_memory_order_and_repetition_change_no_bit(statistic, missing):
    rng = np.random.default_rng(4)
    codes = table_of(rng, 300, (2, 3, 5, 1, 2, 9, 30), missing)
    options = {"statistic": statistic, "min_rows_per_cell": 0.0}
    roomy = DiscreteTest(codes, **options)
    for size in range(5):
        x, y, members = random_of_size(rng, 7, size, 80)
        wanted = roomy.evaluate(x, y, members)
        assert_identical(roomy.evaluate(x, y, members), wanted)
        assert_identical(roomy.evaluate(y, x, members[:, ::-1]), wanted)
        for memory in (1, 10_000, 1_000_000):
            tight = DiscreteTest(codes, memory_bytes=memory, **options)
            assert_identical(tight.evaluate(x, y, members), wanted)
            assert_identical(tight.evaluate(x, y, members), wanted)
        alone = [DiscreteTest(codes, **options).evaluate(x[:1], y[:1], members[:1])]
        assert alone[0].p_value[0] == wanted.p_value[0]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_all_pairs_at_once_are_counted_as_a_few_are(missing):
    rng = np.random.default_rng(5)
    codes = table_of(rng, 1500, rng.integers(2, 4, 80), missing)
    x, y = np.triu_indices(80, 1)
    empty = np.zeros((len(x), 0), dtype=np.int64)
    together = DiscreteTest(codes)
    counting = DiscreteTest(codes)
    parts = [
        counting.evaluate(x[i : i + 40], y[i : i + 40], empty[i : i + 40])
        for i in range(0, len(x), 40)
    ]
    found = together.evaluate(x, y, empty)
    for name in FIELDS:
        np.testing.assert_array_equal(
            getattr(found, name), np.concatenate([getattr(part, name) for part in parts])
        )


def watch(owner, name):
    """Record the calls of a method of one object."""
    calls = []
    method = getattr(owner, name)

    def recorded(*arguments, **options):
        calls.append(arguments)
        return method(*arguments, **options)

    setattr(owner, name, recorded)
    return calls


def test_unreliable_tests_are_not_counted():
    codes = table_of(np.random.default_rng(6), 100, (6, 6, 6, 2))
    test = DiscreteTest(codes)
    calls = watch(test._columns, "tables")
    assert np.isnan(test.evaluate(*one_test(0, 1, 2)).p_value).all()
    assert not calls
    test.evaluate(*one_test(0, 3))
    assert calls


def test_many_levels_and_large_sets_need_no_table_of_all_cells():
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 2, (60, 20))
    codes[:, :2] = rng.integers(0, 40, (60, 2))
    codes[0, 0] = 40
    # 20 variables exceed a 63-bit key; 2**18 configurations of 41 * 40 cells exceed every table
    sets = np.array([[*range(2, 20)], [*range(1, 17), 18, 19]])
    tests = (np.array([0, 0]), np.array([1, 17]), sets)
    options = {"statistic": "g2", "dof": "adjusted", "min_rows_per_cell": 0.0}
    check_against_slow(DiscreteTest(codes, **options), codes, tests, **options)
    found = DiscreteTest(codes, **options).evaluate(*tests)
    codes[0, 0] = 2**31 - 2
    assert_identical(DiscreteTest(codes, **options).evaluate(*tests), found)


def test_p_values_are_uniform_under_the_null():
    rng = np.random.default_rng(9)
    groups, rows = 400, 1500
    common = rng.integers(0, 2, (rows, groups))
    x = (rng.random((rows, groups)) < 0.3 + 0.4 * common).astype(int)
    y = (rng.random((rows, groups)) < 0.6 - 0.3 * common) + rng.integers(0, 2, (rows, groups))
    test = DiscreteTest(np.concatenate([common, x, y], axis=1))
    place = np.arange(groups)
    independent = test.evaluate(place + groups, place + 2 * groups, place[:, None])
    assert stats.kstest(independent.p_value, "uniform").pvalue > 0.01
    shuffled = test.evaluate(
        place + groups, (place + 1) % groups + 2 * groups, np.zeros((groups, 0), dtype=int)
    )
    assert stats.kstest(shuffled.p_value, "uniform").pvalue > 0.01


def test_dependence_is_found():
    rng = np.random.default_rng(10)
    cause = rng.integers(0, 2, (1000, 50))
    effect = np.where(rng.random(cause.shape) < 0.2, 1 - cause, cause)
    test = DiscreteTest(np.concatenate([cause, effect, rng.integers(0, 2, (1000, 1))], axis=1))
    place = np.arange(50)
    given = np.full((50, 1), 100)
    assert (test.evaluate(place, place + 50, given).p_value < 1e-6).all()


def test_parameters_are_checked():
    codes = np.zeros((4, 3), dtype=np.int32)
    for bad in (codes[0], codes[:0], codes[:, :0], codes.astype(float), codes + np.int64(2**31)):
        with pytest.raises(ParameterError):
            DiscreteTest(bad)
    for options in (
        {"statistic": "g"},
        {"dof": "other"},
        {"min_rows_per_cell": -1.0},
        {"min_rows_per_cell": math.nan},
        {"memory_bytes": 0},
        {"device": "abacus"},
        {"device": "meta"},
    ):
        with pytest.raises(ParameterError):
            DiscreteTest(codes, **options)


def test_positions_are_checked():
    test = DiscreteTest(np.zeros((4, 5), dtype=np.int32))
    for tests in (
        one_test(0, 0),
        one_test(0, 5),
        one_test(-1, 2),
        one_test(0, 1, 1),
        one_test(0, 1, 0),
        one_test(0, 1, 2, 2),
        one_test(0, 1, 3, 2, 3),
        (np.array([0, 1]), np.array([2]), np.zeros((2, 0), dtype=int)),
        (np.array([0]), np.array([2]), np.zeros((2, 0), dtype=int)),
        (np.array([0]), np.array([2]), np.zeros(1, dtype=int)),
        (np.array([[0]]), np.array([[2]]), np.zeros((1, 0), dtype=int)),
        (np.array([0.0]), np.array([2.0]), np.zeros((1, 0), dtype=int)),
    ):
        with pytest.raises(ParameterError):
            test.evaluate(*tests)
    assert test.n_variables == 5
    empty = test.evaluate(np.array([], dtype=int), np.array([], dtype=int), np.zeros((0, 2)))
    assert empty.p_value.shape == (0,)


def test_read_only_arrays_will_do_and_stay_as_they_are():
    codes = table_of(np.random.default_rng(13), 300, (2, 3, 2, 2), 0.1)
    before = codes.copy()
    tests = one_test(2, 1, 0, 3)
    for array in (codes, *tests):
        array.flags.writeable = False
    for order in (codes, np.asfortranarray(codes)):
        DiscreteTest(order).evaluate(*tests)
    np.testing.assert_array_equal(codes, before)


def test_a_device_that_is_not_there_is_refused():
    assert resolve_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ParameterError):
        resolve_device(f"cuda:{torch.cuda.device_count()}")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
def test_buckets_hold_every_table_once_without_much_padding(seed, count):
    rng = np.random.default_rng(seed)
    sides = np.exp(rng.uniform(0, [6, 3, 3], (count, 3))).astype(np.int64)
    seen, padded = [], 0
    for index, shape in buckets(sides):
        seen.extend(index.tolist())
        assert (sides[index] <= [shape.configurations, shape.rows, shape.columns]).all()
        padded += len(index) * shape.cells
    assert sorted(seen) == list(range(count))
    assert padded <= 8 * sides.prod(axis=1).sum() + 30_000 * count


class CountedTest(CachedCITest):
    """Outcomes that say which test they are of, and how many were computed."""

    computed = 0

    @classmethod
    def of_table(cls, table, spec, name, device):
        raise NotImplementedError

    def _compute(self, tests):
        self.computed += len(tests)
        return np.tile(code_of(tests.x, tests.y, tests.given)[:, None], (1, 5))


def code_of(x, y, given):
    low, high = np.minimum(x, y), np.maximum(x, y)
    powers = 64.0 ** np.arange(given.shape[1])
    return low + 64.0 * high + 4096.0 * (np.sort(given, axis=1) @ powers)


@pytest.mark.parametrize("memory", [1, 5_000, 2**20])
def test_the_cache_forgets_but_never_errs(memory):
    test, rng = CountedTest(30, cache_bytes=memory), np.random.default_rng(11)
    for _ in range(60):
        batch = random_of_size(rng, 30, 1, 300)
        found = test.evaluate(*batch)
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(found, name), code_of(*batch))
    assert sum(cache.nbytes for cache in test._caches.values()) <= memory
    if memory == 2**20:
        before = test.computed
        test.evaluate(*batch)
        assert test.computed == before


def test_a_key_names_one_test_only():
    triples = np.array(list(itertools.permutations(range(6), 3)))
    keys = [
        canonical(triples[:, 0], triples[:, 1], triples[:, 2 : 2 + size], n_variables=6).keys(6)
        for size in (1, 0)
    ]
    assert len(np.unique(keys[0])) == 6 * 5 * 4 // 2
    assert len(np.unique(keys[1])) == 6 * 5 // 2
    members = np.array([np.arange(2, 40), np.arange(3, 41), np.arange(39, 1, -1)])
    wide = canonical(np.array([0, 1, 1]), np.array([1, 0, 0]), members, n_variables=50)
    assert (wide.keys(50) == wide.keys(50)[0]).tolist() == [True, False, True]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("statistic", ["g2", "pearson"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_cuda_agrees_with_the_processor(statistic, missing):
    rng = np.random.default_rng(12)
    codes = table_of(rng, 700, (2, 3, 4, 1, 2, 6, 15), missing)
    options = {"statistic": statistic, "min_rows_per_cell": 0.0}
    here, there = (DiscreteTest(codes, device=name, **options) for name in ("cpu", "cuda"))
    for size in range(5):
        tests = random_of_size(rng, 7, size, 60)
        one, other = here.evaluate(*tests), there.evaluate(*tests)
        for name in FIELDS:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)
