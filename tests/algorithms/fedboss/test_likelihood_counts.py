"""No site's counts follow from the likelihoods that FedBOSS opens where small ones are restricted.

The attack: whoever knows how many rows each site has looks for the whole numbers that have the
opened sums. Of exact sums there is one solution.
"""

import itertools

import numpy as np
import pytest
from driving import drive

from cipherdag import FedBOSS
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedboss.set_sources import DISCOUNT
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.question import Bundle
from cipherdag.questions.scores.likelihoods import COARSE_BITS, LogLikelihoods
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.models.set_likelihoods import (
    LOGLIK_NOISE_NATS,
    SetLikelihoods,
    of_tables,
)
from cipherdag.sites.compute.rows import Rows

ROWS = (230, 310, 260)
LEVELS = (2, 2, 2, 2)
RARE = 2
SINGLES = np.arange(4)[:, None]
ROUNDED = 2.0 ** -(COARSE_BITS + 1)
"""By which a site's number on the grid differs from its own at most."""


def site(rows, seed, rare=0.015):
    """Codes of four columns, of which one is rare."""
    rng = np.random.default_rng(seed)
    first = rng.random(rows) < 0.35
    second = rng.random(rows) < 0.1 + 0.5 * first
    third = rng.random(rows) < rare
    fourth = rng.random(rows) < 0.3 + 0.4 * second
    return np.column_stack([first, second, third, fourth]).astype(np.int32)


SITES = [site(rows, seed) for rows, seed in zip(ROWS, (5, 2, 3), strict=True)]


def asked(*blocks, discount=DISCOUNT):
    counts, members = pack_blocks(blocks)
    return LogLikelihoods(n_variables=4, counts=counts, members=members, discount=discount)


class Listening:
    """A site that keeps what it tells of single columns, as it is encoded."""

    def __init__(self, data):
        self.data, self.told = data, []

    def answer(self, question):
        if isinstance(question, Bundle):
            return np.concatenate([self.answer(part) for part in question.parts])
        found = self.data.answer(question)
        if isinstance(question, LogLikelihoods):
            bits = question.encodings[0].resolution_bits
            found = np.rint(np.ldexp(found, bits)) / 2.0**bits
            self.told.append((question, found))
        return found


def opened(sites, min_cell_size):
    """The sums of the single columns that a run opens."""
    sites = [
        Listening(SiteView(codes, None, LEVELS, min_cell_size=min_cell_size)) for codes in sites
    ]
    algorithm = FedBOSS(reveal="sums")
    drive(algorithm.ask(Facts(4, 3, names=tuple("abcd"), seed=0)), sites)
    question, _ = sites[0].told[0]
    assert question.sets()[0].tolist() == SINGLES.tolist()
    return sum(own.told[0][1][:4] for own in sites)


def exact(codes, sets=(SINGLES,), discount=DISCOUNT):
    """What a site's rows say, neither moved nor joined."""
    whole = SetLikelihoods(Rows(codes, None, np.array(LEVELS)), PROCESSOR)
    return whole.answer(sets, discount)


