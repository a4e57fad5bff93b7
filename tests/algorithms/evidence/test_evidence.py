"""Evidence of all sites: pooled is the centralised test, the others are what textbooks say."""

import msgspec
import numpy as np
import pandas as pd
import pytest
from driving import drive
from evidence_sites import cut, discrete_codes, discrete_site, gaussian_site, gaussian_values
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import Queries, central, random_tests
from scipy import stats

from cipherdag import Federation, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import MixedTypesError, PolicyRefusedError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.pooled_data import Columns, Moments, SmallCells, Tables
from cipherdag.questions.question import Bundle
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest

SPEC = CITestSpec(alpha=0.01)


def asked(queries, sites):
    """p-values over plain sums; also the questions, bundles taken apart."""
    _, questions = drive(queries.ask(Facts(sites[0].n_variables, len(sites))), sites)
    bundled = [q.parts if isinstance(q, Bundle) else (q,) for q in questions]
    return queries.found, [question for parts in bundled for question in parts]


# pooled is the test of the pooled data


@pytest.mark.parametrize("n_sites", [3, 15])
def test_protected_table_tests_are_the_centralised_ones_bit_for_bit(n_sites):
    rng = np.random.default_rng(n_sites)
    codes = discrete_codes(rng, 1500, [2, 3, 2, 4, 3, 2, 5, 2, 3, 2, 2, 3])
    frame = pd.DataFrame(codes, columns=[f"v{k:02d}" for k in range(12)])
    tests = random_tests(12, [66, 3000, 4000, 2934], rng)
    queries = Queries("pooled", tests)
    policy = Policy(min_cell_size=0)
    Federation.split(frame, n_sites, seed=1, policy=policy, device="cpu").ask("fedpc", queries.ask)
    for found, outcome in zip(queries.found, central(DiscreteTest(codes), tests), strict=True):
        np.testing.assert_array_equal(found, outcome.p_value)
        assert np.isfinite(found).any()
    assert set(queries.n_tests_by_method) == {"pooled", "too few rows: none"}


@pytest.mark.parametrize("n_sites", [3, 15])
def test_protected_gaussian_tests_are_the_centralised_ones(n_sites):
    rng = np.random.default_rng(n_sites)
    values = gaussian_values(rng, 2000, 14)
    frame = pd.DataFrame(values, columns=[f"v{k:02d}" for k in range(14)])
    tests = random_tests(14, [91, 2500, 4000, 3409], rng)
    queries = Queries("pooled", tests)
    Federation.split(frame, n_sites, seed=1, device="cpu").ask("fedpc", queries.ask)
    for found, outcome in zip(queries.found, central(FisherZTest(values), tests), strict=True):
        np.testing.assert_allclose(found, outcome.p_value, rtol=1e-9, atol=1e-290)
    assert list(queries.n_tests_by_method) == ["pooled"]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_sites=st.integers(1, 6),
    statistic=st.sampled_from(["g2", "pearson"]),
    dof=st.sampled_from(["adjusted", "plain"]),
    missing=st.sampled_from([0.0, 0.1]),
)
def test_pooled_tables_are_the_centralised_test(seed, n_sites, statistic, dof, missing):
    rng = np.random.default_rng(seed)
    levels = rng.integers(2, 5, 6).tolist()
    codes = discrete_codes(rng, 400, levels, missing)
    spec = CITestSpec(alpha=0.01, name=statistic, dof=dof)
    tests = random_tests(6, [15, 30, 30, 10], rng)
    sites = [discrete_site(part, np.array(levels) + 1) for part in cut(codes, n_sites, rng)]
    found, _ = asked(Queries("pooled", tests, spec), sites)
    reference = central(DiscreteTest(codes, statistic=statistic, dof=dof), tests)
    for own, outcome in zip(found, reference, strict=True):
        np.testing.assert_array_equal(own, outcome.p_value)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_sites=st.integers(1, 6), data=st.data())
def test_units_origins_and_sites_means_change_no_pooled_moments(seed, n_sites, data):
    rng = np.random.default_rng(seed)
    values = gaussian_values(rng, 300, 5)
    for column in range(5):
        exponent = data.draw(st.integers(-200, 200))
        distance = data.draw(st.sampled_from([0.0, 1.0, -1e3, 1e6]))
        values[:, column] = (values[:, column] + distance) * 10.0**exponent
    tests = random_tests(5, [10, 20, 20, 10], rng)
    parts = cut(values, n_sites, rng)
    if n_sites > 1:
        parts[0] = parts[0] * 3.0 + parts[0].mean(axis=0)  # sites with means of their own
    found, _ = asked(Queries("pooled", tests), [gaussian_site(part) for part in parts])
    reference = central(FisherZTest(np.concatenate(parts)), tests)
    for own, outcome in zip(found, reference, strict=True):
        # at a distance of 1e6 deviations a float keeps ten digits of the deviation
        np.testing.assert_allclose(own, outcome.p_value, rtol=1e-6, atol=1e-12)


