"""Differences between sites: the statistic, its level and power, and what is never opened."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from driving import drive, plain_sum
from evidence_sites import discrete_site, gaussian_site
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag import Federation, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.site_differences import (
    LEVEL,
    SPREAD,
    SiteDifference,
    differences_given_neighbours,
    differing,
    marginal_differences,
    p_values_of,
)
from cipherdag.errors import AggregateRangeError
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.site_differences import ANGLE_NOISE_SE, MARKS, SiteDifferences
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.compute.descriptions import shares as shares_module
from cipherdag.sites.compute.descriptions.shares import code_in

FIXED = [HealthCheck.function_scoped_fixture]
MAX_ROWS = 1 << 20


@pytest.fixture
def unblurred(monkeypatch):
    """Angles as they are: what is added to them is tested by itself."""
    monkeypatch.setattr(shares_module, "ANGLE_NOISE_SE", 0.0)


def about(categories, *blocks, origins=None, units=None):
    """A question about the first block's variables, the second's given one other, and so on."""
    p = len(categories)
    counts, members = pack_blocks([np.array(block) for block in blocks])
    return SiteDifferences(
        categories=tuple(categories),
        origins=np.zeros(p).tobytes() if origins is None else np.array(origins).tobytes(),
        units=pack_integers(np.zeros(p, dtype=int) if units is None else np.array(units)),
        counts=counts,
        members=members,
        max_rows=1 << 14,
    )


def compared(sites, *, min_contributors=1, n_variables=None):
    """What is found of all variables, and the questions it takes."""
    n_variables = n_variables or sites[0].n_variables

    def asking():
        columns = Columns(n_variables=n_variables, max_rows=MAX_ROWS)
        kinds = columns.read((yield columns))
        return (
            yield from marginal_differences(
                kinds, min_contributors=min_contributors, max_rows=MAX_ROWS
            )
        )

    found, asked = drive(asking(), sites)
    return found, asked[1:]


def p_values(sites, **options):
    return np.array([own.p_value for own in compared(sites, **options)[0]])


def codes_sites(rng, rows, shares):
    """Sites of one discrete column each; ``shares`` by site."""
    return [
        discrete_site(rng.choice(len(own), size=(rows, 1), p=own), (len(own),)) for own in shares
    ]


def by_hand(counts, rows):
    """Cochran's Q of the angles of one share, in plain Python."""
    weights, angles = [], []
    for x, n in zip(counts, rows, strict=True):
        w = 4 * n + 2
        weights.append(w)
        angles.append(math.asin(math.sqrt((x + 3 / 8) / (n + 3 / 4))))
    mean = sum(w * t for w, t in zip(weights, angles, strict=True)) / sum(weights)
    scatter = sum(w * (t - mean) ** 2 for w, t in zip(weights, angles, strict=True))
    return stats.chi2.sf(scatter / (1.01 + 1 / 3), len(rows) - 1)


@pytest.mark.usefixtures("unblurred")
@given(seed=st.integers(0, 2**32), n_sites=st.integers(2, 6))
@settings(max_examples=40, deadline=None, suppress_health_check=FIXED)
def test_of_two_categories_it_is_cochran_s_q_of_angles(seed, n_sites):
    rng = np.random.default_rng(seed)
    sites, counts, rows = [], [], []
    for _ in range(n_sites):
        own = (rng.random((int(rng.integers(20, 300)), 1)) > rng.uniform(0.3, 0.7)).astype(int)
        sites.append(discrete_site(own, (2,)))
        counts.append(int((own == 0).sum()))
        rows.append(len(own))
    assert np.isclose(p_values(sites)[0], by_hand(counts, rows), rtol=1e-6)


