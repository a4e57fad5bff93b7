"""FedBOSS's tables: data sets x ways of scoring x samples, beside PC on the same rows.

    python benchmarks/boss_tables.py DATA_FOLDER --data alarm insurance --lines boss.jsonl
    python benchmarks/boss_tables.py --report --lines boss.jsonl

DATA_FOLDER holds ``bn/<network>.bif.gz``. Every sample of 5000 rows is drawn anew (seed = its
number) and split unevenly over ten sites; answers are masked, or with --plain added up in the
clear, which gives the same sums and graphs but neither seconds nor bytes worth telling. `pooled`
runs with sites that allow every count, `pooled-11` with the default policy, whose tables with
counts below 11 never leave a site, `sites` opens no table at all. Beside the distance to the true
class stands how much the graph that was found scores above the true one, in nats: where that is
negative the search missed it, and where it is not the score prefers another graph. Defaults were
chosen on the data of `CHOSEN_ON`, seeds from 100 on, and on random linear models; the others never
chose anything. Finished cases are read from --lines and not run again. --out writes JSON and
Markdown, --report prints the Markdown.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path

from fedpc_data import VARIABLES, draw, draw_network
from markdown_table import table
from measuring import add_line, bytes_per_site, parser, read_lines, timed, write_report

from cipherdag import FedBOSS, Federation, FedPC, Policy
from cipherdag.graphs.dags import members
from cipherdag.sites.policy.policy import QUESTION_KINDS

CHOSEN_ON = ("child", "hailfinder", "hepar2", "barley", "mildew")
REPORTED = ("alarm", "insurance", "win95pts", "andes", "linear-50", "linear-100", "linear-300")
METHODS = {
    "pooled": FedBOSS(),
    "pooled-11": FedBOSS(),
    "sites": FedBOSS(scores="sites"),
    "pooled bdeu": FedBOSS(score="bdeu"),
    "pooled bic": FedBOSS(score="bic", penalty=1.0),
    "pooled ges": FedBOSS(search="ges"),
    "PC stratified": FedPC(),
    "PC pooled": FedPC(evidence="pooled"),
}
FIGURES = (
    ("shd_cpdag", "CPDAG SHD", 0),
    ("f1", "F1", 3),
    ("above", "score above the truth", 1),
    ("seconds", "seconds", 1),
    ("cpu_seconds", "processor seconds", 1),
    ("rounds", "rounds", 0),
    ("mb", "MB a site", 2),
)


def main() -> None:
    arguments = parse()
    cases = read_lines(arguments.lines)
    if not arguments.report:
        run_all(arguments, cases)
    figures = {"cases": sorted(cases, key=key)}
    write_report(arguments.out, "boss_tables", figures, markdown)
    if arguments.report:
        print(markdown(figures))


def run_all(arguments, cases: list[dict]) -> None:
    """Run what is not done yet, until the budget is spent."""
    started, done = time.monotonic(), {key(case) for case in cases}
    for name in arguments.data:
        for number in arguments.seeds:
            for method in arguments.methods:
                case = {"data": name, "sites": arguments.sites, "method": method, "sample": number}
                # of a masked case the plain one tells nothing more
                if key(case) in done or time.monotonic() - started > arguments.budget:
                    continue
                case |= measure(arguments.folder, case, plain=arguments.plain)
                cases.append(case)
                add_line(arguments.lines, case)
                print(
                    f"{name:11} {method:13} sample {number:3}  CPDAG SHD {case['shd_cpdag']:3}  "
                    f"{case['cpu_seconds']:.1f} s",
                    flush=True,
                )


def measure(folder: Path, case: dict, *, plain: bool) -> dict:
    """Run one case over the sites."""
    name, seed, method = case["data"], case["sample"], case["method"]
    known = name in VARIABLES
    data, schema, truth = (draw if known else draw_network)(name, folder, seed)
    policy = Policy(
        questions=QUESTION_KINDS,
        min_cell_size=11 if method == "pooled-11" else 0,
        max_values=2**53,
        max_tests=2**53,
    )
    if plain:
        policy = replace(policy, allow_unprotected=True)
    federation = Federation.split(
        data,
        case["sites"],
        seed=seed,
        schema=schema,
        policy=policy,
        device="cpu",
        protection="none" if plain else "masking",
    )
    wall, cpu, result = timed(federation.run, METHODS[method], seed=seed)
    found = {
        "shd_cpdag": result.metrics_cpdag(truth).shd,
        "shd": result.metrics(truth).shd,
        "f1": result.metrics(truth).f1,
        "cpu_seconds": cpu,
        "rounds": len(result.rounds),
        "protection": result.protection,
    }
    if not plain:
        found |= {"seconds": wall, "mb": bytes_per_site(result) / 1e6}
    if "sets" in result.details:
        found["sets"] = dict(result.details["sets"])
        found["cut_short"] = result.details["cut_short"]
    if method.startswith("pooled") and method != "pooled-11":
        tables = [site.table for site in federation.sites]
        found["above"] = result.details["score"] - score_of(METHODS[method], tables, truth)
    return found


def score_of(algorithm: FedBOSS, tables, truth) -> float:
    """What the algorithm's score says of the true graph on all rows at one place."""
    import numpy as np

    from cipherdag.algorithms.fedboss.moment_scores import BITS, MomentScores

    names = list(tables[0].names)
    dag = [0] * len(names)
    for cause, effect in truth.directed:
        dag[names.index(effect)] |= 1 << names.index(cause)
    if tables[0].codes is None:
        rows = np.concatenate([own.values for own in tables])
        scores = MomentScores(
            np.corrcoef(rows, rowvar=False), len(rows), penalty=algorithm.penalty, max_parents=1
        )
        return sum(scores.score(v, own) for v, own in enumerate(dag)) / 2.0**BITS
    return score_of_categories(algorithm, np.concatenate([own.codes for own in tables]), dag)


