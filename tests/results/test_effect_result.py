"""The result of an effect: tables, folder, page, terminal; numbers in each are the result's."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_run import page_of

from cipherdag import CausalGraph, Effect, Federation
from cipherdag.algorithms.effect.report import BETWEEN_PERTURBED
from cipherdag.findings.effect import Contrast, e_value
from cipherdag.pages.numerals import shown

NAME = "<b>cured</b>"


@pytest.fixture(scope="module")
def result():
    """Of a graph that leaves open whether age or the drug came first, by hostile names."""
    rng = np.random.default_rng(0)
    age = rng.normal(60.0, 10.0, 2400)
    drug = rng.random(2400) < 1.0 / (1.0 + np.exp(-(age - 60.0) / 10.0))
    cured = rng.random(2400) < 1.0 / (1.0 + np.exp(-(0.8 * drug + (age - 60.0) / 15.0)))
    table = pd.DataFrame({"age": age, "drug": drug, NAME: np.where(cured, "yes", "<i>no</i>")})
    graph = CausalGraph.from_edges(
        list(table.columns), undirected=[("age", "drug"), ("age", NAME), ("drug", NAME)]
    )
    return Federation.split(table, 3, seed=1).run(Effect(graph.identify("drug", NAME)))


def test_the_tables_have_every_number_of_the_sets(result):
    table = result.table("effects")
    told = [own for own in result.finding.sets if own.contrasts]
    assert len(told) == 2
    assert table.loc[0, "estimate"] == result.finding.estimate == told[0].contrasts[0].estimate
    assert result.finding.interval == (table.loc[0, "low"], table.loc[0, "high"])
    assert result.finding.standard_error == table.loc[0, "standard_error"]
    assert len(table) == 3 * len(told) + len(result.finding.sets) - len(told)
    none = table[table["note"] == "no effect"]
    assert (none["estimate"] == 0.0).all()
    assert result.finding.range == (
        min(0.0, *(own.contrasts[0].low for own in told)),
        max(own.contrasts[0].high for own in told),
    )
    assert set(table["scale"]) == {"difference", "ratio", "odds ratio"}
    assert set(result.table("overlap")["arm"]) == {"False", "True"}
    assert len(result.table("between_sites")) == len(told)


def test_the_page_has_them_too_and_says_nothing_else(result):
    page = page_of(result)
    shown = page.column("effect-table", "Estimate", values=True)
    assert shown == [[str(row[7])] for row in result.finding.cells("effects")]
    means = page.column("arm-table", "Mean", values=True)
    assert means == [[str(row[3])] for row in result.finding.cells("arms")]
    assert page.column("between-table", "Arm") == [
        row[1] for row in result.finding.cells("between_sites")
    ]
    assert NAME in page.texts["main"]  # as text, hence escaped
    assert "<b>cured</b>" not in result.page()


def test_the_scatter_is_shown_no_finer_than_sites_perturb_it(result):
    assert BETWEEN_PERTURBED in result.report.limits
    assert BETWEEN_PERTURBED in page_of(result).texts["main"]
    page, text = page_of(result), "\n".join(result.lines())
    rows = result.finding.cells("between_sites")
    assert page.column("between-table", "p", values=True) == [[str(row[7])] for row in rows]
    assert page.column("between-table", "p") == [f"{row[7]:.2g}" for row in rows]
    assert page.column("between-table", "I²") == [
        f"{row[6]:.0%}".replace("%", " %") for row in rows
    ]
    assert all(f"p {row[7]:.2g} (Cochran's Q)" in text for row in rows)


def test_the_terminal_says_the_effect_and_what_the_graph_leaves_open(result):
    text = "\n".join(result.lines())
    assert f"The effect of drug on the share of {NAME} = yes by augmented inverse " in text
    assert "if the direct causes are age, adjusted for age: 2,400 rows of 3 sites" in text
    assert "True against False, odds ratio:" in text
    assert "True against False, difference from each site's rows alone, mean of 3 sites" in text
    assert "over all of these intervals, as the graph leaves it open" in text


def test_a_first_set_without_an_estimate_has_no_number(result):
    first = replace(result.finding.sets[0], contrasts=(), why="not identified")
    bare = replace(result, finding=replace(result.finding, sets=(first, *result.finding.sets[1:])))
    assert math.isnan(bare.finding.estimate)
    assert bare.table("effects").loc[0, "note"] == "not identified"
    assert "not identified" in bare.page()


# causes that are not measured


def contrast(estimate, low, high, scale="ratio"):
    return Contrast(arm=1, scale=scale, estimate=estimate, error=0.1, low=low, high=high)


def test_e_values_are_those_of_the_published_example():
    """Breastfeeding and respiratory death, 3.9 (1.8 to 8.7): VanderWeele and Ding, 2017."""
    point, limit = contrast(3.9, 1.8, 8.7).e_values
    assert (round(point, 2), round(limit, 2)) == (7.26, 3.0)
    turned = contrast(1 / 3.9, 1 / 8.7, 1 / 1.8).e_values
    np.testing.assert_allclose(turned, (point, limit))
    assert contrast(1.2, 0.9, 1.6).e_values[1] == 1.0
    assert contrast(1.0, 0.5, 2.0).e_values == (1.0, 1.0)
    assert contrast(3.9, 1.8, 8.7, scale="odds ratio").e_values is None
    assert contrast(3.9, 0.0, 8.7).e_values is None


@given(st.floats(1.001, 1e6))
def test_a_cause_as_strong_as_the_e_value_explains_just_this_ratio(ratio):
    both = e_value(ratio)
    np.testing.assert_allclose(both * both / (2.0 * both - 1.0), ratio, rtol=1e-9)


def test_page_and_terminal_say_how_strong_a_hidden_cause_must_be(result):
    said = result.finding.unmeasured_lines
    assert len(said) == 2  # the graph leaves two sets with an effect
    ratios = [one for own in result.finding.sets for one in own.contrasts if one.scale == "ratio"]
    for line, one in zip(said, ratios, strict=True):
        assert shown(one.e_values[0]) in line
    assert result.page().count("(E-value)") == 2
    assert any("unmeasured cause" in line for line in result.lines())
