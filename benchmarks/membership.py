"""Was a row among the patients? By an attacker who knows the population and the row, and no other.

    python benchmarks/membership.py DATA/bn/alarm.bif.gz --out benchmarks/results/membership

Three sites hold 500 rows each of a network, and run FedPC's default. The attacker has the network:
it draws samples of 1,500 rows and answers the run's tests by them, which gives it the chance of
every bit, the mean and deviation of every score, and how far a bit follows a score. By adding the
row to samples it knows how far the row moves each score. It adds up over all that was opened how
far a value is from its mean, in deviations, times how far the row moves it (Homer et al., PLoS
Genetics 4 (2008) e1000167; Dwork et al., FOCS 2015). The same is done with the sums of the tests
given nothing instead of their bits, and with the edges of the final graph alone.

Printed is the area under the curve of members and others, and its standard error over runs; .5 is a
guess. The most exposed rows are those of 2,000 that move the scores given nothing most.
"""

from __future__ import annotations

import logging
import statistics
import warnings
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from bif import read_bif
from markdown_table import table
from measuring import parser, write_report
from plain_runs import driven, plain_verdicts

from cipherdag import Federation, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.sites.answers.site_view import SiteView

SITES, ROWS = 3, 500
POPULATION, CANDIDATES = 60_000, 2000
SHARES = {"most exposed 5 %": 0.05, "most exposed 1 %": 0.01}
PEOPLE = 100
"""Drawn from the candidates; the most exposed twentieth of them comes on top."""
INSIDE = 40
TABLES = 2
"""Samples of a site's size over which a row's contribution is averaged."""
CERTAIN = 2.0
"""Standard errors that a correlation of a bit and a score has at least, else it is taken for 0."""
SMALLEST = 1e-9


class Population:
    """Rows of a network as codes, of which the first are the candidates."""

    def __init__(self, network, rng: np.random.Generator) -> None:
        parts = Federation.split(network.sample(POPULATION, rng), SITES, device="cpu").sites
        self.codes = np.concatenate([site.table.codes for site in parts])
        self._table, self._rng = parts[0].table, rng

    def sample(self, rows: int) -> np.ndarray:
        """Codes of rows drawn anew, none of them a candidate's, shape (rows, p)."""
        drawn = self._rng.choice(len(self.codes) - CANDIDATES, rows, replace=False)
        return self.codes[CANDIDATES + drawn]

    def site(self, codes: np.ndarray):
        """A site with these rows."""
        own = replace(self._table, codes=codes, rows=len(codes))
        return SiteView.of_table(own, min_cell_size=0, device="cpu")

    def sites(self, codes: np.ndarray) -> list:
        return [self.site(own) for own in np.array_split(codes, SITES)]

    def run(self, codes: np.ndarray) -> tuple[list, np.ndarray]:
        """The questions and bits of a run over sites with these rows, and its edges, (p, p)."""
        heard = []

        def hear(question, values):
            if isinstance(question, RaoBits):
                # not whether pairs can be tested, which hardly varies
                heard.append((question, values[: question.question.n_tests] > 0))

        asking = FedPC().ask(Facts(codes.shape[1], SITES, min_contributors=2))
        outcome = driven(asking, self.sites(codes), hear)
        return heard, outcome.arcs | outcome.arcs.T

    def moves(self, people: np.ndarray, sums) -> np.ndarray:
        """How far each row moves the scores of a site, shape (people, components)."""
        found = 0.0
        for _ in range(TABLES):
            others = self.sample(ROWS)
            before = sums.read(self.site(others).answer(sums)).scores
            with_each = (self.site(np.vstack([others, own])) for own in people)
            after = [sums.read(own.answer(sums)).scores for own in with_each]
            found = found + (np.array(after) - before) / TABLES
        return found


class Tests:
    """All tests of some runs, each once, as one question at the levels that were asked."""

    def __init__(self, runs: list[list]) -> None:
        heard = [question for run in runs for question, _ in run]
        self.levels = tuple(sorted({own.levels[0] for own in heard}, reverse=True))
        rows = {row for question in heard for row in _rows(question)}
        ordered = sorted(rows, key=lambda row: (len(row), row))
        self.place = {row: k for k, row in enumerate(ordered)}
        sizes = range(2, len(ordered[-1]) + 1)
        blocks = [np.array([row for row in ordered if len(row) == size]) for size in sizes]
        counts, members = pack_blocks(blocks)
        self.sums = msgspec.structs.replace(heard[0].question, counts=counts, members=members)
        self.bits = msgspec.structs.replace(
            heard[0], question=self.sums, levels=self.levels, able=0
        )
        self.pairs = blocks[0]
        self.owner = self.sums.owner

    def heard(self, run: list) -> tuple[np.ndarray, np.ndarray]:
        """Which bits of `bits` a run opened, and what they are."""
        places, bits = [], []
        for question, own in run:
            start = self.levels.index(question.levels[0]) * len(self.place)
            places += [start + self.place[row] for row in _rows(question)]
            bits += own.tolist()
        return np.array(places), np.array(bits)

    def of(self, sites: list) -> tuple[np.ndarray, np.ndarray]:
        """Bits, and the sums of scores, over these sites."""
        answers = [site.answer(self.sums) for site in sites]
        words = np.array([self.bits.words(own) for own in answers])
        return plain_verdicts(self.bits, words) > 0, self.sums.read(sum(answers)).scores


