"""Likelihood ratios of mixed columns over all sites: statsmodels on the pooled rows agrees."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import pytest
from driving import drive
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_sites import ALL_KINDS, CATEGORIES, frame, mixed_data, mixed_site, p_value
from queries import Queries, central, random_tests
from scipy import stats

from cipherdag import Federation, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import ParameterError, PolicyRefusedError
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.regression_steps import RegressionSteps, pack_models
from cipherdag.sites.compute.ci_tests.regression import RegressionTest
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema
from cipherdag.statistics.regression_models import Regression


@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_statsmodels_on_the_pooled_rows_gives_the_same_p_values(missing):
    rng = np.random.default_rng(4)
    data = mixed_data(rng, 900, missing)
    tests = random_tests(6, [15, 25, 20], rng)
    queries = Queries("glm", tests)
    sites = [mixed_site(part) for part in np.split(data, [150, 400, 700])]
    drive(queries.ask(Facts(6, 4)), sites)
    for rows, found in zip(tests, queries.found, strict=True):
        expected = [p_value(data, row, CATEGORIES) for row in rows]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n_sites=st.integers(1, 4))
def test_one_site_with_all_rows_gives_the_same_by_its_own_test(seed, n_sites):
    rng = np.random.default_rng(seed)
    categories = (0, 2, 0, 2)
    data = mixed_data(rng, 240)[:, [0, 1, 3, 4]]
    data[:, 2] = data[:, 2] * 1e-7 + 3.0
    tests = random_tests(4, [6, 12, 12], rng)
    queries = Queries("glm", tests)
    sites = [mixed_site(part, categories) for part in np.array_split(data, n_sites)]
    drive(queries.ask(Facts(4, n_sites)), sites)
    for found, own in zip(
        queries.found, central(RegressionTest(categories, lambda v: data[:, v]), tests), strict=True
    ):
        np.testing.assert_allclose(found, own.p_value, rtol=1e-5, atol=1e-9)


def test_separated_categories_and_combinations_end():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300)
    data = np.column_stack([x, x > 0, x * 2.0 + 1.0, rng.standard_normal(300), np.zeros(300)])
    categories = (0, 2, 0, 0, 2)
    tests = [
        np.array([[0, 1], [0, 3], [1, 4], [3, 4]]),
        np.array([[0, 3, 2], [1, 2, 0], [1, 3, 0]]),
    ]
    queries = Queries("glm", tests)
    drive(queries.ask(Facts(5, 3)), [mixed_site(part, categories) for part in np.split(data, 3)])
    marginal, conditional = queries.found
    assert marginal[0] < 1e-20  # x separates its own sign
    assert marginal[1] > 1e-4
    assert np.isnan(marginal[2:]).all()  # a constant says nothing
    assert np.isnan(conditional[:2]).all()  # the third is a combination of the first
    assert 0.0 <= conditional[2] <= 1.0


def test_a_step_is_a_round_for_all_tests_together():
    rng = np.random.default_rng(1)
    data = mixed_data(rng, 600)
    asked = []
    for count in (3, 40):
        queries = Queries("glm", random_tests(6, [count, count], np.random.default_rng(2)))
        sites = [mixed_site(part) for part in np.split(data, 3)]
        asked.append(len(drive(queries.ask(Facts(6, 3)), sites)[1]))
    assert max(asked) <= 12


def test_a_site_answers_regressions_only_if_its_policy_names_them():
    data = frame(np.random.default_rng(5), 90)
    policy = Policy(min_cell_size=0, questions=Policy().questions - {"edge-votes"})
    federation = Federation.split(data, 3, device="cpu", policy=policy)
    with pytest.raises(PolicyRefusedError, match="regression-steps"):
        federation.run(FedPC(evidence="glm"))
    assert federation.run(FedPC(max_cond_size=1)).rounds  # by scores, which nobody aims


def test_steep_coefficients_narrow_a_sum_to_few_rows_which_is_why():
    rng = np.random.default_rng(1)
    data = np.column_stack([np.arange(90) % 2, rng.standard_normal(90)])
    cut = np.sort(data[:, 1])[44:47]  # a coordinator aims between three values
    sums = []
    for place in (cut[:2].mean(), cut[1:].mean()):
        steep = {"coefficients": np.array([-1e9 * place, 1e9]).tobytes()}
        question = RegressionSteps(
            **steps([Regression(0, (1,))], categories=(2, 0), origins=bytes(16), units=bytes(16))
            | steep
        )
        sums.append(sum(mixed_site(own, (2, 0)).answer(question)[2] for own in np.split(data, 3)))
    assert math.isclose(sums[1] - sums[0], cut[1], rel_tol=1e-6)  # one patient's value


def steps(models, **changes):
    lengths, members = pack_models(models)
    fields = {
        "categories": (2, 3, 0),
        "origins": bytes(24),
        "units": bytes(24),
        "lengths": lengths,
        "members": members,
        "coefficients": bytes(8 * 3),
    }
    return fields | changes


def test_skipping_the_question_of_small_counts_is_refused():
    rng = np.random.default_rng(0)
    data = np.column_stack([np.arange(60) % 2, np.arange(60) % 3, rng.standard_normal(60)])
    question = RegressionSteps(**steps([Regression(0, (1,))]))
    answer = mixed_site(data, (2, 3, 0), min_cell_size=10).answer(question)
    assert math.isclose(answer[0], -60 * math.log(2))
    with pytest.raises(PolicyRefusedError, match="min_cell_size"):
        mixed_site(data, (2, 3, 0), min_cell_size=11).answer(question)
    with pytest.raises(PolicyRefusedError, match="rows"):
        mixed_site(data, (2, 3, 0), min_cell_size=61).answer(question)


@pytest.mark.parametrize(
    "change",
    [
        {"categories": (2, -1, 0)},
        {"categories": (2, 3)},
        {"categories": (2, 2**20, 0)},
        {"origins": np.array([0.0, np.inf, 0.0]).tobytes()},
        {"units": pack_integers(np.array([0, 0, 9999]))},
        {"lengths": b"\x01\x00"},
        {"lengths": b"\x05\x00\x00\x00\x00\x00"},
        {"lengths": b"\x01\x00\x00\x00\x02\x00"},
        {"members": b"\x00\x00\x07\x00"},
        {"members": b"\x01\x00\x01\x00"},
        {"members": b"\x00\x00\x01"},
        {"coefficients": bytes(16)},
        {"coefficients": np.full(3, np.nan).tobytes()},
    ],
)
def test_hostile_models_do_not_decode(change):
    tagged = {"type": "regression-steps", **steps([Regression(0, (1,))])}
    encode = msgspec.msgpack.encode
    assert isinstance(msgspec.msgpack.decode(encode(tagged), type=RegressionSteps), RegressionSteps)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(encode(tagged | change), type=RegressionSteps)


def test_a_model_of_too_many_coefficients_is_not_fitted_and_named():
    rng = np.random.default_rng(3)
    categories = tuple(f"c{k:02d}" for k in range(66))
    codes = rng.integers(0, 66, (600, 2))
    z = rng.normal(size=600)
    named = np.array(categories)[codes]
    data = pd.DataFrame({"a": named[:, 0], "b": named[:, 1], "z": z})
    columns = [Column(name, "discrete", categories=categories) for name in "ab"]
    schema = Schema((*columns, Column("z", "continuous")))
    own = replace(ALL_KINDS, min_cell_size=0)
    federation = Federation.split(data, 3, schema=schema, device="cpu", policy=own)
    result = federation.run(FedPC(evidence="glm", max_cond_size=1))
    # 65 logits on 65 indicators and a constant
    assert result.finding.details["tests"]["too many coefficients: none"] == 1
    assert result.finding.graph.skeleton()[0, 1]
    alone = RegressionTest((66, 66, 0), [*codes.T.astype(float), z].__getitem__)
    found = alone.evaluate(np.array([0, 0]), np.array([1, 2]), np.zeros((2, 0), dtype=int))
    assert np.isnan(found.p_value[0])
    assert found.p_value[1] == pytest.approx(stats.chi2.sf(found.statistic[1], 65))


@pytest.mark.parametrize("test", ["g2", "fisherz", "regression"])
def test_a_named_test_beside_glm_is_refused_as_it_would_not_be_done(test):
    with pytest.raises(ParameterError, match=f"glm does not take test {test}.*choose evidence"):
        FedPC(evidence="glm", test=test)