@pytest.mark.usefixtures("unblurred")
@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None, suppress_health_check=FIXED)
def test_neither_the_order_of_sites_nor_that_of_categories_matters(seed):
    rng = np.random.default_rng(seed)
    codes = [rng.choice(4, size=(120, 2), p=[0.1, 0.2, 0.3, 0.4]) for _ in range(4)]
    turn = rng.permutation(4)
    found = p_values([discrete_site(own, (4, 4)) for own in codes])
    turned = p_values([discrete_site(turn[own], (4, 4)) for own in codes[::-1]])
    assert np.allclose(found, turned, rtol=1e-9)


@pytest.mark.usefixtures("unblurred")
def test_on_many_rows_it_agrees_with_chi_square_of_site_by_category():
    rng = np.random.default_rng(3)
    for _ in range(60):
        shares = [rng.uniform(0.45, 0.55) for _ in range(4)]
        own = [rng.binomial(2000, share) for share in shares]
        sites = [discrete_site(np.repeat([[0], [1]], [x, 2000 - x], axis=0), (2,)) for x in own]
        table = [[x, 2000 - x] for x in own]
        expected = stats.chi2_contingency(table, correction=False).statistic
        # what is allowed to the blur
        assert stats.chi2.isf(p_values(sites)[0], 3) == pytest.approx(expected / SPREAD, rel=0.01)


@pytest.mark.usefixtures("unblurred")
def test_a_number_s_shares_are_those_up_to_common_marks():
    values = np.array([[-3.0], [0.1], [0.1], [0.6], [np.nan], [900.0]])
    question = about((0,), [[0]], origins=[0.5], units=[-1])
    marks = question.marks()[0]
    assert np.allclose(marks, 0.5 + 0.5 * np.array(MARKS))
    answer = gaussian_site(values).answer(question)
    first, second, coded, told, weight = np.split(answer, [13, 26, 27, 28])
    assert (coded, told, weight) == ([0.0], [1.0], [22.0])
    counts = [(values[:, 0] <= mark).sum() for mark in marks]
    assert counts[0] == 0
    assert counts[-1] == 4
    angles = [math.asin(math.sqrt((x + 0.375) / 5.75)) for x in counts]
    scaled = [math.sqrt(22) * angle for angle in angles]
    assert np.allclose(first, math.sqrt(22) * np.array(scaled))
    assert np.allclose(second, np.square(scaled))


WORLDS = {
    "normal": lambda rng, size: (rng.standard_normal(size), 0),
    "heavy tails": lambda rng, size: (rng.standard_cauchy(size), 0),
    "skewed": lambda rng, size: (np.exp(2.0 * rng.standard_normal(size)), 0),
    "rounded": lambda rng, size: (np.rint(1.5 * rng.standard_normal(size)), 0),
    "two categories": lambda rng, size: ((rng.random(size) < 0.3) * 1, 2),
    "rare category": lambda rng, size: ((rng.random(size) < 0.02) * 1, 2),
    "many categories": lambda rng, size: (rng.choice(8, size, p=SKEWED), 8),
}
SKEWED = [0.6, 0.2, 0.1, 0.05, 0.02, 0.015, 0.01, 0.005]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("n_sites", [3, 12])
def test_equal_sites_are_said_to_differ_no_more_often_than_the_level(world, n_sites):
    rng = np.random.default_rng(n_sites)
    found = []
    for _ in range(4):
        sites = []
        for _ in range(n_sites):
            own, categories = WORLDS[world](rng, (int(rng.integers(40, 400)), 150))
            lost = rng.random(own.shape) < 0.05
            if categories:
                sites.append(discrete_site(np.where(lost, -1, own), (categories,) * 150))
            else:
                sites.append(gaussian_site(np.where(lost, np.nan, own)))
        found.append(p_values(sites))
    told = np.concatenate(found)
    told = told[~np.isnan(told)]
    assert len(told) > 300
    for level in (0.05, 0.01):
        limit = stats.binom.isf(1e-4, len(told), 1.25 * level)
        assert (told <= level).sum() <= limit, (level, (told <= level).mean())


