"""Survival over sites is statsmodels over all their rows, their times at the edges of bins."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from driving import drive
from followed_patients import EDGES, binned, ward, wards
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulating import driven, federated, views_of
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from cipherdag import Schema, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.survival.outcome import counts_in_units, exact_outcome, round_edges
from cipherdag.errors import AggregateRangeError, DataError, ParameterError, SiteUnreachableError
from cipherdag.questions.estimation.rounded_totals import RoundedTotals
from cipherdag.questions.estimation.survival import SurvivalCounts
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.statistics.survival import RoundedCounts, curve_of

OWN = {"time": "months", "event": "died"}


def survived(data, *, least=0, schema=None, **parameters):
    parameters = OWN | {"edges": EDGES} | parameters
    schema = schema or infer_schema(list(data.values()), min_cell_size=0)
    return federated(data, least, schema=schema).run(Survival(**parameters))


@pytest.fixture(scope="module")
def result():
    return survived(wards(), by="arm", censored="after")


def test_curves_are_those_of_all_rows_on_binned_times(result):
    whole = pd.concat(wards().values())
    times, ended = binned(whole)
    for name, own in zip(result.finding.group_names, result.finding.curves, strict=True):
        chosen = (whole["arm"] == name).to_numpy()
        known = SurvfuncRight(times[chosen], ended[chosen])
        at = np.searchsorted(EDGES, known.surv_times)
        np.testing.assert_allclose(np.array(own.survival)[at], known.surv_prob, atol=1e-12)
        assert np.array(own.at_risk)[at].tolist() == known.n_risk.tolist()
        assert np.array(own.events)[at].tolist() == known.n_events.tolist()
        # the interval at log(-log S), from the standard error that statsmodels has
        spread = known.surv_prob_se / (known.surv_prob * np.abs(np.log(known.surv_prob)))
        for ends, way in ((own.low, 1.0), (own.high, -1.0)):
            reach = np.exp(way * stats.norm.ppf(0.975) * spread)
            np.testing.assert_allclose(np.array(ends)[at], known.surv_prob**reach, atol=1e-9)
        assert own.median[0] == known.quantile(0.5)
        assert own.median[1:] == pytest.approx(known.quantile_ci(0.5, method="cloglog"))


@pytest.mark.parametrize("edges", [EDGES, (12.0, 24.0), (20.0,)])
def test_curves_are_those_that_count_rows_lost_in_a_bin_by_half(edges):
    """Half of each such row is lost before the events of its bin, and half after."""
    whole = pd.concat(wards().values())
    found = survived(wards(), edges=edges).finding.curves[0]
    times, ended = binned(whole, (*edges, 100.0))
    early = np.nextafter(times, 0.0)
    weights = np.where(ended, 1.0, 0.5)
    known = SurvfuncRight(
        np.append(times, early[~ended]),
        np.append(ended, np.zeros((~ended).sum())),
        freq_weights=np.append(weights, np.full((~ended).sum(), 0.5)),
    )
    at = np.searchsorted(known.surv_times, edges)
    np.testing.assert_allclose(found.survival, known.surv_prob[at], atol=1e-12)


@pytest.mark.parametrize("rows", [400, 4000])
@pytest.mark.parametrize("edges", [(12.0, 24.0), (20.0,)])
def test_coarse_edges_leave_the_exact_curve_within_its_interval(rows, edges):
    """Where most are lost from sight, that of censored "after" leaves it out."""
    left_out = 0
    for seed in range(4):
        data = {name: ward(rows, 100 * seed + k) for k, name in enumerate("abc")}
        for k, own in enumerate(data.values()):
            lost = np.random.default_rng(100 * seed + k).exponential(10.0, rows)
            own["died"] = np.where(lost < own["months"], "no", own["died"])
            own["months"] = np.minimum(own["months"], lost)
        whole = pd.concat(data.values())
        exact = SurvfuncRight(whole["months"], whole["died"] == "yes")
        last = np.searchsorted(exact.surv_times, edges, side="right") - 1
        known = exact.surv_prob[last]
        found, before = (
            survived(data, edges=edges, censored=own).finding.curves[0]
            for own in ("within", "after")
        )
        assert found.coarse
        inside = (np.array(found.low) < known) & (known < np.array(found.high))
        assert inside.all()
        left_out += (np.array(before.low) > known).any()
        assert (np.abs(np.array(found.survival) - known) < np.array(before.survival) - known).all()
    assert left_out == 4


def test_fine_edges_give_the_exact_curve_and_its_interval():
    whole = pd.concat(wards().values())
    exact = SurvfuncRight(whole["months"], whole["died"] == "yes")
    edges = tuple(np.arange(0.1, 24.05, 0.1).round(1).tolist())
    found = survived(wards(), edges=edges)
    assert not any("too coarse" in own for own in found.report.warnings)
    last = np.searchsorted(exact.surv_times, edges, side="right") - 1
    known, spread = exact.surv_prob[last], exact.surv_prob_se[last]
    reach = np.exp(stats.norm.ppf(0.975) * spread / (known * -np.log(known)))
    own = found.finding.curves[0]
    np.testing.assert_allclose(own.survival, known, atol=5e-4)
    np.testing.assert_allclose(own.low, known**reach, atol=5e-3)
    np.testing.assert_allclose(own.high, known ** (1 / reach), atol=5e-3)
    (said,) = (o for o in survived(wards(), edges=(20.0,)).report.warnings if "too coarse" in o)
    assert said.endswith("all. Give more edges.")


HELD = st.lists(st.tuples(st.floats(0.1, 30.0), st.booleans()), min_size=1, max_size=40)


@given(
    HELD,
    st.sets(st.sampled_from([1.0, 3.0, 9.0, 20.0, 31.0]), min_size=1),
    st.sampled_from([1, 2, 5, 11]),
)
@settings(max_examples=400)
def test_bounds_hold_counts_and_exact_counts_the_exact_curve(rows, marks, unit):
    """Of any rows; curves by Kaplan and Meier at their exact times."""
    edges, times = np.array(sorted(marks)), np.array([own for own, _ in rows])
    ended = np.array([own for _, own in rows])
    up_to = np.array([[(times[ended == way] <= e).sum() for e in edges] for way in (True, False)])
    at_risk = len(times) - np.append(0, up_to.sum(axis=0))
    events, gone = up_to[0], up_to.sum(axis=0)
    counts = RoundedCounts.of_units(events // unit, gone // unit, len(times) // unit, unit, edges)
    found = curve_of(counts, halved=True)
    for place, edge in enumerate(edges):
        numbers = [found.survival[place], found.low[place], found.high[place]]
        if np.isnan(numbers).all():
            assert at_risk[place] < 2 * unit
            continue
        assert found.low[place] <= found.survival[place] + 1e-9 <= found.high[place] + 2e-9
        if unit > 1:
            continue
        seen = np.unique(times[ended & (times <= edge)])
        left = [1.0 - (ended & (times == t)).sum() / (times >= t).sum() for t in seen]
        exact = np.prod(left)
        assert found.low[place] - 1e-9 <= exact <= found.high[place] + 1e-9
    for true, bounds in ((events, counts.events), (gone, counts.gone)):
        for each in (true, bounds.about):
            assert (bounds.least <= each).all()
            assert (each <= bounds.most).all()
    assert counts.least_rows <= len(times) <= counts.most_rows


def of_two_groups(edges):
    return SurvivalCounts(
        categories=(0, 2, 2), time=0, event=1, by=2, complete_in=(2,), edges=edges.tobytes()
    )


@given(
    HELD,
    HELD,
    st.sets(st.sampled_from([1.0, 3.0, 9.0, 20.0, 31.0]), min_size=1),
    st.sampled_from([2, 5, 11]),
)
@settings(max_examples=200)
def test_bounds_of_two_groups_hold_the_counts_of_each(first, second, marks, unit):
    edges = np.array(sorted(marks))
    groups = [np.array([[time, ended] for time, ended in rows]) for rows in (first, second)]
    true = [
        np.array(
            [[((rows[:, 0] <= e) & (rows[:, 1] >= least)).sum() for e in edges] for least in (1, 0)]
        )
        for rows in groups
    ]
    (events, gone), (more, second_gone) = true
    rows = np.array([len(first) + len(second), len(second)])
    floors = np.concatenate([events, more, gone + second_gone, second_gone, rows]) // unit
    found = counts_in_units(of_two_groups(edges), floors, unit)
    for counts, (ended, left), n_rows in zip(found, true, map(len, groups), strict=True):
        assert counts.least_rows <= n_rows <= counts.most_rows
        for exact, bounds in ((ended, counts.events), (left, counts.gone)):
            for each in (exact, bounds.about):
                assert (bounds.least <= each + 1e-9).all()
                assert (each <= bounds.most + 1e-9).all()


@pytest.mark.parametrize("place", [0, 2, 4, 6, 8, 9])
def test_floors_that_contradict_each_other_are_refused(place):
    asked = of_two_groups(np.arange(1.0, 3.0))
    floors = np.array([1, 2, 1, 2, 2, 5, 1, 2, 6, 3])
    assert len(counts_in_units(asked, floors, 11)) == 2
    floors[place] = 7 if place < 8 else 1
    with pytest.raises(AggregateRangeError, match="more rows end than there are"):
        counts_in_units(asked, floors, 11)


def test_the_log_rank_test_is_that_of_all_rows_on_binned_times(result):
    whole = pd.concat(wards().values())
    statistic, p_value = survdiff(*binned(whole), whole["arm"])
    assert result.finding.together.statistic == pytest.approx(statistic, rel=1e-9)
    assert result.finding.together.p_value == pytest.approx(p_value, rel=1e-9)
    assert sum(result.finding.together.observed) == pytest.approx(
        sum(result.finding.together.expected)
    )


def test_the_test_within_sites_is_that_of_strata_at_exact_times():
    statistic, p_value, ended = within_sites()
    found = survived(wards(), by="arm")
    assert found.finding.test.statistic == pytest.approx(statistic, rel=1e-9)
    assert found.finding.test.p_value == pytest.approx(p_value, rel=1e-9)
    assert (
        sum(found.finding.test.observed)
        == ended.sum()
        == pytest.approx(sum(found.finding.test.expected))
    )


def test_of_sites_that_restrict_small_counts_it_is_near():
    statistic, _, ended = within_sites()
    exact, found = survived(wards(), by="arm"), survived(wards(), by="arm", least=11)
    assert sum(exact.finding.test.observed) == ended.sum()
    assert found.finding.test.excess == pytest.approx(exact.finding.test.excess, abs=3 / 32)
    assert sum(found.finding.test.excess) == 0.0
    assert found.finding.test.observed == found.finding.test.expected == ()
    assert found.finding.test.statistic == pytest.approx(statistic, rel=0.25)
    assert found.finding.test.statistic != pytest.approx(statistic, rel=1e-6)
    assert found.finding.test.dof == 1
    assert found.finding.together is None


def within_sites():
    """The test in strata by site at exact times, and who had the event."""
    whole = pd.concat([own.assign(site=name) for name, own in wards().items()])
    ended = whole["died"] == "yes"
    return *survdiff(whole["months"], ended, whole["arm"], strata=whole["site"]), ended


def test_groups_of_unequal_sites_do_not_differ_when_stratified():
    data = {name: ward(2000, k, ratio=1.0, level=4.0**k) for k, name in enumerate("abc")}
    for k, own in enumerate(data.values()):
        own["arm"] = np.where(np.random.default_rng(k).random(2000) < 0.2 + 0.3 * k, "new", "old")
    found = survived(data, by="arm")
    assert found.finding.together.p_value < 1e-6
    assert found.finding.test.p_value > 0.01


def test_several_groups_have_one_test():
    data = {name: own.assign(arm=np.arange(len(own)) % 4) for name, own in wards().items()}
    whole, found = pd.concat(data.values()), survived(data, by="arm")
    statistic, p_value = survdiff(*binned(whole), whole["arm"])
    assert (found.finding.together.dof, found.finding.test.dof, len(found.finding.curves)) == (
        3,
        3,
        4,
    )
    assert found.finding.together.statistic == pytest.approx(statistic, rel=1e-9)
    assert found.finding.together.p_value == pytest.approx(p_value, rel=1e-9)


def test_rows_that_miss_a_value_are_left_out_and_one_group_is_none():
    data = wards()
    rng = np.random.default_rng(1)
    for own in data.values():
        for name in ("months", "died"):
            own.loc[rng.random(len(own)) < 0.1, name] = None
    times, ended = binned(pd.concat(data.values()).dropna())
    found = survived(data, censored="after")
    assert found.finding.test is None
    assert found.finding.group_names == ("all",)
    known = SurvfuncRight(times, ended)
    np.testing.assert_allclose(found.finding.curves[0].survival, known.surv_prob, atol=1e-12)


def test_ranges_and_what_is_left_out_stand_beside_the_curves():
    data = wards()
    data["west"].loc[:20, "months"] = None
    exact, near = ("\n".join(survived(data, by="arm", least=own).lines()) for own in (0, 11))
    rows = sum(map(len, data.values()))
    assert f"{rows - 21:,} of {rows:,} rows of 3 sites" in exact
    assert "median months 12 (95 %: 9 to 12)" in exact
    assert "whole units" not in exact
    found = survived(data, by="arm", least=11)
    whole = pd.concat(data.values()).dropna().groupby("arm")
    for (_, chosen), own in zip(whole, found.finding.curves, strict=True):
        (least, most), (fewest, last) = own.rows, own.ended
        assert least <= len(chosen) <= most <= least + 20
        assert f"{least:,} to {most:,} rows at 3 sites, {fewest:,} to {last:,} events" in near
        ended = ((chosen["died"] == "yes") & (chosen["months"] <= EDGES[-1])).sum()
        assert fewest <= ended <= last == fewest + 10
    assert "in whole units of 11 rows, and are ranges" in near
    assert "events more than expected" in near
    assert "events fewer than expected" in near
    assert "the intervals cover them" in found.report.panels[0].note
    assert "known in whole units of 11" in found.page()
    assert "moved" not in found.page()


def test_columns_with_commas_between_them_are_refused_with_a_hint():
    with pytest.raises(ParameterError) as raised:
        survived(wards(), adjust=("arm,age",))
    assert "by itself" in raised.value.remedy


def test_which_category_is_the_event_is_said():
    turned = {
        name: own.assign(died=own["died"].map({"yes": "a death", "no": "lost"}))
        for name, own in wards().items()
    }
    found = survived(turned, event_category=1)
    assert found.finding.curves == survived(wards()).finding.curves


@given(
    st.floats(-1e6, 1e9), st.integers(-30, 40).map(lambda power: 2.0**power), st.integers(1, 200)
)
@settings(max_examples=200)
def test_edges_are_round_rising_and_not_too_many(place, unit, bins):
    edges = np.array((0.0, *round_edges(place, unit, bins)))
    widths = np.diff(edges)
    assert 1 <= len(widths) <= bins
    assert (widths > 0.0).all()
    np.testing.assert_allclose(widths, widths[0], rtol=1e-9)
    last = max(place, unit / 2) + 2 * unit
    assert last <= edges[-1] * (1 + 1e-12)
    assert edges[-1] <= last + widths[0]


def test_without_edges_the_bins_reach_most_of_the_times():
    found = survived(wards(), edges=())
    whole = pd.concat(wards().values())
    beyond = (whole["months"] > found.finding.edges[-1]).mean()
    assert 0.0 <= beyond < 0.1
    assert 8 <= len(found.finding.edges) <= 20


@pytest.mark.parametrize("censored", ["within", "after"])
def test_rounded_counts_move_the_curve_little(censored):
    exact, near = (
        survived(wards(), by="arm", least=own, censored=censored).finding for own in (0, 11)
    )
    for own, other in zip(exact.curves, near.curves, strict=True):
        np.testing.assert_allclose(own.survival, other.survival, atol=11 / own.at_risk[-1])
        assert (np.array(other.low) <= own.survival).all()
        assert (np.array(other.high) >= own.survival).all()
        assert abs(own.at_risk[0] - other.at_risk[0]) <= 10
        assert other.median[1] <= own.median[0] <= other.median[2]


def drawn(data, least, *, wide=False, edges=EDGES, **parameters):
    """What the coordinator comes to, and what it asks."""
    schema = loose(data) if wide else infer_schema(list(data.values()), min_cell_size=0)
    asked = Survival(**OWN, edges=edges, **parameters)
    return driven(asked, federated(data, schema=schema), least=least)


def test_no_count_is_opened_but_in_whole_units():
    outcome, asked = drawn(wards(), 11, by="arm")
    counted = [own for own in asked if "survival-counts" in own.tags]
    assert len(counted) == 3
    assert {type(own) for own in counted} == {RoundedTotals}
    assert {own.unit for own in counted} == {outcome.unit} == {11}
    assert outcome.sites.tolist() == [3, 3]


def test_a_group_that_two_sites_have_takes_no_part_in_the_test():
    data = wards()
    data["north"]["arm"] = "old"
    found, exact = (survived(data, least=own, by="arm", schema=loose(wards())) for own in (11, 0))
    assert [own.reported for own in found.finding.curves] == [True, True]
    assert [own.reported for own in exact.finding.curves] == [False, True]
    assert found.finding.test is exact.finding.test is None
    assert any("There is no test" in own for own in found.report.warnings)
    assert any("Too few sites tell of new" in own for own in exact.report.warnings)
    assert "Too few sites tell of new" in exact.page()


def test_an_empty_group_has_no_curve_and_the_others_are_compared():
    schema = infer_schema([*wards().values(), ward(9, 1).assign(arm="none")], min_cell_size=0)
    found = survived(wards(), by="arm", least=11, schema=schema)
    whole = survived(wards(), by="arm", least=11)
    assert found.finding.unreported == ("none",)
    assert any("fewer than 11 rows of none" in own for own in found.report.warnings)
    # the codes of the arms are others, and with them what each site draws
    assert found.finding.test.statistic == pytest.approx(whole.finding.test.statistic, rel=0.25)
    assert found.finding.test.dof == 1
    # the first of two groups is counted together with the second
    reported = [own for own in found.finding.curves if own.reported]
    assert reported[1:] == list(whole.finding.curves[1:])
    assert reported[0].ended == whole.finding.curves[0].ended
    assert "no curve of it, and the test leaves it out." in " ".join(found.report.warnings)


def three_groups(**sites):
    """Patients of groups a, b and c in these shares, by site."""
    found = {}
    for k, (name, shares) in enumerate(sites.items()):
        groups = np.random.default_rng(k).choice(list("abc"), 400, p=shares)
        found[name] = ward(400, k).assign(arm=groups)
    return found


HAVE, LACK, FEW = (0.4, 0.35, 0.25), (0.5, 0.5, 0.0), (0.5, 0.47, 0.03)


@pytest.mark.parametrize("least", [0, 11])
def test_of_a_group_at_one_site_alone_the_test_tells_nothing(least):
    """Its curve is closed; the other two groups are still compared, without its rows."""
    data = three_groups(north=HAVE, south=LACK, west=LACK)
    outcome, _ = drawn(data, least, by="arm", wide=True)
    assert (outcome.sites.tolist(), outcome.comparing) == ([3, 3, 3 if least else 0], 3)
    within = outcome.within
    for opened in (within.observed[2], within.expected[2], *within.covariance[2]):
        assert opened == 0.0
    assert outcome.compared == (0, 1)
    whole = pd.concat([own.assign(site=name) for name, own in data.items()])
    whole = whole[whole["arm"] != "c"]
    ended = whole["died"] == "yes"
    statistic, _ = survdiff(whole["months"], ended, whole["arm"], strata=whole["site"])
    found = survived(data, least=least, by="arm", schema=loose(data))
    assert found.finding.test.dof == 1
    assert found.finding.test.statistic == pytest.approx(
        statistic, rel=0.3 if least else 1e-9, abs=0.05
    )
    said = "The test leaves out c" if least else "tell of c, so there is no curve of it, and the"
    assert any(said in own for own in found.report.warnings)


def test_curves_less_the_test_are_of_no_site_alone():
    """The fourth site cannot tell of c, and so tells of no group that c is compared with."""
    data = three_groups(north=HAVE, south=HAVE, west=HAVE, east=LACK)
    # in one bin the curves have all events
    outcome, _ = drawn(data, 0, by="arm", wide=True, edges=(1000.0,))
    assert (outcome.sites.tolist(), outcome.comparing) == ([3, 3, 3], 3)
    ended = [own.events.most[-1] for own in outcome.counts]
    assert outcome.within.observed.tolist() == ended
    found = survived(data, by="arm", schema=loose(data))
    assert (found.finding.test.dof, found.finding.test.sites) == (2, 3)
    assert any("Some sites tell nothing" in own for own in found.report.warnings)


@pytest.mark.parametrize(
    ("sites", "least", "curves", "tested", "left_out", "said"),
    [
        ((HAVE,) * 3 + (FEW,), 11, [4, 4, 4], (3, (0, 1, 2)), (), "take no part in the test"),
        # of groups of equally few sites one is left out
        ((HAVE, HAVE, LACK, (0.5, 0.0, 0.5)), 0, [3, 3, 3], (3, (0, 1)), ("c",), "leaves out c"),
        # one of few sites does not stop the test of the others
        ((HAVE,) * 3 + (LACK,) * 5, 0, [8, 8, 3], (8, (0, 1)), ("c",), "leaves out c"),
        # too few sites share any two
        (((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), LACK) * 2, 0, [4, 4, 0], None, (), "There is no test"),
    ],
)
def test_groups_of_few_sites_have_curves_and_no_test(sites, least, curves, tested, left_out, said):
    data = three_groups(**{f"s{k}": own for k, own in enumerate(sites)})
    found = survived(data, least=least, by="arm", schema=loose(three_groups(a=HAVE)))
    assert [own.sites for own in found.finding.curves] == curves
    assert any(said in own for own in found.report.warnings)
    assert said in found.page()
    test = found.finding.test
    assert (test and (test.sites, test.groups)) == tested
    assert found.finding.not_compared == left_out
    events = {row[0]: row[-3:-1] for row in found.finding.cells("groups")}
    assert all(events[name] == (None, None) for name in left_out)
    rows = pd.concat(data.values()).groupby("arm").size()
    for own, count in zip(found.finding.curves, rows, strict=False):
        assert own.sites < len(sites) or own.rows[0] <= count <= own.rows[1]


def loose(data):
    schema = infer_schema(list(data.values()), min_cell_size=0)
    return Schema(tuple(replace(own, allow_constant=True) for own in schema.columns))


def test_a_site_with_few_events_takes_part():
    data = wards() | {"east": ward(200, 9)}
    seen = data["east"]["died"] == "yes"
    data["east"].loc[seen & (seen.cumsum() > 4), "died"] = "no"
    found = survived(data, least=11)
    assert found.finding.curves[0].sites == 4
    least, most = found.finding.curves[0].rows
    assert least <= sum(len(own) for own in data.values()) <= most
    assert not [own for own in found.report.warnings if "sites" in own]


def test_no_event_at_all_is_a_flat_curve_and_a_warning():
    data = {name: own.assign(months=own["months"] + 100.0) for name, own in wards().items()}
    found = survived(data, by="arm")
    assert all(own.survival == (1.0,) * 7 == own.low for own in found.finding.curves)
    assert (found.finding.together.dof, found.finding.together.p_value) == (0, None)
    assert any("No row has the event" in own for own in found.report.warnings)
    assert "not done" in "\n".join(found.lines())


def test_after_an_event_of_all_that_are_left_there_is_no_number():
    data = {
        name: own.assign(died=np.where(own["months"] <= 9, "yes", "no"))
        for name, own in wards().items()
    }
    for own in data.values():
        own.loc[own["months"] > 9, ["months", "died"]] = [8.5, "yes"]
        own.loc[0, ["months", "died"]] = [1.0, "no"]
    found = survived(data)
    assert found.finding.curves[0].survival[3:] == (0.0, None, None, None)
    assert np.isnan(found.table("curves")["survival"].iloc[-1])


def test_times_below_0_end_the_run_by_name():
    data = wards()
    data["west"].loc[17, "months"] = -1.0
    with pytest.raises(DataError, match="no time below 0"):  # two sites alone are not counted
        survived(data)
    with pytest.raises(DataError, match="some site has a time below 0"):
        survived(data | {"east": ward(200, 9)})
    for more in ({}, {"by": "arm"}):
        with pytest.raises(DataError, match="some site has a time below 0"):
            survived(data, least=11, **more)


def test_fewer_rows_than_a_unit_have_no_curve():
    data = {name: own[:3] for name, own in wards().items()}
    with pytest.raises(DataError, match="no group has 11 rows at all sites together"):
        drawn(data, 11, wide=True)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"time": "arm"}, "a column of categories"),
        ({"event": "age"}, "numbers and no categories"),
        ({"by": "months"}, "different columns"),
        ({"by": "age"}, "does not have 1 to 64"),
        ({"time": "weeks"}, "no column 'weeks'"),
        ({"edges": (3.0, 2.0)}, "ascend"),
        ({"edges": (0.0, 2.0)}, "above 0"),
        ({"edges": (1.0, float("inf"))}, "ascend"),
        ({"edges": (1.0, np.finfo(float).max)}, "the largest number"),
        ({"edges": [1.0]}, "a tuple of float"),
        ({"edges": ("a",)}, "a tuple of float"),
        ({"edges": (True,)}, "a tuple of float"),
    ],
)
def test_a_column_or_edge_that_cannot_be_is_named(parameters, said):
    with pytest.raises(ParameterError, match=said):
        survived(wards(), **parameters)


def test_a_site_has_the_result_by_its_own_names():
    data = wards()
    schema = infer_schema(list(data.values()), min_cell_size=0)
    own = Survival(time="4", event="3", by="2", adjust=("1", "2"))
    facts = Facts(4, 3, min_contributors=3)
    outcome, _ = drive(own.ask(facts), views_of(federated(data, schema=schema)))
    numbered = own.conclude(outcome, facts)
    named = own.conclude(outcome, replace(facts, names=schema.names))
    assert (numbered.time, numbered.event, numbered.by) == ("4", "3", "2")
    assert (named.time, named.event, named.by) == ("months", "died", "arm")
    assert numbered.ratio_names == ("1", "2 2 rather than 1")
    assert named.ratio_names == ("age", "arm 2 rather than 1")
    assert named.decisions == numbered.decisions


def test_counts_that_contradict_each_other_are_refused():
    question = SurvivalCounts(
        categories=(0, 2), time=0, event=1, edges=np.array([1.0, 2.0]).tobytes()
    )
    fine = np.array([3.0, 2.0, 10.0, 7.0, 0.0, 5.0, 5.0, 0.0, 3.0, 0.0])
    counted = exact_outcome(question, fine, 3)
    (only,) = counted.counts
    assert (only.events.most.tolist(), only.gone.least.tolist()) == ([3], [3])
    assert (only.least_rows, only.most_rows) == (10, 10)
    assert counted.edges.tolist() == [1.0]
    for place, value in ((0, 11.0), (1, 8.0), (3, 8.0)):
        wrong = fine.copy()
        wrong[place] = value
        with pytest.raises(AggregateRangeError, match="at risk"):
            exact_outcome(question, wrong, 3)


def test_a_site_that_leaves_ends_the_run():
    facts = Facts(4, 3, names=("age", "arm", "died", "months"))
    asking = Survival(**OWN, edges=EDGES).ask(facts)
    question = next(asking)
    facts.present.n_sites = 2
    with pytest.raises(SiteUnreachableError):
        asking.send(np.zeros(question.n_values))


def crossing(shapes):
    """Three sites whose hazards of two arms have these shapes: of unlike ones the ratio changes."""
    rng, sites = np.random.default_rng(7), {}
    for site in ("north", "south", "west"):
        arm = rng.integers(0, 2, 300)
        months = 10.0 * rng.exponential(size=300) ** (1.0 / np.array(shapes)[arm])
        end = rng.uniform(0.0, 30.0, 300)
        died = np.where(months <= end, "yes", "no")
        sites[site] = pd.DataFrame(
            {"months": np.minimum(months, end), "died": died, "arm": np.array(["a", "b"])[arm]}
        )
    return sites


@pytest.mark.parametrize(
    ("shapes", "least", "told"),
    [((0.7, 1.6), 0, True), ((1.0, 1.0), 0, False), ((0.7, 1.6), 11, False)],
)
def test_a_changing_ratio_is_said_where_counts_are_exact(shapes, least, told):
    found = survived(crossing(shapes), least=least, by="arm", edges=())
    said = [each for each in found.report.warnings if "changes over time" in each]
    assert len(said) == told
