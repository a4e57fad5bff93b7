"""How often the check of fits names a false edge, and how often a true graph has a warning.

    python benchmarks/residual_checks.py --out benchmarks/results/residual_checks

Pairs x, y and sets S are those of `curved_confounding.py`; ``step at 0.5`` is no step at a median.
A test at level 0.01 makes a false edge, or none. The edge is named where the checks of x and of y
along one number of S both say so, at level 0.05, as in a run of few edges. ``linear`` has no
curve: x and y depend on S by lines, and y on x. Runs are of FedPC on linear graphs of 10 columns
with 15 edges, at three sites of 200 rows, of normal noise or of t with three degrees of freedom:
how many have a warning at all. The seed is none that the check was tuned with.
"""

from __future__ import annotations

import zlib

import curved_confounding as worlds
import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, write_report
from scipy.stats import norm

from cipherdag import Federation, FedPC
from cipherdag.algorithms.constraint_based.fit_checks import LEVELS
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.score_sums import Misfits
from cipherdag.questions.scores.score_test import p_values
from cipherdag.sites.answers.site_view import SiteView

STEP = "step at 0.5"
CURVED = ("tanh(3 s)", "sin(2 s)", "exp(0.8 s)", "absolute", "step", STEP, "product")
WORLDS = (*CURVED, "counts with zeros", "linear")
COLUMNS, EDGES, SITES, ROWS = 10, 15, 3, 200
NOISES = ("normal", "t of 3")


def main() -> None:
    options = parser(__doc__, seed=7741)
    options.add_argument("--tests", type=int, default=100)
    options.add_argument("--runs", type=int, default=100)
    arguments = options.parse_args()
    worlds.CURVES[STEP] = lambda s: (s > 0.5).astype(float)
    cases = []
    for layout in worlds.LAYOUTS:
        for given in worlds.GIVEN:
            for world in WORLDS:
                if given > 1 or world not in ("product", "counts with zeros"):
                    head = {"world": world, "sites": layout, "given": given}
                    cases.append(head | named(world, layout, given, arguments))
                    print(cases[-1], flush=True)
    runs = [{"noise": each} | warned(each, arguments) for each in NOISES]
    print(runs, flush=True)
    report = {"seed": arguments.seed, "tests": arguments.tests, "cases": cases, "runs": runs}
    write_report(arguments.out, "residual_checks", report, markdown)


def named(world: str, layout: str, given: int, arguments) -> dict:
    """How many tests make an edge, and how many of these edges are named."""
    rng = np.random.default_rng((arguments.seed, zlib.crc32(f"{world} {layout} {given}".encode())))
    counts, edges, both = worlds.LAYOUTS[layout], 0, 0
    every = sum(counts)
    line = norm.isf(worlds.LEVEL / 2.0) ** 2
    for _ in range(arguments.tests):
        parts = [
            worlds.draw("power" if world == "linear" else world, rows, every, (1, given), rng)
            for rows in counts
        ]
        score, variance = sum(worlds.now(part, every, mixed=False) for part in parts)
        if score[0] ** 2 > line * variance[0]:
            edges += 1
            both += bool(curved([part[0] for part in parts]).all(axis=0).any())
    return {"edges": edges, "named": both}


def curved(sites: list[np.ndarray]) -> np.ndarray:
    """Whether x and y are curved along each number of S, (2, given)."""
    width = sites[0].shape[1]
    given = range(2, width)
    checks = [[end, s, *(t for t in given if t != s)] for end in (0, 1) for s in given]
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(width - 3)]
    counts, members = pack_blocks([*empty, np.array(checks)])
    every = sum(map(len, sites))
    question = Misfits((0,) * width, counts, members, every, max_rows=1 << 15)
    total = 0.0
    for rows in sites:
        view = SiteView(None, rows, (0,) * width, ordered=())
        total = total + view.answer(question)
    sums = question.read(total)
    p_value = p_values(
        question.sizes, sums.scores, sums.means, sums.spreads, sums.site_scores, sums.sites,
        len(sites),
    )  # fmt: skip
    return (p_value <= LEVELS[0]).reshape(2, -1)


def warned(noise: str, arguments) -> dict:
    """How many runs on linear graphs say that some edge may be due to a curve."""
    warnings = 0
    for run in range(arguments.runs):
        rng = np.random.default_rng((arguments.seed, run, len(noise)))
        pairs = np.column_stack(np.triu_indices(COLUMNS, 1))
        weights = np.zeros((COLUMNS, COLUMNS))
        for cause, effect in pairs[rng.permutation(len(pairs))[:EDGES]]:
            weights[cause, effect] = rng.choice((-1.0, 1.0)) * rng.uniform(0.3, 0.9)
        sites = {}
        for site in range(SITES):
            shape = ROWS, COLUMNS
            normal = noise == "normal"
            own = rng.standard_normal(shape) if normal else rng.standard_t(3.0, shape)
            rows = own @ np.linalg.inv(np.eye(COLUMNS) - weights)
            sites[f"site-{site}"] = pd.DataFrame(rows, columns=[f"v{k}" for k in range(COLUMNS)])
        result = Federation.simulate(sites, device="cpu").run(FedPC(), seed=run)
        warnings += bool(result.finding.details.get("curved_edges"))
    return {"runs": arguments.runs, "warned": warnings}


def markdown(report: dict) -> str:
    """False edges of so many tests and how many are named; runs with a warning."""
    places = list(dict.fromkeys((case["sites"], case["given"]) for case in report["cases"]))
    by_cell = {(case["world"], case["sites"], case["given"]): case for case in report["cases"]}
    rows = []
    for world in WORLDS:
        cells = [by_cell.get((world, *place)) for place in places]
        rows.append([world, *(f"{c['named']} of {c['edges']}" if c else "" for c in cells)])
    head = [f"{sites}, given {given}" for sites, given in places]
    runs = [[each["noise"], f"{each['warned']} of {each['runs']}"] for each in report["runs"]]
    lines = table([f"named edges of {report['tests']} tests", *head], rows)
    return "\n".join([*lines, "", *table(["noise of linear graphs", "runs warned"], runs)]) + "\n"


if __name__ == "__main__":
    main()
