"""The table of `fedcmfs.py`: means and spreads over seeds beside the paper's column."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from markdown_table import table
from measuring import write_report
from multilabel_data import TRAIN
from multilabel_metrics import METRICS

PAPER = Path(__file__).parent / "fedcmfs_paper.csv"

TITLES = {
    "fedcmfs": "FedCMFS, k1 and k2 chosen on training rows",
    "fedcmfs_10_10": "FedCMFS, k1 = k2 = 10",
    "fedcmfs_paper_retrieval_10_10": "the paper's retrieval, k1 = k2 = 10",
    "all_features": "all features",
    "hiton_pc_per_site": "HITON-PC per site, averaged",
    "mutual_information_per_site": "mutual information per site, same number of features",
    "pc_union": "PC sets, union of the sites'",
    "pc_intersection": "PC sets, intersection of the sites'",
}


def write_table(cells: list[dict], out: Path) -> None:
    """Write ``<out>.json`` and ``<out>.md``, and print the comparison of average precision."""
    groups: dict[tuple[str, int], list[dict]] = defaultdict(list)
    for cell in cells:
        groups[cell["data"], cell["sites"]].append(cell)
    order = sorted(groups, key=lambda key: (list(TRAIN).index(key[0]), key[1]))
    paper = paper_column()
    report = {
        "shares": {cell["data"]: cell["shares"] for cell in cells},
        "alpha": cells[0].get("alpha", 0.05),
        "results": [summary(key, groups[key], paper[key]) for key in order],
        "seconds": sum(cell["seconds"] for cell in cells),
        "environment": cells[0]["environment"],
    }
    write_report(out, "fedcmfs", report, markdown)
    print("\n".join(average_precision(report["results"])))


def write_variants(files: list[list[dict]], out: Path) -> None:
    """Write and print mean average precision by data set and sites for other settings of a run."""
    rows = []
    for cells in files:
        groups: dict[tuple[str, int], list[dict]] = defaultdict(list)
        for cell in cells:
            groups[cell["data"], cell["sites"]].append(cell)
        for (data, sites), own in groups.items():
            setting = {name: own[0].get(name) for name in ("alpha", "shares", "coded")}
            setting["evidence"] = own[0].get("evidence", "weighted_p")
            found = {
                name: float(np.mean([cell["methods"][name]["average_precision"] for cell in own]))
                for name in ("fedcmfs", "all_features")
            }
            rows.append({"data": data, "sites": sites, "seeds": len(own), **setting, **found})
            print("  ".join(f"{name} {value}" for name, value in rows[-1].items()))
    figures = {"rows": rows, "environment": files[0][0]["environment"]}
    write_report(out, "fedcmfs_variants", figures)


def paper_column(method: str = "FedCMFS") -> dict[tuple[str, int], dict[str, float]]:
    """One column of the paper's Tables 3 to 8 by data set and number of sites."""
    with PAPER.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            (row["data"], int(row["sites"])): {name: float(row[name]) for name in METRICS}
            for row in rows
            if row["method"] == method
        }


def summary(key: tuple[str, int], cells: list[dict], paper: dict[str, float]) -> dict:
    """Means and deviations over the seeds of one data set and number of sites."""
    methods = {
        name: {
            quantity: spread([cell["methods"][name][quantity] for cell in cells])
            for quantity in (*METRICS, "features")
        }
        for name in TITLES
    }
    per_point: dict[tuple, list[float]] = defaultdict(list)
    for cell in cells:
        for point in cell["grid"]:
            per_point[point["retrieval"], point["k1"], point["k2"]].append(point["test"])
    own = [np.mean(scores) for point, scores in per_point.items() if point[0] == "interchangeable"]
    return {
        "data": key[0],
        "sites": key[1],
        "seeds": sorted(cell["seed"] for cell in cells),
        "paper": paper,
        "methods": methods,
        "chosen": [[cell["methods"]["fedcmfs"][k] for k in ("k1", "k2")] for cell in cells],
        "test_average_precision_over_grid": [float(min(own)), float(max(own))],
    }


def spread(values: list[float]) -> dict[str, float | None]:
    """Mean, and sample deviation unless there is one value only."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "deviation": deviation}


def markdown(report: dict) -> str:
    """The report as tables."""
    lines = ["# FedCMFS on eight multi-label data sets", ""]
    lines += ["Printed by `benchmarks/fedcmfs.py table`; docs/explanation/fedcmfs.md reads it.", ""]
    lines += average_precision(report["results"])
    for name, better in METRICS.items():
        if name != "average_precision":
            lines += ["", *metric_table(report["results"], name, larger=better)]
    lines += ["", *methods_table(report["results"])]
    return "\n".join(lines) + "\n"


def average_precision(results: list[dict]) -> list[str]:
    """Average precision beside the paper's, and over the grid."""
    columns = [
        "data set",
        "sites",
        "seeds",
        "FedCMFS",
        "features",
        "paper",
        "difference",
        "over the grid",
    ]
    rows = []
    for own in results:
        found = own["methods"]["fedcmfs"]["average_precision"]
        low, high = own["test_average_precision_over_grid"]
        paper = own["paper"]["average_precision"]
        features = f"{own['methods']['fedcmfs']['features']['mean']:.0f}"
        rows.append(
            [own["data"], own["sites"], len(own["seeds"]), f"**{shown(found)}**", features,
             f"{paper:.4f}", f"{found['mean'] - paper:+.4f}", f"{low:.4f} to {high:.4f}"]
        )  # fmt: skip
    return [
        "## Average precision",
        "",
        "Mean and deviation over the seeds. The last column is the smallest and largest mean on",
        "the test rows over the grid of k1 and k2; nothing was chosen by it.",
        "",
        *table(columns, rows),
    ]


def metric_table(results: list[dict], name: str, *, larger: bool) -> list[str]:
    """One metric of FedCMFS beside the paper's."""
    rows = []
    for own in results:
        found, paper = own["methods"]["fedcmfs"][name], own["paper"][name]
        apart = f"{found['mean'] - paper:+.4f}"
        rows.append([own["data"], own["sites"], shown(found), f"{paper:.4f}", apart])
    return [
        f"## {name.replace('_', ' ').capitalize()} ({'larger' if larger else 'smaller'} is better)",
        "",
        *table(["data set", "sites", "FedCMFS", "paper", "difference"], rows),
    ]


def methods_table(results: list[dict]) -> list[str]:
    """All methods with all metrics."""
    columns = ["method", "features", *(name.replace("_", " ") for name in METRICS)]
    lines = ["## All methods", ""]
    for own in results:
        rows = []
        for name, title in TITLES.items():
            found = own["methods"][name]
            mean = f"{found['features']['mean']:.1f}"
            rows.append([title, mean, *(shown(found[metric]) for metric in METRICS)])
        printed = [f"{own['paper'][metric]:.4f}" for metric in METRICS]
        rows.append(["the paper's FedCMFS", "not given", *printed])
        lines += [f"### {own['data']}, {own['sites']} sites", "", *table(columns, rows), ""]
    return lines


def shown(value: dict[str, float | None]) -> str:
    mean = f"{value['mean']:.4f}"
    return mean if value["deviation"] is None else f"{mean} ± {value['deviation']:.4f}"
