"""No site's table follows from what RFcd opens where small counts are restricted.

The attack: one site has most rows, so that it is the worst for every graph. The coordinator alone,
who knows how many rows it has, looks for the whole numbers that have the opened regrets. Of exact
regrets there is one solution, cells of ten rows and fewer included.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from driving import drive

from cipherdag import Federation, RFcd, Schema
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.searches import WorstGraphRegret
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.regrets import FamilyRegrets, ScoreSpec, pack_families
from cipherdag.questions.scores.likelihoods import COARSE_BITS, LogLikelihoods
from cipherdag.sites.answers.regret_answers import LOGLIK_NOISE_NATS, likelihood_noise, table_scores
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.scores.scores import PENALTY_BITS
from cipherdag.sites.table.column import Column

ROWS = {"a": 120, "b": 300, "c": 130}
LARGE = "b"
LEAST = 11
COARSE = 2.0**-COARSE_BITS
FINE = 2.0 ** -RFcd().searching.grid_bits
MOVES = 3
"""How many likelihoods every number below is made of."""


def patients(rows, pull, rng):
    x = rng.random(rows) < 0.35
    y = rng.random(rows) < np.where(x, 0.25 + pull, 0.2)
    z = rng.random(rows) < np.where(x | y, 0.12 + pull / 2, 0.06)
    return pd.DataFrame({"x": x, "y": y, "z": z}).astype(int)


def site_tables(seed):
    rng = np.random.default_rng(seed)
    sites = {name: patients(n, 0.45 if name == LARGE else 0.3, rng) for name, n in ROWS.items()}
    federation = Federation.simulate(sites, device="cpu")
    return [site.table for site in federation.sites]


def opened(tables, least, monkeypatch):
    """The exact worst-case regrets that a default run opens, by graph, in nats."""
    found = {}
    best = WorstGraphRegret.best

    def watching(self, graphs, **settings):
        values = yield from best(self, graphs, **settings)
        found.update({own.dag: own.value * FINE for own in values})
        return values

    with monkeypatch.context() as patch:
        patch.setattr(WorstGraphRegret, "best", watching)
        sites = [SiteView.of_table(own, min_cell_size=least, device="cpu") for own in tables]
        drive(RFcd().ask(Facts(3, 3)), sites)
    return found


def gains(regrets):
    """What one edge of each pair gains, and a collider by its child, in nats."""
    empty = regrets[0, 0, 0]
    edges = {}
    for x, y in itertools.combinations(range(3), 2):
        graphs = (tuple(1 << u if v == w else 0 for v in range(3)) for u, w in ((x, y), (y, x)))
        told = [regrets[dag] for dag in graphs if dag in regrets]
        if told:
            edges[x, y] = empty - told[0]
    colliders = {
        v: empty - told
        for dag, told in regrets.items()
        for v in range(3)
        if dag[v].bit_count() == 2 and sum(dag) == dag[v]
    }
    return edges, colliders


def n_ln_n(counts):
    return counts * np.log(np.maximum(counts, 1))


def pair_gains(a, b, both, rows, penalty):
    """Log likelihood that an edge gains, less its parameter, by margins and the cell of both."""
    cells = (both, a - both, b - both, rows - a - b + both)
    margins = (a, rows - a, b, rows - b)
    lost = sum(n_ln_n(own) for own in margins)
    return sum(n_ln_n(own) for own in cells) - lost + n_ln_n(rows) - penalty


def fitting_pairs(told, within, rows, penalty):
    """Which (a, b, both) have this gain; a and b are the rarer category of each."""
    found = []
    for a in range(1, rows // 2 + 1):
        b, both = np.meshgrid(np.arange(1, rows // 2 + 1), np.arange(a + 1), indexing="ij")
        kept = both <= b
        b, both = b[kept], both[kept]
        fits = np.abs(pair_gains(a, b, both, rows, penalty) - told) <= within
        found.append(np.column_stack([np.full(fits.sum(), a), b[fits], both[fits]]))
    return np.concatenate(found)


def fitting_tables(pairs, colliders, within, rows, penalty):
    """Which tables of three have these pairs and the colliders' gains; cells from 000 to 111."""
    by_xz, by_yz = {}, {}
    for a, c, both in pairs[0, 2].tolist():
        by_xz.setdefault(a, []).append((c, both))
    for b, c, both in pairs[1, 2].tolist():
        by_yz.setdefault((b, c), []).append(both)
    found = []
    for a, b, xy in pairs[0, 1].tolist():
        for c, xz in by_xz.get(a, ()):
            for yz in by_yz.get((b, c), ()):
                all_three = np.arange(min(xy, xz, yz) + 1)
                cells = of_margins((a, b, c), (xy, xz, yz), all_three, rows)
                cells = cells[(cells >= 0).all(axis=1)]
                found.append(cells[fits_colliders(cells, colliders, within, penalty)])
    return np.concatenate([np.zeros((0, 8), dtype=int), *found])


