"""RFcd from files to a graph by name: sizes, kinds of data, and the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from regretting import frames, linear_sites

from cipherdag import Federation, RFcd
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.errors import MixedTypesError, PolicyRefusedError, SiteUnreachableError
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.dags import matrix_of
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.networks import asia
from cipherdag.protocol import messages
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.questions.regrets import ScoreSpec
from cipherdag.results.folder import verify_folder
from cipherdag.results.run import Run
from cipherdag.sites.answers.regret_answers import table_scores
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import TestBudget


@pytest.mark.parametrize(("n_sites", "d"), [(3, 5), (7, 5), (5, 20)])
def test_sizes_of_the_paper_and_beyond(n_sites, d):
    _, tables = linear_sites(d, n_sites, 150, d + n_sites)
    result = Federation.simulate(frames(tables), device="cpu").run(
        RFcd(searching=Searching(beam=2))
    )
    curve = result.finding.details["regret_curve"]
    assert curve == sorted(curve, reverse=True)
    assert result.finding.details["regret"] == curve[-1] < curve[0]
    assert result.finding.dag.is_dag
    assert result.finding.dag.to_cpdag() == result.finding.graph
    assert result.finding.details["regret_grid"] == 2**-10


def test_the_spline_score_runs_end_to_end():
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(3):
        a, b = rng.normal(size=(2, 400))
        c = a**2 + 0.3 * rng.normal(size=400)
        tables.append(np.column_stack([a, b, c]))
    result = Federation.simulate(frames(tables), device="cpu").run(RFcd(score="mdl"))
    assert [str(edge) for edge in result.finding.graph.edges] == ["v00 --- v02"]
    assert result.finding.dag.directed == (("v00", "v02"),)


def test_discrete_data_are_scored_by_tables_and_mixed_data_refused():
    data = asia().sample(1500, np.random.default_rng(3))
    result = Federation.split(data, 3, seed=1, device="cpu").run(RFcd(searching=Searching(beam=2)))
    assert result.finding.metrics_cpdag(asia().graph).recall > 0.4
    with pytest.raises(MixedTypesError):
        Federation.split(data, 3, seed=1, device="cpu").run(RFcd(score="mdl"))
    mixed = data.assign(weight=np.random.default_rng(0).normal(size=len(data)))
    with pytest.raises(MixedTypesError):
        Federation.split(mixed, 3, seed=1, device="cpu").run(RFcd())


def test_a_site_that_leaves_ends_a_run_whose_values_would_not_compare():
    _, tables = linear_sites(4, 5, 150, 2)
    federation = Federation.simulate(frames(tables), device="cpu")
    from dataclasses import replace

    class Leaving(LocalEngine):
        rounds = 0

        def call(self, operation, sent, *, timeout_s):
            self.rounds += operation == "ask"
            replies = super().call(operation, sent, timeout_s=timeout_s)
            if self.rounds >= 3:
                replies.pop("site4", None)
            return replies

    with pytest.raises(SiteUnreachableError, match="over 4 sites do not go together with those"):
        replace(federation, wire=Leaving).run(RFcd(searching=Searching(beam=2)))
    assert messages.fewest_survivors(5, 1) <= 4, "enough sites were left for a sum"


def test_scored_families_count_as_tests_of_the_site_s_budget(tmp_path):
    _, tables = linear_sites(4, 3, 100, 2)
    table = Federation.simulate(frames(tables), device="cpu").sites[0].table
    budget = TestBudget(Policy(max_tests=6), tmp_path / "usage.json")

    scores = table_scores(table, ScoreSpec(), device="cpu", spend=budget.spend)
    scores.prepare([(0, 0), (1, 0), (2, 0), (3, 0)])
    with pytest.raises(PolicyRefusedError):
        scores.prepare([(0, 0b10), (1, 0b1), (2, 0b1)])


@pytest.fixture
def files(tmp_path):
    _, tables = linear_sites(4, 3, 200, 9)
    written = []
    for name, frame in frames(tables).items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        written.append(tmp_path / f"{name}.csv")
    return written


def test_run_repeats_and_audits(call, files, tmp_path):
    code, _, _ = call("run", "rfcd", *files, "--objective", "sum", "--out", tmp_path / "one")
    assert code == 0
    assert call("repeat", tmp_path / "one", "--out", tmp_path / "two")[0] == 0
    assert (
        Run.load(tmp_path / "one", LearntGraph).finding.graph
        == Run.load(tmp_path / "two", LearntGraph).finding.graph
    )
    first, second = (
        json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two")
    )
    assert first["details"] == second["details"]
    assert first["parameters"]["objective"] == "sum"
    assert len(verify_folder(tmp_path / "one")) == 3


def test_simulate_measures_and_speaks_json(call, tmp_path):
    dag, tables = linear_sites(4, 1, 900, 9)
    pd.concat(frames(tables).values()).to_csv(tmp_path / "all.csv", index=False)

    truth = CausalGraph.from_arcs([f"v{k:02d}" for k in range(4)], matrix_of(dag))
    (tmp_path / "truth.csv").write_text(truth.to_csv())
    code, out, _ = call(
        "simulate", "rfcd", tmp_path / "all.csv", "--sites", 3, "--truth", tmp_path / "truth.csv",
        "--objective", "sum", "--json",
    )  # fmt: skip
    assert code == 0
    last = json.loads(out.splitlines()[-1])["result"]
    assert "metrics_cpdag" in last
    assert last["algorithm"] == "rfcd"
    for wrong in (("--beam", 3), ("--as-published", "--beam", 0)):
        assert call("simulate", "rfcd", tmp_path / "all.csv", *wrong)[0] == 2


def test_the_coordinator_has_the_command_with_its_own_options(call):
    code, out, _ = call("coordinator", "run", "rfcd", "--help-all")
    assert code == 0
    assert "--beam" in out
    assert "--wait-for-approval" in out
    assert "--schema" not in out
    assert "--max-cond-size" not in out
