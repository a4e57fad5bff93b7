"""FedPC as published on the authors' files, beside the figures that they printed.

    python benchmarks/as_published.py FOLDER --out benchmarks/results/as_published.json

FOLDER is ``dataset`` of the authors' repository, Xianjie-Guo/FedPC: rows, sites and true graphs of
alarm and of ten linear variables. SHD counts extra, missing and reversed edges of the DAG. Printed
are Tables IV and IX.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, timed, write_report

from cipherdag import CausalGraph, Federation, FedPC, Policy

PRINTED = {
    "alarm": {3: 6, 5: 20, 10: 23, 15: 22},
    "10nodes": {3: 5, 5: 3, 10: 3, 15: 3},
}
"""SHD by data set and number of sites."""
TRUTH = {"alarm": "alarm_graph.txt", "10nodes": "10_DAG.txt"}
PRESETS = {
    "as published, code": (FedPC.as_published("code"), Policy.as_published()),
    "as published, paper": (FedPC.as_published(), Policy.as_published()),
    "default": (FedPC(), None),
}


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("folder", type=Path)
    arguments = options.parse_args()
    cases = []
    for name, printed in PRINTED.items():
        for n_sites, shd in printed.items():
            sites, truth = read(arguments.folder, name, n_sites)
            case = {"data": name, "sites": n_sites, "printed": shd}
            for preset, (algorithm, policy) in PRESETS.items():
                federation = Federation.simulate(sites, policy=policy, device="cpu")
                _, cpu, result = timed(federation.run, algorithm, seed=arguments.seed)
                found = result.finding.metrics(truth)
                case[preset] = {"shd": found.shd, "f1": round(found.f1, 3), "cpu_s": round(cpu, 1)}
            cases.append(case)
            print(case, flush=True)
            write_report(arguments.out, "as_published", {"cases": cases}, markdown)


def read(folder: Path, name: str, n_sites: int) -> tuple[dict[str, pd.DataFrame], CausalGraph]:
    """The rows of every site, in the authors' blocks, and the true graph."""
    rows = np.loadtxt(folder / f"{name}_5000.txt")
    arcs = np.loadtxt(folder / TRUTH[name]).astype(bool)
    sizes = np.loadtxt(folder / f"{name}_{n_sites}clients_partition.txt").astype(int)
    names = [f"v{n:02d}" for n in range(rows.shape[1])]
    frame = pd.DataFrame(rows.astype(int) if name == "alarm" else rows, columns=names)
    parts = np.split(np.arange(len(frame)), np.cumsum(sizes)[:-1])
    sites = {f"site-{n:02d}": frame.iloc[part] for n, part in enumerate(parts, start=1)}
    edges = [(names[tail], names[head]) for tail, head in np.argwhere(arcs).tolist()]
    return sites, CausalGraph.from_edges(names, directed=edges)


def markdown(report: dict) -> str:
    """A data set and a number of sites a row."""
    header = ["data", "sites", "printed", *PRESETS]
    rows = [
        [case["data"], case["sites"], case["printed"], *(case[own]["shd"] for own in PRESETS)]
        for case in report["cases"]
    ]
    return "\n".join([*table(header, rows), ""])


if __name__ == "__main__":
    main()
