"""Who was a member? By an attacker who knows the population and a person's row, and no other row.

The attack of the literature on sums that are opened (Homer et al., PLoS Genetics 4 (2008) e1000167;
Dwork et al., FOCS 2015, "Robust traceability from trace amounts"): every opened number less what it
is expected to be, by samples of the population of the same size, times the row's own contribution
to it less the mean one, both in standard deviations, and all of it added up. A row that was there
has moved the numbers its own way. Of a bit the expectation is its probability, and the contribution
that to the sum which was compared: to the statistic of a vote, or to the difference of a cell.

A row's contribution to a number is by how much it moves the answer of a site, on average over
samples of a site's size.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from cipherdag.questions.stratified import StratifiedTables, TableCells
from markdown_table import table
from plain_runs import plain_verdicts
from scipy.stats import norm

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.coverage import Covered
from cipherdag.questions.encodings import pack_blocks, unpack_integers
from cipherdag.questions.lockstep import split_parts
from cipherdag.questions.pooled_data import Tables
from cipherdag.questions.question import finds_verdicts
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.verdicts import CellVerdicts, EdgeVerdicts
from cipherdag.sites.answers.table_respondent import table_respondent

if TYPE_CHECKING:
    from cipherdag.graphs.networks import DiscreteNetwork
    from cipherdag.questions.question import Question
    from cipherdag.sites.answers.respondent import Respondent
    from cipherdag.sites.table.site_table import SiteTable

SITES, ROWS = 3, 500
POPULATION = 60_000
PEOPLE = 100
"""Rows whose membership is asked; half of them, drawn anew, are members of each run."""
REFERENCES = 100
"""Runs over samples of the population that the attacker makes itself."""
SAMPLES, TRIALS = 8, 12
"""Samples of people, and runs for each of them."""
OTHERS = 500
"""Rows whose contributions it knows, by which it sees how numbers go together."""
TABLES = 2
"""Samples of a site's size over which a row's contribution is averaged."""
LEAST = 0.5
"""Added to bits of either kind that reference runs tell, so that none is certain."""
LIMIT = 2.5
"""About how many deviations a cell's limit lies from 0."""
RIDGE = 1.0
"""Noise that the attacker reckons with beside what rows contribute; it makes most of it then."""
SMALLEST = 1e-9
REVEALED = ("sums", "verdicts")
ATTACKS = {"single": "AUC", "together": "AUC, weighed together"}


@dataclass(frozen=True, slots=True)
class Way:
    """A run whose first layer is attacked; ``smallest`` is the sites' ``min_cell_size``."""

    evidence: str
    reveal: str
    smallest: int = Policy().min_cell_size


WAYS = (
    Way("vote", "sums"),
    Way("vote", "verdicts"),
    Way("stratified", "sums"),
    Way("stratified", "verdicts"),
    Way("pooled", "sums", smallest=0),
)


@dataclass(slots=True)
class Told:
    """What the first layer of a run tells, by what it is of.

    Attributes:
        values: Numbers, NaN where nothing is told.
        questions: The questions to whose answers a row contributes.
    """

    values: dict[str, np.ndarray]
    questions: dict[str, Question]

    @property
    def numbers(self) -> np.ndarray:
        """All of them, shape (K,)."""
        return np.concatenate(list(self.values.values()))

    @property
    def most(self) -> np.ndarray:
        """Of how many bits each number is the sum; 0 of other sums."""
        kinds = {"votes": SITES, "verdicts": 1, "cells": 1}
        sizes = {place: len(own) for place, own in self.values.items()}
        return np.concatenate([np.full(n, kinds.get(p, 0.0)) for p, n in sizes.items()])

    def hear(self, part: Question, values: np.ndarray) -> None:
        """Add what one part of a round tells."""
        inner = part.question if isinstance(part, Covered) else part
        if isinstance(inner, EdgeVerdicts):
            self._add("verdicts", inner.question, values)
        elif isinstance(inner, EdgeVotes):
            self._add("votes", inner, np.split(values, 2)[0])
        elif isinstance(inner, CellVerdicts):
            whole = np.full(len(inner.question.owner), np.nan)
            whole[unpack_integers(inner.cells, (len(values),))] = 1.0 - values
            self._add("cells", inner.question, whole)
        elif isinstance(inner, StratifiedTables | TableCells | Tables):
            self._add(f"sums {len(self.values)}", inner, values)

    def _add(self, place: str, question: Question, values: np.ndarray) -> None:
        self.values[place], self.questions[place] = values, question


