"""What ``papers_page.py`` says of FedCMFS's tables and figures: theirs, here, and a verdict."""

from __future__ import annotations

from statistics import mean

from markdown_table import table
from multilabel_metrics import METRICS
from paper_verdicts import LEVEL, Ranks, counted, duels, of_mean, ranks, results, verdict

RIVALS = ("MB-MCF", "GLFS", "PDMFS", "GRROOR", "PMFS")
SHARED = {"script": "fedcmfs_rivals.py", "results": ["fedcmfs_rivals.json"]}
OTHER_ROWS = frozenset({"slashdot"})
"""Data of which the paper's rows are not to be had: not compared with print."""
FAR = 3.0
"""Deviations from which on the features of a cell show that it is of an earlier program."""


def metric_table() -> list[str]:
    """Means over cells by metric, theirs and ours, and the verdicts on the cells."""
    rows = []
    for number, measure in enumerate(METRICS, 3):
        found = compared(measure)
        printed, here = (mean(cell[k] for cell in found) for k in (0, 1))
        verdicts = counted([cell[2] for cell in found])
        name = f"{number}: {measure.replace('_', ' ')}"
        rows.append([name, f"{printed:.3f}", f"{here:.3f}", verdicts])
    return table(["table", "printed", "here", "cells"], rows)


def compared(measure: str) -> list[tuple[float, float, str]]:
    """Printed figure, our mean and verdict of every cell of the paper's rows and this program."""
    found, left = [], OTHER_ROWS | older()
    for row in results("fedcmfs")["results"]:
        if row["data"] not in left:
            cell, paper = row["methods"]["fedcmfs"][measure], row["paper"][measure]
            ours = of_mean(cell["mean"], cell["deviation"], len(row["seeds"]))
            found.append((paper, cell["mean"], verdict(paper, ours, larger=METRICS[measure])))
    return found


def of_tables() -> dict:
    """All cells of Tables 3 to 8."""
    verdicts = [cell[2] for measure in METRICS for cell in compared(measure)]
    return {
        "theirs": "one figure a cell",
        "here": counted(verdicts),
        "verdict": f"not reproduced in {verdicts.count('worse')} of {len(verdicts)} cells: the "
        "paper gives neither its splits nor its k1 and k2",
        "script": "fedcmfs.py",
        "results": ["fedcmfs.json"],
    }


def older() -> set[str]:
    """The data sets on which FedCMFS, run later beside its rivals, selects other features."""
    before = {(row["data"], row["sites"]): row for row in results("fedcmfs")["results"]}
    found = set()
    for row in results("fedcmfs_rivals")["results"]:
        past = before[row["data"], row["sites"]]["methods"]["fedcmfs"]["features"]
        gap = abs(row["all"]["FedCMFS"]["features"]["mean"] - past["mean"])
        if gap > FAR * past["deviation"]:
            found.add(row["data"])
    return found


def of_older() -> dict:
    """The data sets whose rows are of an earlier program, with the features of both."""
    names = sorted(older())
    words = []
    for name in names:
        past = [
            row["methods"]["fedcmfs"]["features"]["mean"]
            for row in results("fedcmfs")["results"]
            if row["data"] == name
        ]
        now = [
            row["all"]["FedCMFS"]["features"]["mean"]
            for row in results("fedcmfs_rivals")["results"]
            if row["data"] == name
        ]
        words.append(f"{name} {mean(past):.0f} features then, {mean(now):.0f} now")
    return {
        "theirs": "printed",
        "here": f"{'; '.join(words) or 'none'}: not run again and not counted",
        "verdict": "not run",
        "script": "fedcmfs.py",
        "results": ["fedcmfs.json", "fedcmfs_rivals.json"],
    }


def of_grid() -> dict:
    """How far average precision on the test rows goes over the grid of k1 and k2."""
    spans = {}
    for row in results("fedcmfs")["results"]:
        low, high = row["test_average_precision_over_grid"]
        spans.setdefault(row["data"], []).append(high - low)
    named = {name: " / ".join(f"{x:.3f}" for x in spans[name]) for name in ("flags", "image")}
    return {
        "here": "average precision over 0, 10 and 30 % moves by "
        + "; ".join(f"{span} on {name}" for name, span in named.items())
        + " with 3 / 5 / 10 sites",
        "verdict": "reproduced" if max(spans["flags"]) < min(spans["image"]) else "in part",
        "script": "fedcmfs.py",
        "results": ["fedcmfs.json"],
    }


def of_education() -> dict:
    """One masked run on Education, beside the same run without protection."""
    run = next(run for run in results("fedcmfs_speed")["runs"] if run["data"] == "education")
    return {
        "here": f"{run['wall_seconds']:.1f} s on one core; {run['ratio']:.2f} times the same run "
        "without protection",
        "verdict": "not compared: another program on another machine",
        "script": "fedcmfs_speed.py",
        "results": ["fedcmfs_speed.json"],
    }


