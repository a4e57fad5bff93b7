"""Time and memory of one epoch of ENCO at a site: 1000 fit steps and 100 graph steps.

    python benchmarks/enco_speed.py --out results/enco_speed.json

Data: a random ER-2 model over 20 variables with 10 categories each. Times are wall and processor
seconds; memory is the peak of the whole process, torch included.
"""

from __future__ import annotations

import json
import os

import numpy as np
import torch
from categorical_models import INTERVENED, random_model
from measuring import parser, peak_mb, timed, write_report

from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.methods import learn_belief
from cipherdag.sites.compute.beliefs.regimes import Regimes
from cipherdag.sites.compute.device import resolve_device


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    rng = np.random.default_rng(options.seed)
    model = random_model("er-2", options.d, rng)
    frame = model.frame(5000, 200, rng)
    regimes = Regimes.of(
        frame[list(model.names)].to_numpy().astype(np.float64),
        (model.categories,) * options.d,
        frame[INTERVENED].to_numpy()[:, None] == np.array(model.names),
        device=resolve_device(options.device),
    )
    runs = []
    for _ in range(options.repeats):
        generator = torch.Generator().manual_seed(options.seed)
        asked = ("enco", regimes, None, Training(epochs=1), generator)
        wall, cpu, _ = timed(learn_belief, *asked, prior_weight=0.0, sampled=False)
        runs.append({"wall_s": wall, "cpu_s": cpu})
        print(json.dumps(runs[-1]), flush=True)
    peak = peak_mb() / 1e3
    print(f"peak memory {peak:.2f} GB")
    figures = {
        "d": options.d,
        "threads": options.threads,
        "seed": options.seed,
        "device": str(resolve_device(options.device)),
        "runs": runs,
        "peak_gb": peak,
        "load_average": os.getloadavg(),
    }
    write_report(options.out, "enco_speed", figures)


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--d", type=int, default=20)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--device", default="cpu")
    return options.parse_args()


if __name__ == "__main__":
    main()
