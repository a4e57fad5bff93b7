"""The worlds of DCDI's experiments are as its paper has them, and its program can read them."""

import csv

import dcdi
import dcdi_data
import numpy as np
import pytest
from scipy import stats


@pytest.mark.parametrize("kind", dcdi_data.KINDS)
@pytest.mark.parametrize("degree", [1, 4])
def test_a_world_has_a_dag_and_an_intervention_on_every_variable(kind, degree):
    own = dcdi_data.world(kind, degree, 3, rows=1_103)
    assert not np.linalg.matrix_power(own.dag.astype(int), 10).any()
    assert own.cells.shape == own.marks.shape == (1_103, 10)
    assert np.isfinite(own.cells).all()
    hit = own.marks.sum(axis=0)
    assert set(hit) <= {100, 101}
    assert (own.marks.sum(axis=1) <= 1).all()
    assert (~own.marks.any(axis=1)).sum() == 101  # the first settings take what is left over
    again = dcdi_data.world(kind, degree, 3, rows=1_103)
    assert np.array_equal(again.cells, own.cells)
    assert not np.array_equal(dcdi_data.world(kind, degree, 4, rows=1_103).cells, own.cells)


@pytest.mark.parametrize("degree", [1, 4])
def test_as_many_edges_as_expected(degree):
    counts = [dcdi_data.world("linear", degree, seed, rows=11).dag.sum() for seed in range(200)]
    chance = 2 * degree / 9
    error = np.sqrt(45 * chance * (1 - chance) / 200)
    assert abs(np.mean(counts) - 10 * degree) < 5 * error


@pytest.mark.parametrize("kind", dcdi_data.KINDS)
def test_an_intervention_draws_about_2_whatever_the_parents_are(kind):
    own = dcdi_data.world(kind, 4, 0)
    worst = 1.0
    for v in range(10):
        rows = own.marks[:, v]
        worst = min(worst, stats.kstest(own.cells[rows, v], stats.norm(2.0, 1.0).cdf).pvalue)
        for u in np.flatnonzero(own.dag[:, v]):
            worst = min(worst, stats.spearmanr(own.cells[rows, u], own.cells[rows, v]).pvalue)
    assert worst > 1e-6


def test_a_linear_world_is_its_regressions():
    own = dcdi_data.world("linear", 4, 1)
    for v in range(10):
        parents = np.flatnonzero(own.dag[:, v])
        for target in range(-1, 10):
            rows = own.marks[:, target] if target >= 0 else ~own.marks.any(axis=1)
            if target == v:
                continue
            seen = np.column_stack([own.cells[rows][:, parents], np.ones(rows.sum())])
            weights, *_ = np.linalg.lstsq(seen, own.cells[rows, v], rcond=None)
            spread = (own.cells[rows, v] - seen @ weights).std()
            least, most = (0.4, 0.4 * 2**0.5) if len(parents) else (1.0, 2**0.5)
            assert 0.88 * least < spread < 1.12 * most
            assert (np.abs(weights[:-1]) < 1.3).all()


def test_the_files_are_those_that_the_program_reads(tmp_path):
    own = dcdi_data.world("nn", 1, 0, rows=110)
    dcdi_data.write(tmp_path, 1, own)
    assert np.array_equal(np.load(tmp_path / "DAG1.npy"), own.dag)
    assert np.array_equal(np.load(tmp_path / "data_interv1.npy"), own.cells)
    with (tmp_path / "intervention1.csv").open(encoding="utf-8") as file:
        targets = [[int(cell) for cell in row] for row in csv.reader(file)]
    assert targets == [np.flatnonzero(row).tolist() for row in own.marks]
    regimes = np.genfromtxt(tmp_path / "regime1.csv", delimiter=",").astype(int)
    assert np.array_equal(regimes, own.marks @ np.arange(1, 11))


def test_cells_are_told_apart_and_compared_graph_by_graph():
    def line(method, seed, shd):
        own = {"kind": "nn", "degree": 4, "method": method, "seed": seed}
        return own | {"shd": shd, "cpu_s": 2.0}

    ours = [line("dcdi-g", 0, 3), line("dcdi-g", 1, 5)]
    theirs = [line("DCDI-G", 1, 4.0), line("DCDI-G", 2, 9.0)]
    assert dcdi.spread(dcdi.of(ours, "nn", 4, "dcdi-g")) == "4.0 ± 1.4 (2)"
    assert dcdi.spread(dcdi.of(ours, "nn", 1, "dcdi-g")) == "-"
    assert dcdi.beside(ours, theirs, "nn", 4) == ("5 / 4", "2 / 2")
