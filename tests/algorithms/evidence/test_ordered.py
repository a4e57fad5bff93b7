"""Categories in an order: statsmodels' proportional-odds model on the pooled rows agrees."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import pytest
from driving import drive
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_sites import ALL_KINDS, expanded, log_likelihood, mixed_site, with_effect
from queries import Queries, central, random_tests
from scipy import optimize, stats
from statsmodels.miscmodels.ordinal_model import OrderedModel

from cipherdag import Federation, FedPC, Schema
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import MalformedMessageError
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.regression_steps import RegressionSteps, pack_models
from cipherdag.sites.compute.ci_tests.regression import RegressionTest
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.steps import cumulative_step, regression_steps
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.statistics.regression_models import Regression, equal_thresholds

CATEGORIES = (0, 2, 3, 4, 5)
ORDERED = (2, 4)
PAIRS = np.array([[2, 0], [2, 1], [4, 3], [4, 2], [0, 4]])


def graded_data(rng, rows, missing=0.0):
    """Numbers, two, three ordered, four unordered and five ordered categories."""
    data = np.zeros((rows, len(CATEGORIES)))
    data[:, 0] = rng.standard_normal(rows)
    data[:, 1] = rng.random(rows) < 0.4
    pull = 0.4 * data[:, 0] + 0.3 * data[:, 1] + rng.logistic(size=rows)
    data[:, 2] = np.digitize(pull, [-0.7, 1.1])
    noise = rng.gumbel(size=(rows, 4))
    data[:, 3] = (noise + np.outer(data[:, 2], np.linspace(-0.3, 0.3, 4))).argmax(axis=1)
    pull = 0.2 * data[:, 2] - 0.3 * (data[:, 3] == 2) + rng.logistic(size=rows)
    data[:, 4] = np.digitize(pull, [-1.6, -0.4, 0.5, 2.2])
    data[rng.random(data.shape) < missing] = np.nan
    return data


def site_of(data, categories=CATEGORIES, ordered=ORDERED):
    return mixed_site(data, categories, ordered=ordered)


def p_values(parts, tests, categories=CATEGORIES, ordered=ORDERED, kind=Queries):
    queries = kind("glm", tests)
    sites = [site_of(part, categories, ordered) for part in parts]
    drive(queries.ask(Facts(len(categories), len(parts))), sites)
    return queries.found


def ordered_likelihood(data, response, predictors):
    """By statsmodels; without predictors the shares of the categories are the maximum."""
    target = np.unique(data[:, response], return_inverse=True)[1]
    if not predictors:
        rows = np.bincount(target)
        return float(rows @ np.log(rows / rows.sum()))
    design = np.column_stack([expanded(data, v, CATEGORIES) for v in predictors])
    model = OrderedModel(target, design, distr="logit")
    start = model.fit(method="newton", disp=0, maxiter=200).params
    return float(model.loglike(start))


def response_of(row):
    """The variables of a test as response and other, by the rule in words of `fitting`."""
    x, y = row[:2]
    both = sorted((x, y))
    in_order = sorted(set(both) & set(ORDERED), key=lambda v: -CATEGORIES[v])
    first = in_order[0] if in_order else min(both, key=lambda v: CATEGORIES[v] or math.inf)
    return first, next(v for v in both if v != first)


def reference(data, row):
    """Likelihood ratio and degrees of freedom."""
    response, other = response_of(row)
    given = list(row[2:])
    data = data[~np.isnan(data[:, row]).any(axis=1)]
    fit = ordered_likelihood
    if response not in ORDERED:
        fit = lambda *own: log_likelihood(*own, CATEGORIES)  # noqa: E731
    gain = fit(data, response, [*given, other]) - fit(data, response, given)
    outputs = 1 if response in ORDERED else max(CATEGORIES[response] - 1, 1)
    return 2.0 * gain, outputs * max(CATEGORIES[other] - 1, 1)


@pytest.mark.parametrize(("seed", "missing"), [(0, 0.0), (1, 0.05)])
def test_ratios_and_p_values_are_those_of_statsmodels_on_all_rows(seed, missing):
    rng = np.random.default_rng(seed)
    data = graded_data(rng, 700, missing)
    tests = [PAIRS, *random_tests(5, [0, 8, 6], rng)[1:]]
    found = p_values(np.split(data, [150, 400]), tests)
    alone = RegressionTest(CATEGORIES, site_of(data).column, ORDERED)
    for rows, own, here in zip(tests, found, central(alone, tests), strict=True):
        ratio, dof = np.array([reference(data, row) for row in rows.tolist()]).T
        expected = stats.chi2.sf(ratio, dof)
        np.testing.assert_allclose(here.statistic, ratio, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(here.dof, dof)
        for p_value in (own, here.p_value):
            np.testing.assert_allclose(p_value, expected, rtol=1e-6, atol=1e-9)


def test_the_order_leaves_fewer_degrees_of_freedom():
    rng = np.random.default_rng(3)
    x = rng.standard_normal(400)
    grade = np.digitize(0.2 * x + rng.logistic(size=400), [-2, -1, 0, 1, 2])
    data = np.column_stack([grade, x])
    tests = [np.array([[0, 1]])]
    with_order = p_values([data], tests, (6, 0), (0,))[0][0]
    without = p_values([data], tests, (6, 0), ())[0][0]
    assert 0.0 < with_order < without


def test_p_values_are_uniform_under_the_model_without_dependence():
    rng = np.random.default_rng(11)
    found = []
    for _ in range(250):
        s = rng.standard_normal(200)
        x = s + rng.standard_normal(200)
        grade = np.digitize(s + rng.logistic(size=200), [-1.0, 0.0, 1.5])
        test = RegressionTest(
            (4, 0, 0), np.column_stack([grade, x, s]).astype(float).T.__getitem__, (0,)
        )
        found.append(
            central(test, [np.zeros((0, 2), dtype=np.int64), np.array([[0, 1, 2]])])[1].p_value[0]
        )
    assert stats.kstest(found, "uniform").pvalue > 0.01


def own_likelihood(parts, response, predictors):
    """The maximum of statsmodels' likelihoods of the sites, slopes shared and thresholds not."""
    models, sizes = [], []
    for data in parts:
        target = np.unique(data[:, response], return_inverse=True)[1]
        columns = [expanded(data, v, CATEGORIES) for v in predictors]
        design = np.column_stack(columns)
        models.append(OrderedModel(target, design, distr="logit"))
        sizes.append(target.max())
    slopes = models[0].exog.shape[1]
    ends = np.cumsum(sizes)[:-1]

    def loss(point):
        own = np.split(point[slopes:], ends)
        return -sum(
            m.loglike(np.append(point[:slopes], t)) for m, t in zip(models, own, strict=True)
        )

    first = [m.start_params[slopes:] for m in models]
    found = optimize.minimize(
        loss, np.concatenate([np.zeros(slopes), *first]), method="BFGS", options={"gtol": 1e-5}
    )
    return -found.fun


