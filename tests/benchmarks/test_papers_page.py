"""The page of the papers' tables: complete, without an empty cell, and made of files that exist."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import paper_verdicts
import papers_fedcmfs
import papers_page
import pytest
from multilabel_data import TRAIN

BENCHMARKS = Path(papers_page.__file__).parent
ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV".split()
# figures and tables by number, as far as the texts of the papers name them
KNOWN = {
    "FedPC": ({*range(1, 10)}, {1, 2, *range(4, 16)}),
    "FedCMFS": ({*range(1, 12)}, {*range(1, 10)}),
    "RFcd": ({1, 2}, {1}),
    "Fed-CD": ({*range(1, 13)}, {1}),
}
PAPERS = {paper["title"]: paper for paper in papers_page.register()}


def numbers(words):
    """`5 to 7, 9` or `IV, V` as numbers."""
    found = set()
    for part in re.findall(r"\w+(?: to \w+)?", words):
        ends = [ROMAN.index(own) + 1 if own in ROMAN else int(own) for own in part.split(" to ")]
        found |= set(range(ends[0], ends[-1] + 1))
    return found


def test_the_page_is_made_of_the_results():
    assert papers_page.page() == papers_page.PAGE.read_text("utf-8")


@pytest.mark.parametrize("title", KNOWN)
def test_every_table_and_figure_has_its_row(title):
    figures, tables = set(), set()
    number = r"(?:\d+|[IVX]+)\b"
    for item in PAPERS[title]["item"]:
        for kind, words in re.findall(
            rf"(Figure|Table)s? ({number}(?:(?: to |, ){number})*)", item["name"]
        ):
            (figures if kind == "Figure" else tables).update(numbers(words))
    assert (figures, tables) == KNOWN[title]


@pytest.mark.parametrize("title", KNOWN)
def test_every_row_is_whole_and_names_what_exists(title):
    for item in PAPERS[title]["item"]:
        for name in ("name", "shows", "theirs", "here", "verdict"):
            assert item[name].strip(" -"), item
        verdict = re.sub(r"^\W+|\d", "", item["verdict"])
        assert re.search("better|alike|worse|mixed|not run|no figures", verdict)
        if verdict == "not run":
            assert "not run" in item["here"]
        elif verdict != "no figures":
            assert item["script"]
            assert item["results"]
        for script in filter(None, [item["script"]]):
            assert papers_page.command_of(BENCHMARKS / script).startswith("python benchmarks/")
            assert f"`{script}`" in (BENCHMARKS / "README.md").read_text("utf-8")
        for name in item["results"]:
            report = json.loads((BENCHMARKS / "results" / name).read_text("utf-8"))
            assert report["environment"]["versions"]["cipherdag"]


def test_a_row_says_what_the_files_say():
    """Alarm by hand from both files."""
    with (BENCHMARKS / "fedpc_paper.csv").open(encoding="utf-8") as file:
        theirs = [
            float(row["shd"])
            for row in csv.DictReader(file)
            if (row["data"], row["algorithm"]) == ("alarm", "FedPC")
        ]
    report = json.loads((BENCHMARKS / "results" / "fedpc_tables.json").read_text("utf-8"))
    votes = [c for c in report["cases"] if (c["data"], c["method"]) == ("alarm", "vote")]
    samples = [list(c["shd_of_samples"].values()) for c in votes]
    below = sum(own < min(found) for own, found in zip(theirs, samples, strict=True))
    above = sum(own > max(found) for own, found in zip(theirs, samples, strict=True))
    row = next(item for item in PAPERS["FedPC"]["item"] if item["name"] == "Table IV")
    assert row["theirs"] == " / ".join(f"{own:g}" for own in theirs)
    assert f"better {above}, alike {4 - above - below}, worse {below}" in row["verdict"]


def test_smaller_or_larger_is_better():
    assert paper_verdicts.standing(5.0, 2.0, 4.0) == "better"
    assert paper_verdicts.standing(3.0, 2.0, 4.0) == "alike"
    assert paper_verdicts.standing(1.0, 2.0, 4.0) == "worse"
    average = papers_fedcmfs.of_fedcmfs("average_precision")
    assert average["verdict"] == "better 5, alike 10, worse 9"
    # image is far above the paper's column, slashdot far below
    assert float(average["theirs"]) > float(average["here"])


@pytest.mark.parametrize("method", ["MB-MCF", "GLFS", "PDMFS", "GRROOR", "PMFS"])
def test_a_rivals_row_says_what_the_files_say(method):
    """Data set by data set from the paper's columns and the cells that ran."""
    with (BENCHMARKS / "fedcmfs_paper.csv").open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        printed = {(r["data"], int(r["sites"])): r for r in rows if r["method"] == method}
    report = json.loads((BENCHMARKS / "results" / "fedcmfs_rivals.json").read_text("utf-8"))
    item = papers_fedcmfs.of_rival(method)
    counts = dict.fromkeys(("better", "alike", "worse"), 0)
    for data, theirs, here in zip(
        TRAIN, item["theirs"].split(" / "), item["here"].split(" / "), strict=True
    ):
        own = [r for r in report["results"] if r["data"] == data]
        if not own:
            assert theirs == here == "not run"
            continue
        ours = np.mean([r["all"][method]["average_precision"]["mean"] for r in own])
        paper = np.mean([float(printed[data, r["sites"]]["average_precision"]) for r in own])
        assert (theirs, here) == (f"{paper:.3f}", f"{ours:.3f}")
        apart = ours - paper
        counts["alike" if abs(apart) <= 0.02 else "better" if apart > 0 else "worse"] += 1
    assert item["verdict"] == ", ".join(f"{k} {n}" for k, n in counts.items() if n)