def test_a_constant_column_is_dependent_here_as_there():
    rng = np.random.default_rng(3)
    values = gaussian_values(rng, 200, 5)
    values[:, 1], values[:, 2] = 0.0, 7e9
    values[:100, 3] = 5.0  # constant at one site only
    parts = [values[:100], values[100:150], values[150:]]
    tests = random_tests(5, [20, 60], rng)
    found, _ = asked(Queries("pooled", tests), [gaussian_site(part) for part in parts])
    for own, outcome in zip(found, central(FisherZTest(values), tests), strict=True):
        np.testing.assert_allclose(own, outcome.p_value, rtol=1e-9)
        assert 0 < np.isnan(own).sum() < len(own)


# what falls back, and how it is told


def test_tables_with_small_counts_never_leave_and_fall_back_to_strata():
    rng = np.random.default_rng(8)
    levels = [2, 2, 3, 4]
    codes = discrete_codes(rng, 900, levels)
    parts = np.split(codes, [300, 600])
    sites = [discrete_site(part, levels, min_cell_size=11) for part in parts]
    tests = random_tests(4, [6, 12, 12], rng)
    queries = Queries("pooled", tests)
    found, questions = asked(queries, sites)
    assert queries.n_tests_by_method["withheld: within sites"] > 0
    assert queries.n_tests_by_method["pooled"] > 0
    for question in questions:
        if isinstance(question, Tables):
            for site in sites:
                counts = site.answer(question)
                assert not ((counts > 0) & (counts < 11)).any()
    exact = central(DiscreteTest(codes), tests)
    stratified, _ = asked(Queries("stratified", tests), sites)
    for own, pooled, other in zip(found, exact, stratified, strict=True):
        same = (own == pooled.p_value) | (np.isnan(own) & np.isnan(pooled.p_value))
        assert (same | (own == other) | (np.isnan(own) & np.isnan(other))).all()


def test_skipping_the_question_of_small_counts_is_refused():
    rng = np.random.default_rng(8)
    site = discrete_site(discrete_codes(rng, 100, [2, 4, 4]), (2, 4, 4), min_cell_size=11)
    counts, members = pack_blocks([np.zeros((0, 1)), np.zeros((0, 2)), np.array([[0, 1, 2]])])
    question = SmallCells(categories=(2, 4, 4), counts=counts, members=members)
    assert site.answer(question).tolist() == [1.0]
    with pytest.raises(PolicyRefusedError, match="min_cell_size"):
        site.answer(Tables(categories=(2, 4, 4), counts=counts, members=members))
    with pytest.raises(PolicyRefusedError, match="not counts"):
        SiteView(None, None, (2, 4, 4)).answer(question)


def test_moments_of_fewer_rows_than_the_smallest_count_are_refused():
    values = gaussian_values(np.random.default_rng(0), 8, 3)
    sites = [gaussian_site(values), gaussian_site(values, min_cell_size=11)]
    with pytest.raises(PolicyRefusedError, match="min_cell_size"):
        asked(Queries("pooled", [np.array([[0, 1]])]), sites)


def test_tables_above_the_declared_size_fall_back_and_are_counted():
    rng = np.random.default_rng(2)
    codes = discrete_codes(rng, 2000, [3] * 5)
    sites = [discrete_site(part, [3] * 5) for part in np.split(codes, 4)]
    tests = random_tests(5, [10, 20, 20], rng)
    queries = Queries("pooled", tests, max_cells=27)
    found, questions = asked(queries, sites)
    distinct = {(*sorted(r[:2]), *sorted(r[2:])) for r in tests[2].tolist()}
    assert queries.n_tests_by_method["too large: within sites"] == len(distinct)
    within, _ = asked(Queries("stratified", tests), sites)
    np.testing.assert_array_equal(found[2], within[2])
    largest = [q.cells().max() for q in questions if isinstance(q, Tables)]
    assert max(largest) == 27


