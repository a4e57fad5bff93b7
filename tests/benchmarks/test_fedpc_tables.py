"""FedPC's tables: the printed figures add up, samples are as described, cases end in a report."""

import csv
import signal
import time
from pathlib import Path

import fedpc_report
import numpy as np
import pytest
from fedpc_data import LINEAR, MAX_PARENTS, NETWORKS, NONLINEAR, VARIABLES, model_rows, random_dag
from fedpc_tables import COMPARATORS, EVIDENCE, OutOfTimeError, given_up, time_limit

from cipherdag.graphs.extension import topological_order

PAPER = Path(fedpc_report.__file__).parent / "fedpc_paper.csv"
TRUE_EDGES = {
    "alarm": 46, "insurance": 52, "win95pts": 112, "andes": 338, "pigs": 592, "sachs": 17,
    **LINEAR, **NONLINEAR,
}  # fmt: skip


def test_printed_figures_add_up():
    with PAPER.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 11 * 32 + 24
    assert {row["data"] for row in rows} == set(VARIABLES)
    for row in rows:
        if not row["shd"]:
            assert row["algorithm"] == "FedDAG"
            continue
        edges = TRUE_EDGES[row["data"]]
        found = float(row["tpr"]) * edges
        if row["miss"]:
            wrong = sum(float(row[name]) for name in ("reverse", "extra", "miss"))
            assert wrong == pytest.approx(float(row["shd"]), abs=0.01)
        else:  # of one graph: a whole number of edges found
            assert found == pytest.approx(round(found), abs=0.02)


def test_misses_and_recall_agree_on_the_number_of_true_edges():
    found = fedpc_report.published()
    assert found["alarm", 3, "FedPC"]["shd"] == 6
    assert found["alarm", 3, "FedPC"]["f1"] == pytest.approx(2 * 40 / (43 + 46), abs=0.001)
    assert ("pigs", 3, "FedDAG") not in found
    assert found["nonlinear-10", 5, "FedPC"]["shd"] == 2


@pytest.mark.parametrize("name", ["linear-10", "linear-50", "nonlinear-20"])
def test_graphs_and_rows_are_as_described(name):
    rng = np.random.default_rng(3)
    dag = random_dag(VARIABLES[name], TRUE_EDGES[name], rng)
    assert dag.sum() == TRUE_EDGES[name]
    assert dag.sum(axis=0).max() <= MAX_PARENTS
    assert topological_order(dag) is not None
    rows = model_rows(dag, 400, rng, linear=name in LINEAR)
    assert rows.mean(axis=0) == pytest.approx(np.zeros(len(dag)), abs=1e-12)
    assert rows.std(axis=0) == pytest.approx(np.ones(len(dag)))
    children = np.flatnonzero(dag.sum(axis=0) == 1)
    for v in children:  # a line of its one parent and little noise, if it is linear
        r = abs(np.corrcoef(rows[:, v], rows[:, np.flatnonzero(dag[:, v])[0]])[0, 1])
        assert (r > 0.3) or name not in LINEAR


def case(method, sample, sites=3, **measures):
    return {"data": "alarm", "sites": sites, "method": method, "sample": sample} | measures


def done(method, sample, shd, sites=3):
    own = dict.fromkeys(("reverse", "extra", "miss", "tpr", "precision", "seconds"), 1.0)
    return case(method, sample, sites, **own, shd=shd, f1=0.5)


def test_the_report_has_medians_ranges_and_what_was_left_out():
    cases = [done("vote", s, shd) for s, shd in enumerate((5, 30, 7))]
    cases += [done("PC-All", 0, 6, sites=1), case("FedDAG", 0, left_out="longer than 1 s")]
    text = fedpc_report.markdown({"cases": fedpc_report.summary(cases)})
    assert "| alarm | 3 | 6 | 6 (6-6) | 7 (5-30) |" in text
    assert "| longer than 1 s / 92 | 1 |" not in text
    assert "longer than 1 s / 92" in text
    # the printed 6 lies between the votes' 5 and 30, and is PC-All's
    assert "| networks | 0 / 1 / 0 | 0 / 1 / 0 | - |" in text


def test_a_method_that_took_too_long_is_not_tried_with_more_sites():
    cases = [case("NOTEARS-Avg", 0, sites=5, left_out="longer than 9 s")]
    assert given_up(case("NOTEARS-Avg", 1, sites=5), cases)
    assert given_up(case("NOTEARS-Avg", 0, sites=10), cases)
    assert not given_up(case("NOTEARS-Avg", 0, sites=3), cases)
    assert not given_up(case("vote", 0, sites=10), cases)


def test_the_time_limit_ends_a_case_and_leaves_no_alarm():
    with pytest.raises(OutOfTimeError), time_limit(0.05):
        time.sleep(10.0)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_every_method_and_data_set_has_a_place_in_the_report():
    assert set(fedpc_report.EVIDENCE_COLUMNS) == {*EVIDENCE, "PC-All"}
    assert {*fedpc_report.RIVAL_COLUMNS, "PC-All"} == set(COMPARATORS)
    assert {*NETWORKS, *LINEAR, *NONLINEAR, "sachs"} == set(VARIABLES)


def test_no_site_takes_the_end_of_its_time_for_a_failure_of_its_own():
    assert not issubclass(OutOfTimeError, Exception)