def test_with_a_site_effect_every_site_has_thresholds_of_its_own():
    rng = np.random.default_rng(6)
    parts = [graded_data(rng, rows) for rows in (260, 300, 340)]
    parts[1][:, 4] = np.minimum(parts[1][:, 4] + 1, 4)  # grades higher, and never the lowest
    parts[2][:, 4] = np.where(parts[2][:, 4] == 2, 3, parts[2][:, 4])  # does not tell two apart
    tests = [np.zeros((0, 2), dtype=np.int64), np.array([[0, 4, 1], [4, 3, 0]])]
    found = p_values(parts, tests, kind=with_effect)[1]
    for row, own in zip(tests[1].tolist(), found, strict=True):
        response, other = response_of(row)
        small = own_likelihood(parts, response, row[2:])
        large = own_likelihood(parts, response, [*row[2:], other])
        expected = stats.chi2.sf(2.0 * (large - small), max(CATEGORIES[other] - 1, 1))
        assert math.isclose(own, expected, rel_tol=1e-6), row


def test_with_a_site_effect_of_one_site_nothing_changes():
    data = graded_data(np.random.default_rng(7), 500)
    tests = [PAIRS, np.array([[2, 0, 1], [4, 1, 3]])]
    for one, other in zip(
        p_values([data], tests), p_values([data], tests, kind=with_effect), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), effect=st.booleans(), n_sites=st.integers(2, 4))
