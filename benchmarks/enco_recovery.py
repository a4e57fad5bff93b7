"""Does local ENCO recover the true DAG of 8 variables where every variable was intervened on?

    python benchmarks/enco_recovery.py --lines enco_recovery.jsonl --out results/enco_recovery.json

One line per seed in --lines; seeds that are there already are not run again.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from categorical_models import INTERVENED, random_model
from measuring import add_line, parser, read_lines, timed, write_report

from cipherdag import CausalGraph
from cipherdag.algorithms.fedcd.report import without_cycles
from cipherdag.graphs.metrics import compare
from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.methods import learn_belief
from cipherdag.sites.compute.beliefs.regimes import Regimes
from cipherdag.sites.compute.device import PROCESSOR


def main() -> None:
    options = parse()
    lines = read_lines(options.lines)
    for seed in range(options.seeds):
        if any(line["seed"] == seed for line in lines):
            continue
        lines.append(measure(seed, options))
        add_line(options.lines, lines[-1])
        print(json.dumps(lines[-1]), flush=True)
    good = sum(line["shd"] <= 1 for line in lines)
    print(f"SHD 0 or 1 in {good} of {len(lines)} seeds")
    figures = {"structure": options.structure, "d": options.d, "good": good, "runs": lines}
    write_report(options.out, "enco_recovery", figures)


def measure(seed: int, options) -> dict:
    rng = np.random.default_rng(seed)
    model = random_model(options.structure, options.d, rng)
    frame = model.frame(5000, 200, rng)
    regimes = Regimes.of(
        frame[list(model.names)].to_numpy().astype(np.float64),
        (model.categories,) * options.d,
        frame[INTERVENED].to_numpy()[:, None] == np.array(model.names),
        device=PROCESSOR,
    )
    training = Training(epochs=options.epochs, fit_steps=options.fit_steps, hidden=options.hidden)
    generator = torch.Generator().manual_seed(seed)
    _, cpu, belief = timed(
        learn_belief, "enco", regimes, None, training, generator, prior_weight=0.0, sampled=False
    )
    arcs, _ = without_cycles(belief > 0.5, belief)
    metrics = compare(CausalGraph.from_arcs(model.names, arcs), model.graph)
    return {
        "seed": seed,
        "edges": int(model.arcs.sum()),
        "shd": metrics.shd,
        "epochs": options.epochs,
        "fit_steps": options.fit_steps,
        "hidden": options.hidden,
        "cpu_s": round(cpu, 1),
    }


def parse():
    options = parser(__doc__)
    options.add_argument("--lines", type=Path, required=True)
    options.add_argument("--structure", default="er-2")
    options.add_argument("--d", type=int, default=8)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--fit-steps", type=int, default=300)
    options.add_argument("--hidden", type=int, default=32)
    return options.parse_args()


if __name__ == "__main__":
    main()
