"""Does local ENCO recover the true DAG of 8 variables where every variable was intervened on?

    python benchmarks/enco_recovery.py --lines enco_recovery.jsonl --out results/enco_recovery.json

One line per seed in --lines; seeds that are there already are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from categorical_models import INTERVENED, random_model
from measuring import environment

from cipherdag import CausalGraph
from cipherdag.algorithms.fedcd.algorithm import without_cycles
from cipherdag.graphs.metrics import compare
from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.methods import learn_belief
from cipherdag.sites.compute.beliefs.regimes import Regimes


def main() -> None:
    options = parse()
    options.lines.touch()
    lines = [json.loads(line) for line in options.lines.read_text("utf-8").splitlines()]
    for seed in range(options.seeds):
        if any(line["seed"] == seed for line in lines):
            continue
        lines.append(measure(seed, options))
        with options.lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(json.dumps(lines[-1]), flush=True)
    good = sum(line["shd"] <= 1 for line in lines)
    print(f"SHD 0 or 1 in {good} of {len(lines)} seeds")
    if options.out is not None:
        report = {"benchmark": "enco_recovery", "structure": options.structure, "d": options.d}
        report |= {"good": good, "runs": lines, "environment": environment()}
        options.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def measure(seed: int, options: argparse.Namespace) -> dict:
    rng = np.random.default_rng(seed)
    model = random_model(options.structure, options.d, rng)
    frame = model.frame(5000, 200, rng)
    regimes = Regimes.of(
        frame[list(model.names)].to_numpy().astype(np.int32),
        None,
        (model.categories,) * options.d,
        frame[INTERVENED].to_numpy()[:, None] == np.array(model.names),
        device=torch.device("cpu"),
    )
    training = Training(epochs=options.epochs, fit_steps=options.fit_steps, hidden=options.hidden)
    started = time.process_time()
    generator = torch.Generator().manual_seed(seed)
    belief = learn_belief(
        "enco", regimes, None, training, generator, prior_weight=0.0, sampled=False
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
        "cpu_s": round(time.process_time() - started, 1),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--structure", default="er-2")
    parser.add_argument("--d", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--fit-steps", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=32)
    return parser.parse_args()


if __name__ == "__main__":
    main()
