"""How often an effect's interval holds the truth where a confounder acts along a curve, or warns.

    python benchmarks/effect_curves.py --out benchmarks/results/effect_curves

The log odds of treatment and the outcome both follow f(z), of deviation 1, by 1 and by 1; a second
confounder w acts by lines; the effect is 1 in all rows, and the noise has deviation 1. Sites have
levels of their own. ``warned`` are the runs whose report has any warning;
``held or warned`` is what a reader is left with: an interval that holds, or a reason to doubt it.
The seed is none that anything was chosen with.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Effect, Federation, Policy
from cipherdag.sites.policy.policy import QUESTION_KINDS

CURVES = {
    "line": lambda z: z,
    "square": np.square,
    "sin(2 z)": lambda z: np.sin(2.0 * z),
    "tanh(3 z)": lambda z: np.tanh(3.0 * z),
    "exp(0.8 z)": lambda z: np.exp(0.8 * z),
    "step at 0.3": lambda z: (z > 0.3).astype(float),
}
LAYOUTS = {"3 x 200": 200, "3 x 1,000": 1000}
ESTIMATORS = ("aipw", "regression")
EFFECT, SITES, LEAST_RATE = 1.0, 3, 1_000_000


def main() -> None:
    options = parser(__doc__, seed=7742)
    options.add_argument("--runs", type=int, default=60)
    options.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=[*ESTIMATORS])
    arguments = options.parse_args()
    cases = []
    for estimator in arguments.estimators:
        for layout, rows in LAYOUTS.items():
            for name in CURVES:
                head = {"estimator": estimator, "sites": layout, "curve": name}
                cases.append(head | measured(estimator, rows, name, arguments))
                print(cases[-1], flush=True)
    report = {"seed": arguments.seed, "runs": arguments.runs, "cases": cases}
    write_report(arguments.out, "effect_curves", report, markdown)


def measured(estimator: str, rows: int, name: str, arguments) -> dict:
    """How many intervals hold the truth, how many runs warn, and how many do either."""
    rng = np.random.default_rng((arguments.seed, rows, *name.encode()))
    curve, held, warned = CURVES[name], [], []
    large = curve(np.random.default_rng(0).standard_normal(LEAST_RATE))
    middle, spread = large.mean(), large.std()
    algorithm = Effect(treatment="drug", outcome="cost", adjust="z,w", estimator=estimator)
    policy = Policy(min_cell_size=0, questions=QUESTION_KINDS)
    errors = []
    for run in range(arguments.runs):
        data = {}
        for site in range(SITES):
            z, w, noise = rng.standard_normal((3, rows))
            push = (curve(z) - middle) / spread
            drug = rng.random(rows) < 1.0 / (1.0 + np.exp(-push - 0.3 * w))
            cost = EFFECT * drug + push + 0.5 * w + noise + 0.5 * site
            named = {"z": 50.0 + 8.0 * z, "w": w, "drug": np.where(drug, "yes", "no")}
            data[f"site-{site}"] = pd.DataFrame({**named, "cost": cost})
        result = Federation.simulate(data, policy=policy, device="cpu").run(algorithm, seed=run)
        low, high = result.finding.interval
        held.append(bool(low <= EFFECT <= high))
        errors.append((high - low) / 2.0)
        warned.append(bool(result.report.warnings))
    either = np.logical_or(held, warned)
    return {
        "held": float(np.mean(held)),
        "warned": float(np.mean(warned)),
        "either": float(np.mean(either)),
        "half_width": float(np.mean(errors)),
    }


def markdown(report: dict) -> str:
    """Shares of runs by estimator, layout and curve."""
    rows = [
        [
            *(case[key] for key in ("estimator", "sites", "curve")),
            *(f"{case[key]:.2f}" for key in ("held", "warned", "either", "half_width")),
        ]
        for case in report["cases"]
    ]
    head = [
        "estimator",
        "sites",
        "curve",
        "interval holds",
        "warned",
        "held or warned",
        "half width",
    ]
    return "\n".join(table(head, rows)) + "\n"


if __name__ == "__main__":
    main()