def of_margins(one, two, three, rows):
    (a, b, c), (xy, xz, yz), t = one, two, three
    rest = rows - a - b - c + xy + xz + yz - t
    cells = (rest, c - xz - yz + t, b - xy - yz + t, yz - t, a - xy - xz + t, xz - t, xy - t, t)
    return np.column_stack(np.broadcast_arrays(*cells))


def fits_colliders(cells, colliders, within, penalty):
    """Whether tables, shape (K, 8), have these gains of colliders."""
    cube = cells.reshape(-1, 2, 2, 2)
    fits = np.ones(len(cells), dtype=bool)
    for v, told in colliders.items():
        own = cube.sum(axis=tuple(1 + u for u in range(3) if u != v))
        others = cube.sum(axis=1 + v).reshape(-1, 4)
        gain = n_ln_n(cells).sum(axis=1) - n_ln_n(own).sum(axis=1) - n_ln_n(others).sum(axis=1)
        gain += n_ln_n(cells.sum(axis=1)) - 3 * penalty
        fits &= np.abs(gain - told) <= within
    return fits


def true_cells(table):
    return np.bincount(table.codes @ [4, 2, 1], minlength=8)


@pytest.mark.parametrize("seed", [11, 13])
def test_exact_regrets_have_one_solution_the_table_of_one_site(seed, monkeypatch):
    tables = site_tables(seed)
    edges, colliders = gains(opened(tables, 0, monkeypatch))
    rows, true = ROWS[LARGE], true_cells(tables[1])
    assert true.min() < LEAST
    penalty, within = math.log(rows) / 2, 1.05 * FINE
    pairs = {pair: fitting_pairs(told, within, rows, penalty) for pair, told in edges.items()}
    assert fitting_tables(pairs, colliders, within, rows, penalty).tolist() == [true.tolist()]


@pytest.mark.parametrize("seed", [11, 13])
def test_regrets_by_default_fit_thousands_of_tables_and_none_near(seed, monkeypatch):
    tables = site_tables(seed)
    edges, colliders = gains(opened(tables, LEAST, monkeypatch))
    rows, true = ROWS[LARGE], true_cells(tables[1])
    penalty = round(math.log(rows) / 2 * 2**PENALTY_BITS) / 2**PENALTY_BITS
    pairs = {pair: fitting_pairs(told, COARSE, rows, penalty) for pair, told in edges.items()}
    assert true.tolist() not in fitting_tables(pairs, colliders, COARSE, rows, penalty).tolist()
    # tables of up to three rows more or less in a cell, and what a site may have moved and rounded
    within = MOVES * LOGLIK_NOISE_NATS + COARSE
    steps = np.array(list(itertools.product(range(-3, 4), repeat=7)))
    cells = true + np.column_stack([steps, -steps.sum(axis=1)])
    cells = cells[(cells >= 0).all(axis=1)]
    fits = fits_colliders(cells, colliders, within, penalty)
    cube = cells.reshape(-1, 2, 2, 2)
    for (x, y), told in edges.items():
        a, b = (cube.take(1, axis=1 + v).sum(axis=(1, 2)) for v in (x, y))
        both = cube.take(1, axis=1 + y).take(1, axis=1 + x).sum(axis=1)
        fits &= np.abs(pair_gains(a, b, both, rows, penalty) - told) <= within
        assert len(fitting_pairs(told, within, rows, penalty)) > 10_000
    assert fits[(cells == true).all(axis=1)].all()
    assert fits.sum() > 10_000
    assert (np.ptp(cells[fits][:, :7], axis=0) == 6).all()


def scores_of(table, score="bic", least=LEAST):
    pool = SiteView(table.codes, table.values, table.cardinalities, min_cell_size=least)
    spec, blur = ScoreSpec(score=score), pool.cell_keys if least > 1 else None
    scores = table_scores(table, spec, device="cpu", min_cell_size=least, cell_keys=blur)
    return scores, pool


def table_of(columns, schema=None):
    frames = {name: pd.DataFrame(columns) for name in "abc"}
    return Federation.simulate(frames, schema=schema, device="cpu").sites[0].table


