"""Every kind of finding: one line, one page, one folder, and the same numbers in each."""

import json
from dataclasses import dataclass, fields, replace
from functools import cache
from io import StringIO
from typing import ClassVar

import pandas as pd
import pytest
from report_run import page_of
from trials import trial

import cipherdag.pages.files
from cipherdag.algorithms.describe.algorithm import Describe
from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class
from cipherdag.errors import OutputError, ParameterError
from cipherdag.findings.finding import Column, Finding, Table
from cipherdag.findings.graph_finding import GraphFinding
from cipherdag.graphs.networks import asia
from cipherdag.results.run import Run

OF = {
    "graph": "fedpc", "pag": "fedfci", "features": "fedcmfs", "description": "describe",
    "survival": "survival", "effect": "effect", "graph check": "graphcheck",
}  # fmt: skip
TRUTH = asia().graph
KINDS = Finding.kinds()
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda own: own.__name__)


@cache
def result_of(kind):
    found = trial(OF[kind.kind]).run()
    assert type(found.finding) is kind
    return found


def test_every_algorithm_has_a_finding_of_a_kind_that_is_tried_here():
    assert set(OF) == set(KINDS)
    assert set(OF.values()) <= set(ALGORITHMS)
    assert {algorithm_class(name).concludes for name in ALGORITHMS} == set(KINDS.values())


@every_kind
def test_it_is_one_short_line_in_the_hand_and_under_it_no_script(kind):
    found = result_of(kind)
    line = repr(found)
    sites = f"Run[{kind.__name__}]({found.algorithm} over {len(found.sites)} sites, masking: "
    assert line.startswith(f"{sites}{len(found.identifiers)} variables, ")
    assert line.endswith(f", {len(found.rounds)} rounds)")
    assert "\n" not in line
    assert found._repr_html_().startswith(f"<p>{found.algorithm} over ")
    assert "<script" not in found._repr_html_()
    assert ("<svg" if issubclass(kind, GraphFinding) else "<table") in found._repr_html_()


@every_kind
def test_its_page_is_one_file_with_what_was_opened_and_its_limits(kind):
    page = page_of(result_of(kind))
    for sentence in (*result_of(kind).disclosures, *result_of(kind).report.limits):
        assert sentence in page.texts["main"]


@every_kind
def test_what_is_saved_is_the_same_in_the_hand(kind, tmp_path):
    found = result_of(kind)
    folder = found.save(tmp_path / "out")
    loaded = Run.load(folder)
    assert type(loaded.finding) is kind
    assert loaded.to_dict() == found.to_dict()
    assert json.loads((folder / "result.json").read_text("utf-8"))["kind"] == kind.kind
    assert repr(loaded) == repr(found)
    assert loaded.lines() == found.lines()
    for name in (own.name for own in fields(kind)):
        assert getattr(loaded.finding, name) == getattr(found.finding, name), name
    files = {path.name: path.read_text("utf-8") for path in folder.glob("*.csv")}
    assert files
    for name, text in files.items():
        table, other = (each.table(name.removesuffix(".csv")) for each in (found, loaded))
        assert table.equals(other), name
        assert loaded.finding.files()[name] == text
        written = pd.read_csv(StringIO(text)), pd.read_csv(StringIO(table.to_csv(index=False)))
        pd.testing.assert_frame_equal(*written, check_dtype=False)


@every_kind
def test_its_tables_have_the_columns_they_declare_and_explain(kind):
    found = result_of(kind)
    assert len({table.name for table in kind.tables}) == len(kind.tables)
    for table in kind.tables:
        assert all(own.doc.endswith(".") for own in (table, *table.columns))
        names = [column.name for column in table.columns]
        types = {column.name: column.type for column in table.columns}
        frame = found.table(table.name)
        assert list(frame.columns) == [own for own in names if own in set(frame.columns)]
        assert table.present is not None or list(frame.columns) == names
        for name in frame.columns:
            assert (frame[name].dtype == "float64") == (types[name] is float), name
    with pytest.raises(ParameterError, match="no table 'another'") as caught:
        found.table("another")
    assert all(table.name in caught.value.remedy for table in kind.tables)


@every_kind
def test_a_folder_of_another_kind_is_named(kind, tmp_path):
    folder = result_of(kind).save(tmp_path / "out")
    for other in KINDS.values():
        if other is not kind:
            with pytest.raises(OutputError, match=f"of the kind {kind.kind}, not") as caught:
                Run.load(folder, other)
            assert all(path.name in caught.value.remedy for path in folder.glob("*.csv"))


@every_kind
def test_a_graph_alone_is_compared_with_a_true_one(kind):
    found = result_of(kind)
    compared = [found.to_dict, found.lines, lambda truth: found.page(truth=truth)]
    for each in compared:
        if issubclass(kind, GraphFinding):
            assert each(TRUTH) != each(None)
        else:
            with pytest.raises(ParameterError, match="not compared with a true graph"):
                each(TRUTH)


def test_a_new_kind_is_one_class_and_one_template(tmp_path, monkeypatch):
    monkeypatch.setattr(Finding, "_kinds", dict(Finding._kinds))

    @dataclass(frozen=True, kw_only=True)
    class Total(Finding):
        kind: ClassVar[str] = "total"
        template: ClassVar[str] = "total.html.j2"

        rows: int

        @property
        def decisions(self):
            return str(self.rows).encode()

        @property
        def headline(self):
            return f"{self.rows} rows in all"

        def lines(self, n_sites):
            return [f"{self.headline} at {n_sites} sites"]

        tables = (
            Table(
                name="totals",
                doc="One row.",
                columns=(Column("rows", int, "All rows."),),
                rows=lambda finding: [(finding.rows,)],
            ),
        )

    from jinja2 import ChoiceLoader, DictLoader

    environment = cipherdag.pages.files._environment()
    page = '{% extends "run.html.j2" %}{% block found %}{{ finding.rows }} found{% endblock %}'
    loader = ChoiceLoader([DictLoader({"total.html.j2": page}), environment.loader])
    monkeypatch.setattr(environment, "loader", loader)
    described = result_of(KINDS["description"])
    found = replace(described, finding=Total(rows=described.finding.rows), made_by=NoReport())
    folder = found.save(tmp_path / "out")
    loaded = Run.load(folder, Total, made_by=NoReport())
    assert loaded.finding == found.finding
    assert f"{found.finding.rows} rows in all at 3 sites" in loaded.lines()
    assert (folder / "totals.csv").read_text("utf-8") == f"rows\n{found.finding.rows}\n"
    assert f"{found.finding.rows} found" in (folder / "report.html").read_text("utf-8")
    assert loaded.table("totals")["rows"].tolist() == [found.finding.rows]


class NoReport(Describe):
    """An algorithm that adds nothing to the account of its runs."""

    report = Describe.__mro__[1].report
