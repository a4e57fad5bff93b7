"""Tables in Markdown: how they look, and that the committed ones are of the committed figures."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import measuring
import pytest
from markdown_table import table

RESULTS = Path(measuring.__file__).parent / "results"
WRITERS = {
    "arrows": "arrows",
    "as_published": "as_published",
    "bits": "bits",
    "boss_tables": "boss_tables",
    "calibration": "calibration_tables",
    "colliders": "colliders",
    "cost_curves": "cost_curves",
    "counting": "counting",
    "dcdi": "dcdi",
    "devices": "devices",
    "effect_coverage": "effect_coverage",
    "effect_equality": "effect_equality",
    "effect_sites": "effect_sites",
    "faults": "faults",
    "fci": "fci",
    "alone": "alone",
    "boss_sites": "boss_sites",
    "field": "field",
    "first_graph": "first_graph",
    "mpc_kernel": "mpc_kernel",
    "fedcd": "fedcd",
    "fedcd_10": "fedcd",
    "fedcd_20": "fedcd",
    "fedcd_20_long": "fedcd",
    "fedcd_networks": "fedcd",
    "fedcd_divided": "fedcd",
    "fedcd_divided_steps": "fedcd",
    "fedcd_reach": "fedcd",
    "fedcd_steps": "fedcd",
    "fedcd_structured": "fedcd",
    "fedcmfs": "fedcmfs_table",
    "fedcmfs_rivals": "fedcmfs_rivals_table",
    "fedpc_again": "fedpc_report",
    "fedpc_figures": "fedpc_figures",
    "fedpc_speed": "fedpc_speed",
    "fedpc_tables": "fedpc_report",
    "glm_peers": "glm_peers",
    "group_by": "group_by",
    "heart": "heart",
    "iod_peers": "iod_peers",
    "many_sites": "many_sites",
    "membership": "membership",
    "numbers_at_scale": "numbers_at_scale",
    "off_model": "off_model",
    "plan_cost": "plan_cost",
    "plan_cost_flare": "plan_cost",
    "rfcd": "rfcd",
    "rfcd_policy": "rfcd_policy",
    "rows": "rows",
    "sachs_conditions": "sachs_conditions",
    "site_differences": "site_differences",
    "sites_that_differ": "sites_that_differ",
    "structure": "colliders",
    "survival_coverage": "survival_coverage",
    "table_levels": "table_levels",
    "thresholds": "thresholds",
    "valid_graphs": "valid_graphs",
    "variables": "variables",
    "where_time_goes": "where_time_goes",
    "whole_process": "whole_process",
}


def test_every_committed_table_has_a_writer():
    assert sorted(path.stem for path in RESULTS.glob("*.md")) == sorted(WRITERS)


@pytest.mark.parametrize("name", WRITERS)
def test_committed_tables_are_of_the_committed_figures(name):
    report = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    written = import_module(WRITERS[name]).markdown(report)
    assert written == (RESULTS / f"{name}.md").read_text("utf-8")


def test_a_row_that_is_too_short_ends_in_empty_cells():
    assert table(["a", "b", "c"], [[1, "", 2.5], ["x"]]) == [
        "| a | b | c |",
        "|---|---|---|",
        "| 1 | | 2.5 |",
        "| x | | |",
    ]


def test_a_report_is_figures_machine_and_tables(tmp_path):
    out = tmp_path / "new" / "rounds.json"
    measuring.write_report(out, "rounds", {"n": 3}, lambda report: f"{report['n']} rounds\n")
    report = json.loads(out.read_text("utf-8"))
    assert (report["benchmark"], report["n"]) == ("rounds", 3)
    assert report["environment"]["versions"]["cipherdag"]
    assert out.with_suffix(".md").read_text("utf-8") == "3 rounds\n"
    measuring.write_report(None, "rounds", {})


def test_finished_cases_are_read_again(tmp_path):
    path = tmp_path / "cases.jsonl"
    assert measuring.read_lines(path) == []
    for seed in range(2):
        measuring.add_line(path, {"seed": seed})
    assert measuring.read_lines(path) == [{"seed": 0}, {"seed": 1}]