@dataclass(frozen=True, slots=True)
class Population:
    """Many rows of a network as codes, from which sites, references and people are drawn."""

    table: SiteTable
    people: np.ndarray
    rng: np.random.Generator

    @classmethod
    def of(
        cls, network: DiscreteNetwork, rows: int, people: int, rng: np.random.Generator
    ) -> Population:
        """So many rows of a network, the first of which are the people."""
        parts = Federation.split(network.sample(rows, rng), SITES, device="cpu").sites
        codes = np.concatenate([site.table.codes for site in parts])
        return cls(replace(parts[0].table, codes=codes, rows=rows), codes[:people], rng)

    def sample(self, rows: int) -> np.ndarray:
        """Codes of rows drawn anew, and none of the people's, shape (rows, p)."""
        apart = len(self.people)
        drawn = self.rng.choice(self.table.rows - apart, rows, replace=False)
        return self.table.codes[apart + drawn]

    def site(self, codes: np.ndarray, smallest: int = 0) -> Respondent:
        """A site with these rows."""
        own = replace(self.table, codes=codes, rows=len(codes))
        return table_respondent(own, min_cell_size=smallest, device="cpu")

    def first_layer(self, codes: np.ndarray, way: Way) -> Told:
        """What a run over sites with these rows tells of the tests given nothing."""
        sites = [self.site(own, way.smallest) for own in np.array_split(codes, SITES)]
        run = FedPC(evidence=way.evidence, reveal=way.reveal, max_cond_size=0, compare_sites=False)
        asking, told = run.ask(Facts(len(self.table.names), SITES, fewest=SITES)), Told({}, {})
        try:
            question = next(asking)
            while not {"votes", "verdicts"} & set(told.values):  # separating sets come next
                values = opened(question, [site.answer(question) for site in sites])
                for part, own in split_parts(question, values):
                    told.hear(part, own)
                question = asking.send(values)
        except StopIteration:
            pass
        return told

    def contributions(self, people: np.ndarray, told: Told) -> np.ndarray:
        """By how much each person's row moves each number told, shape (people, numbers)."""
        questions = {place: moved(own) for place, own in told.questions.items()}
        found = dict.fromkeys(questions, 0.0)
        for _ in range(TABLES):
            others = self.sample(ROWS)
            before = self.site(others)
            after = [self.site(np.vstack([others, own])) for own in people]
            for place, question in questions.items():
                length = len(told.values[place])
                moves = np.array([site.answer(question)[:length] for site in after])
                found[place] += (moves - before.answer(question)[:length]) / TABLES
        return np.hstack([found[place] for place in told.values])

    def leans(self, told: Told) -> np.ndarray:
        """Which way, and how surely, a number goes where what a row contributes to goes up.

        Verdicts say that votes are few, that a score is not above its limit, or that a cell lies
        within its limit on either side: where its difference is expected to be near 0, it may leave
        it on either.
        """
        found = []
        for place, own in told.values.items():
            lean = np.full(len(own), -1.0 if place == "verdicts" else 1.0)
            if place == "cells":
                site = self.site(self.sample(self.table.rows // 2))
                differences, variances = np.split(
                    site.answer(told.questions[place])[: 2 * len(own)], 2
                )
                scale = SITES * ROWS / (self.table.rows // 2) / np.maximum(variances, SMALLEST)
                both = -np.tanh(LIMIT * differences * np.sqrt(scale))
                lean = np.where(told.questions[place].one_sided, -1.0, both)
            found.append(lean)
        return np.concatenate(found)


def opened(question: Question, answers: list[np.ndarray]) -> np.ndarray:
    """The sums of the sites' answers on their grids, or the verdicts on them."""
    if finds_verdicts(question):
        return plain_verdicts(question, np.array(answers))
    bits = np.concatenate([np.full(own.length, own.resolution_bits) for own in question.encodings])
    total = np.ldexp(sum(np.rint(np.ldexp(own, bits)) for own in answers), -bits)
    compared = np.concatenate([np.full(own.length, own.comparison) for own in question.encodings])
    return np.where(compared, total > 0.0, total)


def moved(question: Question) -> Question:
    """The question whose answers a row moves by a little: of votes, G2 of what is voted on."""
    if not isinstance(question, EdgeVotes):
        return question
    counts, members = pack_blocks([question.skeleton.edges()])
    return CombinedEvidence(
        n_variables=question.skeleton.n_variables,
        test=msgspec.structs.replace(question.test, name="g2", min_rows_per_cell=0.0),
        combination="statistic",
        counts=counts,
        members=members,
    )


@dataclass(frozen=True, slots=True)
class Attacker:
    """Who knows what runs over samples of the population tell, and what rows contribute to it.

    Attributes:
        mean: Of every number, shape (K,).
        spread: Its standard deviation.
        gain: How much of a sum's deviation a bit of it tells, by a normal approximation, and which
            way; of sums 1.
        centre: Mean contribution of a row.
        unit: Standard deviation of contributions.
        others: Contributions of rows of the population, standardised, times gains, shape (M, K).
        gram: Inverse of what `together` divides by, shape (M, M).
    """

    mean: np.ndarray
    spread: np.ndarray
    gain: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    others: np.ndarray
    gram: np.ndarray

    @classmethod
    def of(cls, runs: list[Told], moves: np.ndarray, leans: np.ndarray) -> Attacker:
        """From what runs tell, contributions of rows, shape (M, K), and `Population.leans`."""
        told, most = np.array([own.numbers for own in runs]), runs[0].most
        known, total = (~np.isnan(told)).sum(axis=0), np.nansum(told, axis=0)
        share = (total / np.maximum(most, 1.0) + LEAST) / (known + 2.0 * LEAST)
        share = np.where(most > 0, share, 0.5)
        mean = np.where(most > 0, most * share, total / np.maximum(known, 1))
        scatter = np.nansum((told - mean) ** 2, axis=0) / np.maximum(known - 1, 1)
        spread = np.sqrt(np.where(most > 0, most * share * (1.0 - share), scatter))
        gain = norm.pdf(norm.ppf(share)) / np.sqrt(share * (1.0 - share))
        gain = leans * np.where(most > 0, gain, 1.0)
        centre, unit = moves.mean(axis=0), moves.std(axis=0)
        unit = np.where(unit > SMALLEST, unit, np.inf)  # what all rows move alike tells nothing
        others = gain * (moves - centre) / unit
        gram = len(others) * np.eye(len(others)) + others / _noise(gain) @ others.T
        spread = np.where(spread > SMALLEST, spread, np.inf)
        return cls(mean, spread, gain, centre, unit, others, np.linalg.inv(gram))

    def scores(self, told: Told, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How much people look like members, number by number and all numbers together.

        Together the numbers are weighed by the inverse of their covariance, which is that of rows'
        contributions and noise beside it.
        """
        left = np.nan_to_num((told.numbers - self.mean) / self.spread)
        own = self.gain * (moves - self.centre) / self.unit
        weighed = own / _noise(self.gain)
        explained = self.gram @ (self.others / _noise(self.gain) @ left)
        return own @ left, weighed @ left - weighed @ self.others.T @ explained


def _noise(gain: np.ndarray) -> np.ndarray:
    """Variance of a number that rows' contributions do not explain, and a ridge."""
    return 1.0 - gain**2 + RIDGE


def area(scores: np.ndarray, truth: np.ndarray) -> float:
    """The area under the curve; ties count one half."""
    inside, outside = scores[truth], scores[~truth]
    above = (inside[:, None] > outside).mean()
    return float(above + 0.5 * (inside[:, None] == outside).mean())


def attacked(population: Population, way: Way, samples: int, trials: int) -> dict[str, object]:
    """Areas under the curve of both attacks, for every sample of people the mean over trials."""
    rng, rows = population.rng, SITES * ROWS
    runs = [population.first_layer(population.sample(rows), way) for _ in range(REFERENCES)]
    moves = population.contributions(population.sample(OTHERS), runs[0])
    attacker = Attacker.of(runs, moves, population.leans(runs[0]))
    areas = []
    for people in np.split(population.people, samples):
        moves, found = population.contributions(people, runs[0]), []
        for _ in range(trials):
            inside = rng.permutation(PEOPLE) < PEOPLE // 2
            present = np.vstack([people[inside], population.sample(rows - int(inside.sum()))])
            told = population.first_layer(rng.permutation(present), way)
            found.append([area(own, inside) for own in attacker.scores(told, moves)])
        areas.append(np.mean(found, axis=0).tolist())
    single, together = zip(*areas, strict=True)
    return asdict(way) | {"single": list(single), "together": list(together)}


def population_attacks(network: DiscreteNetwork, seed: int) -> list[dict[str, object]]:
    """A case for every way; each with the same people."""
    cases = []
    for way in WAYS:
        rng = np.random.default_rng(seed)
        population = Population.of(network, POPULATION, SAMPLES * PEOPLE, rng)
        cases.append(attacked(population, way, SAMPLES, TRIALS))
    return cases


def population_table(cases: list[dict]) -> list[str]:
    """A row for every kind of evidence, sums and verdicts side by side."""
    rows = []
    for evidence in dict.fromkeys(case["evidence"] for case in cases):
        own = {case["reveal"]: case for case in cases if case["evidence"] == evidence}
        counts = "" if own["sums"]["smallest"] else ", all counts allowed"
        told = [
            _spread(own[kind][by]) if kind in own else "" for by in ATTACKS for kind in REVEALED
        ]
        rows.append([evidence + counts, *told])
    heads = [f"{said}, {kind}" for said in ATTACKS.values() for kind in REVEALED]
    return table(["first layer", *heads], rows)


def _spread(areas: list[float]) -> str:
    error = statistics.stdev(areas) / len(areas) ** 0.5
    return f"{statistics.mean(areas):.3f} ± {error:.3f}"
