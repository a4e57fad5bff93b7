"""What ``papers_page.py`` says of FedCMFS's tables and figures: theirs, here, and a verdict."""

from __future__ import annotations

from statistics import mean

from multilabel_data import TRAIN
from multilabel_metrics import METRICS
from paper_verdicts import counted, results, standing

TOLERANCE = 0.02
"""Of average precision, within which a rival's figure is reproduced."""


def of_fedcmfs(measure: str) -> dict:
    """Means of 24 cells, and how many are beyond a deviation."""
    verdicts, theirs, here = [], [], []
    for row in results("fedcmfs")["results"]:
        own = row["methods"]["fedcmfs"][measure]
        paper, found, spread = row["paper"][measure], own["mean"], own["deviation"]
        if METRICS[measure]:
            paper, found = -paper, -found
        verdicts.append(standing(paper, found - spread, found + spread))
        theirs.append(abs(paper))
        here.append(abs(found))
    return {
        "theirs": f"{mean(theirs):.3f}",
        "here": f"{mean(here):.3f}",
        "verdict": counted(verdicts),
        "script": "fedcmfs.py",
        "results": ["fedcmfs.json"],
    }


def of_grid() -> dict:
    """How far average precision on the test rows goes over the grid of k1 and k2."""
    spans = {}
    for row in results("fedcmfs")["results"]:
        low, high = row["test_average_precision_over_grid"]
        spans.setdefault(row["data"], []).append(high - low)
    named = {name: " / ".join(f"{own:.3f}" for own in spans[name]) for name in ("flags", "image")}
    return {
        "here": "average precision over 0, 10 and 30 % moves by "
        + "; ".join(f"{own} on {name}" for name, own in named.items())
        + " with 3 / 5 / 10 sites",
        "verdict": "alike" if max(spans["flags"]) < min(spans["image"]) else "mixed",
        "script": "fedcmfs.py",
        "results": ["fedcmfs.json"],
    }


def of_education() -> dict:
    """One masked run on Education."""
    run = next(own for own in results("fedcmfs_speed")["runs"] if own["data"] == "education")
    return {
        "here": f"{run['wall_seconds']:.1f} s on one core",
        "verdict": "better",
        "script": "fedcmfs_speed.py",
        "results": ["fedcmfs_speed.json"],
    }


def of_rival(method: str) -> dict:
    """A rival's average precision by data set, each a mean over the numbers of sites that ran."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in results("fedcmfs_rivals")["results"]:
        paper, own = row["paper"][method], row["all"][method]["average_precision"]["mean"]
        found.setdefault(row["data"], []).append((paper["average_precision"], own))
    means = {data: [mean(own) for own in zip(*found[data], strict=True)] for data in found}
    shown = [
        " / ".join(f"{means[d][whose]:.3f}" if d in means else "not run" for d in TRAIN)
        for whose in (0, 1)
    ]
    verdicts = [
        standing(-theirs, -own - TOLERANCE, -own + TOLERANCE) for theirs, own in means.values()
    ]
    return RIVALS | {"theirs": shown[0], "here": shown[1], "verdict": counted(verdicts)}


def of_ranks() -> dict:
    """Mean ranks of the six by average precision, and where a rival is ahead of FedCMFS."""
    report = results("fedcmfs_rivals")
    ranks = report["ranks"]["average_precision"]
    ahead: dict[str, dict[str, list[float]]] = {}
    for row in report["results"]:
        own = {method: by["average_precision"]["mean"] for method, by in row["all"].items()}
        for method in ranks["here"]["mean"]:
            gains = ahead.setdefault(row["data"], {}).setdefault(method, [])
            gains.append(own[method] - own["FedCMFS"])
    lost = []
    for data, by_method in ahead.items():
        best = max(by_method, key=lambda method: mean(by_method[method]))
        if best != "FedCMFS":
            lost.append(f"{data} to {best} by {mean(by_method[best]):.3f}")
    listed = {
        whose: ", ".join(f"{method} {rank:.2f}" for method, rank in ranks[whose]["mean"].items())
        for whose in ("paper", "here")
    }
    first = min(ranks["here"]["mean"], key=ranks["here"]["mean"].get)
    return RIVALS | {
        "theirs": listed["paper"],
        "here": f"{listed['here']}; FedCMFS loses {'; '.join(lost) or 'on no data set'}",
        "verdict": "alike" if first == "FedCMFS" else "worse",
    }


def of_friedman() -> dict:
    """Friedman's statistic by metric."""
    ranks = results("fedcmfs_rivals")["ranks"]
    theirs, here = (
        ", ".join(f"{own[whose]['statistic']:.1f}" for own in ranks.values())
        for whose in ("paper", "here")
    )
    found = next(iter(ranks.values()))
    below = sum(own["here"]["statistic"] <= own["here"]["critical"] for own in ranks.values())
    return RIVALS | {
        "theirs": f"{theirs} over a critical {found['paper']['critical']:.3f}",
        "here": f"{here} over {found['here']['critical']:.3f} in {found['here']['cells']} "
        "cells; of the paper's columns `fedcmfs_rivals.py` computes the paper's statistics",
        "verdict": "mixed" if below else "alike",
    }


def of_missing() -> dict:
    """The cells of the rivals that did not run, and what one seed of them would take."""
    report = results("fedcmfs_rivals")
    left: dict[str, list[str]] = {}
    for own in report["missing"]:
        took = "" if own["minutes"] is None else f" ({own['minutes']:.0f} minutes)"
        left.setdefault(own["data"], []).append(f"{own['sites']}{took}")
    named = "; ".join(f"{data} with {', '.join(sites)}" for data, sites in left.items())
    seeds = sorted({len(row["seeds"]) for row in report["results"]})
    return RIVALS | {
        "theirs": "as above",
        "here": f"not run for time: {named} sites, one seed as busy as the machine was; "
        f"what ran has {seeds[0]} to {seeds[-1]} seeds",
        "verdict": "not run",
    }


RIVALS = {"script": "fedcmfs_rivals.py", "results": ["fedcmfs_rivals.json"]}

OF_FEDCMFS = {
    "fedcmfs": of_fedcmfs,
    "grid": of_grid,
    "education": of_education,
    "rival": of_rival,
    "ranks": of_ranks,
    "friedman": of_friedman,
    "missing": of_missing,
}
"""What reads ours and theirs, by the first word of ``cells``."""
