"""Tables in Markdown: how they look, and that the committed ones are of the committed figures."""

import json
from importlib import import_module
from pathlib import Path

import measuring
import pytest
from markdown_table import table

RESULTS = Path(measuring.__file__).parent / "results"
ALIKE = """
alone arrows as_published bits bits_of_pairs boss_many_sites boss_rows boss_sites boss_tables
colliders
cost_curves counting curved_confounding dcdi devices effect_coverage effect_curves effect_equality
effect_sites faults fci fedcd fedpc_figures fedpc_speed field first_graph glm_peers graph_rivals
graph_shares group_by iod_peers many_sites membership mpc_kernel numbers_at_scale off_model patients
rare_cells residual_checks rfcd rfcd_policy rounded_curves rounded_descriptions rows
sachs_conditions site_differences sites_that_differ step_attacks survival_coverage table_gate
table_levels thresholds valid_graphs variables where_time_goes whole_process within_patients
"""
OTHERS = {
    "calibration_tables": "calibration",
    "colliders": "structure",
    "fedcd": "fedcd_10 fedcd_20 fedcd_20_long fedcd_networks fedcd_structured",
    "fedcmfs_rivals_table": "fedcmfs_rivals",
    "fedcmfs_table": "fedcmfs",
    "fedpc_report": "fedpc_again fedpc_tables",
}
WRITERS = {name: name for name in ALIKE.split()} | {
    name: writer for writer, names in OTHERS.items() for name in names.split()
}
"""The program that wrote each table; most have its name."""


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
    assert "revision" in report["environment"]
    assert out.with_suffix(".md").read_text("utf-8") == "3 rounds\n"
    measuring.write_report(None, "rounds", {})


def test_finished_cases_are_read_again(tmp_path):
    path = tmp_path / "cases.jsonl"
    assert measuring.read_lines(path) == []
    for seed in range(2):
        measuring.add_line(path, {"seed": seed})
    assert measuring.read_lines(path) == [{"seed": 0}, {"seed": 1}]
