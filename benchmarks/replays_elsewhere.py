"""Do other machines replay a run to the same digest? Other threads, other kernels, one machine.

    python benchmarks/replays_elsewhere.py [--heart FOLDER] [--out replays.json]

Runs are carried out once; plan and sums are then replayed in processes of their own with 1 and 2
threads, and with the linear algebra of a processor without wide vectors. FOLDER holds
heart_<hospital>.csv; without it those runs are left out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from measuring import parser, write_report

from cipherdag import FedCD, Federation, FedPC, Policy, RFcd, Schema, Training
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.sites.policy.policy import QUESTION_KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import replaying

HERE = Path(__file__).parent
PROCESSORS = {"1 thread": (1, False), "2 threads": (2, False), "2 threads, older": (2, True)}


def alarm(**options):
    """Ten sites with a tenth of the rows each."""
    return Federation.split(
        pd.read_csv(HERE / "data" / "alarm_5000.csv.gz", dtype=str), 10, **options
    )


def hospitals(folder):
    """Four hospitals, mixed columns as they are."""
    files = {path.stem: path for path in sorted(folder.glob("heart_*.csv"))}
    schema = Schema.load(HERE / "schemas" / "heart_mixed.toml")
    policy = Policy(questions=QUESTION_KINDS, min_cell_size=0)
    return lambda **own: Federation.simulate(files, schema=schema, policy=policy, **own)


def chain(**options):
    """Three sites with four continuous columns."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 4)) @ np.triu(np.ones((4, 4)))
    return Federation.split(pd.DataFrame(rows, columns=list("abcd")), 3, **options)


def intervened(**options):
    """Three sites that set one column at random in a third of their rows."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.integers(0, 3, size=(900, 3)).astype(str), columns=list("xyz"))
    rows["z"] = np.where(rng.random(900) < 0.7, rows["y"], rows["z"])
    rows["done"] = np.where(rng.random(900) < 0.3, "x", "")
    tables = {f"site-{k}": rows.iloc[k::3] for k in range(3)}
    return Federation.simulate(tables, interventions="done", **options)


def trials(heart):
    """Runs by name: federation and algorithm."""
    for evidence in ("stratified", "vote", "fisher", "pooled"):
        yield f"alarm, {evidence}", alarm, FedPC(evidence=evidence)
    if heart is not None:
        yield "heart, glm", hospitals(heart), FedPC(evidence="glm", max_cond_size=2)
    yield "rfcd", chain, RFcd(searching=Searching(beam=3))
    training = Training(epochs=2, fit_steps=100, graph_steps=20, graphs=20)
    yield "fedcd", intervened, FedCD(rounds=3, training=training)


def main() -> None:
    known = parser(__doc__)
    known.add_argument("--heart", type=Path)
    arguments = known.parse_args()
    cases = {}
    with tempfile.TemporaryDirectory() as work:
        for number, (name, federation, algorithm) in enumerate(trials(arguments.heart)):
            trial = SimpleNamespace(federation=federation, algorithm=algorithm)
            run = replaying.run_apart(trial, Path(work) / f"{number}.jsonl", "masking")
            saved = replaying.saved(run, Path(work) / f"{number}.msgpack")
            digests = {"here": replaying.replayed_digest(saved)}
            for machine, (threads, older) in PROCESSORS.items():
                digests[machine] = replaying.in_process_of_its_own(saved, threads, older=older)
            cases[name] = {"alike": len(set(digests.values())) == 1, "digests": digests}
            said = "alike" if cases[name]["alike"] else "DIFFERS"
            print(f"{name:20} {said:8} {digests['here'][:16]}")
    write_report(arguments.out, "replays_elsewhere", {"cases": cases})
    if not all(case["alike"] for case in cases.values()):
        raise SystemExit("a replay came to something else")


if __name__ == "__main__":
    main()
