"""Writes ``docs/papers.md``: every table and figure of the four papers, and what became of it here.

    python benchmarks/papers_page.py

What a table shows stands in ``papers.toml``, the papers' figures in ``fedpc_paper.csv``,
``fedcmfs_paper.csv``, `rfcd` and `fedcd`, ours in ``results/``: the page is made of them and has no
figure of its own.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from statistics import mean, stdev

import dcdi
import dcdi_data
import fedcd
from fedpc_report import published
from markdown_table import table
from paper_verdicts import counted, results, standing
from papers_fedcmfs import OF_FEDCMFS

from cipherdag import FedCD

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "papers.md"
SITES = (3, 5, 10, 15)
PAPER_SITES = {2: "FED-CD (2-clients)", 4: "FED-CD (4-clients)", 0: "ENCO"}
FEDCD = ("fedcd", "fedcd_10")
INTRODUCTION = """# The papers' tables

Every table and figure of the four papers that this package implements: theirs, ours, and how they
compare. `benchmarks/papers_page.py` writes this page from the files of `benchmarks/results` that
the last column names, beside the script that writes them; machine, versions and settings of a run
stand in its file. *Not run* says why.
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page's text."""
    papers = register()
    items = [item for paper in papers for item in paper["item"]]
    scripts = sorted({item["script"] for item in items} - {""})
    commands = [[f"`{name}`", f"`{command_of(HERE / name)}`"] for name in scripts]
    words = "As each script's own words have it, which also say what it reads and can leave out."
    last = ["## The commands", "", words, "", *table(["script", "command"], commands), ""]
    return "\n".join([INTRODUCTION, *map(section, papers), *last])


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
    """One paper's heading, words and table."""
    rows = [
        [item["name"], item["shows"], item["theirs"], item["here"], item["verdict"], sources(item)]
        for item in paper["item"]
    ]
    columns = ("in the paper", "shows", "the paper", "here", "verdict", "figures")
    cited = f"{paper['cite']}. [How it works here]({paper['page']})."
    heading = [f"## {paper['title']}", "", cited, "", paper["note"], ""]
    return "\n".join([*heading, *table(columns, rows), ""])


def sources(item: dict) -> str:
    """Script and result files."""
    names = [item["script"], *item["results"]] if item["script"] else ["-"]
    return ", ".join(f"`{name}`" if name != "-" else name for name in names)


def command_of(script: Path) -> str:
    """The first command that a script's own words give."""
    lines = script.read_text("utf-8").split('"""')[1].splitlines()
    return next(line.strip() for line in lines if line.strip().startswith("python benchmarks/"))


def of_fedpc(data: str) -> dict:
    """SHD over the numbers of sites: votes, and pooled evidence or where that is none, fisher."""
    ours = {(c["data"], c["sites"], c["method"]): c for c in results("fedpc_tables")["cases"]}
    paper = published()
    theirs = {sites: paper[data, sites, "FedPC"]["shd"] for sites in SITES}
    best = "pooled" if (data, 3, "pooled") in ours else "fisher"
    here, verdicts = [], []
    for name, method in (("votes", "vote"), (f"`{best}`", best)):
        cells = [ours[data, sites, method] for sites in SITES]
        here.append(f"{name} {' / '.join(plain(cell['shd']) for cell in cells)}")
        compared = [
            standing(theirs[sites], cell["shd_min"], cell["shd_max"])
            for sites, cell in zip(SITES, cells, strict=True)
        ]
        verdicts.append(f"{name}: {counted(compared)}")
    return {
        "theirs": " / ".join(plain(own) for own in theirs.values()),
        "here": "; ".join(here),
        "verdict": "; ".join(verdicts),
        "script": "fedpc_tables.py",
        "results": ["fedpc_tables.json"],
    }


def of_sachs() -> dict:
    """Sachs with its conditions as sites: the method of least SHD, and FedPC's default."""
    cases = {case["method"]: case for case in results("sachs_conditions")["cases"]}
    best = min(cases.values(), key=lambda case: case["shd"])
    default = cases["FedPC, stratified"]
    told = max(cases.values(), key=lambda case: (not case["wrong"], case["right"]))
    return {
        "here": f"{best['method']} {best['shd']} ({best['miss']} missing), "
        f"{default['method']} {default['shd']}; directions: {told['method']} tells "
        f"{told['right']} right and {told['wrong']} wrong",
        "verdict": "mixed",
        "script": "sachs_conditions.py",
        "results": ["sachs_conditions.json"],
    }


def of_layers() -> dict:
    """Figure 7: edges by the largest sets, and whether the last size took none."""
    report = results("fedpc_figures")
    settled = all(c["edges"][-1] == c["edges"][-2] for c in report["cases"])
    edges = [f"{c['data']} {', '.join(map(plain, c['edges']))}" for c in report["cases"]]
    return {
        "here": f"edges with sets of at most 0, 1, ... 5: {'; '.join(edges)}",
        "verdict": "alike" if settled else "mixed",
        "script": "fedpc_figures.py",
        "results": ["fedpc_figures.json"],
    }


def of_shares() -> dict:
    """Figure 8: the share at which the skeleton is nearest."""
    from fedpc_figures import SHARES

    report = results("fedpc_figures")
    best = {
        c["data"]: " and ".join(
            f"{share:.0%}"
            for share, shd in zip(SHARES, c["shd"], strict=True)
            if shd == min(c["shd"])
        )
        for c in report["cases"]
    }
    at_30 = sum("30%" in own for own in best.values())
    return {
        "here": "least at " + "; ".join(f"{own} ({name})" for name, own in best.items()),
        "verdict": "alike" if 2 * at_30 > len(best) else "mixed",
        "script": "fedpc_figures.py",
        "results": ["fedpc_figures.json"],
    }