def test_no_order_and_no_end_one_counts_from_matters(seed, effect, n_sites):
    rng = np.random.default_rng(seed)
    data = graded_data(rng, 260)
    kind = with_effect if effect else Queries
    parts = np.array_split(data, n_sites)
    tests = [PAIRS[:4], np.array([[2, 0, 1], [4, 2, 0]])]
    found = p_values(parts, tests, kind=kind)
    if not effect:
        whole = p_values([data], tests)
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(whole), rtol=1e-6)
    place = rng.permutation(len(CATEGORIES))  # column v is now at place[v]
    back = np.argsort(place)
    moved = [np.array(own[:, back]) for own in parts[::-1]]
    for own in moved:  # the highest grade first
        own[:, place[2]] = 2 - own[:, place[2]]
        own[:, place[4]] = 4 - own[:, place[4]]
    again = p_values(
        moved,
        [place[rows] for rows in tests],
        tuple(np.array(CATEGORIES)[back].tolist()),
        tuple(sorted(place[list(ORDERED)].tolist())),
        kind=kind,
    )
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(again), rtol=1e-6)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), place=st.integers(0, 3), effect=st.booleans())
def test_a_category_that_no_site_has_changes_nothing(seed, place, effect):
    rng = np.random.default_rng(seed)
    data = graded_data(rng, 240)
    parts, kind = np.array_split(data, 2), with_effect if effect else Queries
    tests = [np.array([[2, 0], [2, 1], [2, 3]]), np.array([[2, 0, 1]])]
    found = p_values(parts, tests, kind=kind)
    wider = [np.array(own) for own in parts]
    for own in wider:
        own[:, 2] += own[:, 2] >= place
    again = p_values(wider, tests, (0, 2, 4, 4, 5), kind=kind)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(again), rtol=1e-9)


def test_separated_constant_and_absent_responses_end():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300)
    grade = np.digitize(x, [-0.5, 0.5])
    nothing = np.full(300, np.nan)
    data = np.column_stack([grade, x, np.ones(300), rng.standard_normal(300), nothing])
    categories, ordered = (3, 0, 3, 0, 4), (0, 2, 4)
    tests = [np.array([[0, 1], [0, 3], [2, 3], [0, 2], [4, 1]]), np.array([[0, 3, 1], [1, 3, 0]])]
    for kind in (Queries, with_effect):
        pairs, given_one = p_values(np.split(data, 3), tests, categories, ordered, kind)
        assert pairs[0] < 1e-20  # x separates its own grades
        assert pairs[1] > 1e-4
        assert np.isnan(pairs[2:]).all()  # one category, or no row, says nothing
        assert 0.0 <= given_one[0] <= 1.0
        assert 0.0 <= given_one[1] <= 1.0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), categories=st.integers(2, 5))
def test_gradient_and_hessian_are_those_of_the_likelihood(seed, categories):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(40), rng.standard_normal((40, 2))])
    codes = rng.integers(0, categories, 40).astype(np.float64)
    point = np.append(np.sort(rng.standard_normal(categories - 1)), rng.standard_normal(2))
    point[: categories - 1] += 0.2 * np.arange(categories - 1)

    def parts(at):
        return cumulative_step(design, codes, at, categories)

    value, gradient, hessian = parts(point)
    chance = 1.0 / (1.0 + np.exp(design[:, 1:] @ point[-2:] - point[:-2, None]))
    shares = np.diff(chance, axis=0, prepend=0.0, append=1.0)
    assert math.isclose(value, np.log(shares[codes.astype(int), np.arange(40)]).sum())
    for k, step in enumerate(1e-5 * np.eye(len(point))):
        up, down = parts(point + step), parts(point - step)
        assert math.isclose((up[0] - down[0]) / 2e-5, gradient[k], rel_tol=1e-4, abs_tol=1e-5)
        np.testing.assert_allclose((down[1] - up[1]) / 2e-5, hessian[k], rtol=1e-4, atol=1e-5)


def graded_frame(rng, rows):
    data = graded_data(rng, rows)
    names = ["age", "sex", "stage", "ward", "pain"]
    frame = pd.DataFrame({n: data[:, v] for v, n in enumerate(names)})
    return frame.astype({"sex": int, "ward": int, "stage": int, "pain": int})


def graded_schema(frame, *, ordered=True):
    columns = infer_schema(frame).columns
    return Schema(
        tuple(replace(c, ordered=ordered and c.name in ("stage", "pain")) for c in columns)
    )


def test_tests_of_withheld_tables_and_of_sites_use_the_order_too():
    data = graded_frame(np.random.default_rng(5), 240)
    for evidence, test in (("glm", "auto"), ("fisher", "regression")):
        aggregates = []
        for ordered in (True, False):
            federation = Federation.split(
                data, 3, device="cpu", policy=ALL_KINDS, schema=graded_schema(data, ordered=ordered)
            )
            own = FedPC(evidence=evidence, test=test, max_cond_size=1)
            result = federation.run(own)
            aggregates.append([r.aggregate for r in result.rounds])
            if evidence == "glm":
                assert result.finding.details["tests"]["withheld: within sites"] > 0
        assert aggregates[0] != aggregates[1]