def rival_table() -> list[str]:
    """FedCMFS against every rival: average precision, cells won, tied and lost, mean ranks."""
    rows = results("fedcmfs_rivals")["results"]
    pair = ranked("average_precision")
    lines = []
    for method in ("FedCMFS", *RIVALS):
        theirs, here = (
            [value(row, whose, method, "average_precision") for row in rows]
            for whose in ("paper", "all")
        )
        wins = ["-", "-"]
        if method != "FedCMFS":
            wins = [
                duels(
                    [(value(row, whose, "FedCMFS", "average_precision"), x)
                     for row, x in zip(rows, found, strict=True)],
                    larger=True,
                )
                for whose, found in (("paper", theirs), ("all", here))
            ]  # fmt: skip
        means = [f"{mean(found):.3f}" for found in (theirs, here)]
        lines.append([method, *means, *wins, *(f"{found.mean[method]:.2f}" for found in pair)])
    heads = ["method", "printed", "here", "FedCMFS wins, printed", "here", "mean rank, printed"]
    return table([*heads, "here"], lines)


def value(row: dict, whose: str, method: str, measure: str) -> float:
    """A cell's figure, printed or ours."""
    found = row[whose][method][measure]
    return found if whose == "paper" else found["mean"]


def ranked(measure: str) -> tuple[Ranks, Ranks]:
    """Printed and here, over the cells that ran."""
    rows = results("fedcmfs_rivals")["results"]
    printed, here = (
        ranks(
            {m: [value(row, whose, m, measure) for row in rows] for m in ("FedCMFS", *RIVALS)},
            larger=METRICS[measure],
        )
        for whose in ("paper", "all")
    )
    return printed, here


def of_rivals() -> dict:
    """Who is ahead by average precision, and of how many seeds that is."""
    report = results("fedcmfs_rivals")
    seeds = sorted({len(row["seeds"]) for row in report["results"]})
    printed, here = ranked("average_precision")
    far = ", ".join(here.differ("FedCMFS"))
    return SHARED | {
        "theirs": "FedCMFS has the least rank; it differs from "
        f"{', '.join(printed.differ('FedCMFS'))}",
        "here": f"least rank: {min(here.mean, key=here.mean.get)}; it differs from {far} "
        f"(critical difference {here.critical:.2f} in {here.cells} cells)",
        "verdict": f"too few samples: {seeds[0]} to {seeds[-1]} seeds a cell",
    }


def of_friedman() -> dict:
    """Friedman's and Nemenyi's tests, metric by metric."""
    corrected = results("fedcmfs_rivals")["ranks"]
    theirs, here = (
        ", ".join(f"{both[whose]['statistic']:.1f}" for both in corrected.values())
        for whose in ("paper", "here")
    )
    found = {measure: ranked(measure)[1] for measure in METRICS}
    critical = next(iter(corrected.values()))
    far = {m: [name for name, own in found.items() if m in own.differ("FedCMFS")] for m in RIVALS}
    listed = ", ".join(f"{m} {len(names)}" for m, names in far.items())
    most = max(own.p_value for own in found.values())
    level = [m for m, names in far.items() if len(names) < len(found)]
    return SHARED | {
        "theirs": f"{theirs}; critical {critical['paper']['critical']:.2f}",
        "here": f"{here}; critical {critical['here']['critical']:.2f}; FedCMFS differs, by "
        f"Nemenyi in so many metrics of {len(found)}, from {listed}",
        "verdict": "in part: "
        + ("the methods differ, " if most < LEVEL else "the methods differ by some metrics, ")
        + f"FedCMFS not from {', '.join(level)} by every metric",
    }


def of_missing() -> dict:
    """The cells of the rivals that did not run, and what one seed of them would take."""
    left = results("fedcmfs_rivals")["missing"]
    minutes = sum(cell["minutes"] for cell in left)
    named = ", ".join(dict.fromkeys(cell["data"] for cell in left))
    return SHARED | {
        "theirs": "printed",
        "here": f"not run: {len(left)} cells of {named} ({minutes:.0f} minutes a seed, by the "
        "cells that ran); MB-MCF's third phase, not measured",
        "verdict": "not run",
    }


OF_FEDCMFS = {
    "fedcmfs": of_tables,
    "fedcmfs-older": of_older,
    "fedcmfs-rivals": of_rivals,
    "fedcmfs-friedman": of_friedman,
    "fedcmfs-missing": of_missing,
    "grid": of_grid,
    "education": of_education,
}
"""What reads ours and theirs, by the first word of ``cells``."""
