"""The description of columns: table, folder, page, terminal; numbers in each are the result's."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_run import altered, page_of

from cipherdag import Describe, Federation

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style></title></svg>")


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(60.0, 11.0, 1500).round(),
            "crp": np.where(rng.random(1500) < 0.1, np.nan, rng.lognormal(1.0, 0.8, 1500)),
            "stage": rng.choice(["I", "II", "III", "IV"], 1500, p=[0.6, 0.3, 0.09, 0.01]),
        }
    )
    return Federation.split(table, 3, seed=1).run(Describe())


def test_it_is_two_tables(result):
    assert list(result.table("columns")["column"]) == ["age", "crp", "stage"]
    assert list(result.table("categories")["category"]) == ["I", "II", "III", "IV"]
    assert result._repr_html_().count("<table") == 2


def test_every_number_of_the_page_is_the_result_s(result):
    page = page_of(result)
    assert page.column("column-table", "Column") == list(result.finding.columns)
    for heading, own in (("Mean", "mean"), ("Standard deviation", "deviation")):
        shown = page.column("column-table", heading, values=True)
        expected = [getattr(column, own) for column in result.finding.columns.values()]
        assert shown == [[] if value is None else [str(value)] for value in expected]
    shares = page.column("category-table", "Share", values=True)
    assert shares == [[str(share)] for *_, share, _ in result.finding.cells("categories")]
    assert "cause" not in page.texts["main"]
    assert "truth" not in page.texts["main"].lower()


def test_the_terminal_has_every_column_and_what_is_odd(result):
    text = "\n".join(result.lines())
    assert "1,496 to 1,506 rows of 3 sites together:" in text
    for name, own in result.finding.columns.items():
        assert name in text
        if own.mean is not None:
            assert f"mean {own.mean:.4g}, sd {own.deviation:.4g}" in text
    assert "To look at before a graph is learnt:" in text
    assert "1 of its 4 categories have less than 1% of the rows" in text


def test_where_only_sites_know_the_names_categories_have_numbers(result):
    assert list(replace(result, schema="").table("categories")["category"]) == ["1", "2", "3", "4"]


def test_hostile_names_are_text_wherever_they_stand(result):
    names = dict(zip(result.finding.columns, HOSTILE, strict=True))
    attacked = altered(
        result,
        columns={names[name]: own for name, own in result.finding.columns.items()},
        identifiers={names[name]: own for name, own in result.identifiers.items()},
        schema="",
    )
    page = page_of(attacked)
    assert page.column("column-table", "Column") == [*names.values()]
    assert "<script>alert" not in attacked._repr_html_()
