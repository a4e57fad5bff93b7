"""The result of a survival analysis: table, folder, page, terminal; the same numbers in each."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from followed_patients import EDGES, wards
from report_run import altered, page_of

from cipherdag import Federation, Policy, Survival, SurvivalAnalysis
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS

EXACT = Policy(min_cell_size=0, questions=QUESTION_KINDS)
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def result():
    schema = infer_schema([*wards().values()])
    federation = Federation.simulate(wards(), schema=schema, policy=EXACT)
    own = Survival(time="months", event="died", by="arm", edges=EDGES, adjust=("arm", "age"))
    return federation.run(own)


def test_its_tables_have_every_group_and_ratio(result):
    assert result.finding.group_names == ("new", "old")
    assert list(result.table("curves")["time"]) == [*EDGES] * 2
    assert list(result.table("hazard_ratios")["of"]) == ["arm old rather than new", "age"]
    assert result._repr_html_().count("<table") == 2


def test_everything_says_which_category_is_the_event(result):
    assert "event: died = yes" in "\n".join(result.lines())
    assert "(died = yes)" in repr(result)
    assert "(event: died = yes)" in result.page()
    assert replace(result, schema="").finding.event_name == "died, category 2"
    saved = json.loads(json.dumps(result.to_dict()))
    assert SurvivalAnalysis.from_json(saved).event_category == saved.pop("event_category") == 2
    assert SurvivalAnalysis.from_json(saved).event_category == 2  # saved before it was told
    saved["parameters"] = {"event_category": 1}
    assert SurvivalAnalysis.from_json(saved).event_category == 1


def test_every_number_of_the_page_is_the_result_s(result):
    page = page_of(result)
    assert page.column("group-table", "Group") == ["new", "old"]
    for heading, numbers in (
        ("Events", [sum(own.events) for own in result.finding.curves]),
        ("Observed", [int(own) for own in result.finding.test.observed]),
        ("Expected", result.finding.test.expected),
        ("More than expected", result.finding.test.excess),
    ):
        shown = page.column("group-table", heading, values=True)
        assert shown == [[str(own)] for own in numbers]
    assert page.column("ratio-table", "Of") == ["arm old rather than new", "age"]
    for heading, name in (("Ratio", "ratio"), ("from", "low"), ("p", "p_value")):
        shown = page.column("ratio-table", heading, values=True)
        assert shown == [[str(own)] for own in result.table("hazard_ratios")[name]]
    assert "truth" not in page.texts["main"].lower()


def test_curves_are_drawn_in_steps_within_their_intervals(result):
    (panel,) = result.report.panels
    for own, series in zip(result.finding.curves, panel.series, strict=True):
        assert series.points == ((0.0, 1.0), *zip(EDGES, own.survival, strict=True))
        course = panel.course(series).removeprefix("M").split("L")
        assert len(course) == 2 * len(series.points)
        places = [tuple(map(float, point.split(","))) for point in course]
        for (x, y), (after, below) in pairwise(places):
            assert x == after or y == below  # only straight across or straight down
        assert panel.area(series).count("L") == 4 * len(series.points) - 1
        assert all(
            low <= y <= high
            for (_, y), (_, low, high) in zip(series.points, series.band, strict=True)
        )
    assert result.page().count('class="band') == 2


def said_of_groups(found, text):
    """The events of every group by the curves' edges; the terminal has them and all follow-up's."""
    counted, test = found.table("curves").groupby("group")["events"].sum(), found.finding.test
    tested = zip(found.finding.group_names, test.observed, test.expected, strict=True)
    for name, own, expected in tested:
        assert f"  {name}  " in text
        assert f" sites, {counted[name]:,} events, " in text
        assert f"over all follow-up {own:,.0f} events, {expected:.1f} expected" in text
    return counted


def test_the_terminal_has_every_group_and_the_test(result):
    text = "\n".join(result.lines())
    said_of_groups(result, text)
    assert "Log-rank test stratified by site, 3 of them: chi-square" in text
    ratio = result.table("hazard_ratios")["ratio"][0]
    assert f"arm old rather than new  {ratio:.4g} (" in text
    assert f"chi-square {result.finding.test.statistic:.2f} with 1 degree of freedom" in text


def test_events_beyond_the_last_edge_are_those_of_the_test_alone():
    asked = Survival(time="months", event="died", by="arm", edges=EDGES[:3])
    found = Federation.simulate(wards(), policy=EXACT).run(asked)
    text, page = "\n".join(found.lines()), page_of(found)
    events = said_of_groups(found, text)
    assert all(
        own > least + 100 for own, least in zip(found.finding.test.observed, events, strict=True)
    )
    assert page.column("group-table", "Events", values=True) == [[str(own)] for own in events]
    assert sum(found.finding.test.observed) == pytest.approx(sum(found.finding.test.expected))


def test_by_default_counts_are_ranges_everywhere():
    asked = Survival(time="months", event="died", by="arm", edges=EDGES)
    result = Federation.simulate(wards()).run(asked)
    text, page = "\n".join(result.lines()), page_of(result)
    for heading, numbers in (
        ("Rows", [own.rows[0] for own in result.finding.curves]),
        ("Events", [own.ended[0] for own in result.finding.curves]),
        ("More than expected", result.finding.test.excess),
    ):
        shown = page.column("group-table", heading, values=True)
        assert shown == [[str(own)] for own in numbers]
    for own, more in zip(result.finding.curves, result.finding.test.excess, strict=True):
        assert f"{own.rows[0]:,} to {own.rows[1]:,} rows at 3 sites" in text
        assert f"{abs(more):.1f} events {'more' if more > 0 else 'fewer'} than expected" in text
    low, high = (sum(own.ended[end] for own in result.finding.curves) for end in (0, 1))
    assert f"{low:,} to {high:,} events" in repr(result)
    assert result.finding.test.observed == ()
    saved = json.loads(json.dumps(result.to_dict()))
    assert SurvivalAnalysis.from_json(saved).curves == result.finding.curves


def test_where_only_sites_know_the_names_groups_have_numbers(result):
    assert replace(result, schema="").finding.group_names == ("1", "2")
    assert replace(result, schema="").finding.ratio_names == ("arm 2 rather than 1", "age")


def test_hostile_names_are_text_wherever_they_stand(result):
    attacked = altered(result, time=HOSTILE, event=HOSTILE, by=HOSTILE, schema="")
    assert HOSTILE not in attacked.page()
    assert "<script>alert" not in attacked._repr_html_()
