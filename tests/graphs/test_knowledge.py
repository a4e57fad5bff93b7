"""Background knowledge: enforced in every graph, and tests that it makes needless are not made."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from driving import drive, respondent
from enumeration import consensus, every_extension
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleTest, random_dag

from cipherdag import FedPC, Knowledge
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.registry import make_algorithm
from cipherdag.errors import ParameterError
from cipherdag.graphs.extension import topological_order
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of

NAMES = tuple("abcdef")


class Counting(OracleTest):
    """The oracle, which remembers what it was asked."""

    def __init__(self, dag):
        super().__init__(dag)
        self.asked = set()

    def evaluate(self, x, y, given):
        rows = zip(x.tolist(), y.tolist(), given.tolist(), strict=True)
        self.asked |= {(frozenset((a, b)), frozenset(s)) for a, b, s in rows}
        return super().evaluate(x, y, given)


def learnt(dag, knowledge, evidence="weighted_p", n_sites=3):
    sites = [Counting(dag) for _ in range(n_sites)]
    algorithm = FedPC(evidence=evidence, max_cond_size=None, knowledge=knowledge)
    asking = algorithm.ask(Facts(len(dag), n_sites, names=tuple(NAMES[: len(dag)])))
    outcome, _ = drive(asking, [respondent(site) for site in sites])
    return outcome, sites[0].asked


def true_knowledge(dag, rng):
    """Some of what is true of a DAG: edges, edges that are not there, and an order in time."""
    n = len(dag)
    arrows = [(NAMES[i], NAMES[j]) for i, j in np.argwhere(dag)]
    others = [(NAMES[i], NAMES[j]) for i, j in np.argwhere(~dag & ~np.eye(n, dtype=bool))]
    order = sorted(
        range(n),
        key=lambda v: (
            int((np.linalg.matrix_power(dag | np.eye(n, dtype=bool), n)[:, v]).sum()),
            v,
        ),
    )
    cut = int(rng.integers(0, n + 1))
    tiers = [tuple(NAMES[v] for v in order[:cut]), tuple(NAMES[v] for v in order[cut:])]
    return Knowledge(
        forbidden=tuple(a for a in others if rng.random() < 0.3),
        required=tuple(a for a in arrows if rng.random() < 0.3),
        tiers=tuple(tiers) if rng.random() < 0.5 else (),
    )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), evidence=st.sampled_from(["vote", "weighted_p"]))
def test_an_oracle_finds_what_graphs_that_agree_with_it_share(seed, evidence):
    rng = np.random.default_rng(seed)
    dag = random_dag(int(rng.integers(3, 7)), float(rng.uniform(1, 3)), rng)
    knowledge = true_knowledge(dag, rng)
    outcome, asked = learnt(dag, knowledge, evidence)
    known = knowledge.over(NAMES[: len(dag)])
    agreeing = [
        other
        for other in every_extension(cpdag_of(dag))
        if not (other & known.forbidden).any() and not (known.required & ~other).any()
    ]
    assert (outcome.arcs == consensus(agreeing)).all()
    for pair, _ in asked:
        x, y = sorted(pair)
        if evidence == "weighted_p":
            assert not known.joined[x, y]


def test_needless_tests_are_not_made():
    rng = np.random.default_rng(3)
    fewer = 0
    for _ in range(20):
        dag = random_dag(6, 2.5, rng)
        tiers = Knowledge(tiers=tuple((NAMES[v],) for v in topological_order(dag)))
        with_tiers, asked = learnt(dag, tiers)
        without, more = learnt(dag, None)
        assert (with_tiers.arcs == dag).all()
        assert (with_tiers.skeleton == without.skeleton).all()
        assert len(asked) <= len(more)
        fewer += len(asked) < len(more)
    assert fewer > 0


def test_knowledge_that_the_data_contradict_is_still_enforced():
    dag = np.zeros((3, 3), dtype=bool)
    dag[0, 1] = dag[2, 1] = True  # a -> b <- c
    for evidence in ("vote", "weighted_p"):
        outcome, _ = learnt(dag, Knowledge(required=(("a", "c"),)), evidence)
        assert outcome.arcs[0, 2]
        assert not outcome.arcs[2, 0]
        outcome, _ = learnt(dag, Knowledge(forbidden=(("a", "b"), ("b", "a"))), evidence)
        assert not outcome.skeleton[0, 1]
        outcome, _ = learnt(dag, Knowledge(tiers=(("b",), ("a", "c"))), evidence)
        assert not outcome.arcs[0, 1]
        assert outcome.arcs[1, 0]


@pytest.mark.parametrize(
    ("knowledge", "said"),
    [
        (Knowledge(required=(("a", "z"),)), "'z'"),
        (Knowledge(required=(("a", "a"),)), "edge"),
        (Knowledge(required=(("a", "b"),), forbidden=(("a", "b"),)), "required and forbidden"),
        (Knowledge(required=(("a", "b"), ("b", "a"))), "cycle"),
        (Knowledge(required=(("a", "b"),), tiers=(("b",), ("a",))), "required and forbidden"),
        (Knowledge(tiers=(("a",), ("a",))), "twice"),
    ],
)
def test_knowledge_that_contradicts_itself_is_named(knowledge, said):
    with pytest.raises(ParameterError, match=said):
        knowledge.over(NAMES)


@pytest.mark.parametrize(
    "text",
    ["forbidden = 3", "forbiden = []", "tiers = [[1]]", 'required = [["a"]]', "tiers = ["],
)
def test_a_file_with_a_fault_is_named(text):
    with pytest.raises(ParameterError, match="knowledge"):
        Knowledge.loads(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"forbidden": ("Smoking", "XRay")},
        {"required": ("ab",)},
        {"tiers": "ab"},
        {"tiers": ("Smoking", "XRay")},
        {"required": (("a", "b", "c"),)},
    ],
)
def test_python_is_told_of_names_that_stand_for_lists(fields):
    with pytest.raises(ParameterError, match="knowledge"):
        Knowledge(**fields)


def test_lists_do_as_well_as_tuples():
    assert Knowledge(tiers=[["a"], ["b"]]) == Knowledge(tiers=(("a",), ("b",)))


def test_the_command_line_reads_a_file_and_repeats_it(call, tmp_path):
    data, file = tmp_path / "asia.csv", tmp_path / "known.toml"
    asia().sample(900, np.random.default_rng(1)).to_csv(data, index=False)
    file.write_text(
        'required = [["Smoking", "LungCancer"]]\ntiers = [["VisitToAsia", "Smoking"], ["XRay"]]\n'
    )
    out = tmp_path / "one"
    code, _, _ = call(
        "simulate", "fedpc", str(data), "--sites", "3", "--knowledge", str(file), "--out", str(out)
    )
    assert code == 0
    assert "Smoking,LungCancer,-->" in (out / "edges.csv").read_text()
    code, printed, _ = call("repeat", str(out))
    assert code == 0
    assert "Smoking --> LungCancer" in printed
    file.write_text('required = [["Smoking", "Nothing"]]\n')
    code, printed, _ = call("repeat", str(out))  # a saved run holds its knowledge
    assert code == 0
    assert "Smoking --> LungCancer" in printed
    code, _, said = call("simulate", "fedpc", str(data), "--sites", "3", "--knowledge", str(file))
    assert code == 2
    assert "Nothing" in said


def test_a_started_run_is_resumed_with_its_knowledge():
    knowledge = Knowledge(required=(("1", "2"),), tiers=(("1",), ("2", "3")))
    algorithm = FedPC(evidence="pooled", knowledge=knowledge)
    written = json.loads(json.dumps(asdict(algorithm)))
    assert make_algorithm("fedpc", written) == algorithm