def score_of_categories(algorithm: FedBOSS, codes, dag) -> float:
    """The same of categories, from the distinct rows of every family."""
    import numpy as np

    levels = np.array([len(np.unique(column)) for column in codes.T])
    score = algorithm.set_score(len(codes))
    prior = algorithm.search_settings(score, levels)["per_parent"]

    def of_set(positions):
        counts = np.unique(codes[:, positions], axis=0, return_counts=True)[1]
        cells = np.array([float(levels[positions].astype(float).prod())])
        return int(score.of_tables(counts, np.array([len(counts)]), cells)[0])

    total = 0
    for v, parents in enumerate(dag):
        own = list(members(parents))
        nothing = score.of_tables(np.array([len(codes)]), np.array([1]), np.ones(1))[0]
        total += of_set([*own, v]) - (of_set(own) if own else int(nothing)) - prior * len(own)
    return total / 2.0**score.bits


def markdown(figures: dict) -> str:
    """One table per figure: data down, methods across; the median, then every sample."""
    cases = figures["cases"]
    lines = []
    for group, names in (("Data that chose nothing", REPORTED), ("Data that chose", CHOSEN_ON)):
        present = [name for name in names if any(case["data"] == name for case in cases)]
        for field, title, digits in FIGURES if present else ():
            lines += [f"**{group}: {title}**", "", *one_table(cases, present, field, digits), ""]
    return "\n".join(lines)


def one_table(cases: list[dict], names: list[str], field: str, digits: int) -> list[str]:
    methods = [own for own in METHODS if any(c["method"] == own and field in c for c in cases)]
    rows = []
    for name in names:
        row = [name]
        for method in methods:
            own = [
                c[field] for c in cases if (c["data"], c["method"]) == (name, method) if field in c
            ]
            row.append(shown(own, digits))
        rows.append(row)
    return table(["data", *methods], rows)


def shown(values: list[float], digits: int) -> str:
    """The median, and with several samples all of them in brackets."""
    if not values:
        return ""
    median = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1 or digits == 3:
        return median
    return f"{median} ({', '.join(f'{own:.{digits}f}' for own in values)})"


def key(case: dict) -> tuple:
    return case["data"], case["sites"], case["method"], case["sample"]


def parse():
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?")
    names = [*REPORTED, *CHOSEN_ON]
    options.add_argument("--data", nargs="+", choices=names, default=names)
    options.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    options.add_argument("--sites", type=int, default=10)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    options.add_argument("--plain", action="store_true", help="add answers up in the clear")
    options.add_argument("--budget", type=float, default=float("inf"), help="seconds of all")
    options.add_argument("--lines", type=Path, default=Path("boss_tables.jsonl"))
    options.add_argument("--report", action="store_true", help="print the tables and run nothing")
    arguments = options.parse_args()
    if arguments.folder is None and not arguments.report:
        options.error("a run needs DATA_FOLDER")
    return arguments


if __name__ == "__main__":
    main()