def test_missing_numbers_fall_back_to_tests_stratified_by_site():
    rng = np.random.default_rng(4)
    values = gaussian_values(rng, 400, 4)
    values[rng.random(400) < 0.1, 2] = np.nan
    sites = [gaussian_site(part) for part in np.split(values, 4)]
    tests = random_tests(4, [6, 12], rng)
    queries = Queries("pooled", tests)
    found, _ = asked(queries, sites)
    combined, _ = asked(Queries("stratified", tests), sites)
    exact = central(FisherZTest(values), tests)
    for rows, own, other, pooled in zip(tests, found, combined, exact, strict=True):
        touched = (rows == 2).any(axis=1)
        np.testing.assert_array_equal(own[touched], other[touched])
        np.testing.assert_allclose(own[~touched], pooled.p_value[~touched], rtol=1e-9)
    assert queries.n_tests_by_method["incomplete: within sites"] > 0


def test_numbers_of_small_counts_are_tested_by_site_and_not_summed():
    rng = np.random.default_rng(6)
    values = gaussian_values(rng, 400, 4)
    values[:, 1] = rng.random(400) < 0.02
    values[:, 2] = rng.random(400) < 0.5
    sites = [gaussian_site(part, min_cell_size=11) for part in np.split(values, 4)]
    tests = random_tests(4, [6, 12], rng)
    queries = Queries("pooled", tests)
    found, questions = asked(queries, sites)
    summed = [own.positions().tolist() for own in questions if isinstance(own, Moments)]
    assert summed == [[0, 3]]
    combined, _ = asked(Queries("stratified", tests), sites)
    for rows, own, other in zip(tests, found, combined, strict=True):
        few = np.isin(rows, [1, 2]).any(axis=1)
        np.testing.assert_array_equal(own[few], other[few])
    assert queries.n_tests_by_method["few values: within sites"] > 0
    packed = pack_integers(np.arange(4))
    every = Moments(n_variables=4, variables=packed, origins=bytes(32), units=bytes(32))
    with pytest.raises(PolicyRefusedError, match="few values"):
        sites[0].answer(every)
    free = [gaussian_site(part) for part in np.split(values, 4)]
    found, _ = asked(Queries("pooled", tests), free)
    for own, exact in zip(found, central(FisherZTest(values), tests), strict=True):
        np.testing.assert_allclose(own, exact.p_value, rtol=1e-9)


def test_measurements_of_few_rows_are_summed_though_they_are_few():
    values = gaussian_values(np.random.default_rng(7), 60, 3)
    sites = [gaussian_site(part, min_cell_size=11) for part in np.split(values, 3)]
    queries = Queries("pooled", [np.array([[0, 1]])])
    found, _ = asked(queries, sites)
    exact = central(FisherZTest(values), [np.array([[0, 1]])])[0]
    np.testing.assert_allclose(found[0], exact.p_value, rtol=1e-9)
    assert dict(queries.n_tests_by_method) == {"pooled": 1}


def test_columns_of_two_types_are_refused_by_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 2, 90), "b": rng.standard_normal(90)})
    frame["c"] = rng.standard_normal(90)
    tests = [np.array([[0, 1]])]
    for spec, data in (
        (SPEC, frame),
        (CITestSpec(alpha=0.01, name="fisherz"), frame[["a"]].assign(d=frame["a"] ^ 1)),
        (CITestSpec(alpha=0.01, name="g2"), frame[["b", "c"]]),
    ):
        with pytest.raises(MixedTypesError, match="pooled"):
            Federation.split(data, 3, device="cpu").ask("fedpc", Queries("pooled", tests, spec).ask)


# the other kinds are what textbooks say


@pytest.mark.parametrize("n_sites", [1, 4])
def test_fisher_of_tables_combines_pearsons_p_values_of_the_sites(n_sites):
    rng = np.random.default_rng(11)
    levels = [2, 3, 2, 2]
    codes = discrete_codes(rng, 1600, levels)
    parts = cut(codes, n_sites, rng)
    sites = [discrete_site(part, levels) for part in parts]
    tests = random_tests(4, [6, 12], rng)
    pearson = [DiscreteTest(p, statistic="pearson", min_rows_per_cell=10.0) for p in parts]
    outcomes = [central(own, tests) for own in pearson]
    found, _ = asked(Queries("fisher", tests), sites)
    for size, own in enumerate(found):
        each = zip(*(outcome[size].p_value for outcome in outcomes), strict=True)
        done = [[p for p in of_test if not np.isnan(p)] for of_test in each]
        expected = [stats.combine_pvalues(p, method="fisher").pvalue if p else np.nan for p in done]
        np.testing.assert_allclose(own, expected, rtol=1e-6, atol=1e-12)


