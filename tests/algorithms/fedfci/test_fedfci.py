"""FedFCI and FedRFCI: the true PAG under an oracle, sound marks of RFCI, knowledge, and orders."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from ancestral import anteriors, mag_of
from click.testing import CliRunner
from driving import drive, respondent
from oracle import OracleTest, random_dag

from cipherdag import Federation, FedFCI, FedPC, Knowledge, LearntPAG, Run
from cipherdag.algorithms.algorithm import Facts
from cipherdag.cli.main import cli
from cipherdag.errors import ParameterError
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.endpoints import ARROW, NONE, TAIL, circles
from cipherdag.graphs.orientation import colliders_by_sepset


class HiddenOracle(OracleTest):
    """d-separation among the first variables of a DAG, given what rows were selected by."""

    def __init__(self, dag, observed, selected=()):
        super().__init__(dag)
        self.n_variables, self._selected = observed, list(selected)

    def evaluate(self, x, y, given):
        more = np.tile(np.array(self._selected, dtype=np.int64), (len(x), 1))
        return super().evaluate(x, y, np.hstack([given, more]) if len(x) else given)


def case(seed, *, selection=False, largest=10):
    """A DAG whose observed variables come first, then hidden ones, then those of selection."""
    rng = np.random.default_rng(seed)
    observed, hidden = int(rng.integers(5, largest)), int(rng.integers(1, 4))
    selected = int(rng.integers(1, 3)) if selection else 0
    dag = random_dag(observed + hidden + selected, float(rng.uniform(1.5, 3.5)), rng)
    return dag, observed, hidden


def oracle_outcome(algorithm, dag, observed, hidden, n_sites=2):
    selected = range(observed + hidden, len(dag))
    site = respondent(HiddenOracle(dag, observed, selected))
    return drive(algorithm.ask(Facts(observed, n_sites)), [site] * n_sites)


def true_pag(dag, observed, hidden):
    """By the MAG's own separating sets; `tests/graphs/test_ancestral.py` tests that against all
    equivalent MAGs."""
    selected = range(observed + hidden, len(dag))
    mag = mag_of(dag, range(observed, observed + hidden), selected)
    skeleton = np.zeros((observed, observed), dtype=bool)
    for end in mag:
        skeleton[end] = True
    sets = {
        (x, y): frozenset(anteriors(mag, {x, y}) - {x, y})
        for x, y in combinations(range(observed), 2)
        if (x, y) not in mag
    }
    marks = with_colliders(circles(skeleton), colliders_by_sepset(skeleton, sets))
    return apply_zhang_rules(marks, Grounds(sets), selection=bool(selected))


@pytest.mark.parametrize("selection", [False, True])
@pytest.mark.parametrize("colliders", ["p_value_drop", "majority", "conservative", "sepset"])
def test_the_true_pag_under_an_oracle(colliders, selection):
    algorithm = FedFCI(
        evidence="fisher", colliders=colliders, selection=selection, max_cond_size=None
    )
    for seed in range(100 if colliders == "p_value_drop" and not selection else 30):
        dag, observed, hidden = case(seed, selection=selection)
        outcome, _ = oracle_outcome(algorithm, dag, observed, hidden)
        true = true_pag(dag, observed, hidden)
        assert (outcome.marks == true).all(), seed
        assert not outcome.ambiguous


@pytest.mark.parametrize("selection", [False, True])
@pytest.mark.parametrize("colliders", ["p_value_drop", "majority", "sepset"])
def test_what_rfci_says_is_true_under_an_oracle(colliders, selection):
    """Its edges are the true ones and some more, and of every edge each mark is true."""
    rfci = FedFCI(
        evidence="fisher",
        search="rfci",
        colliders=colliders,
        selection=selection,
        max_cond_size=None,
    )
    for seed in range(30):
        dag, observed, hidden = case(seed, selection=selection)
        outcome, _ = oracle_outcome(rfci, dag, observed, hidden)
        assert_sound(outcome.marks, dag, observed, hidden)


def assert_sound(marks, dag, observed, hidden):
    assert not ((marks == NONE) & (true_pag(dag, observed, hidden) != NONE)).any()
    selected = range(observed + hidden, len(dag))
    above = [ancestors_of(dag, {v, *selected}) for v in range(len(dag))]
    assert not any(b in above[a] for a, b in np.argwhere(marks == ARROW).tolist())
    assert all(b in above[a] for a, b in np.argwhere(marks == TAIL).tolist())


@pytest.mark.parametrize(
    ("observed", "arcs"),
    [
        (6, "01 24 30 32 45 61 64 70 75 81 82"),
        (7, "10 20 41 42 45 46 50 63 74 76 82 83 90 96 A1 A2"),
    ],
)
def test_an_edge_that_only_possible_d_sep_takes_out(observed, arcs):
    """Found by going through random graphs; no set of neighbours separates the pair."""
    pairs = [tuple(int(v, 16) for v in arc) for arc in arcs.split()]
    dag = np.zeros((max(map(max, pairs)) + 1,) * 2, dtype=bool)
    dag[tuple(np.array(pairs).T)] = True
    case = (dag, observed, len(dag) - observed)
    found = {}
    for search in ("fci", "rfci"):
        algorithm = FedFCI(evidence="fisher", search=search, max_cond_size=None)
        found[search] = oracle_outcome(algorithm, *case)[0].marks
    assert (found["fci"] == true_pag(*case)).all()
    assert (found["rfci"] != NONE).sum() == (found["fci"] != NONE).sum() + 2
    assert_sound(found["rfci"], *case)


def ancestors_of(dag, of):
    reached = np.linalg.matrix_power(np.eye(len(dag)) + dag, len(dag)) > 0
    return {v for v in range(len(dag)) if reached[v, list(of)].any()}


def test_verdicts_come_to_the_same_graph_under_an_oracle():
    closed = FedFCI(evidence="fisher", reveal="bits", max_cond_size=None)
    for seed in range(20):
        dag, observed, hidden = case(seed)
        outcome, _ = oracle_outcome(closed, dag, observed, hidden, n_sites=3)
        assert (outcome.marks == true_pag(dag, observed, hidden)).all()


@pytest.mark.parametrize("search", ["fci", "rfci"])
def test_knowledge_adds_true_marks_and_takes_none_away(search):
    """True tiers and a true required edge under an oracle: no mark is lost, and none is wrong."""
    gained = 0
    for seed in range(60):
        dag, observed, hidden = case(seed)
        true = true_pag(dag, observed, hidden)
        above = [ancestors_of(dag, {v}) for v in range(len(dag))]
        names = [f"v{v}" for v in range(observed)]
        order = sorted(range(observed), key=lambda v: (len(above[v]), v))
        tiers = tuple(tuple(names[v] for v in own) for own in (order[:3], order[3:]))
        if any(v in above[u] for u in order[:3] for v in order[3:]):
            continue
        arcs = np.argwhere(dag[:observed, :observed]).tolist()
        required = tuple((names[a], names[b]) for a, b in arcs[:1])
        knowledge = Knowledge(tiers=tiers, required=required)
        algorithm = FedFCI(
            evidence="fisher", search=search, knowledge=knowledge, max_cond_size=None
        )
        site = respondent(HiddenOracle(dag, observed))
        outcome, _ = drive(algorithm.ask(Facts(observed, 2, tuple(names))), [site] * 2)
        for a, b in np.argwhere(outcome.marks).tolist():
            assert outcome.marks[a, b] != (ARROW if b in above[a] else TAIL)
        if search == "fci":
            known = (true == ARROW) | (true == TAIL)
            assert (outcome.marks[known] == true[known]).all()
            gained += int((outcome.marks != true).sum())
    assert gained > 20 or search == "rfci"


def test_a_pair_without_causation_may_still_have_an_edge():
    dag = np.zeros((3, 3), dtype=bool)
    dag[2, [0, 1]] = True
    knowledge = Knowledge(forbidden=(("a", "b"), ("b", "a")))
    site = respondent(HiddenOracle(dag, 2))
    algorithm = FedFCI(evidence="fisher", knowledge=knowledge)
    outcome, _ = drive(algorithm.ask(Facts(2, 2, ("a", "b"))), [site] * 2)
    assert outcome.marks[0, 1] == outcome.marks[1, 0] == ARROW


def test_what_cannot_be_a_cause_is_not_conditioned_on():
    """Over many graphs; of a single one all may ask the same. With selection anything may be."""
    asked = dict.fromkeys(("rfci", "fci", "selection"), 0)
    for seed in range(20):
        dag, observed, hidden = case(seed)
        for kind in asked:
            algorithm = FedFCI(
                evidence="fisher",
                search="rfci" if kind == "rfci" else "fci",
                selection=kind == "selection",
                max_cond_size=None,
            )
            outcome, _ = oracle_outcome(algorithm, dag, observed, hidden)
            asked[kind] += sum(outcome.tests.values())
    assert asked["rfci"] < asked["fci"] < 0.9 * asked["selection"]


@pytest.mark.parametrize(
    ("said", "choices"),
    [
        ("with selection", {"selection": True, "knowledge": Knowledge()}),
        ("reveal bits needs evidence", {"reveal": "bits", "evidence": "pooled"}),
        ("for test kci choose evidence", {"test": "kci", "evidence": "pooled"}),
        ("evidence", {"evidence": "vote"}),
    ],
)
def test_choices_that_do_not_go_together_are_refused(said, choices):
    with pytest.raises(ParameterError, match=said):
        FedFCI(**choices)


def test_verdicts_need_two_sites():
    with pytest.raises(ParameterError, match="2 sites"):
        next(FedFCI(evidence="fisher", reveal="bits").ask(Facts(4, 1)))


@pytest.fixture(scope="module")
def federation():
    """b and c share a hidden cause; a is a cause of b, d of c."""
    rng = np.random.default_rng(0)
    a, d, hidden = rng.normal(size=(3, 3000))
    b, c = a + hidden + rng.normal(size=3000), d + hidden + rng.normal(size=3000)
    return Federation.split(pd.DataFrame({"a": a, "b": b, "c": c, "d": d}), 3, seed=1)


def test_a_hidden_cause_is_a_double_arrow_where_pc_draws_one(federation, tmp_path):
    pc = federation.run(FedPC()).finding.graph
    assert {("b", "c"), ("c", "b")} & set(pc.directed)
    result = federation.run(FedFCI())
    assert isinstance(result.finding, LearntPAG)
    assert set(map(str, result.finding.graph.edges)) == {"a o-> b", "b <-> c", "d o-> c"}
    again = Run.load(result.save(tmp_path / "run"), LearntPAG)
    assert again.finding.graph == result.finding.graph
    assert again.finding.decisions == result.finding.decisions
    assert (tmp_path / "run" / "graph.svg").exists()
    assert "both have an unmeasured cause" in "\n".join(again.lines())
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "b and c share an unmeasured cause" in page
    assert 'aria-label="shares an unmeasured cause with"' in page
    assert list(result.table("edges")["mark"]) == ["o->", "<->", "o->"]
    assert set(result.finding.compare(again.finding)["same"]) == {True}
    assert result.finding.metrics(again.finding.graph).share_right == 1.0
    assert export(tmp_path / "run", tmp_path / "graph.dot").exit_code == 0
    assert "dir=both" in (tmp_path / "graph.dot").read_text()


def export(folder, file):
    words = ["graph", "export", str(folder), "--format", "dot", "--out", str(file)]
    return CliRunner().invoke(cli, words)
