"""Every kind of result: one line, one page, one folder, and the same numbers in each."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from io import StringIO

import pandas as pd
import pytest
from report_run import page_of
from trials import trial

from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.errors import OutputError, ParameterError
from cipherdag.graphs.networks import asia
from cipherdag.results.graph_run import GraphRun
from cipherdag.results.kinds import KINDS, load_run
from cipherdag.results.run import Run

OF = {
    "graph": "fedpc", "pag": "fedfci", "features": "fedcmfs", "description": "describe",
    "survival": "survival", "effect": "effect", "graph check": "graphcheck",
}  # fmt: skip
TABLES = {
    "edges.csv": "edges", "separations.csv": "separations", "features.csv": "to_frame",
    "columns.csv": "table", "categories.csv": "categories", "curves.csv": "table",
    "hazard_ratios.csv": "hazard_ratios", "effects.csv": "by_graph",
    "refutations.csv": "refutations", "independences.csv": "table",
}  # fmt: skip
"""The table in the hand that a file of the folder is; a new file needs an entry."""
TRUTH = asia().graph
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda own: own.__name__)


@cache
def result_of(kind):
    found = trial(OF[kind.kind]).run()
    assert type(found) is kind
    return found


def test_every_algorithm_has_a_result_of_a_kind_that_is_tried_here():
    assert set(OF) == {kind.kind for kind in KINDS.values()}
    assert set(OF.values()) <= set(ALGORITHMS)


@every_kind
def test_it_is_one_short_line_in_the_hand_and_under_it_no_script(kind):
    found = result_of(kind)
    line = repr(found)
    sites = f"{kind.__name__}({found.algorithm} over {len(found.sites)} sites, masking: "
    assert line.startswith(f"{sites}{len(found.identifiers)} variables, ")
    assert line.endswith(f", {len(found.rounds)} rounds)")
    assert "\n" not in line
    assert found._repr_html_().startswith(f"<p>{found.algorithm} over ")
    assert "<script" not in found._repr_html_()
    assert ("<svg" if issubclass(kind, GraphRun) else "<table") in found._repr_html_()


@every_kind
def test_its_page_needs_nothing_else_and_says_what_was_opened_and_its_limits(kind):
    page = page_of(result_of(kind))
    for sentence in (*result_of(kind).disclosures, *result_of(kind).report.limits):
        assert sentence in page.texts["main"]


@every_kind
def test_what_is_saved_is_the_same_in_the_hand(kind, tmp_path):
    found = result_of(kind)
    folder = found.save(tmp_path / "out")
    loaded = load_run(folder)
    assert type(loaded) is kind
    assert loaded.to_dict() == found.to_dict()
    assert json.loads((folder / "result.json").read_text("utf-8"))["kind"] == kind.kind
    assert repr(loaded) == repr(found)
    assert loaded.lines() == found.lines()
    own = {field.name for field in fields(kind)} - {field.name for field in fields(Run)}
    assert own
    for name in own:
        assert getattr(loaded, name) == getattr(found, name), name
    files = {path.name: path.read_text("utf-8") for path in folder.glob("*.csv")}
    assert files
    for name, text in files.items():
        table, other = (getattr(each, TABLES[name]) for each in (found, loaded))
        table, other = (each() if callable(each) else each for each in (table, other))
        assert table.equals(other), name
        assert loaded._tables()[name] == text
        written = pd.read_csv(StringIO(text)), pd.read_csv(StringIO(table.to_csv(index=False)))
        pd.testing.assert_frame_equal(*written, check_dtype=False)


@every_kind
def test_a_folder_of_another_kind_is_named(kind, tmp_path):
    folder = result_of(kind).save(tmp_path / "out")
    for other in KINDS.values():
        if other is not kind:
            with pytest.raises(OutputError, match=f"of the kind {kind.kind}, not") as caught:
                other.load(folder)
            assert all(path.name in caught.value.remedy for path in folder.glob("*.csv"))


@every_kind
def test_a_graph_alone_is_compared_with_a_true_one(kind):
    found = result_of(kind)
    compared = [found.to_dict, found.lines, lambda truth: found.page(truth=truth)]
    for each in compared:
        if issubclass(kind, GraphRun):
            assert each(TRUTH) != each(None)
        else:
            with pytest.raises(ParameterError, match="not compared with a true graph"):
                each(TRUTH)
