"""The sites' tables follow from exact sums of tests, so that sites let bits alone leave by default.

The attack: the coordinator and a site that sides with it subtract that site's part from the sums of
three sites, and look for the tables in whole numbers that the other two may have. There is one
solution, counts below `min_cell_size` included.
"""

import numpy as np
import pandas as pd
from driving import drive
from scipy.stats import chi2

from cipherdag import FedCMFS, Federation, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.questions.combined_evidence import CombinedEvidence, WeightedEvidence
from cipherdag.questions.encodings import segments
from cipherdag.questions.threshold import ContributorCounts
from cipherdag.sites.answers.site_view import SiteView

NAMES = ["v1", "v2", "v3", "v4"]
"""Of what moves a test: standard deviations that an attacker reckons with."""


def drawn(rows, seed, rare):
    rng = np.random.default_rng(seed)
    first = rng.random(rows) < 0.35
    second = rng.random(rows) < 0.2 + 0.12 * first
    third = rng.random(rows) < rare + 0.02 * first
    fourth = rng.random(rows) < 0.3 + 0.1 * second
    return np.column_stack([first, second, third, fourth]).astype(int)


def tables_of(arrays, names=NAMES):
    """The sites' own tables, of columns of two categories."""
    frames = {}
    for name, own in zip("ABCDEFGH", arrays, strict=False):
        columns = {v: pd.Categorical(own[:, k], categories=[0, 1]) for k, v in enumerate(names)}
        frames[name] = pd.DataFrame(columns)
    return [site.table for site in Federation.simulate(frames, labels=["v1"]).sites]


def respondents(arrays, least, names=NAMES):
    return [
        SiteView.of_table(own, min_cell_size=least, device="cpu")
        for own in tables_of(arrays, names)
    ]


class Listening:
    """A site that keeps what it is asked and tells of tests, as it is encoded."""

    def __init__(self, own):
        self.own, self.told = own, []

    def answer(self, question):
        found = self.own.answer(question)
        inner = getattr(question, "question", question)
        kinds = WeightedEvidence | CombinedEvidence
        if isinstance(inner, kinds) and not isinstance(question, ContributorCounts):
            self.told.append((inner, found))
        return found


def opened(asking, arrays, least, names=NAMES):
    """What is opened of every triplet: the first two segments' sums less the last site's part."""
    sites = [Listening(own) for own in respondents(arrays, least, names)]
    drive(asking, sites)
    found = {}
    for parts in zip(*(own.told for own in sites), strict=True):
        question = parts[0][0]
        left = sum(answer for _, answer in parts[:-1])
        first, second, *_ = segments(question.encodings, left)
        rows = [tuple(row) for block in question.rows() for row in block.tolist()]
        for place, row in enumerate(rows):
            found[row] = first[place], second[place] if place < len(second) else np.nan
    return found


def cells(codes, x, y):
    """Rows with both, with x alone, with y alone, and with neither."""
    own, other = codes[:, x] == 1, codes[:, y] == 1
    parts = (own & other, own & ~other, ~own & other, ~own & ~other)
    return np.array([part.sum() for part in parts])


def g2(table):
    table = np.asarray(table, dtype=float)
    n = table.sum(-1)
    a, b = table[..., 0] + table[..., 1], table[..., 0] + table[..., 2]
    expected = np.stack([a * b, a * (n - b), (n - a) * b, (n - a) * (n - b)], -1) / n[..., None]
    with np.errstate(all="ignore"):
        return 2 * np.where(table > 0, table * np.log(table / expected), 0).sum(-1)


def all_tables(n):
    """Margins of at most half, and how many rows have both: all of n rows, but for names."""
    margin = np.arange(1, n // 2 + 1)
    a, b, both = np.meshgrid(margin, margin, np.arange(n // 2 + 1), indexing="ij")
    kept = (both <= np.minimum(a, b)) & (a <= b)
    a, b, both = a[kept], b[kept], both[kept]
    return np.stack([both, a - both, b - both, n - a - b + both], -1)


def alike(table):
    """All namings of the two categories and the two columns."""
    square = np.array(table).reshape(2, 2)
    turns = [square, square.T]
    return {tuple(t[:: i or 1, :: j or 1].ravel()) for t in turns for i in (1, -1) for j in (1, -1)}


CMFS = [drawn(150, 5, 0.02), drawn(190, 2, 0.02), drawn(160, 3, 0.02)]


def fedcmfs(least):
    facts = Facts(4, 3, labels=(0,), min_contributors=3)
    return opened(FedCMFS(reveal="sums").ask(facts), CMFS, least)


def pairs_that_fit(pair_sums, first, second):
    """Pairs of tables of two sites whose exact sums of n p and n G2 are these."""
    weighted, strength = pair_sums
    n, m = first[0].sum(), second[0].sum()
    one, two = g2(first), g2(second)
    order = np.argsort(two)
    wanted = (strength - n * one) / m
    tolerance = 3e-6
    low, high = (np.searchsorted(two[order], wanted + way * tolerance / m) for way in (-1, 1))
    fits = [(i, order[k]) for i in np.flatnonzero(high > low) for k in range(low[i], high[i])]
    p_value = n * chi2.sf(one, 1), m * chi2.sf(two, 1)
    return [(i, k) for i, k in fits if abs(p_value[0][i] + p_value[1][k] - weighted) < tolerance]


def test_exact_sums_of_p_and_strength_have_one_solution():
    found = fedcmfs(0)
    first, second = (all_tables(n) for n in (150, 190))
    for y in (1, 2, 3):
        ((i, k),) = pairs_that_fit(found[0, y], first, second)
        assert alike(first[i]) == alike(cells(CMFS[0], 0, y))
        assert alike(second[k]) == alike(cells(CMFS[1], 0, y))


def test_a_site_that_allows_bits_alone_refuses_plans_of_such_sums():
    for algorithm in (FedCMFS(reveal="sums"), FedPC(evidence="fisher"), FedPC(reveal="sums")):
        assert not algorithm.closed
    for algorithm in (FedCMFS(), FedPC(), FedPC(evidence="fisher", reveal="auto")):
        assert algorithm.closed == (algorithm.name == "fedcmfs" or algorithm.evidence == "auto")
