"""FedCMFS on eight multi-label data sets, beside baselines and the paper's own column.

    python benchmarks/fedcmfs.py run DATA_FOLDER --cells cells.jsonl
    python benchmarks/fedcmfs.py table --cells cells.jsonl --out benchmarks/results/fedcmfs
    python benchmarks/fedcmfs.py variants --cells other.jsonl ... --out variants.json

`run` appends one line per data set, number of sites and seed, and leaves out those that are there.
Answers are summed without protection: masking and bfv give the same sums (tested, and checked on
every data set by `fedcmfs_speed.py`). ML-KNN learns from all training rows whichever way features
were chosen, so that the table compares choices of features and nothing else.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from fedcmfs_table import write_table, write_variants
from measuring import add_line, environment, read_lines
from mlknn import MLKNN
from multilabel_data import LARGE, TRAIN, MultiLabelData, draw_sites, load
from multilabel_metrics import average_precision, six_metrics

from cipherdag import FedCMFS
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedcmfs.algorithm import TRIPLET_EVIDENCE
from cipherdag.algorithms.fedcmfs.combined_triplets import by_combination, remember
from cipherdag.sites.answers.site_view import SiteView

if TYPE_CHECKING:
    from cipherdag.sites.answers.site_view import SiteView


SITES = (3, 5, 10)
PERCENTS = (0, 10, 30)
FOLDS = 3
BINS = 5


def main() -> None:
    arguments = parse()
    if arguments.command == "table":
        write_table(read_lines(arguments.cells), arguments.out)
        return
    if arguments.command == "variants":
        write_variants([read_lines(path) for path in arguments.cells], arguments.out)
        return
    done = {(cell["data"], cell["sites"], cell["seed"]) for cell in read_lines(arguments.cells)}
    for seed in range(arguments.seeds):
        for name in arguments.data or TRAIN:
            missing = [n for n in SITES if (name, n, seed) not in done]
            data = load(arguments.folder, name, coded=arguments.coded) if missing else None
            for n_sites in missing:
                cell = measure(data, n_sites, seed, arguments)
                add_line(arguments.cells, cell)
                best = cell["methods"]["fedcmfs"]
                print(
                    f"{name} {n_sites} sites seed {seed}: AvP {best['average_precision']:.4f}, "
                    f"{best['features']} features, {cell['seconds']:.0f} s",
                    flush=True,
                )


def measure(data: MultiLabelData, n_sites: int, seed: int, arguments) -> dict:
    """One cell: one split, one drawing of the sites, all methods."""
    started = time.perf_counter()
    train, test = data.split(np.random.default_rng([seed, 1]))
    shares = arguments.large_shares if data.name in LARGE else arguments.shares
    rows = draw_sites(train, n_sites, shares, np.random.default_rng([seed, 2, n_sites]))
    sites = [respondent(data, own, arguments.min_cell_size) for own in rows]
    trial = Trial(data, train, test, np.random.default_rng([seed, 3]))
    grid = search_grid(data, sites, trial, arguments.alpha, arguments.evidence)
    methods = {}
    own = [point for point in grid if point["retrieval"] == "interchangeable"]
    # the training rows alone choose; of equal points the smallest percentages
    best = max(own, key=lambda point: (point["train"], -point["k1"], -point["k2"]))
    methods["fedcmfs"] = trial.test(best["columns"]) | {"k1": best["k1"], "k2": best["k2"]}
    for point in grid:
        if (point["k1"], point["k2"]) == (10, 10):
            paper = "_paper_retrieval" if point["retrieval"] == "paper" else ""
            methods[f"fedcmfs{paper}_10_10"] = trial.test(point["columns"])
    methods["all_features"] = trial.test(range(data.features.shape[1]))
    alone = FedCMFS(
        alpha=arguments.alpha, k1=0, k2=0, reveal="sums"
    )  # FedCFL of one site is HITON-PC
    methods |= local_methods(data, sites, rows, trial, alone, methods["fedcmfs"]["features"])
    return {
        "data": data.name,
        "sites": n_sites,
        "seed": seed,
        "shares": list(shares),
        "alpha": arguments.alpha,
        "evidence": arguments.evidence,
        "min_cell_size": arguments.min_cell_size,
        "coded": arguments.coded,
        "seconds": time.perf_counter() - started,
        "methods": methods,
        "grid": [
            {k: v for k, v in point.items() if k != "columns"}
            | {"test": trial.test_average_precision(point["columns"])}
            for point in grid
        ],
        "environment": environment(),
    }


class Trial:
    """ML-KNN on some columns: on the test rows, or by folds of the training rows alone."""

    def __init__(self, data, train, test, rng) -> None:
        self._data, self._train, self._test = data, train, test
        self._folds = np.array_split(rng.permutation(train), FOLDS)
        self._tested: dict[tuple[int, ...], dict] = {}
        self._trained: dict[tuple[int, ...], float] = {}

    def test(self, columns) -> dict:
        """Six metrics on the test rows, and the number of features."""
        key = tuple(columns)
        if key not in self._tested:
            self._tested[key] = self.test_by(key, self._train)
        return self._tested[key]

    def test_by(self, columns, learn: np.ndarray) -> dict:
        """The same by a classifier that saw some of the rows only."""
        found = six_metrics(*self._predict(tuple(columns), learn, self._test))
        return {name: float(value) for name, value in found.items()} | {"features": len(columns)}

    def test_average_precision(self, columns) -> float:
        """Average precision on the test rows."""
        return average_precision(*self._predict(tuple(columns), self._train, self._test))

    def train(self, columns) -> float:
        """Average precision by cross-validation within the training rows."""
        key = tuple(columns)
        if key not in self._trained:
            scores = [
                average_precision(*self._predict(key, np.setdiff1d(self._train, fold), fold))
                for fold in self._folds
            ]
            self._trained[key] = float(np.mean(scores))
        return self._trained[key]

    def _predict(self, columns, learn, predict) -> tuple[np.ndarray, np.ndarray]:
        """True labels and predicted probabilities of some rows by others."""
        features = self._data.features[:, list(columns)]
        if not columns:  # then every row is as near as every other
            features = np.zeros((len(features), 1))
        labels = self._data.labels
        model = MLKNN(k=10, s=1.0).fit(features[learn], labels[learn])
        return labels[predict], model.probabilities(features[predict])


def respondent(data: MultiLabelData, rows: np.ndarray, least: int = 0) -> SiteView:
    return SiteView.of_table(data.table.take(rows), min_cell_size=least, device="cpu")


def search_grid(
    data: MultiLabelData, sites: list[SiteView], trial: Trial, alpha: float, evidence: str
) -> list[dict]:
    """FedCMFS at every point of the grid; a triplet that several points need is asked once."""
    points = [
        {"retrieval": "interchangeable", "k1": k1, "k2": k2} for k1 in PERCENTS for k2 in PERCENTS
    ]
    points.append({"retrieval": "paper", "k1": 10, "k2": 10})

    def asking():
        for point in points:
            algorithm = FedCMFS(alpha=alpha, **point, reveal="sums")
            point["outcome"] = yield from algorithm.ask(facts_of(data))

    whole = remember(asking())
    answer(whole if evidence == "weighted_p" else by_combination(whole, evidence), sites)
    for point in points:
        point["columns"] = selected(data, point.pop("outcome"))
        point["features"] = len(point["columns"])
        point["train"] = trial.train(point["columns"])
    return points


def answer(asking, sites: list[SiteView]):
    """Run a generator of questions on sums of the sites' answers on their declared grid."""
    try:
        question = next(asking)
        while True:
            bits = [encoding.resolution_bits for encoding in question.encodings]
            grid = np.exp2(np.repeat(bits, [encoding.length for encoding in question.encodings]))
            total = sum(np.rint(site.answer(question) * grid) for site in sites)
            question = asking.send(total / grid)
    except StopIteration as finish:
        return finish.value