def of_rfcd(method: str, variables: str) -> dict:
    """Mean SHD by beam; better and worse beyond the middle half of our runs."""
    cells = [
        row
        for row in results("rfcd")["table_1"]
        if (row["method"], row["d"]) == (method, int(variables))
    ]
    verdicts = [standing(row["published"], *row["quartiles"]) for row in cells]
    return {
        "theirs": " / ".join(f"{row['published']:.2f}" for row in cells),
        "here": " / ".join(f"{row['mean']:.2f}" for row in cells),
        "verdict": counted(verdicts),
        "script": "rfcd.py",
        "results": ["rfcd.json"],
    }


def of_fedcd(structure: str, report: str = "fedcd_20") -> dict:
    """SHD with 2 and 4 sites and of ENCO on all rows; not run where there is none."""
    column = [name.lower() for name in fedcd.PAPER_COLUMNS].index(structure)
    theirs = {sites: fedcd.PAPER[name][column] for sites, name in PAPER_SITES.items()}
    cases = [own for own in results(report)["cases"] if own["structure"] == structure]
    here, verdicts = [], []
    for sites, printed in theirs.items():
        found = [case["shd"] for case in cases if case["sites"] == sites]
        if not found:
            here.append("not run for time")
            continue
        spread = f" ± {stdev(found):.1f}" if len(found) > 1 else ""
        here.append(f"{mean(found):.1f}{spread} ({len(found)})")
        centre, reach = map(float, printed.split(" ± "))
        verdicts.append(standing(-mean(found), -centre - reach, reach - centre))
    return {
        "theirs": " / ".join(theirs.values()),
        "here": " / ".join(here),
        "verdict": counted(verdicts) or "not run",
        "script": "fedcd.py",
        "results": [f"{report}.json"],
    }


def of_dcdi() -> dict:
    """DCDI beside its own program, on its own kinds of data; on Table 1's graphs it is not run."""
    report = results("dcdi")
    own, theirs = report["cases"], report["published"]["cases"]
    found = [
        f"{kind}, e = {degree}: {dcdi.beside(own, theirs, kind, degree)[0]}"
        for degree in sorted({case["degree"] for case in theirs})
        for kind in dcdi_data.KINDS
        if dcdi.of(theirs, kind, degree, "DCDI-G")
    ]
    return {
        "here": "not run on these graphs for time; on DCDI's own kinds of data, 10 variables, SHD "
        f"of ours / of its own program, graph by graph: {'; '.join(found)}",
        "verdict": "not run",
        "script": "dcdi.py",
        "results": ["dcdi.json"],
    }


def of_length() -> dict:
    """What Table 1's graphs of 20 variables would take as long as the paper trains."""
    speed, seeds, structures = results("enco_speed"), 20, 4
    default = FedCD()
    epoch = min(run["cpu_s"] for run in speed["runs"])
    hours = epoch * default.epochs * default.rounds * structures * seeds / 3600.0
    return {
        "here": f"not run: an epoch takes {epoch:.0f} processor seconds, so that "
        f"{default.rounds} rounds of {default.epochs} take "
        f"{2 * hours:.0f} processor hours with 2 sites and {4 * hours:.0f} with 4",
        "verdict": "not run",
        "script": "enco_speed.py",
        "results": ["enco_speed.json"],
    }


def of_naive() -> dict:
    """Proximity beside naive averages with 5 sites, after the first round and the last."""
    rounds = {"the first round": 0, "the last": -1}
    counts = {
        words: [
            sum(own)
            for own in zip(
                *(fedcd.beside_naive(results(n)["cases"], 5, k) for n in FEDCD), strict=True
            )
        ]
        for words, k in rounds.items()
    }
    here = [f"after {words} better in {b}, as good in {a} and worse in {w}"
            for words, (b, a, w) in counts.items()]  # fmt: skip
    total = sum(counts["the last"])
    return {
        "here": f"of {total} graphs proximity is {'; '.join(here)}",
        "verdict": "mixed",
        "script": "fedcd.py",
        "results": [f"{name}.json" for name in FEDCD],
    }


def of_entropy() -> dict:
    """Average edge entropy by round, over all runs of 5 sites."""
    cases = [
        c for c in results("fedcd_10")["cases"] if (c["sites"], c["method"]) == (5, "proximity")
    ]
    rounds = zip(*(pad(case["entropies"], 3) for case in cases), strict=True)
    ends = sum(case["entropies"][-1] == 0.0 for case in cases)
    bits = ", ".join(f"{mean(own):.3f}" for own in rounds)
    return {
        "here": f"5 sites: {bits} bits after rounds 1 to 3, 0 in {ends} of {len(cases)}",
        "verdict": "alike",
        "script": "fedcd.py",
        "results": ["fedcd_10.json"],
    }


def pad(values: list[float], length: int) -> list[float]:
    """A run that all sites agreed on early stays there."""
    return [*values, *[values[-1]] * (length - len(values))]


def plain(value: float) -> str:
    """A number without trailing zeros."""
    return f"{value:.6g}"


CELLS = {
    "fedpc": of_fedpc,
    "sachs": of_sachs,
    "layers": of_layers,
    "shares": of_shares,
    "rfcd": of_rfcd,
    "fedcd": of_fedcd,
    "dcdi": of_dcdi,
    "length": of_length,
    "naive": of_naive,
    "entropy": of_entropy,
    **OF_FEDCMFS,
}
"""What reads ours and theirs, by the first word of ``cells``."""


if __name__ == "__main__":
    main()
