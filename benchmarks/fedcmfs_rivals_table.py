"""The tables of `fedcmfs_rivals.py`: six methods by cell beside the paper's, ranks and Friedman."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from fedcmfs_table import paper_column, shown, spread
from markdown_table import table
from measuring import write_report
from multilabel_data import TRAIN
from multilabel_metrics import METRICS
from scipy.stats import f, rankdata

if TYPE_CHECKING:
    from pathlib import Path

RIVALS = ("MB-MCF", "GLFS", "PDMFS", "GRROOR", "PMFS")
METHODS = ("FedCMFS", *RIVALS)
CONTROL = "random"

Cells = dict[tuple[str, int], dict[str, dict[str, float]]]
"""By data set and number of sites, by method, by metric."""


def write_table(cells: list[dict], out: Path) -> None:
    """Write ``<out>.json`` and ``<out>.md``, and print the mean ranks."""
    groups: dict[tuple[str, int], list[dict]] = defaultdict(list)
    for cell in cells:
        groups[cell["data"], cell["sites"]].append(cell)
    order = sorted(groups, key=lambda key: (list(TRAIN).index(key[0]), key[1]))
    paper = published()
    results = [
        {
            "data": key[0],
            "sites": key[1],
            "seeds": sorted(cell["seed"] for cell in groups[key]),
            "paper": paper[key],
            "all": summary([cell["all"] for cell in groups[key]]),
            "own": summary([cell["own"] for cell in groups[key]]),
        }
        for key in order
    ]
    here = {(own["data"], own["sites"]): means(own["all"]) for own in results}
    report = {
        "results": results,
        "ranks": {
            name: {"paper": ranks(paper, name), "here": ranks(here, name)} for name in METRICS
        },
        "seconds": sum(cell["seconds"] for cell in cells),
        "missing": missing(cells),
    }
    write_report(out, "fedcmfs_rivals", report, markdown)
    print("\n".join(rank_table(report)))


def published() -> Cells:
    """The paper's Tables 3 to 8."""
    columns = {method: paper_column(method) for method in METHODS}
    return {
        key: {method: own[key] for method, own in columns.items()} for key in columns["FedCMFS"]
    }


def missing(cells: list[dict]) -> list[dict]:
    """Cells of which no seed ran, and the minutes of one by what the data set's sites took.

    None where none of the data set's ran; minutes are those of the machine as busy as it was.
    """
    per_site: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        per_site[cell["data"]].append(cell["seconds"] / cell["sites"] / 60.0)
    done = {(cell["data"], cell["sites"]) for cell in cells}
    return [
        {
            "data": data,
            "sites": sites,
            "minutes": float(np.mean(per_site[data])) * sites if data in per_site else None,
        }
        for data, sites in published()
        if (data, sites) not in done
    ]


def summary(runs: list[dict[str, dict]]) -> dict[str, dict[str, dict]]:
    """Means and deviations over seeds by method and quantity."""
    return {
        method: {
            name: spread([run[method][name] for run in runs]) for name in (*METRICS, "features")
        }
        for method in (*METHODS, CONTROL)
    }


def means(own: dict[str, dict[str, dict]]) -> dict[str, dict[str, float]]:
    """Means alone."""
    return {
        method: {name: found["mean"] for name, found in by.items()} for method, by in own.items()
    }


def ranks(cells: Cells, metric: str) -> dict:
    """Mean ranks of the six methods over cells, 1 the best, and the test that they differ.

    Source: Demsar, JMLR 7 (2006) 1-30, Friedman's statistic as corrected by Iman and Davenport.
    """
    sign = -1.0 if METRICS[metric] else 1.0
    values = [[sign * by[method][metric] for method in METHODS] for by in cells.values()]
    mean = rankdata(values, axis=1).mean(axis=0)
    n, k = len(values), len(METHODS)
    chi2 = 12.0 * n / (k * (k + 1)) * (np.sum(mean**2) - k * (k + 1) ** 2 / 4.0)
    return {
        "cells": n,
        "mean": dict(zip(METHODS, mean.tolist(), strict=True)),
        "statistic": float((n - 1) * chi2 / (n * (k - 1) - chi2)),
        "critical": float(f.ppf(0.95, k - 1, (k - 1) * (n - 1))),
    }


def markdown(report: dict) -> str:
    """The report as tables."""
    lines = ["# FedCMFS's rivals", "", "Printed by `benchmarks/fedcmfs_rivals.py table`.", ""]
    lines += ["## Mean ranks", "", *RANK_WORDS, "", *rank_table(report)]
    for name, better in METRICS.items():
        words = f"{name.replace('_', ' ').capitalize()} ({'larger' if better else 'smaller'}"
        lines += ["", f"## {words} is better)", "", *CELL_WORDS, ""]
        lines += cell_table(report["results"], name, "all")
    lines += ["", "## Average precision, ML-KNN on a site's own rows", "", *OWN_WORDS, ""]
    lines += cell_table(report["results"], "average_precision", "own")
    lines += ["", "## Features", "", *feature_table(report["results"])]
    return "\n".join(lines) + "\n"


RANK_WORDS = (
    "Of six methods over the cells, 1 the best: the paper's, and ours. F is Friedman's statistic,",
    "as corrected by Iman and Davenport; above the critical value the methods differ (level 0.05).",
)
CELL_WORDS = (
    "Mean over seeds, the paper's in brackets; the last column takes as many features by chance.",
)
OWN_WORDS = (
    "As above, but every site's classifier learns from the site's own rows, FedCMFS's, too; the",
    "paper's figures are the same.",
)


def rank_table(report: dict) -> list[str]:
    """Mean ranks, and the statistic, by metric."""
    rows = []
    for name, both in report["ranks"].items():
        for whose, own in both.items():
            ranked = [f"{own['mean'][method]:.2f}" for method in METHODS]
            ends = [f"{own['statistic']:.1f}", f"{own['critical']:.2f}", own["cells"]]
            rows.append([name.replace("_", " "), whose, *ranked, *ends])
    return table(["metric", "whose", *METHODS, "F", "critical", "cells"], rows)


def cell_table(results: list[dict], metric: str, rows_of: str) -> list[str]:
    """One metric of all methods."""
    rows = []
    for own in results:
        cells = [
            f"{own[rows_of][method][metric]['mean']:.4f} ({own['paper'][method][metric]:.4f})"
            for method in METHODS
        ]
        control = f"{own[rows_of][CONTROL][metric]['mean']:.4f}"
        rows.append([own["data"], own["sites"], len(own["seeds"]), *cells, control])
    return table(["data set", "sites", "seeds", *METHODS, "by chance"], rows)


def feature_table(results: list[dict]) -> list[str]:
    """How many features FedCMFS, and with it all but MB-MCF, and MB-MCF select."""
    rows = [
        [own["data"], own["sites"], *(shown(own["all"][m]["features"]) for m in METHODS[:2])]
        for own in results
    ]
    return table(["data set", "sites", "FedCMFS", "MB-MCF"], rows)