def selected(data: MultiLabelData, outcome) -> tuple[int, ...]:
    """Columns of the union of all labels' features."""
    union = {v for own in outcome.by_label.values() for v in own.features}
    return tuple(data.columns(union).tolist())


def facts_of(data: MultiLabelData) -> Facts:
    labels = tuple(data.label_positions.tolist())
    return Facts(len(data.table.names), 3, labels=labels)


def local_methods(data, sites, rows, trial: Trial, alone: FedCMFS, n_features: int) -> dict:
    """What every site finds by itself: averaged, united and intersected label by label."""
    outcomes = [answer(alone.ask(facts_of(data)), [s]) for s in sites]
    sets = [
        {label: set(own.features) for label, own in outcome.by_label.items()}
        for outcome in outcomes
    ]
    united = {v for label in sets[0] for v in set.union(*(own[label] for own in sets))}
    common = {v for label in sets[0] for v in set.intersection(*(own[label] for own in sets))}
    informative = [
        strongest(mutual_information(data.features[own], data.labels[own]), n_features)
        for own in rows
    ]
    return {
        "hiton_pc_per_site": mean([trial.test(selected(data, own)) for own in outcomes]),
        "mutual_information_per_site": mean([trial.test(own) for own in informative]),
        "pc_union": trial.test(data.columns(united).tolist()),
        "pc_intersection": trial.test(data.columns(common).tolist()),
    }


def mutual_information(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Plug-in mutual information of every feature with the labels, summed over labels, shape (d,).

    A feature of more than five values is cut at its quintiles.
    """
    scores = np.zeros(features.shape[1])
    for column, values in enumerate(features.T):
        codes = np.unique(values, return_inverse=True)[1]
        if codes.max() >= BINS:
            cuts = np.unique(np.quantile(values, np.arange(1, BINS) / BINS))
            codes = np.searchsorted(cuts, values)
        member = np.eye(codes.max() + 1)[codes]
        joint = np.stack([member.T @ labels, member.T @ (1 - labels)]) / len(values)
        expected = joint.sum(axis=0) * joint.sum(axis=1, keepdims=True)
        terms = joint * np.log(np.divide(joint, expected, out=np.ones_like(joint), where=joint > 0))
        scores[column] = terms.sum()
    return scores


def strongest(scores: np.ndarray, count: int) -> list[int]:
    return sorted(np.argsort(-scores, kind="stable")[:count].tolist())


def mean(results: list[dict]) -> dict:
    return {name: float(np.mean([own[name] for own in results])) for name in results[0]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("--cells", type=Path, required=True)
    run.add_argument("--data", nargs="*", choices=list(TRAIN))
    run.add_argument("--seeds", type=int, default=10)
    run.add_argument("--alpha", type=float, default=0.05)
    run.add_argument("--evidence", choices=TRIPLET_EVIDENCE, default="weighted_p")
    run.add_argument("--min-cell-size", type=int, default=0, help="of every site")
    run.add_argument("--coded", action="store_true", help="ML-KNN sees codes, not numbers")
    run.add_argument("--shares", type=float, nargs=2, default=(0.4, 0.8))
    run.add_argument("--large-shares", type=float, nargs=2, default=(0.2, 0.4))
    table = commands.add_parser("table")
    table.add_argument("--cells", type=Path, required=True)
    table.add_argument("--out", type=Path, required=True)
    variants = commands.add_parser("variants")
    variants.add_argument("--cells", type=Path, nargs="+", required=True)
    variants.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
