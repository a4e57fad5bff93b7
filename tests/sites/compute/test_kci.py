"""The kernel test of conditional independence: reference, null, power, and FedPC over it."""

import numpy as np
import pandas as pd
import pytest
import torch
from causallearn.utils.KCI.KCI import KCI_CInd, KCI_UInd
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import random_of_size

from cipherdag import Federation, FedPC
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.errors import MixedTypesError, NotNumericError, ParameterError
from cipherdag.graphs.graph import CausalGraph
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.sites.compute.ci_tests.kci import KernelTest
from cipherdag.sites.compute.ci_tests.kernel_factors import (
    RIDGE,
    FactoredRegression,
    FullRegression,
    Recent,
    centred_factor,
    regression_on,
)

TOLERANCE = 1e-4
"""Of p-values: causal-learn leaves out eigenvalues below 1e-5 of the largest."""
OF_FACTORS = 1e-6
"""Of p-values and, relatively, of statistics given Z: kernel matrices have factors of low rank."""


def curved(rng, rows):
    """Five columns: 0 -> 1 -> 2 and 0 -> 3 without a straight line in it, and 4 alone."""
    a, e = rng.normal(size=(2, rows))
    b = a**2 + 0.5 * rng.normal(size=rows)
    c = np.sin(2.0 * b) + 0.3 * rng.normal(size=rows)
    d = np.cos(2.0 * a) + 0.3 * rng.normal(size=rows)
    return np.column_stack([a, b, c, d, e])


def one_test(x, y, *members):
    return np.array([x]), np.array([y]), np.array([members], dtype=int).reshape(1, -1)


def peer(values, x, y, members):
    """p-value and statistic of causal-learn's KCI with its defaults."""
    x, y = min(x, y), max(x, y)
    if len(members) == 0:
        return KCI_UInd().compute_pvalue(values[:, [x]], values[:, [y]])
    return KCI_CInd().compute_pvalue(values[:, [x]], values[:, [y]], values[:, sorted(members)])


@pytest.mark.parametrize("rows", [60, 199, 200, 300])
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_agrees_with_causal_learn(rows, size):
    rng = np.random.default_rng(rows + size)
    values = curved(rng, rows)
    tests = random_of_size(rng, 5, size, 6)
    peers = [peer(values, *(part[own] for part in tests)) for own in range(6)]
    for whole in (False, True):
        found = KernelTest(values, full_matrices=whole).evaluate(*tests)
        exact = whole or size == 0
        for own, (p_value, statistic) in enumerate(peers):
            assert found.statistic[own] == pytest.approx(
                statistic, rel=1e-9 if exact else OF_FACTORS
            )
            assert found.p_value[own] == pytest.approx(
                p_value, abs=1e-12 if size == 0 else TOLERANCE
            )
            assert found.rows[own] == rows


def test_agrees_with_causal_learn_on_many_rows():
    values = curved(np.random.default_rng(0), 1200)  # the narrowest kernels
    test = KernelTest(values, max_rows=1200)
    for own in ((0, 2), (0, 2, 1)):
        found = test.evaluate(*one_test(*own))
        p_value, statistic = peer(values, *own[:2], own[2:])
        assert found.statistic[0] == pytest.approx(statistic, rel=OF_FACTORS)
        assert found.p_value[0] == pytest.approx(p_value, abs=TOLERANCE)


