"""Sites compute where they are told to: on a card all of it, with the processor's results."""

import re

import devices as benchmark
import numpy as np
import pytest
import torch
from stand_in_device import NAME, written_down

from cipherdag.sites.compute.device import LEAST_BATCH, batch_bytes, most_elements
from cipherdag.sites.compute.score_tests.residuals import residual_scores
from cipherdag.statistics import array_functions as functions

TOLERANCE = 1e-9
ON_THE_PROCESSOR = {
    "Columns",
    # these are made of other questions
    "ContributorCounts", "Suppressed", "RaoBits", "EvidenceVerdicts", "ScaleVerdicts",
    "StrengthVerdicts", "Resampled",
    # these are answered from outcomes that the site remembers
    "BestIndexPrecedes", "WeightedEvidence",
}  # fmt: skip
"""Questions that none of a site's batches answers: of single columns, once in a run."""
FETCHED = {"Misfits"}
"""Few, once the graph stands: the processor checks the fit on the columns of one regression."""
RUNS = {name: run for name, *run in benchmark.runs()}
FEW = {name: 4 if "mixed" in name else 3 for name in RUNS if re.match("Fed(PC|FCI|BOSS),", name)}
"""Columns of the runs that ask the most tests; of three the correlations are fewer than rows."""
ROWS = 3000


@pytest.mark.parametrize("name", RUNS)
def test_a_site_computes_on_its_device_and_no_column_comes_back(name):
    here, there, records = both(name)
    compared = benchmark.agree(here, there)
    assert compared["same"], compared
    assert compared["largest difference"] <= TOLERANCE
    on_processor = {kind for kind, record in records.items() if not record.operations}
    assert on_processor <= ON_THE_PROCESSOR
    assert set(records) - on_processor, "something was computed there"
    for kind, record in records.items():
        assert kind in FETCHED or max(record.fetched, default=0) < record.rows, kind


def both(name):
    """A run on the processor and one on the stand-in, and what was written down of the latter."""
    algorithm, kinds, labels = RUNS[name]
    whole = benchmark.table(kinds[: FEW.get(name)], ROWS, np.random.default_rng(1))
    parts = [whole.take(part) for part in np.array_split(np.arange(ROWS), 3)]
    here = benchmark.driven(algorithm, parts, "cpu", labels)
    with written_down() as records:
        there = benchmark.driven(algorithm, parts, NAME, labels)
    return here, there, records


def test_questions_about_many_rows_have_the_processors_answers():
    rng = np.random.default_rng(2)
    for family in (benchmark.of_numbers, benchmark.of_both, benchmark.of_categories):
        for case in family(0.002, rng):
            with written_down():
                answers = [case.make(device)() for device in ("cpu", NAME)]
            assert benchmark.apart(*answers) <= case.tolerance, case.name


def test_a_bootstrap_replicate_is_computed_there():
    rng = np.random.default_rng(3)
    kinds = (2, 3, 2, 0, 0)
    rows = benchmark.table(kinds, ROWS, rng)
    question = benchmark.Resampled(
        benchmark.score_sums(kinds, np.array([[0, 1, 2], [3, 4, 0]])), replicate=1
    )
    with written_down() as records:
        here, there = (benchmark.asked(rows, question)(device)() for device in ("cpu", NAME))
    assert benchmark.apart(here, there) <= TOLERANCE
    assert records["RaoSums"].operations


# arrays of both kinds


def pair(*arrays):
    return arrays, tuple(torch.from_numpy(np.ascontiguousarray(each)) for each in arrays)


def assert_same(one, other):
    np.testing.assert_allclose(functions.host(one), functions.host(other), rtol=1e-10, atol=1e-12)


def test_helpers_agree_on_arrays_of_both_kinds():
    rng = np.random.default_rng(4)
    values, sizes = rng.normal(size=(3, 12)), np.array([3, 1, 8])
    (here,), (there,) = pair(values)
    assert_same(functions.segment_sums(here, sizes), functions.segment_sums(there, sizes))
    short = np.arange(3.0)
    (few,), (few_there,) = pair(short)
    assert_same(functions.repeated(few, sizes), functions.repeated(few_there, sizes))
    for shares in ((0.25, 0.75), (0.0, 1.0), (0.5,)):
        assert_same(functions.quantiles(here, shares), functions.quantiles(there, shares))
    weights = rng.random(3)
    (of_rows,), (of_rows_there,) = pair(weights)
    assert_same(functions.average(here, of_rows), functions.average(there, of_rows_there))
    assert_same(functions.average(here, None), functions.average(there, None))
    gaps = np.where(rng.random((3, 12)) < 0.4, np.nan, values)
    gaps[2] = np.nan
    (with_gaps,), (with_gaps_there,) = pair(gaps)
    for own, others in zip(
        functions.extremes(with_gaps), functions.extremes(with_gaps_there), strict=True
    ):
        assert_same(own, others)


@pytest.mark.parametrize("units", [-1074, -1022, -600, 0, 3, 900, 1020])
def test_units_are_exact_wherever_numbers_are(units):
    values = np.array([[1.5, -3.0, 0.0, 1e-300]])
    with np.errstate(over="ignore", under="ignore"):
        (here,), (there,) = pair(values)
        exact = functions.in_units(here, np.full(4, units))
        there = functions.host(functions.in_units(there, np.full(4, units)))
    assert there.tolist() == exact.tolist()


@pytest.mark.parametrize("rank", [0, 2, 3])
def test_least_squares_of_smallest_norm(rank):
    rng = np.random.default_rng(5)
    design = rng.normal(size=(40, rank)) @ rng.normal(size=(rank, 3))
    targets = rng.normal(size=(40, 2))
    here, there = pair(design, targets)
    (slopes, found), (own, own_rank) = (functions.least_squares(*each) for each in (here, there))
    assert own_rank == found == rank
    assert_same(slopes, own)


def test_residuals_of_a_collinear_design_agree():
    rng = np.random.default_rng(6)
    number = rng.normal(size=(60, 1))
    design = np.hstack([np.ones((60, 1)), number, 2.0 * number])
    here, there = pair(design, rng.normal(size=(60, 2)))
    for own, others in zip(residual_scores(*here)[:3], residual_scores(*there)[:3], strict=True):
        np.testing.assert_allclose(own, others, rtol=1e-10)


# batches


def test_batches_on_a_card_are_as_large_as_its_free_memory_allows(monkeypatch):
    card = "cuda:0"
    for free, most in ((2**36, 2**33), (2**20, LEAST_BATCH)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device, free=free: (free, 2**37))
        assert batch_bytes(card) == most
    assert most_elements(card, 2**28, 100) == 2**28
    assert most_elements(card, 2**40, 100) == 2**30
    assert most_elements("cpu", 2**28, 100) == 100


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", RUNS)
def test_a_card_concludes_what_the_processor_does(name):
    algorithm, kinds, labels = RUNS[name]
    whole = benchmark.table(kinds, ROWS, np.random.default_rng(1))
    parts = [whole.take(part) for part in np.array_split(np.arange(ROWS), 3)]
    here, there = (benchmark.driven(algorithm, parts, device, labels) for device in ("cpu", "cuda"))
    found = benchmark.agree(here, there)
    assert found["same"], found
