"""Summed likelihoods tell every site's counts, so sites that restrict small ones sum none.

The attack: whoever knows how many rows each site has looks for the whole numbers that have the
opened sums. Of exact sums there is one solution.
"""

import numpy as np
import pandas as pd
import pytest
from advice import advice

from cipherdag import FedBOSS, Federation, Policy
from cipherdag.algorithms.fedboss.set_sources import DISCOUNT
from cipherdag.errors import PolicyRefusedError
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.question import Resampled
from cipherdag.questions.scores.likelihoods import LogLikelihoods
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.models.set_likelihoods import SetLikelihoods, of_tables
from cipherdag.sites.compute.rows import Rows

ROWS = (230, 310, 260)
LEVELS = (2, 2, 2, 2)
SINGLES = np.arange(4)[:, None]


def site(rows, seed, rare=0.015):
    """Codes of four columns, of which one is rare."""
    rng = np.random.default_rng(seed)
    first = rng.random(rows) < 0.35
    second = rng.random(rows) < 0.1 + 0.5 * first
    third = rng.random(rows) < rare
    fourth = rng.random(rows) < 0.3 + 0.4 * second
    return np.column_stack([first, second, third, fourth]).astype(np.int32)


SITES = [site(rows, seed) for rows, seed in zip(ROWS, (5, 2, 3), strict=True)]


def exact(codes):
    """What a site's rows say of single columns."""
    whole = SetLikelihoods(Rows(codes, None, np.array(LEVELS)), PROCESSOR)
    return whole.answer((SINGLES,), DISCOUNT)


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


def test_exact_sums_have_one_solution_which_is_every_sites_counts():
    total = sum(map(exact, SITES))
    true = np.array([rarer(codes) for codes in SITES])
    for column in range(4):
        assert fitting(total[column], 1e-9).tolist() == [true[:, column].tolist()]


def likelihoods():
    counts, members = pack_blocks([SINGLES])
    return LogLikelihoods(n_variables=4, counts=counts, members=members, discount=DISCOUNT)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_site_that_restricts_small_counts_sums_none(drawn):
    """Whatever the coordinator asks, of drawn rows, too."""
    hospitals = {name: pd.DataFrame(codes, columns=list("abcd")) for name, codes in of_sites()}
    table = Federation.simulate(hospitals, device="cpu").sites[0].table
    question = likelihoods()
    if drawn:
        question = Resampled(question=question, replicate=1, seed=0)
    refusing, telling = (SiteView.of_table(table, min_cell_size=size) for size in (2, 1))
    with pytest.raises(PolicyRefusedError, match="in comparisons only"):
        refusing.answer(question)
    assert telling.answer(question).any()


def of_sites():
    return zip(("north", "south", "west"), SITES, strict=True)


def federation(data, **policy):
    frames = {name: pd.DataFrame(rows, columns=list("abcd")) for name, rows in data}
    return Federation.simulate(frames, policy=Policy(**policy), device="cpu")


def with_gaps():
    """Numbers, of which some are missing."""
    rng = np.random.default_rng(0)
    for name, rows in zip(("north", "south", "west"), ROWS, strict=True):
        values = rng.normal(size=(rows, 4))
        values[:, 1] += values[:, 0]
        yield name, np.where(rng.random(values.shape) < 0.01, np.nan, values)


@pytest.mark.follows("which compares scores; or, in a simulation, with --min-cell-size 1.")
@pytest.mark.parametrize("data", [of_sites, with_gaps])
@pytest.mark.parametrize("algorithm", [FedBOSS(reveal="sums"), FedBOSS(within_sites=False)])
def test_a_refused_run_names_the_default_which_runs(algorithm, data):
    said = advice(federation(data()).run, algorithm)
    assert said.startswith("Run without --reveal sums and --no-within-sites (Python: FedBOSS())")
    compared = federation(data()).run(FedBOSS()).finding
    assert compared.details["comparisons"] > 0
    assert compared.graph.edges
    assert federation(data(), min_cell_size=1).run(algorithm).finding.graph.edges
