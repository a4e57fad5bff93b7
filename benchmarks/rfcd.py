"""RFcd's Table 1 and Figures 1 and 2 again: normalised SHD beside comparators, over many seeds.

    python benchmarks/rfcd.py --lines rfcd.jsonl --out benchmarks/results/rfcd.json

Every finished cell is one line of ``--lines``; a second start goes on where the first one ended.
The statistics are measured: the sites' answers are summed in the clear, which gives the same graphs
as every protection (tests/journeys/test_rfcd_runs.py). DirectLiNGAM needs the `lingam` package,
which wants an older scipy than this project's tests; without it its cells are left out.
"""

from __future__ import annotations

import statistics
import warnings
from pathlib import Path

import numpy as np
from markdown_table import table
from measuring import add_line, parser, read_lines, timed, write_report
from polynomial_data import experiment

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.algorithm import RFcd, Searching
from cipherdag.graphs.dags import matrix_of
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.metrics import compare
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.scores.learners import best_graph
from cipherdag.sites.compute.scores.scores import GaussianBic, LocalScores
from cipherdag.sites.compute.scores.spline_mdl import SplineMdl

SITES = (3, 5, 7)
SIZES = (5, 10)
ROWS = 1000
# Mian, Kaltenpoth and Kamp (2022), Table 1: average SHD by (beam, variables)
PUBLISHED = {
    "RFcd-M": {(1, 5): 0.44, (5, 5): 0.46, (10, 5): 0.46,
               (1, 10): 0.28, (5, 10): 0.27, (10, 10): 0.28},
    "RFcd-B": {(1, 5): 0.51, (5, 5): 0.51, (10, 5): 0.50,
               (1, 10): 0.35, (5, 10): 0.37, (10, 10): 0.37},
}  # fmt: skip
BEAMS = (1, 5, 10)
SETTINGS = ("homogeneous", "interventions")
SCORES = {"B": "bic", "M": "mdl"}
FIRST_COLUMNS = ("method", "b", "d", "published", "here, mean", "median", "quartiles", "runs")


def rfcd_methods():
    """Name and parameters of every variant of RFcd; of RFcd-M the default is b=10."""
    found = {}
    for letter, score in SCORES.items():
        for beam in BEAMS:
            published = Searching(search="beam", beam=beam)
            found[f"RFcd-{letter} b={beam}"] = RFcd(score=score, searching=published)
        found[f"RFcd-{letter} nodewise"] = RFcd(score=score, objective="nodewise")
        found[f"RFcd-{letter} sum"] = RFcd(score=score, objective="sum")
    return {"RFcd-B default": RFcd(), **found}


def main() -> None:
    arguments = parse()
    lines = arguments.lines
    done = {key_of(row): row for row in read_lines(lines)}
    cells = [
        (seed, setting, d)
        for d in SIZES
        for seed in range(arguments.seeds)
        for setting in arguments.settings
    ]
    for seed, setting, d in cells:
        noise = "gaussian" if seed % 2 == 0 else "uniform"
        wanted = [m for m in (*rfcd_methods(), *OTHERS) if m in arguments.methods]
        keys = [(setting, d, n, seed, m) for n in SITES for m in wanted]
        if all(key in done for key in keys) or arguments.report:
            continue
        drawn = experiment(
            d, max(SITES), ROWS, seed, noise=noise, interventions=setting == "interventions"
        )
        for n_sites, method, shd, edges, seconds in measured(drawn, d, wanted):
            row = {
                "setting": setting, "d": d, "sites": n_sites, "seed": seed, "noise": noise,
                "method": method, "shd": shd, "normalised": shd / (d * (d - 1) / 2),
                "edges": edges, "true_edges": int(drawn.dag.sum()), "seconds": round(seconds, 3),
            }  # fmt: skip
            if key_of(row) not in done:
                done[key_of(row)] = row
                add_line(lines, row)
    report = summary(list(done.values()), arguments.seeds)
    print(markdown(report))
    write_report(arguments.out, "rfcd", report, markdown)


def key_of(row):
    return tuple(row[name] for name in ("setting", "d", "sites", "seed", "method"))


def measured(drawn, d, wanted):
    """Every method on the first 3, 5 and 7 sites; the sites' scores are shared between them."""
    names = [f"v{k}" for k in range(d)]
    truth = CausalGraph.from_arcs(names, cpdag_of(drawn.dag))
    known = {
        "bic": [LocalScores(GaussianBic(own, device="cpu")) for own in drawn.sites],
        "mdl": [LocalScores(SplineMdl(own, device="cpu")) for own in drawn.sites],
    }
    local = {}
    for n_sites in SITES:
        for method, algorithm in rfcd_methods().items():
            if method not in wanted:
                continue
            sites = [
                SiteView(None, None, (0,) * d, make_scores=lambda _spec, own=own: own)
                for own in known[algorithm.score][:n_sites]
            ]
            _, cpu, outcome = timed(driven, algorithm.ask(Facts(d, n_sites)), sites)
            yield n_sites, method, *against(truth, names, outcome.arcs), cpu
        for method, learn in OTHERS.items():
            own = drawn.sites[:n_sites], known["bic"][:n_sites], local
            _, cpu, arcs = timed(learn, *own)
            if arcs is not None:
                yield n_sites, method, *against(truth, names, arcs), cpu


def driven(asking, sites):
    """Run a search on plain sums; in a comparison only whether any site exceeds."""
    try:
        question = next(asking)
        while True:
            total = sum(site.answer(question) for site in sites)
            if question.encodings[0].comparison:
                total = (total > 0).astype(float)
            question = asking.send(total)
    except StopIteration as finished:
        return finished.value


