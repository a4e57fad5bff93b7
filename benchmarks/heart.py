"""Heart disease in four hospitals, mixed columns as they are: end to end, and what binning changes.

    python benchmarks/heart.py DATA_FOLDER --out benchmarks/results/heart.json

DATA_FOLDER holds heart_<hospital>.csv. Runs FedPC under masking over the four hospitals by `glm`
evidence (no column is binned; `schemas/heart_mixed.toml`, where the diagnosis is in an order):
where sites allow every count, by the default policy, with constants of each hospital's own, and
without the order; and beside it votes and `pooled` on clinical bins
(`schemas/heart.toml`). `one place` is the same `glm` on all rows in one table: the graph that the
first run must give. There is no true graph; edges are compared between the runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
from markdown_table import table
from measuring import bytes_per_site, parser, timed, write_report

from cipherdag import Federation, FedPC, Policy, Schema
from cipherdag.sites.policy.policy import QUESTION_KINDS

SCHEMAS = Path(__file__).parent / "schemas"
LARGEST = 2
NO_ORDER = "glm, no order"
RUNS = {
    "glm": ("heart_mixed.toml", {"evidence": "glm"}, 0),
    "glm, counts from 11": ("heart_mixed.toml", {"evidence": "glm"}, 11),
    "glm, site effect": ("heart_mixed.toml", {"evidence": "glm-site-effect"}, 0),
    NO_ORDER: ("heart_mixed.toml", {"evidence": "glm"}, 0),
    "binned, votes": ("heart.toml", {"evidence": "vote"}, 0),
    "binned, pooled": ("heart.toml", {"evidence": "pooled"}, 0),
    "binned, pooled, counts from 11": ("heart.toml", {"evidence": "pooled"}, 11),
}


def main() -> None:
    arguments = parse()
    files = {path.stem: path for path in sorted(arguments.folder.glob("heart_*.csv"))}
    cases = {name: run(files, *own, ordered=name != NO_ORDER) for name, own in RUNS.items()}
    cases["glm, one place"] = run(whole(files), *RUNS["glm"], protection="none")
    for name, case in cases.items():
        case["differs_from_glm"] = len(set(case["skeleton"]) ^ set(cases["glm"]["skeleton"]))
        print(
            f"{name:30} {len(case['skeleton']):2} edges, {case['differs_from_glm']:2} not shared "
            f"with glm   {case['tests']}   {case['rounds']} rounds   {case['seconds']:.1f} s"
        )
    same = cases["glm"]["edges"] == cases["glm, one place"]["edges"]
    print(f"glm over four hospitals gives the graph of all rows at one place: {same}")
    print("\n".join(cases["glm"]["edges"]))
    figures = {"max_cond_size": LARGEST, "same_as_one_place": same, "cases": cases}
    write_report(arguments.out, "heart", figures, markdown)


def markdown(report: dict) -> str:
    """One row per run."""
    intro = (
        f"Sets of up to {LARGEST} variables. `glm` gives the graph of all rows at one place: "
        f"{report['same_as_one_place']}."
    )
    columns = ("run", "edges", "not shared with glm", "tests", "rounds", "seconds", "CPU s")
    rows = []
    for name, own in report["cases"].items():
        tests = ", ".join(f"{count} {how}" for how, count in own["tests"].items()) or "by votes"
        spent = (f"{own['seconds']:.1f}", f"{own['cpu_seconds']:.1f}")
        edges = len(own["skeleton"])
        rows.append([name, edges, own["differs_from_glm"], tests, own["rounds"], *spent])
    return "\n".join([intro, "", *table(columns, rows)]) + "\n"


def run(
    files, schema: str, parameters: dict, min_cell_size: int, protection="masking", ordered=True
) -> dict:
    """One run: its edges, tests, rounds and seconds."""
    columns = Schema.load(SCHEMAS / schema).columns
    if not ordered:
        columns = tuple(replace(column, ordered=False) for column in columns)
    federation = Federation.simulate(
        files,
        schema=Schema(columns),
        policy=Policy(
            questions=QUESTION_KINDS,
            min_cell_size=min_cell_size,
            allow_unprotected=protection == "none",
        ),
        protection=protection,
        device="cpu",
    )
    _, cpu, result = timed(federation.run, FedPC(max_cond_size=LARGEST, **parameters))
    return {
        "edges": [str(edge) for edge in result.finding.graph.edges],
        "skeleton": ["-".join(sorted((e.source, e.target))) for e in result.finding.graph.edges],
        "tests": dict(result.finding.details.get("tests", {})),
        "rounds": len(result.rounds),
        "seconds": result.seconds,
        "cpu_seconds": cpu,
        "bytes_per_site": bytes_per_site(result),
    }


def whole(files) -> dict:
    """All rows in one table, cells as text."""
    tables = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in files.values()]
    return {"all": pd.concat(tables, ignore_index=True)}


def parse():
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    return options.parse_args()


if __name__ == "__main__":
    main()
