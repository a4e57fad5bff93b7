"""FedPC on evidence of all sites: the graph of PC on all data, from command line to site."""

import json

import numpy as np
import original_fedpc as original
import pandas as pd
import pytest
from driving import drive, respondent
from enumeration import consensus, every_extension
from evidence_sites import cut, discrete_codes, discrete_site, gaussian_site, gaussian_values
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import OracleTest, random_dag
from plain_pc import plain_pc, plain_skeleton

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based import separations, skeleton
from cipherdag.algorithms.evidence import federated_test as evidence_module
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.algorithms.parameters import grouped
from cipherdag.errors import MixedTypesError, ParameterError, PolicyRefusedError
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest


def outcome_of(algorithm, sites):
    outcome, questions = drive(algorithm.ask(Facts(sites[0].n_variables, len(sites))), sites)
    return outcome, questions


# pooled is PC on all data


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n_sites=st.integers(3, 15), continuous=st.booleans())
@example(seed=9949, n_sites=3, continuous=True)
def test_pooled_gives_the_graph_of_pc_on_all_data(seed, n_sites, continuous):
    rng = np.random.default_rng(seed)
    if continuous:
        data = gaussian_values(rng, 600, 8)
        sites = [gaussian_site(part) for part in cut(data, n_sites, rng)]
        test = FisherZTest(data)
    else:
        levels = rng.integers(2, 4, 7).tolist()
        data = discrete_codes(rng, 1200, levels)
        sites = [discrete_site(part, levels) for part in cut(data, n_sites, rng)]
        test = DiscreteTest(data)
    # votes choose colliders by separating sets
    pooled, _ = outcome_of(FedPC(evidence="pooled", colliders="sepset"), sites)
    # FedPC's own votes at one site
    alone, _ = outcome_of(FedPC(evidence="vote"), [respondent(test)])
    assert (pooled.skeleton == alone.skeleton).all()
    # which colliders stand where two contradict depends on what else each evidence tells
    contradicted = any(own.in_class.set_aside or own.in_class.forced for own in (pooled, alone))
    assert contradicted or (pooled.arcs == alone.arcs).all()
    assert pooled.separators == alone.separators
    assert pooled.layers == alone.layers
    for pair, strength in alone.support.items():
        assert pooled.support[pair] == max(strength, 0.0)


@pytest.mark.parametrize("continuous", [False, True])
def test_plain_loops_and_scipy_give_the_same_graph(continuous):
    compared = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        if continuous:
            data = gaussian_values(rng, 400, 7)
            sites = [gaussian_site(part) for part in cut(data, 4, rng)]
        else:
            data = discrete_codes(rng, 900, [2, 3, 2, 2, 3, 2])
            sites = [discrete_site(part, (2, 3, 2, 2, 3, 2)) for part in cut(data, 4, rng)]
        algorithm = FedPC(evidence="pooled", alpha=0.05, colliders="sepset")
        pooled, _ = outcome_of(algorithm, sites)
        test = original.fisher_z_test if continuous else original.g2_test
        known = {}

        def p_value(x, y, members, known=known, test=test, data=data):
            key = (min(x, y), max(x, y), tuple(sorted(members)))
            if key not in known:
                known[key] = test(data, key[0], key[1], key[2])[0]
            return known[key]

        graph, separators, arcs = plain_pc(data.shape[1], p_value, 0.05, 3)
        assert (pooled.skeleton == graph).all()
        assert pooled.separators == separators
        members = list(every_extension(arcs))
        if members and (consensus(members) == arcs).all():  # else no DAG has what tests say
            assert (pooled.arcs == arcs).all()
            compared += 1
        assert pooled.layers == plain_skeleton(data.shape[1], p_value, 0.05, 3)[1]
    assert compared


def test_causal_learn_finds_the_same_skeleton():
    from causallearn.search.ConstraintBased.PC import pc

    values = gaussian_values(np.random.default_rng(12), 800, 9)
    sites = [gaussian_site(part) for part in cut(values, 5, np.random.default_rng(0))]
    pooled, _ = outcome_of(FedPC(evidence="pooled", max_cond_size=None), sites)
    peer = pc(values, 0.01, "fisherz", stable=True, show_progress=False)
    assert (pooled.skeleton == (peer.G.graph != 0)).all()


# the search


class Certain(OracleTest):
    """The oracle, with statistics that leave no doubt."""

    def evaluate(self, x, y, given):
        outcome = super().evaluate(x, y, given)
        outcome.statistic[:] = 1000.0 * outcome.statistic
        return outcome


@pytest.mark.parametrize("kind", ["fisher", "weighted_p"])
@pytest.mark.parametrize("sepset", ["max", "search"])
def test_the_true_cpdag_under_an_oracle(kind, sepset):
    rng = np.random.default_rng(2026)
    algorithm = FedPC(evidence=kind, voting=Voting(sepset=sepset), max_cond_size=None)
    for _ in range(20):
        dag = random_dag(int(rng.integers(3, 10)), float(rng.uniform(1, 3)), rng)
        outcome, _ = outcome_of(algorithm, [respondent(Certain(dag)) for _ in range(3)])
        assert (outcome.arcs == cpdag_of(dag)).all()


def test_a_layer_is_one_round_and_separating_sets_are_one_more():
    rng = np.random.default_rng(3)
    for size in (6, 20):
        dag = random_dag(size, 2.0, rng)
        sites = [respondent(Certain(dag)) for _ in range(3)]
        outcome, questions = outcome_of(FedPC(evidence="fisher"), sites)
        assert len(questions) <= len(outcome.layers) + 1
        _, questions = outcome_of(FedPC(evidence="fisher", voting=Voting(sepset="search")), sites)
        assert len(questions) == len(outcome.layers)


