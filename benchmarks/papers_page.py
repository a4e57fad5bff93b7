"""Writes ``docs/papers.md``: every table and figure of the four papers, and what became of it here.

    python benchmarks/papers_page.py

What a table shows stands in ``papers.toml``, the papers' figures in ``fedpc_paper.csv``,
``fedcmfs_paper.csv``, `rfcd` and `fedcd`, ours in ``results/``: the page is made of them and has no
figure of its own. `papers_fedpc`, `papers_fedcmfs`, `papers_rfcd` and `papers_fedcd` read them, and
`paper_verdicts` has the one rule by which figures are compared.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import papers_fedcd
import papers_fedcmfs
import papers_fedpc
import papers_rfcd
from markdown_table import table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "papers.md"
INTRODUCTION = """# The papers' tables

This page compares every table and figure of the four papers with ours. You need the papers, or
the pages on [the algorithms](index.md). The last column names the files in `benchmarks/results`
from which `benchmarks/papers_page.py` writes the page.

Ours is a median with the range of five to eight samples or seeds (94 % and more), or its 95 %
interval from nine on. Of files that hold means it is the mean with Student's 95 %. *Equal* means
that the interval holds the printed figure, *better* and *worse* that it lies on one side. Fewer
than five are *too few samples*. *Not run* says what a run would take.
"""
TABLES = {
    "FedPC": (papers_fedpc.shd_table, papers_fedpc.rival_table),
    "FedCMFS": (papers_fedcmfs.metric_table, papers_fedcmfs.rival_table),
    "RFcd": (papers_rfcd.rival_table,),
    "Fed-CD": (papers_fedcd.rival_table,),
}
"""The tables that stand before a paper's list of tables and figures."""
CELLS = {
    **papers_fedpc.OF_FEDPC,
    **papers_fedcmfs.OF_FEDCMFS,
    **papers_rfcd.OF_RFCD,
    **papers_fedcd.OF_FEDCD,
}
"""What reads ours and theirs, by the first word of ``cells``."""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page's text."""
    return "\n".join([INTRODUCTION, *map(section, register())])


def register() -> list[dict]:
    """The papers with their tables and figures, all that is computed filled in."""
    papers = tomllib.loads((HERE / "papers.toml").read_text("utf-8"))["paper"]
    for paper in papers:
        paper["item"] = [filled(item) for item in paper["item"]]
    return papers


def filled(item: dict) -> dict:
    """One table or figure: theirs, here, verdict, script and results."""
    empty = {"theirs": "none", "script": "", "results": []}
    if "cells" not in item:
        return empty | item
    kind, *names = item["cells"].split()
    return empty | CELLS[kind](*names) | item


def section(paper: dict) -> str:
    """One paper's heading, words and tables."""
    rows = [
        [item["name"], item["shows"], item["theirs"], item["here"], item["verdict"], sources(item)]
        for item in paper["item"]
    ]
    columns = ("in the paper", "shows", "the paper", "here", "reproduced?", "figures")
    cited = f"{paper['cite']}. [How it works here]({paper['page']})."
    lines = [f"## {paper['title']}", "", cited, "", paper["note"], ""]
    for made in TABLES[paper["title"]]:
        lines += [*made(), ""]
    return "\n".join([*lines, *table(columns, rows), ""])


def sources(item: dict) -> str:
    """The files of results, without their ending."""
    return ", ".join(f"`{Path(name).stem}`" for name in item["results"]) or "-"


def command_of(script: Path) -> str:
    """The first command that a script's docstring gives."""
    lines = script.read_text("utf-8").split('"""')[1].splitlines()
    return next(line.strip() for line in lines if line.strip().startswith("python benchmarks/"))


if __name__ == "__main__":
    main()
