"""FedCMFS's rivals MB-MCF, GLFS, PDMFS, GRROOR and PMFS beside it, and the paper's columns of them.

    python benchmarks/fedcmfs_rivals.py run DATA_FOLDER --cells rivals.jsonl
    python benchmarks/fedcmfs_rivals.py table --cells rivals.jsonl --out results/fedcmfs_rivals

As in the paper every site runs a rival on its own rows, with as many features as FedCMFS selects
in the same cell (MB-MCF with its own number), and the sites' metrics are averaged. FedCMFS runs
anew, with the k1 and k2 that `fedcmfs.py` chose for the seed (``results/fedcmfs.json``). The paper
does not say which rows the rivals' ML-KNN learns from: `run` measures both all training rows, as
FedCMFS's (the tables), and the site's own. `run` appends a line per data set, number of sites and
seed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from comparators import mbmcf
from comparators.selectors import SELECTORS
from fedcmfs import Trial, answer, facts_of, mean, respondent, selected
from fedcmfs_rivals_table import write_table
from measuring import add_line, environment, read_lines
from multilabel_data import LARGE, TRAIN, MultiLabelData, draw_sites, load

from cipherdag import FedCMFS

SITES = (3, 5, 10)
FEDCMFS = Path(__file__).parent / "results" / "fedcmfs.json"


def main() -> None:
    arguments = parse()
    if arguments.command == "table":
        write_table(read_lines(arguments.cells), arguments.out)
        return
    done = {(cell["data"], cell["sites"], cell["seed"]) for cell in read_lines(arguments.cells)}
    for seed in arguments.seeds:
        for name in arguments.data:
            data = load(arguments.folder, name)
            for n_sites in arguments.sites:
                if (name, n_sites, seed) not in done:
                    cell = measure(data, n_sites, seed)
                    add_line(arguments.cells, cell)
                    shown = {k: round(v["average_precision"], 4) for k, v in cell["all"].items()}
                    print(name, n_sites, seed, f"{cell['seconds']:.0f} s", shown, flush=True)


def measure(data: MultiLabelData, n_sites: int, seed: int) -> dict:
    """One cell: one split, one drawing of the sites, all methods."""
    started = time.perf_counter()
    train, test = data.split(np.random.default_rng([seed, 1]))
    shares = (0.2, 0.4) if data.name in LARGE else (0.4, 0.8)
    rows = draw_sites(train, n_sites, shares, np.random.default_rng([seed, 2, n_sites]))
    sites = [respondent(data, own) for own in rows]
    trial = Trial(data, train, test, np.random.default_rng([seed, 3]))
    k1, k2 = chosen(data.name, n_sites, seed)
    algorithm = FedCMFS(k1=k1, k2=k2, reveal="sums")
    together = selected(data, answer(algorithm.ask(facts_of(data)), sites))
    columns = {"MB-MCF": [blanket(data, site) for site in sites]}
    for at, (name, selector) in enumerate(SELECTORS.items()):
        rng = np.random.default_rng([seed, 4, n_sites, at])
        columns[name] = [
            sorted(selector.rank(data.features[own], data.labels[own], rng)[: len(together)])
            for own in rows
        ]
    return {
        "data": data.name,
        "sites": n_sites,
        "seed": seed,
        "all": {"FedCMFS": trial.test(together)}
        | {name: mean([trial.test(own) for own in found]) for name, found in columns.items()},
        "own": {
            name: mean([trial.test_by(own, at) for own, at in zip(found, rows, strict=True)])
            for name, found in (columns | {"FedCMFS": [together] * n_sites}).items()
        },
        "seconds": time.perf_counter() - started,
        "environment": environment(),
    }


def blanket(data: MultiLabelData, site) -> list[int]:
    """Columns of the union of all labels' blankets by MB-MCF at one site."""
    found = answer(mbmcf.ask(facts_of(data)), [site])
    return data.columns(set().union(*found.values())).tolist()


def chosen(name: str, n_sites: int, seed: int) -> tuple[float, float]:
    """The k1 and k2 of FedCMFS's own run, which training rows chose."""
    for row in json.loads(FEDCMFS.read_text("utf-8"))["results"]:
        if (row["data"], row["sites"]) == (name, n_sites):
            k1, k2 = row["chosen"][row["seeds"].index(seed)]
            return k1, k2
    raise LookupError(f"{FEDCMFS.name} has no run of {name} with {n_sites} sites")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("--cells", type=Path, required=True)
    run.add_argument("--data", nargs="+", choices=list(TRAIN), default=list(TRAIN))
    run.add_argument("--sites", nargs="+", type=int, choices=SITES, default=list(SITES))
    run.add_argument("--seeds", nargs="+", type=int, default=list(range(10)))
    table = commands.add_parser("table")
    table.add_argument("--cells", type=Path, required=True)
    table.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