def test_no_angle_varies_more_than_is_allowed_for():
    """Of any number of rows and share; the blur, which knows nothing of it, adds a third."""
    shares = np.linspace(0.02, 0.5, 25)
    for n in (*range(2, 200), 250, 400, 1000, 3000):
        x = np.arange(n + 1)
        angle = np.sqrt(4.0 * n + 2.0) * np.arcsin(np.sqrt((x + 0.375) / (n + 0.75)))
        chance = stats.binom.pmf(x, n, shares[:, None])
        variance = chance @ angle**2 - (chance @ angle) ** 2
        assert variance.max() + ANGLE_NOISE_SE**2 / 3.0 <= SPREAD


TRIPLES = np.array(list(itertools.product(range(31), repeat=3)))


def decoded(sums):
    """Counts of three sites of 30 rows, by how well they explain two sums; the truth's place."""
    w = 4.0 * 30 + 2.0
    angle = np.arcsin(np.sqrt((TRIPLES + 0.375) / 30.75))
    first, second = w * angle.sum(axis=1), w * (angle**2).sum(axis=1)
    return np.argsort(np.abs(first - sums[0]) / w + np.abs(second - sums[1]) / w)


@pytest.mark.parametrize("blurred", [True, False])
def test_no_counts_of_the_sites_follow_from_sums_of_blurred_angles(blurred, monkeypatch):
    """Without the blur every triple of counts does, but for the order of the sites."""
    if not blurred:
        monkeypatch.setattr(shares_module, "ANGLE_NOISE_SE", 0.0)
    rng, found = np.random.default_rng(14), 0
    question = about((2,), [[0]])
    for _ in range(60):
        truth = rng.integers(0, 12, 3)
        rows = [rng.permutation(np.repeat([[0], [1]], [x, 30 - x], axis=0)) for x in truth]
        sums = plain_sum(question, [discrete_site(own, (2,)) for own in rows])
        best = TRIPLES[decoded(sums)[0]]
        found += sorted(best) == sorted(truth)
    assert found == 60 if not blurred else found <= 6


def test_asking_again_has_the_same_noise_and_other_rows_have_other():
    rng = np.random.default_rng(15)
    values = rng.standard_normal((60, 2))
    question = about((0, 0), [[0]])
    told = gaussian_site(values).answer(question)
    assert (gaussian_site(values.copy()).answer(question) == told).all()
    other = values.copy()
    other[0, 1] += 1.0  # in a column that is not asked about
    assert (gaussian_site(other).answer(question)[:13] != told[:13]).all()
    # no row lies between the last two marks below and the first two: one number each
    first = told[:13]
    assert first[0] == first[1]
    assert first[-1] == first[-2]
    assert len(np.unique(first)) == len(
        np.unique((values[:, :1] <= question.marks()[0]).sum(axis=0))
    )


@pytest.mark.parametrize(("rows", "share"), [(63, 0.4), (30, 0.5)])
def test_many_small_sites_that_are_alike_are_not_told_apart(rows, share):
    rng, variables = np.random.default_rng(rows), 150
    question = about((2,) * variables, [[v] for v in range(variables)])
    draws = (rng.random((100, rows, variables)) < share).astype(np.int64)
    sites = [discrete_site(own, (2,) * variables) for own in draws]
    assert (p_values_of(question, plain_sum(question, sites)) < 0.01).mean() <= 0.02


@pytest.mark.parametrize("draw", WORLDS)
def test_no_code_for_missing_values_is_seen_where_there_is_none(draw):
    rng = np.random.default_rng(13)
    drawn = [WORLDS[draw](rng, 500)[0].astype(float) for _ in range(200)]
    assert [own for own in drawn if code_in(own) is not None] == []
    assert code_in(np.rint(rng.pareto(1.0, 5000))) is None
    assert code_in(np.full(100, 5.0)) is None
    assert code_in(np.zeros(0)) is None