def against(truth, names, arcs):
    """SHD between CPDAGs, and the edges found."""
    found = CausalGraph.from_arcs(names, arcs)
    return compare(found, truth).shd, len(found.edges)


def ges_union(sites, scores, local):
    """Every site's own GES, all edges put together; this shows the local graphs."""
    del sites
    return np.logical_or.reduce(
        [
            local.setdefault(("ges", k), cpdag_of(matrix_of(best_graph(own))))
            for k, own in enumerate(scores)
        ]
    )


def pc_union(sites, scores, local):
    """Every site's own PC (Fisher-z, level 0.01), all edges put together."""
    del scores
    from causallearn.search.ConstraintBased.PC import pc

    for k, own in enumerate(sites):
        if ("pc", k) not in local:
            graph = pc(own, alpha=0.01, show_progress=False).G.graph
            local["pc", k] = (graph.T == 1) | ((graph == -1) & (graph.T == -1))
    return np.logical_or.reduce([local["pc", k] for k in range(len(sites))])


def direct_lingam(sites, scores, local):
    """Multi-group DirectLiNGAM (Shimizu, 2012), an edge where any site's coefficient is not 0."""
    del scores, local
    try:
        import lingam
    except ImportError:
        return None
    model = lingam.MultiGroupDirectLiNGAM()
    model.fit([own.copy() for own in sites])
    edges = np.logical_or.reduce([own.T != 0.0 for own in model.adjacency_matrices_])
    return cpdag_of(edges)


OTHERS = {"GES union": ges_union, "PC union": pc_union, "DirectLiNGAM": direct_lingam}


def summary(rows, seeds):
    """Median, mean and spread of every cell, and Table 1 beside the published one."""
    cells = {}
    for row in rows:
        if row["seed"] < seeds:
            cells.setdefault((row["setting"], row["d"], row["sites"], row["method"]), []).append(
                row
            )
    figures = [
        {"setting": s, "d": d, "sites": n, "method": m, **spread([r["normalised"] for r in own]),
         "edges": statistics.mean(r["edges"] for r in own),
         "true_edges": statistics.mean(r["true_edges"] for r in own)}
        for (s, d, n, m), own in sorted(cells.items())
    ]  # fmt: skip
    first = []
    for letter, by_cell in PUBLISHED.items():
        for (beam, d), published in by_cell.items():
            cell = ("homogeneous", d, f"{letter} b={beam}")
            own = [
                row["normalised"]
                for row in rows
                if row["seed"] < seeds and (row["setting"], row["d"], row["method"]) == cell
            ]
            if own:
                first.append({"method": letter, "beam": beam, "d": d, "published": published,
                              **spread(own)})  # fmt: skip
    return {"rows": ROWS, "seeds": seeds, "table_1": first, "figures": figures}


def spread(values):
    quarters = (
        statistics.quantiles(values, n=4, method="inclusive")
        if len(values) > 1
        else [values[0]] * 3
    )
    return {
        "runs": len(values),
        "mean": statistics.mean(values),
        "median": statistics.median(values),
        "quartiles": [quarters[0], quarters[2]],
    }


def markdown(report):
    """The report as Markdown."""
    first = []
    for row in report["table_1"]:
        low, high = row["quartiles"]
        first.append(
            [row["method"], row["beam"], row["d"], f"{row['published']:.2f}", f"{row['mean']:.2f}",
             f"{row['median']:.2f}", f"{low:.2f} to {high:.2f}", row["runs"]]
        )  # fmt: skip
    text = [
        "# RFcd: normalised SHD of CPDAGs, smaller is better", "",
        f"Up to {report['seeds']} seeds (see runs), {report['rows']} rows a site.",
        "Printed by `benchmarks/rfcd.py`.", "",
        "## Table 1: mean over 3, 5 and 7 sites, homogeneous", "",
        *table(FIRST_COLUMNS, first),
    ]  # fmt: skip
    for setting, title in (
        ("homogeneous", "Figure 1 and Figure 2 (left): homogeneous"),
        ("interventions", "Figure 2 (right): a different intervention per site"),
    ):
        for d in SIZES:
            text += _figure(report, setting, title, d)
    return "\n".join(text) + "\n"


def _figure(report, setting, title, d):
    own = [r for r in report["figures"] if r["setting"] == setting and r["d"] == d]
    rows = []
    for method in dict.fromkeys([*rfcd_methods(), *OTHERS]):
        by_sites = {r["sites"]: r for r in own if r["method"] == method}
        if by_sites:
            last = by_sites[max(by_sites)]
            edges = f"{last['edges']:.1f} ({last['true_edges']:.1f})"
            runs = "/".join(str(cell["runs"]) for cell in by_sites.values())
            rows.append([method, *(_mean(by_sites.get(n)) for n in SITES), edges, runs])
    columns = ["method", *(f"{n} sites" for n in SITES), "edges (true)", "runs"]
    heading = f"## {title}, d = {d}: mean (quartiles)"
    return ["", heading, "", *table(columns, rows)] if rows else []


def _mean(cell):
    if cell is None:
        return ""
    low, high = cell["quartiles"]
    return f"{cell['mean']:.2f} ({low:.2f}, {high:.2f})"


def parse():
    options = parser(__doc__)
    options.add_argument("--lines", type=Path, required=True)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    methods = [*rfcd_methods(), *OTHERS]
    options.add_argument("--methods", nargs="+", choices=methods, default=methods)
    options.add_argument("--report", action="store_true", help="Print what is there, run nothing.")
    return options.parse_args()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