def awkward(rng, rows, kind):
    """Six columns of some kind, some of which depend on others."""
    values = rng.standard_cauchy((rows, 6)) if kind == "heavy tails" else rng.normal(size=(rows, 6))
    values[:, 1] = np.sin(2.0 * values[:, 0]) + 0.3 * values[:, 1]
    values[:, 2] = values[:, 0] * values[:, 1] + 0.3 * values[:, 2]
    if kind == "ties":
        return np.round(values)
    if kind == "rows twice":
        values[rows // 2 :] = values[: rows - rows // 2]
    if kind == "columns twice":
        values[:, 3] = values[:, 0]
        values[:, 4] = values[:, 1] + 1e-6 * values[:, 4]
    if kind == "outlier":
        values[0] = 1e6
    return values


KINDS = ["plain", "heavy tails", "ties", "rows twice", "columns twice", "outlier"]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(KINDS),
    rows=st.sampled_from([10, 11, 50, 150, 260]),
    size=st.integers(0, 4),
)
def test_factors_and_whole_matrices_agree(seed, kind, rows, size):
    rng = np.random.default_rng(seed)
    values = awkward(rng, rows, kind)
    tests = random_of_size(rng, 6, size, 8)
    factors = KernelTest(values).evaluate(*tests)
    whole = KernelTest(values, full_matrices=True).evaluate(*tests)
    np.testing.assert_allclose(factors.p_value, whole.p_value, rtol=0.0, atol=OF_FACTORS)
    np.testing.assert_array_equal(np.isnan(factors.p_value), np.isnan(whole.p_value))


@pytest.mark.parametrize("kind", KINDS)
def test_factors_and_whole_matrices_agree_on_many_rows(kind):
    rng = np.random.default_rng(0)
    values = awkward(rng, 700, kind)
    for size in (1, 3):
        tests = random_of_size(rng, 6, size, 2)
        one, other = (
            KernelTest(values, full_matrices=whole).evaluate(*tests) for whole in (False, True)
        )
        np.testing.assert_allclose(one.p_value, other.p_value, rtol=0.0, atol=OF_FACTORS)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(10, 80), spread=st.floats(0.3, 30.0))
def test_both_regressions_are_the_one_of_the_formula(seed, rows, spread):
    """R H K H R for a narrow kernel of high rank and a wide one of low rank."""
    rng = np.random.default_rng(seed)
    z, x = spread * rng.normal(size=(2, rows))
    exponent = -((z[:, None] - z) ** 2)
    kernel = np.exp(-((x[:, None] - x) ** 2))
    centring = np.eye(rows) - 1.0 / rows
    of_z = centring @ np.exp(exponent) @ centring
    residual = RIDGE * np.linalg.inv(of_z + RIDGE * np.eye(rows)) @ centring
    expected = residual @ kernel @ residual.T
    regression = regression_on(exponent)
    rank = centred_factor(np.exp(exponent), 1e-11).shape[1]
    assert isinstance(regression, FactoredRegression if rank <= 0.5 * rows else FullRegression)
    left = regression.residual_of(centred_factor(kernel.copy(), 0.0))
    np.testing.assert_allclose(left @ left.T, expected, rtol=0.0, atol=1e-6)
    regression.regress(kernel)
    np.testing.assert_allclose(np.triu(kernel), np.triu(expected), rtol=0.0, atol=1e-6)


def test_what_is_kept_stays_within_its_memory():
    made = []

    def array(size):
        made.append(size)
        return np.zeros(size)

    recent = Recent(8 * 100)
    for size in (40, 50, 40, 60, 50, 200, 60):
        assert recent.get(size, lambda size=size: array(size)).size == size
        assert recent._bytes == sum(own.nbytes for own in recent._values.values()) <= 800
    # 60 pushes out 50, which pushes out 40; 200 is too much and pushes out everything
    assert made == [40, 50, 60, 50, 200, 60]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(0, 2), matrices=st.integers(1, 9))
def test_memory_and_batches_change_nothing_but_rounding(seed, size, matrices):
    rng = np.random.default_rng(seed)
    values = curved(rng, 40)
    tests = random_of_size(rng, 5, size, 30)
    whole = KernelTest(values).evaluate(*tests)
    small = KernelTest(values, memory_bytes=8 * 4 * 40**2 * matrices).evaluate(*tests)
    for name in ("p_value", "statistic", "dof"):
        np.testing.assert_allclose(getattr(small, name), getattr(whole, name), rtol=1e-9)
    x, y, members = tests
    turned = KernelTest(values).evaluate(y, x, members[:, ::-1])
    np.testing.assert_allclose(turned.p_value, whole.p_value, rtol=1e-9)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_p_values_are_about_uniform_under_the_null(size):
    p_values = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(100, size))
        push = z.sum(axis=1)
        x = np.tanh(push) + 0.5 * rng.normal(size=100)
        y = np.cos(push) + 0.5 * rng.normal(size=100)
        test = KernelTest(np.column_stack([x, y, z]))
        p_values.append(test.evaluate(*one_test(0, 1, *range(2, 2 + size))).p_value[0])
    p_values = np.array(p_values)
    # 200 tests: at a true level of 5 % more than 9 % are 1 in 200
    assert (p_values < 0.05).mean() <= 0.09
    assert 0.4 < p_values.mean() < 0.7