@pytest.mark.parametrize("code", [-999.0, -9.0, 999.0])
def test_a_code_for_missing_values_is_seen_at_either_end(code):
    values = np.concatenate([np.linspace(20.0, 30.0, 300), np.full(6, code), [np.nan]])
    assert code_in(values) == (code, 6)
    assert code_in(values[:-5]) is None
    assert code_in(np.append(values, code - 1.0 if code < 20 else code + 1.0)) is None


def unit(values, _rng):
    return 10.0 * values


def missing_code(values, rng):
    """-999 in one of fifty rows."""
    return np.where(rng.permutation(len(values)) < len(values) // 50, -999.0, values)


@pytest.mark.parametrize(
    ("fault", "draw"),
    [(unit, "normal"), (unit, "heavy tails"), (missing_code, "normal"), (missing_code, "skewed")],
)
def test_a_unit_and_a_code_for_missing_values_are_found(fault, draw):
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(30):
        values = [24.0 + 4.0 * WORLDS[draw](rng, (500, 2))[0] for _ in range(4)]
        values[1][:, 0] = fault(values[1][:, 0], rng)
        found = compared([gaussian_site(own) for own in values])[0]
        named = {own.variable for own in differing(found)}
        missed += 0 not in named and not found[0].coded
        assert found[1].p_value > 1e-6
        assert not found[1].coded
    assert missed == 0


def test_marginals_of_one_site_s_own_are_found():
    rng = np.random.default_rng(8)
    for _ in range(30):
        usual, other = [0.5, 0.3, 0.2], [0.35, 0.3, 0.35]
        (found,) = p_values(codes_sites(rng, 500, [usual, usual, other, usual]))
        assert found < LEVEL


def test_names_hold_over_all_variables_together():
    found = [SiteDifference(v, (), p) for v, p in enumerate([0.2, 0.004, 0.0004, np.nan])]
    assert [own.variable for own in differing(found)] == [2, 1]
    assert differing([replace(own, p_value=own.p_value * 4) for own in found]) == (
        SiteDifference(2, (), 0.0016),
    )
    assert differing([]) == ()
    assert [own.variable for own in differing(found, among=20)] == [2]
    assert differing(found, among=26) == ()


def test_what_too_few_sites_have_is_never_opened():
    rng = np.random.default_rng(9)
    values = [rng.standard_normal((60, 3)) for _ in range(4)]
    for own in values[:2]:
        own[:, 1] = np.nan
    values[3][8:, 2] = np.nan
    for own in values[:2]:
        own[8:, 2] = np.nan
    sites = [gaussian_site(own, min_cell_size=11) for own in values]
    found, (counting, opening) = compared(sites, min_contributors=3)
    assert isinstance(counting, ContributorCounts)
    assert isinstance(opening, Suppressed)
    assert plain_sum(counting, sites).tolist() == [4.0, 2.0, 1.0]
    sums = plain_sum(opening, sites)
    named = opening.question.value_mask(np.array([False, True, True]))
    assert not sums[named].any()
    assert (sums[~named] > 0).sum() == len(sums) // 3 - 1
    assert np.isnan([own.p_value for own in found]).tolist() == [False, True, True]


def test_a_site_that_left_takes_what_may_then_be_of_too_few_with_it():
    rng = np.random.default_rng(10)
    question = about((2, 3), [[0], [1]])
    site = discrete_site(rng.integers(0, 2, (50, 2)), (2, 3))
    bits = np.packbits([True, True]).tobytes()
    covered = Suppressed(question=question, enough=bits)
    whole = question.suppress(site.answer(question), covered.enough_array())
    assert (whole > 0).sum() == len(whole) - 2
    left = covered.without(whole, np.array([False, True]))
    kept = question.value_mask(np.array([True, False]))
    assert (left[kept] == whole[kept]).all()
    assert not left[question.value_mask(np.array([False, True]))].any()


@pytest.mark.usefixtures("unblurred")
def test_shares_of_strata_given_others_are_those_of_their_rows():
    rng = np.random.default_rng(11)
    codes = rng.integers(0, 3, (200, 3))
    codes[rng.random(codes.shape) < 0.1] = -1
    question = about((3, 3, 3), np.zeros((0, 1), int), np.zeros((0, 2), int), [[2, 0, 1]])
    answer = discrete_site(codes, (3, 3, 3)).answer(question)
    whole = codes[(codes >= 0).all(axis=1)]
    told, weight = answer[-18:-9], answer[-9:]
    for stratum, (a, b) in enumerate(np.ndindex(3, 3)):
        own = whole[(whole[:, 0] == a) & (whole[:, 1] == b)]
        assert weight[stratum] == 4 * len(own) + 2
        for share in range(3):
            x = (own[:, 2] == share).sum()
            angle = math.asin(math.sqrt((x + 3 / 8) / (len(own) + 3 / 4)))
            scaled = math.sqrt(weight[stratum]) * angle
            assert np.isclose(answer[3 * stratum + share], math.sqrt(weight[stratum]) * scaled)
    assert told.all()


def test_other_names_of_categories_take_no_blur_away():
    """Of two plans the mean would else be exact, as the angles of both shares add up."""
    codes = np.random.default_rng(2).integers(0, [2, 3], (200, 2))
    question = about((2, 3), [[0], [1]])
    answer = discrete_site(codes, (2, 3), 11).answer(question)[:4]
    named = np.column_stack([1 - codes[:, 0], np.array([2, 0, 1])[codes[:, 1]]])
    other = discrete_site(named, (2, 3), 11).answer(question)[:4]
    assert answer[0] + other[0] == pytest.approx(802 * np.pi / 2, abs=1e-6)
    assert other[1:][[2, 0, 1]] == pytest.approx(answer[1:])
    more = discrete_site(codes, (3, 4), 11).answer(about((3, 4), [[0], [1]]))[:7]
    assert more[[0, 3, 4, 5]] == pytest.approx(answer)  # two categories that no row has
    assert more[0] + more[1] == pytest.approx(802 * np.pi / 2, abs=1e-6)


def test_a_site_that_restricts_small_counts_discloses_no_strata():
    """The weights of strata are counts of rows, exactly: a pooled table of the neighbours."""
    codes = np.random.default_rng(1).integers(0, 2, (200, 3))
    question = about((2, 2, 2), [[0]], [[0, 1]], [[0, 1, 2]])
    free, strict = (discrete_site(codes, (2, 2, 2), least).answer(question) for least in (0, 11))
    told = question.contributes(strict)
    assert told.tolist() == [1.0] + [0.0] * 6
    assert question.contributes(free).all()
    assert not strict[~question.value_mask(told)].any()


def test_what_a_neighbour_explains_no_longer_differs_given_it():
    rng = np.random.default_rng(12)
    kept = 0
    for _ in range(40):
        sites = []
        for prevalence in (0.2, 0.3, 0.3, 0.6):
            cause = (rng.random(800) < prevalence).astype(int)
            effect = (rng.random(800) < 0.15 + 0.6 * cause).astype(int)
            sites.append(discrete_site(np.column_stack([cause, effect]), (2, 2)))
        bounds = {"min_contributors": 3, "max_rows": MAX_ROWS}
        joined = np.array([[False, True], [True, False]])

        def asking(bounds=bounds, joined=joined):
            columns = Columns(n_variables=2, max_rows=MAX_ROWS)
            kinds = columns.read((yield columns))
            marginal = yield from marginal_differences(kinds, **bounds)
            given = yield from differences_given_neighbours(kinds, marginal, joined, **bounds)
            return marginal, given

        (marginal, given_others), _ = drive(asking(), sites)
        assert len(differing(marginal)) == 2
        cause, effect = given_others
        assert (cause.given, effect.given) == ((1,), (0,))
        assert cause.p_value < LEVEL
        kept += effect.p_value > LEVEL
    assert kept >= 37


@pytest.mark.parametrize(
    "changes",
    [
        {"categories": (1, 3)},
        {"categories": (-1, 3)},
        {"origins": b""},
        {"origins": np.array([0.0, np.inf]).tobytes()},
        {"units": pack_integers(np.array([0, 2000]))},
        {"members": b"\x00\x00"},
        {"members": b"\x00\x00\x05\x00"},
        {"counts": (2, 0, 0)},
        {"counts": (0, 1), "members": b"\x00\x00\x00\x00"},
        {"counts": (0, 1), "categories": (2, 0)},
        {"max_rows": 1},
    ],
)
def test_questions_about_nothing_cannot_be_made(changes):
    asked = {
        own: getattr(about((2, 3), [[0], [1]]), own) for own in SiteDifferences.__struct_fields__
    }
    SiteDifferences(**asked)
    with pytest.raises(ValueError, match=r"\w"):
        SiteDifferences(**(asked | changes))


def test_sums_that_no_answers_add_up_to_are_refused():
    question = about((2,), [[0]])
    with pytest.raises(AggregateRangeError, match="less scatter than none"):
        p_values_of(question, np.array([500.0, 100.0, 0.0, 3.0, 500.0]))


def frames(n_sites=4, rows=400, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for number in range(n_sites):
        age = rng.normal(60.0, 10.0, rows)
        pressure = 1.2 * age + rng.normal(0.0, 10.0, rows)
        weight = rng.normal(80.0, 12.0, rows)
        found[f"s{number}"] = pd.DataFrame({"age": age, "pressure": pressure, "weight": weight})
    return found


def test_where_nothing_differs_the_table_says_so():
    found = Federation.simulate(frames()).run(FedPC(reveal="sums"))
    table = found.table("site_differences")
    assert table["variable"].tolist() == ["age", "pressure", "weight"]
    assert not table["differs"].any()
    assert found.report.warnings == ()


@pytest.mark.parametrize("kind", ["vote", "fisher", "weighted_p"])
def test_evidence_that_asks_for_no_columns_compares_none(kind):
    facts = Facts(3, 3, min_contributors=2)
    rng = np.random.default_rng(0)
    sites = [gaussian_site(rng.standard_normal((80, 3))) for _ in range(3)]
    outcome, asked = drive(FedPC(evidence=kind).ask(facts), sites)
    assert outcome.doubts.differences == ()
    assert not any("site" in str(type(own)) and "Differences" in str(own) for own in asked)


@pytest.mark.parametrize(
    ("algorithm", "warned"),
    [
        (FedPC(evidence="pooled"), True),
        (FedPC(evidence="glm"), True),
        (FedPC(evidence="glm-site-effect"), False),
        (FedPC(reveal="sums"), False),
    ],
)
def test_a_difference_taken_for_an_edge_is_warned_of(algorithm, warned, caplog, tmp_path):
    tables = frames()
    tables["s2"]["weight"] *= 10.0
    result = Federation.simulate(tables).run(algorithm)
    differs = result.table("site_differences")
    assert differs[differs["differs"]]["variable"].tolist() == ["weight"]
    said = "weight is distributed differently at the sites"
    terminal = "\n".join(result.lines())
    assert said in terminal
    assert (f"WARNING: {said}" in terminal) is warned
    assert result.to_dict()["warnings"] == list(result.report.warnings)
    assert any(said in own for own in result.report.warnings) is warned
    assert any(said in own.getMessage() for own in caplog.records) is warned
    page = result.page()
    assert "Differences between sites" in page
    assert (said in page) is warned
    loaded = type(result).load(result.save(tmp_path / "result"))
    assert loaded.report.warnings == result.report.warnings
    assert loaded.table("site_differences").equals(differs)


def test_replicates_compare_nothing_more():
    result = Federation.simulate(frames(rows=120)).run(
        FedPC(reveal="sums", bootstrap=3, max_cond_size=0)
    )
    asked = [own for own in result.rounds if "site-differences" in own.kind]
    assert len(asked) == 2
    assert "3 replicates" not in "".join(own.label for own in asked if "sites, 3" in own.label)
