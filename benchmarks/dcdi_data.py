"""The data of DCDI's experiments: perfect interventions on each of ten variables of random DAGs.

    python benchmarks/dcdi_data.py FOLDER --graphs 5

writes every world into FOLDER/KIND-eE as files that the published program reads: ``DAG1.npy``,
``data_interv1.npy``, ``intervention1.csv`` and ``regime1.csv`` of the first graph, and so on.

As Brouillard et al. (NeurIPS 2020, section 4.1 and the appendix on their data) describe and their
generator draws: an order at random, every edge along it with the same chance, so that e per
variable are expected; 10,000 rows, shared out evenly over the observational setting and one
intervention on each variable, which draws it from N(2, 1) whatever its parents are. Three kinds:

- ``linear``: x_j = w' x_pa + 0.4 n_j with 0.25 <= abs(w) <= 1;
- ``anm``: x_j = f(x_pa) + 0.4 n_j, f a network of 10 leaky rectified units with weights N(0, 1);
- ``nn``: x_j = f(x_pa, 0.4 n_j), f a network of 20 units of tanh with weights N(0, 1);

n_j and the variables without parents have mean 0 and a variance from U[1, 2], drawn anew in every
setting as their generator has it, although its paper has one for each variable. Biases are those of
torch's linear layer. Nothing is rescaled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from measuring import parser

KINDS = ("linear", "anm", "nn")
VARIABLES, ROWS, NOISE, SHIFT, SLOPE = 10, 10_000, 0.4, 2.0, 0.25
UNITS = {"anm": 10, "nn": 20}


@dataclass(frozen=True)
class World:
    """A true DAG and rows of it.

    Attributes:
        dag: Directed edges, shape (p, p).
        cells: Rows, shape (n, p), those of a setting beside one another.
        marks: Whether a row's variable was intervened on, shape (n, p).
    """

    dag: np.ndarray
    cells: np.ndarray = field(repr=False)
    marks: np.ndarray = field(repr=False)


def world(kind: str, degree: int, seed: int, *, p: int = VARIABLES, rows: int = ROWS) -> World:
    """A graph with ``degree`` expected edges per variable, its mechanisms and its rows."""
    rng = np.random.default_rng((seed, degree, KINDS.index(kind)))
    order = rng.permutation(p)
    dag = np.zeros((p, p), dtype=bool)
    above = np.triu(rng.random((p, p)) < min(1.0, 2.0 * degree / (p - 1)), k=1)
    dag[np.ix_(order, order)] = above
    mechanisms = [mechanism(kind, int(parents.sum()), rng) for parents in dag.T]
    cells, marks = [], []
    for number, target in enumerate((None, *range(p))):
        own = rows // (p + 1) + (number < rows % (p + 1))
        cells.append(setting(dag, order, mechanisms, target, own, rng))
        marks.append(np.tile(np.arange(p) == (-1 if target is None else target), (own, 1)))
    return World(dag=dag, cells=np.concatenate(cells), marks=np.concatenate(marks))


def setting(dag, order, mechanisms, target, rows, rng) -> np.ndarray:
    """Rows under an intervention on ``target``, or none, shape (n, p)."""
    values = np.zeros((rows, len(dag)))
    for v in order:
        drawn = np.sqrt(rng.uniform(1.0, 2.0)) * rng.standard_normal(rows)
        parents = values[:, dag[:, v]]
        if v == target:
            values[:, v] = SHIFT + rng.standard_normal(rows)
        else:
            values[:, v] = mechanisms[v](parents, NOISE * drawn) if parents.size else drawn
    return values


def mechanism(kind: str, parents: int, rng):
    """What makes a variable of its parents' values, shape (n, k), and noise, shape (n,)."""
    if kind == "linear":
        weights = rng.uniform(0.25, 1.0, parents) * rng.choice([-1.0, 1.0], parents)
        return lambda seen, noise: seen @ weights + noise
    units, inputs = UNITS[kind], parents + (kind == "nn")
    first, second = rng.standard_normal((inputs, units)), rng.standard_normal(units)
    bias = rng.uniform(-1.0, 1.0, units) / np.sqrt(max(1, inputs))
    offset = rng.uniform(-1.0, 1.0) / np.sqrt(units)
    if kind == "nn":
        return lambda seen, noise: (
            np.tanh(np.column_stack([seen, noise]) @ first + bias) @ second + offset
        )
    return lambda seen, noise: leaky(seen @ first + bias) @ second + offset + noise


def leaky(values):
    """A rectifier whose slope below 0 is that with which a parametric one begins."""
    return np.where(values > 0.0, values, SLOPE * values)


def write(folder: Path, number: int, own: World) -> None:
    """The files of one world as the published program reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"DAG{number}.npy", own.dag.astype(float))
    np.save(folder / f"data_interv{number}.npy", own.cells)
    targets = [np.flatnonzero(row).tolist() for row in own.marks]
    lines = [",".join(map(str, row)) for row in targets]
    (folder / f"intervention{number}.csv").write_text("\n".join(lines) + "\n", "utf-8")
    regimes = [str(row[0] + 1 if row else 0) for row in targets]
    (folder / f"regime{number}.csv").write_text("\n".join(regimes) + "\n", "utf-8")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options.add_argument("--degrees", nargs="+", type=int, default=[1, 4])
    options.add_argument("--graphs", type=int, default=5)
    given = options.parse_args()
    for kind in given.kinds:
        for degree in given.degrees:
            for seed in range(given.graphs):
                write(given.folder / f"{kind}-e{degree}", seed + 1, world(kind, degree, seed))


if __name__ == "__main__":
    main()