def test_sees_what_fisher_z_cannot_and_conditions_it_away():
    values = curved(np.random.default_rng(1), 300)
    test = KernelTest(values)
    assert abs(np.corrcoef(values[:, 0], values[:, 3])[0, 1]) < 0.15
    assert test.evaluate(*one_test(0, 3)).p_value[0] < 1e-6
    assert test.evaluate(*one_test(1, 3)).p_value[0] < 1e-3
    assert test.evaluate(*one_test(1, 3, 0)).p_value[0] > 0.05
    assert test.evaluate(*one_test(0, 4, 1)).p_value[0] > 0.05


def test_more_rows_than_the_most_are_taken_evenly_spaced():
    values = curved(np.random.default_rng(2), 1003)
    taken = [i * 1003 // 100 for i in range(100)]
    one, other = KernelTest(values, max_rows=100), KernelTest(values[taken])
    for own in (one_test(0, 1), one_test(0, 2, 1)):
        thinned = one.evaluate(*own)
        assert thinned.rows[0] == 100
        assert thinned.p_value[0] == other.evaluate(*own).p_value[0]


def test_missing_values_cost_a_test_only_rows_of_its_variables():
    rng = np.random.default_rng(3)
    values = curved(rng, 120)
    values[rng.random(120) < 0.3, 1] = np.nan
    values[:, 4] = np.nan
    test = KernelTest(values, max_rows=60)
    complete = values[~np.isnan(values[:, 1])]
    taken = complete[np.arange(60) * len(complete) // 60]
    for own in (one_test(0, 1), one_test(0, 2, 1)):
        columns = sorted({*own[0], *own[1], *own[2].ravel()})
        alone = KernelTest(np.ascontiguousarray(taken[:, columns]))
        place = [np.searchsorted(columns, part) for part in own]
        assert test.evaluate(*own).p_value[0] == alone.evaluate(*place).p_value[0]
        assert test.evaluate(*own).rows[0] == 60
    assert test.evaluate(*one_test(0, 2)).rows[0] == 60
    nothing = test.evaluate(*one_test(0, 4))
    assert np.isnan(nothing.p_value[0])
    assert nothing.rows[0] == 0
    # an incomplete test of every variable there is
    every = KernelTest(values[:, :3]).evaluate(*one_test(0, 2, 1))
    assert every.rows[0] == len(complete)


def test_constant_columns_and_few_rows_are_not_done():
    values = curved(np.random.default_rng(4), 30)
    values[:, 1] = 0.1 + 0.2
    test = KernelTest(values)
    assert np.isnan(test.evaluate(*one_test(0, 1)).p_value[0])
    assert np.isnan(test.evaluate(*one_test(0, 2, 1)).p_value[0])
    assert not np.isnan(test.evaluate(*one_test(0, 2, 3)).p_value[0])
    few = KernelTest(curved(np.random.default_rng(4), 9)).evaluate(*one_test(0, 2))
    assert np.isnan(few.p_value[0])


def test_scales_and_offsets_change_nothing():
    values = curved(np.random.default_rng(5), 80)
    moved = values * [1e-9, 1e200, -3.0, 2.0, 7.0] + [1e-3, 0.0, 5.0, 0.0, 1e6]
    for own in (one_test(0, 1), one_test(1, 3, 0, 4)):
        one, other = (KernelTest(table).evaluate(*own) for table in (values, moved))
        assert other.p_value[0] == pytest.approx(one.p_value[0], abs=1e-5)


def test_parameters_are_checked():
    values = curved(np.random.default_rng(6), 20)
    for wrong in ({"max_rows": 9}, {"max_rows": 20_001}, {"memory_bytes": 0}, {"device": "abacus"}):
        with pytest.raises(ParameterError):
            KernelTest(values, **wrong)
    with pytest.raises(ParameterError, match="float64"):
        KernelTest(values.astype(np.float32))
    with pytest.raises(NotNumericError, match="infinite"):
        KernelTest(np.where(values > 1.0, np.inf, values))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_agrees_with_the_processor():
    rng = np.random.default_rng(7)
    values = curved(rng, 300)
    for size in range(3):
        tests = random_of_size(rng, 5, size, 10)
        one, other = (
            KernelTest(values, device=device, full_matrices=True).evaluate(*tests)
            for device in ("cpu", "cuda")
        )
        np.testing.assert_allclose(other.p_value, one.p_value, rtol=1e-7)


# FedPC over it

CHAIN = CausalGraph.from_edges(
    ("a", "b", "c", "d"), directed=[("a", "b"), ("b", "c"), ("d", "c")], undirected=[]
)


def frame(seed, rows):
    """a -> b -> c <- d, every arrow a curve that has no correlation."""
    rng = np.random.default_rng(seed)
    a, d = rng.normal(size=(2, rows))
    b = a**2 + 0.4 * rng.normal(size=rows)
    c = np.cos(1.5 * (b - b.mean())) + np.cos(2.0 * d) + 0.3 * rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d})