@pytest.mark.parametrize("evidence", ["pooled", "fisher", "vote"])
def test_tables_take_no_notice_of_an_order(evidence):
    data = graded_frame(np.random.default_rng(8), 400).drop(columns="age")
    runs = []
    for ordered in (True, False):
        schema = graded_schema(data, ordered=ordered)
        federation = Federation.split(data, 3, device="cpu", policy=ALL_KINDS, schema=schema)
        result = federation.run(FedPC(evidence=evidence, max_cond_size=1))
        runs.append((result.finding.graph, [r.aggregate for r in result.rounds]))
    assert runs[0] == runs[1]


def test_only_glm_asks_which_variables_have_an_order():
    site = site_of(graded_data(np.random.default_rng(0), 50))
    plain, asked = Columns(n_variables=5), Columns(n_variables=5, order=True)
    answer = site.answer(plain)
    assert not plain.read(answer).ordered.any()
    assert np.flatnonzero(asked.read(site.answer(asked)).ordered).tolist() == [2, 4]
    np.testing.assert_array_equal(site.answer(asked)[:-5], answer)


def question(**changes):
    lengths, members = pack_models([Regression(1, (0,), ordered=True)])
    fields = {
        "categories": (0, 4),
        "origins": bytes(16),
        "units": bytes(16),
        "lengths": lengths,
        "members": members,
        "coefficients": np.array([-np.inf, 0.0, 1.0, 0.5]).tobytes(),
        "ordered": (1,),
    }
    return fields | changes


@pytest.mark.parametrize(
    "change",
    [
        {"ordered": (0, 1)},
        {"ordered": (1, 1)},
        {"ordered": (2,)},
        {"ordered": (-1,)},
        {"ordered": ()},
        {"categories": (0, 2), "coefficients": bytes(16)},
        {"coefficients": np.array([0.0, -1.0, 1.0, 0.5]).tobytes()},
        {"coefficients": np.array([0.0, np.nan, 1.0, 0.5]).tobytes()},
        {"coefficients": np.array([np.inf, 0.0, 1.0, 0.5]).tobytes()},
        {"coefficients": np.array([0.0, 1.0, 2.0, np.inf]).tobytes()},
        {"coefficients": bytes(24)},
    ],
)
def test_hostile_thresholds_and_orders_do_not_decode(change):
    encode = msgspec.msgpack.encode
    tagged = {"type": "regression-steps", **question()}
    assert isinstance(msgspec.msgpack.decode(encode(tagged), type=RegressionSteps), RegressionSteps)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(encode(tagged | change), type=RegressionSteps)


def test_a_site_answers_only_the_order_of_its_own_schema():
    data = graded_data(np.random.default_rng(0), 60)[:, [0, 3]]
    asked = RegressionSteps(**question())
    assert np.isfinite(site_of(data, (0, 4), (1,)).answer(asked)).all()
    with pytest.raises(MalformedMessageError, match="other columns"):
        site_of(data, (0, 4), ()).answer(asked)


@pytest.mark.parametrize(
    "thresholds",
    [(-np.inf,) * 3, (np.inf,) * 3, (0.0,) * 3, (0.0, 1e-300, np.inf), (-1e300, 0.0, 1e300)],
)
@pytest.mark.parametrize("slope", [0.0, 1e9])
def test_thresholds_that_leave_a_row_no_chance_get_a_finite_answer(thresholds, slope):
    data = graded_data(np.random.default_rng(0), 60)[:, [0, 3]]
    own = {"coefficients": np.array([*thresholds, slope]).tobytes()}
    asked = RegressionSteps(**question(**own))
    columns = site_of(data, (0, 4), (1,)).column
    found = regression_steps(asked, Expansion.of_question(asked, columns))
    assert np.isfinite(found).all()
    assert found[0] <= 0.0


def test_equal_thresholds_count_the_rows():
    data = graded_data(np.random.default_rng(0), 60)[:, [0, 3]]
    own = {"coefficients": np.append(equal_thresholds(4), 0.0).tobytes()}
    found = site_of(data, (0, 4), (1,)).answer(RegressionSteps(**question(**own)))
    assert math.isclose(found[0], -60 * math.log(4))