@pytest.mark.parametrize("kind", ["fisher", "pooled"])
def test_small_rounds_change_the_number_of_rounds_and_nothing_else(kind, monkeypatch):
    rng = np.random.default_rng(5)
    codes = discrete_codes(rng, 900, [2] * 8)
    sites = [discrete_site(part, [2] * 8) for part in np.split(codes, 3)]
    one, questions = outcome_of(FedPC(evidence=kind), sites)
    monkeypatch.setattr(separations, "LAYER_TESTS", 20)
    monkeypatch.setattr(skeleton, "PAIRS_AT_ONCE", 9)
    monkeypatch.setattr(evidence_module, "MAX_VALUES_PER_ROUND", 30)
    other, more = outcome_of(FedPC(evidence=kind), sites)
    assert len(more) > len(questions)
    assert (one.arcs == other.arcs).all()
    assert one.separators == other.separators
    assert one.layers == other.layers
    assert (one.in_class.dag == other.in_class.dag).all()
    widest = max(sum(e.length for e in q.encodings) for q in more)
    assert widest <= 4 * 30


def test_rounds_that_grow_are_fewer_and_find_the_same_graph(monkeypatch):
    rng = np.random.default_rng(5)
    sites = [
        discrete_site(part, [2] * 8) for part in np.split(discrete_codes(rng, 900, [2] * 8), 3)
    ]
    monkeypatch.setattr(separations, "LAYER_TESTS", 5)
    growing, few = outcome_of(FedPC(evidence="fisher", alpha=0.5), sites)
    monkeypatch.setattr(separations, "SHARE_BEFORE", 10**9)
    equal, many = outcome_of(FedPC(evidence="fisher", alpha=0.5), sites)
    assert len(few) < len(many)
    assert (growing.arcs == equal.arcs).all()
    assert growing.layers == equal.layers


def tables():
    rng = np.random.default_rng(1)
    codes = discrete_codes(rng, 600, [2, 3, 2, 2, 3])
    names = ["smoke", "cough", "asthma", "pollen", "fever"]
    return {
        "discrete": pd.DataFrame(codes, columns=names),
        "continuous": pd.DataFrame(gaussian_values(rng, 300, 5), columns=names),
    }


# policies, parameters, the command line


def test_a_policy_without_tables_refuses_pooled_evidence_alone():
    data = tables()["discrete"]
    policy = Policy(questions=Policy().questions - {"tables"})
    federation = Federation.split(data, 3, policy=policy, device="cpu")
    with pytest.raises(PolicyRefusedError, match="tables"):
        federation.run(FedPC(evidence="pooled"))
    assert federation.run(FedPC(evidence="fisher")).finding.graph.nodes


def test_the_default_policy_withholds_small_counts_and_says_so():
    data = tables()["discrete"]
    result = Federation.split(data, 4, device="cpu").run(FedPC(evidence="pooled"))
    assert result.finding.details["tests"]["withheld: within sites"] > 0
    assert json.loads(json.dumps(result.to_dict()))["details"]["tests"] == dict(
        result.finding.details["tests"]
    )
    kinds = set(result.releases["kind"])
    assert {"columns", "small-cells", "tables"} <= {k for own in kinds for k in own.split("+")}


@pytest.mark.parametrize(
    "wrong",
    [
        {"evidence": "pooled", "sepset": "mean"},
        {"evidence": "vote", "sepset": "search"},
        {"evidence": "pooled", "reference": "code"},
    ],
)
def test_choices_that_do_not_go_together_are_named(wrong):
    with pytest.raises(ParameterError, match=list(wrong)[-1]):
        FedPC(**grouped(FedPC, wrong))


def test_mixed_columns_are_refused_before_a_test_is_asked():
    numbers = tables()["continuous"]
    mixed = numbers.assign(cough=tables()["discrete"]["cough"][:300])
    for data, test, what in ((mixed, "auto", "discrete and continuous"), (numbers, "g2", "these")):
        with pytest.raises(MixedTypesError, match=f"test {what} columns by '{test}'") as caught:
            Federation.split(data, 3, device="cpu").run(FedPC(evidence="pooled", test=test))
        assert caught.value.exit_code == 6


def test_the_command_line_runs_pooled_evidence_and_repeats_it(call, tmp_path):
    data = tmp_path / "asia.csv"
    asia().sample(1500, np.random.default_rng(1)).to_csv(data, index=False)
    base = ["simulate", "fedpc", str(data), "--sites", "3", "--evidence", "pooled", "--json"]
    base += ["--min-cell-size", "0"]
    code, _, _ = call(*base, "--out", str(tmp_path / "one"))
    assert code == 0
    report = json.loads((tmp_path / "one" / "result.json").read_text())
    assert report["parameters"]["evidence"] == "pooled"
    others = {"too few rows: none", "a variable follows from those given: none"}
    assert set(report["details"]["tests"]) <= {"pooled", *others}
    code, printed, _ = call("repeat", str(tmp_path / "one"), "--out", str(tmp_path / "two"))
    assert code == 0
    assert "Tests over all sites" in printed
    other = json.loads((tmp_path / "two" / "result.json").read_text())
    assert other["details"]["tests"] == report["details"]["tests"]
    assert other["edges"] == report["edges"]
    code, _, said = call(*base, "--vote-share", "0.5")
    assert code == 2
    assert "vote_share goes with --as-published only" in said