def _rows(question: RaoBits) -> list[tuple[int, ...]]:
    return [tuple(row) for block in question.question.rows() for row in block.tolist()]


def weights(moves: np.ndarray, bits: np.ndarray, scores: np.ndarray, owner) -> np.ndarray:
    """How far each bit leans towards each row's presence, shape (people, bits).

    Args:
        moves: How far a row moves each score, in deviations, shape (people, components).
        bits: Of the reference runs, shape (R, bits).
        scores: Likewise, in deviations, shape (R, components).
        owner: The bit of every component.
    """
    standard = (bits - bits.mean(axis=0)) / np.maximum(bits.std(axis=0), SMALLEST)
    follows = (standard[:, owner] * scores).mean(axis=0)
    follows[np.abs(follows) < CERTAIN / len(bits) ** 0.5] = 0.0
    starts = np.flatnonzero(np.r_[True, np.diff(owner) > 0])
    return np.add.reduceat(moves * follows, starts, axis=1)


def surprise(bits: np.ndarray, before: np.ndarray) -> np.ndarray:
    """How far bits are from their mean in deviations, by the reference runs, shape (R, bits)."""
    chance = (before.sum(axis=0) + 0.5) / (len(before) + 1.0)
    return (bits - chance) / np.sqrt(chance * (1.0 - chance))


def attacked(network, options) -> dict[str, dict[str, list[float]]]:
    """Areas under the curve by what is opened and whose rows, one per run."""
    rng = np.random.default_rng(options.seed)
    population = Population(network, rng)
    candidates = population.codes[:CANDIDATES]
    heard, _ = population.run(population.sample(SITES * ROWS))
    exposure = (population.moves(candidates, heard[0][0].question) ** 2).sum(axis=1)
    ranked, drawn = np.argsort(-exposure), rng.permutation(CANDIDATES)[:PEOPLE]
    groups = [drawn, *(ranked[: int(share * CANDIDATES)] for share in SHARES.values())]
    people = np.unique(np.concatenate(groups))
    whose = dict(zip(("all rows", *SHARES), (np.isin(people, own) for own in groups), strict=True))
    runs = []
    for _ in range(options.runs):
        inside = rng.permutation(len(people)) < INSIDE
        rows = np.vstack([candidates[people[inside]], population.sample(SITES * ROWS - INSIDE)])
        runs.append((inside, rows := rng.permutation(rows), *population.run(rows)))
    tests = Tests([heard for _, _, heard, _ in runs])
    print(len(tests.place), "tests", flush=True)
    samples = [population.sample(SITES * ROWS) for _ in range(options.references)]
    found = [tests.of(population.sites(own)) for own in samples]
    before, scores = (np.array(own) for own in zip(*found, strict=True))
    edges = np.array([population.run(own)[1][tuple(tests.pairs.T)] for own in samples])
    mean, deviation = scores.mean(axis=0), np.maximum(scores.std(axis=0), SMALLEST)
    scores = (scores - mean) / deviation
    moves = population.moves(candidates[people], tests.sums) / deviation
    moves -= moves[whose["all rows"]].mean(axis=0)
    count, simple = len(tests.place), tests.owner < len(tests.pairs)
    levels = np.split(before, before.shape[1] // count, axis=1)
    of_bits = np.hstack([weights(moves, own, scores, tests.owner) for own in levels])
    of_edges = weights(moves[:, simple], edges, scores[:, simple], tests.owner[simple])
    areas: dict[str, dict[str, list[float]]] = {}
    for inside, rows, heard, graph in runs:
        places, bits = tests.heard(heard)
        far, first = surprise(bits, before[:, places]), places < len(tests.pairs)
        sums = (tests.of(population.sites(rows))[1] - mean) / deviation
        opened = {
            "bits given nothing": (of_bits[:, places[first]], far[first]),
            "all bits of the run": (of_bits[:, places], far),
            "the final graph": (of_edges, surprise(graph[tuple(tests.pairs.T)], edges)),
            "sums given nothing": (moves[:, simple], sums[simple]),
        }
        for name, (leans, values) in opened.items():
            looks = leans @ values / np.maximum(np.linalg.norm(leans, axis=1), SMALLEST)
            for group, own in whose.items():
                found = areas.setdefault(name, {}).setdefault(group, [])
                if inside[own].any():
                    found.append(area(looks[own], inside[own]))
    return areas


def area(looks: np.ndarray, inside: np.ndarray) -> float:
    """The area under the curve; ties count one half."""
    members, others = looks[inside][:, None], looks[~inside]
    return float((members > others).mean() + 0.5 * (members == others).mean())


def markdown(report: dict) -> str:
    """A row for everything that is opened."""
    groups = ("all rows", *SHARES)
    rows = [
        [name, *(shown(own[group]) for group in groups)] for name, own in report["areas"].items()
    ]
    return "\n".join(table(["opened", *groups], rows)) + "\n"


def shown(areas: list[float]) -> str:
    error = statistics.stdev(areas) / len(areas) ** 0.5
    return f"{statistics.mean(areas):.3f} ± {error:.3f}"


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("network", type=Path)
    options.add_argument("--runs", type=int, default=40)
    options.add_argument("--references", type=int, default=300)
    options = options.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    areas = attacked(read_bif(options.network), options)
    about = {"sites": SITES, "rows": ROWS, "runs": options.runs, "references": options.references}
    report = {**about, "seed": options.seed, "areas": areas}
    print(markdown(report))
    write_report(options.out, "membership", report, markdown)


if __name__ == "__main__":
    main()