def of_counts(rows):
    """The number of a column of two categories by how many rows have the rarer one."""
    few = np.arange(rows // 2 + 1)
    tables = np.column_stack([few, rows - few]).ravel()
    return of_tables(tables, np.full(len(few), 2), DISCOUNT)


def fitting(total, within):
    """Which counts (A, B, C) of the rarer category have this sum, shape (solutions, 3)."""
    first, second, third = (of_counts(rows) for rows in ROWS)
    sums = np.add.outer(np.add.outer(first, second), third)
    return np.argwhere(np.abs(sums - total) <= within)


def rarer(codes):
    counts = codes.sum(axis=0)
    return np.minimum(counts, len(codes) - counts)


TRUE = np.array([rarer(codes) for codes in SITES])


def test_exact_sums_have_one_solution_which_is_every_sites_counts():
    total = sum(map(exact, SITES))
    for column in range(4):
        assert fitting(total[column], 1e-9).tolist() == [TRUE[:, column].tolist()]


def test_opened_numbers_fit_thousands_of_counts_and_mislead():
    assert (TRUE[:, RARE] < 11).all()
    total = opened(SITES, 11)
    for column in (0, 1, 3):
        # what honest sites may have moved, and rounded
        fits = fitting(total[column], len(SITES) * (LOGLIK_NOISE_NATS + ROUNDED))
        assert TRUE[:, column].tolist() in fits.tolist()
        assert len(fits) > 10_000
        nearest = fitting(total[column], len(SITES) * ROUNDED)
        assert TRUE[:, column].tolist() not in nearest.tolist()
        # whichever count is guessed of one site, others make up for it
        for place in range(3):
            assert np.ptp(fits[:, place]) > 20


def test_of_a_category_that_few_rows_of_a_site_have_nothing_is_told():
    """Also where no other site has it, and that is known."""
    alone = [codes.copy() for codes in SITES]
    for codes in alone[1:]:
        codes[:, RARE] = 0
    few = of_counts(ROWS[0])[:11]
    true = int(alone[0][:, RARE].sum())
    assert 0 < true < 11
    free = opened(alone, 0)[RARE]
    assert np.flatnonzero(np.abs(few - free) <= 3 * ROUNDED).tolist() == [true]
    # all three are moved from 0, as of a column that never varies
    assert abs(opened(alone, 11)[RARE]) <= 3 * (LOGLIK_NOISE_NATS + ROUNDED)
    assert abs(few[true]) > 3 * (LOGLIK_NOISE_NATS + ROUNDED)


def pooled(codes, **settings):
    return SiteView(codes, None, LEVELS, min_cell_size=11, **settings)


def test_asking_again_or_in_another_order_tells_nothing_more():
    codes = site(400, 9, rare=0.2)
    pairs = np.array(list(itertools.combinations(range(4), 2)))
    first = pooled(codes).answer(asked(SINGLES, pairs))
    assert (pooled(codes).answer(asked(SINGLES, pairs)) == first).all()
    assert (np.abs(first - exact(codes, (SINGLES, pairs))) <= LOGLIK_NOISE_NATS).all()
    turned = pooled(codes[:, ::-1]).answer(asked(SINGLES, pairs))
    assert turned[:4] == pytest.approx(first[:4][::-1], abs=1e-9)
    other = pooled(1 - codes).answer(asked(SINGLES, pairs))
    assert other == pytest.approx(first, abs=1e-9)
    less = pooled(codes).answer(asked(SINGLES, pairs, discount=0)) - first
    assert less == pytest.approx([DISCOUNT / 2] * 4 + [DISCOUNT * 1.5] * 6, abs=1e-9)


def test_sets_that_split_the_rows_alike_are_one_equation():
    codes = site(400, 9, rare=0.2)
    codes[:, 1], codes[:, 3] = codes[:, 0], 1 - codes[:, 0]
    sets = asked(SINGLES[:1], np.array([[0, 1], [0, 3]]), np.array([[0, 1, 3]]), discount=0)
    assert len(np.unique(pooled(codes).answer(sets))) == 1


def test_different_sets_and_sites_are_moved_by_different_numbers():
    moved = []
    for seed in range(40):
        codes = site(400, seed, rare=0.2)
        moved.append(pooled(codes).answer(asked(SINGLES)) - exact(codes))
    moved = np.array(moved)
    assert len(np.unique(moved.round(9))) == moved.size
    assert abs(moved.mean()) < 4 * np.sqrt(LOGLIK_NOISE_NATS**2 / 3 / moved.size)
    assert np.abs(moved).max() > 0.9 * LOGLIK_NOISE_NATS


def test_rows_of_a_replicate_are_perturbed_twice():
    codes = site(400, 9, rare=0.2)
    whole = pooled(codes)
    of_rows = whole.answer(asked(SINGLES)) - exact(codes)
    rng = np.random.default_rng(0)
    beside = []
    for _ in range(60):
        own = codes[rng.integers(0, 400, 400)]
        drawn = pooled(own, parent=whole)
        beside.append(drawn.answer(asked(SINGLES)) - exact(own) - of_rows)
    beside = np.array(beside)
    assert (np.abs(beside) <= LOGLIK_NOISE_NATS + 1e-9).all()
    assert len(np.unique(beside.round(9))) > 60
    assert np.abs(beside.mean(axis=0)).max() < 4 * np.sqrt(LOGLIK_NOISE_NATS**2 / 3 / 60)


def test_a_category_rare_among_rows_is_rare_among_drawn_rows():
    codes = site(400, 9, rare=0.0)
    codes[:10, RARE] = 1
    drawn = np.repeat(codes, 2, axis=0)
    own = pooled(drawn, parent=pooled(codes))
    assert np.abs(own.answer(asked(SINGLES))[RARE]) <= 2 * LOGLIK_NOISE_NATS
    assert np.abs(pooled(drawn).answer(asked(SINGLES))[RARE]) > 20


def test_numbers_are_moved_too():
    values = np.random.default_rng(0).normal(size=(300, 4))
    own = SiteView(None, values, (0,) * 4, min_cell_size=11)
    free = SiteView(None, values, (0,) * 4)
    pairs = np.array(list(itertools.combinations(range(4), 2)))
    question = asked(SINGLES[:0], pairs)
    moved = own.answer(question) - free.answer(question)
    assert (np.abs(moved) > 0.0).all()
    assert (np.abs(moved) <= LOGLIK_NOISE_NATS).all()