def sites(seed, n_sites=3, rows=250, **settings):
    data = frame(seed, n_sites * rows)
    parts = {f"site{i}": data.iloc[i::n_sites] for i in range(n_sites)}
    return Federation.simulate(parts, **settings)


@pytest.mark.parametrize("evidence", ["vote", "fisher"])
def test_fedpc_finds_curves_that_fisher_z_does_not_see(evidence):
    federation = sites(0)
    kernel = federation.run(FedPC(test="kci", evidence=evidence))
    straight = federation.run(FedPC(test="fisherz", evidence=evidence))
    assert kernel.finding.metrics_cpdag(CHAIN).shd < straight.finding.metrics_cpdag(CHAIN).shd
    assert {frozenset((e.source, e.target)) for e in kernel.finding.graph.edges} == {
        frozenset(pair) for pair in (("a", "b"), ("b", "c"), ("c", "d"))
    }


def test_the_result_says_which_rows_were_taken():
    algorithm = FedPC(test="kci", evidence="fisher", voting=Voting(kernel_rows=60))
    found = sites(1, rows=120).run(algorithm).finding
    assert found.details["kernel_rows"] == 60
    assert any("no more than 60 rows of a site" in own for own in found.evidence.remarks)


def test_what_a_kernel_test_cannot_do_is_named():
    for evidence in ("stratified", "pooled"):
        with pytest.raises(ParameterError, match="for test kci choose evidence vote, fisher"):
            FedPC(test="kci", evidence=evidence)
    with pytest.raises(ParameterError, match="kernel_rows"):
        FedPC(evidence="vote", test="kci", voting=Voting(kernel_rows=5))
    with pytest.raises(ValueError, match="kernel_rows"):
        CITestSpec(alpha=0.01, name="kci", kernel_rows=10**6)
    rng = np.random.default_rng(0)
    codes = {
        f"s{i}": pd.DataFrame(rng.integers(0, 2, (60, 3)), columns=list("xyz")) for i in range(3)
    }
    with pytest.raises(MixedTypesError, match="'kci' cannot treat discrete columns") as error:
        Federation.simulate(codes).run(FedPC(evidence="vote", test="kci"))
    assert "--test auto or g2" in error.value.remedy


def test_the_command_says_how_many_rows_it_looks_at(call, tmp_path):
    frame(2, 240).to_csv(tmp_path / "all.csv", index=False)
    done = call(
        "simulate",
        "fedpc",
        tmp_path / "all.csv",
        "--sites",
        3,
        "--evidence",
        "vote",
        "--test",
        "kci",
        "--out",
        tmp_path / "out",
    )
    assert done[0] == 0
    assert "no more than 1000 rows of a site" in done[1]
    assert "no more than 1000 rows of a site" in call("repeat", tmp_path / "out")[1]
