"""The membership attack finds members where their rows are in sums, and nobody in noise."""

from __future__ import annotations

import numpy as np
import pytest
from membership import ROWS, SITES, Attacker, Population, Told, Way, area
from verdicts import heard

from cipherdag import Federation, FedPC
from cipherdag.graphs.networks import asia
from cipherdag.questions.lockstep import split_parts
from cipherdag.sites.policy.policy import Policy

FEATURES, MEMBERS = 600, 300
WAYS = [
    Way("vote", "sums"),
    Way("vote", "bits"),
    *(Way(own, "sums", 0) for own in ("stratified", "pooled")),
]


def planted(place, tell, seed=0):
    """Areas of both attacks on sums of independent features of rows, as ``tell`` shows them."""
    rng = np.random.default_rng(seed)
    people = rng.normal(size=(80, FEATURES))

    def told(rows):
        others = rng.normal(size=(MEMBERS - len(rows), FEATURES))
        return Told({place: tell(rows.sum(axis=0) + others.sum(axis=0))}, {})

    runs = [told(people[:0]) for _ in range(60)]
    lean = np.full(FEATURES, -1.0 if place == "verdicts" else 1.0)
    attacker = Attacker.of(runs, rng.normal(size=(200, FEATURES)), lean)
    found = []
    for _ in range(20):
        inside = rng.permutation(80) < 40
        scores = attacker.scores(told(people[inside]), people)
        found.append([area(own, inside) for own in scores])
    return np.mean(found, axis=0)


def test_it_is_as_good_as_theory_says_of_sums_worse_of_bits_and_guesses_of_noise():
    # scores of members lie sqrt(K / n) deviations above those of others
    sums = planted("sums 0", lambda total: total)
    bits = planted("verdicts", lambda total: (total < 3.0).astype(float))
    rng = np.random.default_rng(9)
    noise = planted("sums 0", lambda total: rng.normal(size=FEATURES))
    assert np.abs(sums - 0.84).max() < 0.04
    assert (bits < sums - 0.03).all()
    assert (bits > 0.7).all()
    assert np.abs(noise - 0.5).max() < 0.04


def test_ties_count_one_half():
    truth = np.array([True, True, False, False])
    assert area(np.array([1.0, 0.0, 0.0, 0.0]), truth) == 0.75
    assert area(np.zeros(4), truth) == 0.5


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.evidence}, {way.reveal}")
def test_what_is_attacked_is_what_a_run_opens(way):
    rows = asia().sample(SITES * ROWS, np.random.default_rng(2))
    parts = np.array_split(np.arange(len(rows)), SITES)
    federation = Federation.simulate(
        {name: rows.iloc[own] for name, own in zip("abc", parts, strict=True)},
        device="cpu",
        policy=Policy(min_cell_size=0),
    )
    codes = np.concatenate([site.table.codes for site in federation.sites])
    population = Population(federation.sites[0].table, codes[:0], np.random.default_rng(0))
    simulated = population.first_layer(codes, way)
    algorithm = FedPC(
        evidence=way.evidence, reveal=way.reveal, max_cond_size=0, compare_sites=False
    )
    told = Told({}, {})
    for question, values in heard(federation, algorithm):
        for part, own in split_parts(question, values):
            told.hear(part, own)
    assert told.values.keys() == simulated.values.keys()
    for place, own in told.values.items():
        np.testing.assert_array_equal(own, simulated.values[place])
    assert len(told.numbers) == len(told.most) == len(population.leans(simulated))


def test_a_row_adds_one_to_its_own_cell_of_every_table():
    population = Population.of(asia(), 4000, 20, np.random.default_rng(4))
    told = population.first_layer(population.sample(SITES * ROWS), Way("pooled", "sums", 0))
    moves = population.contributions(population.people, told)
    sizes = population.table.cardinalities
    single = np.hstack([
        population.people[:, [column]] == np.arange(size) for column, size in enumerate(sizes)
    ])  # fmt: skip
    np.testing.assert_array_equal(moves[:, : sum(sizes)], single)
    assert set(np.unique(moves)) == {0.0, 1.0}
