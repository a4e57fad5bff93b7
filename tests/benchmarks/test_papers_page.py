"""The page of the papers' tables: complete, without an empty cell, and made of files that exist."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import paper_verdicts
import papers_fedcmfs
import papers_fedpc
import papers_page
import pytest

BENCHMARKS = Path(papers_page.__file__).parent
ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV".split()
# figures and tables by number, as far as the texts of the papers name them
KNOWN = {
    "FedPC": ({*range(1, 10)}, {1, 2, *range(4, 16)}),
    "FedCMFS": ({*range(1, 12)}, {*range(1, 10)}),
    "RFcd": ({1, 2}, {1}),
    "Fed-CD": ({*range(1, 13)}, {1}),
}
VERDICTS = (
    *paper_verdicts.VERDICTS, "reproduced", "in part", "not reproduced", "not compared", "not run",
    "no figures",
)  # fmt: skip
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
        verdict = item["verdict"]
        assert verdict.startswith(VERDICTS), item
        if verdict.startswith("not reproduced"):
            assert re.search(": .{10}", verdict), "a reason"
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
    """Alarm and the count against PC-Best by hand from both files."""
    with (BENCHMARKS / "fedpc_paper.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["shd"]]
    theirs = {(row["data"], int(row["sites"]), row["algorithm"]): float(row["shd"]) for row in rows}
    report = json.loads((BENCHMARKS / "results" / "fedpc_tables.json").read_text("utf-8"))
    ours = {(c["data"], c["sites"], c["method"]): c for c in report["cases"]}
    signs = []
    for sites in (3, 5, 10, 15):
        printed, found = theirs["alarm", sites, "FedPC"], ours["alarm", sites, "vote"]
        values = list(found["shd_of_samples"].values())
        sign = "+" if max(values) < printed else "-" if min(values) > printed else "="
        signs.append(f"{np.median(values):g}{sign}")
    line = next(line for line in papers_fedpc.shd_table() if "<br>alarm" in line)
    assert f"6/20/23/22<br>{'/'.join(signs)} |" in line
    gaps = [theirs[d, s, "FedPC"] - theirs[d, s, m] for d, s, m in theirs if m == "PC-Best"]
    printed = f"{sum(g < 0 for g in gaps)} / {gaps.count(0)} / {sum(g > 0 for g in gaps)}"
    gaps = [
        np.median([ours[d, s, "vote"]["shd_of_samples"][k] for k in c["shd_of_samples"]])
        - np.median(list(c["shd_of_samples"].values()))
        for (d, s, m), c in ours.items()
        if m == "PC-Best"
    ]
    here = f"{sum(g < 0 for g in gaps)} / {gaps.count(0)} / {sum(g > 0 for g in gaps)}"
    line = next(line for line in papers_fedpc.rival_table() if "PC-Best" in line)
    assert line.startswith(f"| PC-Best | {printed} | {here} |")


def test_samples_run_again_are_compared_one_by_one():
    found = papers_fedpc.run_again()
    assert found["alarm", "PC-All"] == (2, 2)
    assert {
        data for (data, _), (equal, ran) in found.items() if equal < ran
    } == papers_fedpc.older()


def test_the_rule_needs_five_values_and_an_interval_on_one_side():
    five = paper_verdicts.of_values([8.0, 1.0, 2.0, 4.0, 3.0])
    assert (five.centre, five.low, five.high) == (3.0, 1.0, 8.0)
    assert paper_verdicts.verdict(9.0, five) == "better"
    assert paper_verdicts.verdict(8.0, five) == "equal"
    assert paper_verdicts.verdict(0.5, five) == "worse"
    assert paper_verdicts.verdict(0.5, five, larger=True) == "better"
    four = paper_verdicts.of_values([1.0, 2.0, 3.0, 4.0])
    assert paper_verdicts.verdict(9.0, four) == "too few samples"
    mean = paper_verdicts.of_mean(0.5, 0.1, 10)
    assert mean.high - mean.centre == pytest.approx(2.262 * 0.1 / 10**0.5, abs=1e-4)


@pytest.mark.parametrize("n", [5, 8, 9, 20, 60])
def test_the_interval_of_a_median_has_its_coverage(n):
    """By the binomial distribution of the values below a median, added up term by term."""
    found = paper_verdicts.of_values([float(k) for k in range(n)])
    outside = sum(math.comb(n, k) for k in range(int(found.low) + 1)) / 2**n
    assert 2 * outside <= (0.0625 if n == 5 else 0.05)
    if found.low > 0:
        assert found.high == n - 1 - found.low


def test_ranks_have_the_critical_difference_of_the_tables():
    """Demsar's Table 5 has 2.850 for six methods; of one column all ranks are known."""
    columns = {str(k): [float(k + row % 2) for row in range(15)] for k in range(6)}
    found = paper_verdicts.ranks(columns)
    assert list(found.mean.values()) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert found.critical == pytest.approx(2.850 * (6 * 7 / (6 * 15)) ** 0.5, abs=2e-3)
    assert found.statistic == pytest.approx(15 * 5)
    assert found.differ("0") == ["2", "3", "4", "5"]
    assert paper_verdicts.ranks(columns, larger=True).mean["0"] == 6.0


def test_wins_count_the_smaller_or_the_larger():
    pairs = [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0), (4.0, 2.0)]
    assert paper_verdicts.duels(pairs) == "1 / 1 / 2"
    assert paper_verdicts.duels(pairs, larger=True) == "2 / 1 / 1"


def test_rows_of_an_earlier_program_are_not_counted():
    assert papers_fedcmfs.older() == {"VirusGO"}
    assert len(papers_fedcmfs.compared("average_precision")) == 24 - 3 - 3


@pytest.mark.parametrize("method", papers_fedcmfs.RIVALS)
def test_a_rivals_row_says_what_the_files_say(method):
    """Means and wins from the paper's columns and the cells that ran."""
    with (BENCHMARKS / "fedcmfs_paper.csv").open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        printed = {
            (r["data"], int(r["sites"]), r["method"]): float(r["average_precision"]) for r in rows
        }
    report = json.loads((BENCHMARKS / "results" / "fedcmfs_rivals.json").read_text("utf-8"))
    places = [(r["data"], r["sites"]) for r in report["results"]]
    ours = {
        (r["data"], r["sites"], m): r["all"][m]["average_precision"]["mean"]
        for r in report["results"]
        for m in r["all"]
    }
    cells = []
    for source in (printed, ours):
        gaps = [source[*p, "FedCMFS"] - source[*p, method] for p in places]
        wins = f"{sum(g > 0 for g in gaps)} / {gaps.count(0)} / {sum(g < 0 for g in gaps)}"
        cells.append((f"{np.mean([source[*p, method] for p in places]):.3f}", wins))
    line = next(x for x in papers_fedcmfs.rival_table() if x.startswith(f"| {method} "))
    assert line.split(" | ")[1:5] == [cells[0][0], cells[1][0], cells[0][1], cells[1][1]]