def test_weighted_p_is_equation_1_over_the_reliable_sites():
    rng = np.random.default_rng(9)
    codes = discrete_codes(rng, 700, [2, 3, 4])
    parts = np.split(codes, [40, 300])  # the first is too small for a test of three variables
    tests = [np.array([[0, 1]]), np.array([[0, 1, 2]])]
    found, _ = asked(Queries("weighted_p", tests), [discrete_site(p, (2, 3, 4)) for p in parts])
    each = [central(DiscreteTest(part), tests) for part in parts]
    assert np.isnan(each[0][1].p_value[0])
    for size, own in enumerate(found):
        p_value = np.array([outcome[size].p_value[0] for outcome in each])
        rows = np.array([len(part) for part in parts])[~np.isnan(p_value)]
        expected = (p_value[~np.isnan(p_value)] * rows).sum() / rows.sum()
        np.testing.assert_allclose(own, expected, rtol=1e-8)


# questions


def test_a_test_is_asked_once_and_a_table_serves_all_its_tests():
    rng = np.random.default_rng(0)
    codes = discrete_codes(rng, 600, [2, 2, 2, 2])
    sites = [discrete_site(part, (2, 2, 2, 2)) for part in np.split(codes, 3)]
    tests = [np.array([[0, 1], [1, 0]]), np.array([[0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 2, 0]])]

    def ask_twice():
        source = yield from Queries("pooled", tests).open(4)
        first = yield from source.p_values(tests)
        again = yield from source.p_values(tests)
        return first, again, dict(source.n_tests_by_method)

    (first, again, n_tests_by_method), questions = drive(ask_twice(), sites)
    assert [type(q).__name__ for q in questions] == ["Columns", "Tables", "Tables"]
    assert questions[-1].counts == (0, 1, 1)
    assert n_tests_by_method == {"pooled": 4}
    for own, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(own, other)
    assert first[0][0] == first[0][1]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Columns, {"n_variables": 0}),
        (Columns, {"max_rows": 1}),
        (Tables, {"members": b"\x01\x00\x00\x00"}),
        (Tables, {"members": b"\x00\x00"}),
        (Tables, {"members": b"\x00\x00\x09\x00"}),
        (Tables, {"counts": (0, -1)}),
        (Tables, {"categories": (2, 0)}),
        (Tables, {"categories": (2**14, 2**14)}),
        (SmallCells, {"categories": (2, -3)}),
        (Moments, {"origins": b"\x00" * 8}),
        (Moments, {"origins": np.array([0.0, np.nan]).tobytes()}),
        (Moments, {"units": pack_integers(np.array([0, 5000]))}),
        (Moments, {"variables": pack_integers(np.array([1, 0]))}),
        (Moments, {"variables": pack_integers(np.array([0, 2]))}),
        (CombinedEvidence, {"rows_per_cell": float("nan")}),
        (CombinedEvidence, {"rows_per_cell": 0.0}),
        (CombinedEvidence, {"combination": "vote"}),
        (CombinedEvidence, {"members": b"\x00\x00\x00\x00"}),
    ],
)
def test_hostile_questions_do_not_decode(kind, change):
    sets = {"categories": (2, 2), "counts": (0, 1), "members": b"\x00\x00\x01\x00"}
    fields = {
        Columns: {"n_variables": 2},
        Tables: sets,
        SmallCells: sets,
        Moments: {
            "n_variables": 2,
            "variables": pack_integers(np.array([0, 1])),
            "origins": bytes(16),
            "units": bytes(16),
        },
        CombinedEvidence: {
            "n_variables": 2,
            "test": {"alpha": 0.1},
            "combination": "fisher",
            "counts": (1,),
            "members": b"\x00\x00\x01\x00",
        },
    }[kind]
    tagged = {"type": kind.__struct_config__.tag, **fields}
    encode = msgspec.msgpack.encode
    assert isinstance(msgspec.msgpack.decode(encode(tagged), type=kind), kind)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(encode(tagged | change), type=kind)


def test_a_site_without_a_complete_row_has_no_small_count():
    """Columns that no row has all of: such a site adds nothing, and names no fault either."""
    counts, members = pack_blocks([np.array([[0]]), np.array([[0, 1]])])
    own = discrete_site(np.array([[0, -1], [-1, 1]] * 20), (2, 3), 11)
    about = {"categories": (2, 3), "counts": counts, "members": members}
    assert own.answer(SmallCells(**about)).tolist() == [0.0, 0.0]
    assert own.answer(Tables(**about)).tolist() == [0.0] * 8