def words(codes):
    return np.where(codes, "yes", "no")


@pytest.mark.parametrize("kind", ["categories", "numbers"])
def test_equal_splits_and_equivalent_graphs_have_one_score(kind):
    """Noise follows from a set's likelihood, so that no run has a second equation of it."""
    rng = np.random.default_rng(3)
    first = rng.random(400) < 0.4
    columns = [first, rng.random(400) < 0.2 + 0.5 * first, rng.random(400) < 0.3 + 0.3 * first]
    made = {f"v{k}": words(own) for k, own in enumerate(columns)}
    if kind == "numbers":
        made = {f"v{k}": own + rng.normal(size=400) for k, own in enumerate(columns)}
    table = table_of(made)
    scores, pool = scores_of(table)
    sets = [own for size in (1, 2, 3) for own in itertools.combinations(range(3), size)]
    blocks = [np.array([own for own in sets if len(own) == size]) for size in (1, 2, 3)]
    counts, members = pack_blocks(blocks)
    question = LogLikelihoods(n_variables=3, counts=counts, members=members, discount=0)
    told = SiteView(table.codes, table.values, table.cardinalities).answer(question)
    told = told + likelihood_noise(pool.cell_keys, b"likelihood", told)
    moved = {frozenset(): 0.0} | {frozenset(own): n for own, n in zip(sets, told, strict=True)}
    rate = round(math.log(400) / 2 * 2**PENALTY_BITS) / 2**PENALTY_BITS
    for v in range(3):
        for parents in sets:
            if v in parents:
                continue
            free = len(parents) if kind == "numbers" else 2 ** len(parents)
            expected = moved[frozenset(parents)] - moved[frozenset({*parents, v})] + rate * free
            got = scores.of((v, sum(1 << u for u in parents)))
            assert got == pytest.approx(expected, abs=1e-6)
    forwards, backwards = (0, 0b1, 0b10), (0b10, 0b100, 0)
    assert scores.total(forwards) == pytest.approx(scores.total(backwards), abs=1e-9)


def test_of_a_category_of_few_rows_nothing_is_told():
    rng = np.random.default_rng(5)
    few = np.zeros(300, dtype=bool)
    few[:7] = True
    table = table_of({"few": words(few), "like": words(few ^ (rng.random(300) < 0.02))})
    free, _ = scores_of(table, least=0)
    assert free.of((0, 0)) > 20 * LOGLIK_NOISE_NATS
    scores, _ = scores_of(table)
    assert abs(scores.of((0, 0)) - scores.of((0, 0b10))) <= MOVES * LOGLIK_NOISE_NATS + math.log(
        300
    )


@pytest.mark.parametrize("score", ["bic", "mdl"])
def test_numbers_are_perturbed_and_sets_of_equal_splits_are_one(score):
    """Columns that are told as numbers may be 0 and 1."""
    rng = np.random.default_rng(7)
    x = (rng.random(300) < 0.3).astype(float)
    y = np.where(rng.random(300) < 0.15, 1.0 - x, x)
    columns = {"x": x, "y": y, "z": x, "w": rng.normal(size=300)}
    schema = Schema(tuple(Column(name, "continuous") for name in sorted(columns)))
    table = table_of(columns, schema)
    free, moved = (scores_of(table, score, least)[0] for least in (0, LEAST))
    w, x, y, z = range(4)
    families = [(y, 1 << x), (y, 1 << z), (w, 1 << x), (x, 0)]
    change = moved.evaluate(families) - free.evaluate(families)
    assert np.abs(change).min() > 1e-4
    assert np.abs(change).max() <= 2 * LOGLIK_NOISE_NATS / math.log(2)
    assert change[0] == pytest.approx(change[1], abs=1e-9)
    assert len(np.unique(change.round(6))) == 3


@pytest.mark.parametrize("least", [0, LEAST])
def test_regrets_put_a_site_with_small_counts_on_a_grid_of_sixteenths(least):
    table = site_tables(11)[1]
    asked = FamilyRegrets(
        n_variables=3,
        spec=ScoreSpec(),
        families=pack_families([(0, 0), (1, 0), (1, 0b1), (2, 0b11)], 3),
        grid_bits=10,
    )
    told = SiteView.of_table(table, min_cell_size=least, device="cpu").answer(asked)
    assert (told != 0.0).any()
    assert (told % FINE == 0.0).all()
    assert (told % COARSE == 0.0).all() == (least > 1)
