"""Whatever the data and the answers, a graph is what its type says: held against all there are.

With CIPHERDAG_CASES=full: 2,000 data sets and 1,000 sets of answers.
"""

import math
import os
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from ancestral import true_pags
from driving import drive, respondent
from enumeration import colliders_of, every_extension, is_cyclic
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from cipherdag import (
    CPDAG,
    MPDAG,
    PAG,
    CausalGraph,
    FedBOSS,
    Federation,
    FedFCI,
    FedPC,
    Knowledge,
    PartialMixedGraph,
)
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import CipherdagError, ParameterError
from cipherdag.sites.compute.ci_tests.ci_test import CITestResult

seeds = st.integers(0, 2**32 - 1)
FULL = os.environ.get("CIPHERDAG_CASES") == "full"
cases = partial(settings, deadline=None, suppress_health_check=list(HealthCheck))
data_sets = partial(cases, max_examples=2000 if FULL else 8)
answers = partial(cases, max_examples=1000 if FULL else 40)


# what a graph is, by going through all there are


def check_dags(graph, dag=None):
    """The arrows are what all DAGs of the class have in common; the DAG is one of them."""
    members = list(every_extension(graph.arcs))
    assert members, "it stands for no DAG"
    assert (np.logical_or.reduce(members) == graph.arcs).all()
    if type(graph) is CPDAG:
        pattern = graph.skeleton()
        for x, y, z in colliders_of(members[0]):
            pattern[y, x] = pattern[y, z] = False
        assert (np.logical_or.reduce(list(every_extension(pattern))) == graph.arcs).all()
    if dag is not None:
        assert any((own == dag.arcs).all() for own in members)


def check_exports(graph):
    """What is written is read back as what it was, and no cycle is made of an undirected edge."""
    own = graph.to_networkx()
    assert own.graph["kind"] == graph.kind
    if own.is_directed():
        assert nx.is_directed_acyclic_graph(own)
    assert nx.parse_graphml(graph.to_graphml()).graph["kind"] == graph.kind
    assert type(graph).from_networkx(own) == graph
    assert type(graph).from_causallearn(graph.to_causallearn()) == graph
    if isinstance(graph, CausalGraph):
        again = CausalGraph.loads(graph.dumps())
        assert type(again) is type(graph)
        assert again == graph
        assert type(graph).from_csv(graph.to_csv(), nodes=graph.nodes) == graph


# of data


def column(rng, rows, before):
    """Of some kind: numbers, counts, categories, copies, sums, constants, one-hot, rare."""
    noise = rng.normal(size=rows)
    sure = [own for own in before if own.dtype.kind == "f"]
    base = rng.choice(len(sure)) if sure else None
    number = noise if base is None else noise * rng.choice([0.0, 0.3, 1.0]) + sure[base]
    kinds = {
        "number": lambda: number,
        "skewed": lambda: np.exp(np.minimum(number, 300.0)),
        "count": lambda: rng.poisson(np.exp(np.clip(number, -3, 2))).astype(float),
        "category": lambda: np.array(list("abcd"))[np.digitize(number, [-0.7, 0.0, 0.7])],
        "two": lambda: np.where(number > 0.0, "yes", "no"),
        "rare": lambda: np.where(number > 1.8, "yes", "no"),
        "constant": lambda: np.full(rows, "same"),
        "many": lambda: rng.choice([f"k{v:02d}" for v in range(15)], rows),
    }
    return kinds[str(rng.choice(list(kinds)))]()


def table(seed):
    rng = np.random.default_rng(seed)
    rows, width = int(rng.choice([24, 60, 200])), int(rng.integers(2, 6))
    columns = []
    for _ in range(width):
        columns.append(column(rng, rows, columns))
    return pd.DataFrame({"abcde"[k]: own for k, own in enumerate(columns)})


RUNS = {
    "fedpc": FedPC(),
    "bootstrap": FedPC(bootstrap=3),
    "votes": FedPC(evidence="vote"),
    "fci": FedFCI(),
    "boss": FedBOSS(),
}


@pytest.mark.parametrize("name", RUNS)
@data_sets()
@given(seed=seeds)
def test_every_data_set_gives_a_graph_that_is_what_it_says(name, seed):
    try:
        result = Federation.split(table(seed), 3, seed=seed % 1000).run(RUNS[name], seed=0)
    except CipherdagError:
        reject()  # by name, as mixed columns are of votes
    graph = result.finding.graph
    if type(graph) in (CausalGraph, PartialMixedGraph):  # claims no class, nor does it state one
        assert any(own.one_variable for own in result.relations)
    elif name == "fci":
        assert type(graph) is PAG
        if len(graph.nodes) <= 4:
            assert graph.endpoints.tobytes() in true_pags(len(graph.nodes))
    else:
        assert type(graph) is CPDAG
        check_dags(graph, result.finding.dag)
    check_exports(graph)
    if name == "bootstrap":
        assert not is_cyclic(result.finding.consensus().arcs & ~result.finding.consensus().arcs.T)


# of answers


class Answers:
    """p-values of nothing: independent, dependent and undone tests, whatever the others say."""

    def __init__(self, seed, n_variables):
        rng = np.random.default_rng(seed)
        self.n_variables = n_variables
        self._seed, self._undone = seed, rng.choice([0.0, 0.1, 0.5])
        self._dependent = rng.uniform(0.2, 0.95)

    def p_value(self, x, y, given):
        rng = np.random.default_rng([self._seed, x, y, *sorted(given)])
        if rng.random() < self._undone:
            return math.nan
        return 0.0 if rng.random() < self._dependent else float(rng.random())

    def evaluate(self, x, y, given):
        rows = zip(x.tolist(), y.tolist(), given.tolist(), strict=True)
        found = np.array([self.p_value(min(a, b), max(a, b), frozenset(s)) for a, b, s in rows])
        one = np.ones(len(found))
        return CITestResult(found, one, one, one, one.astype(np.int64))


def knowledge(rng, names):
    order = rng.permutation(len(names)).tolist()
    pairs = [(a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
    required = [(a, b) for a, b in pairs if order[a] < order[b] and rng.random() < 0.1]
    forbidden = [own for own in pairs if own not in required and rng.random() < 0.2]
    named = [tuple((names[a], names[b]) for a, b in own) for own in (required, forbidden)]
    return Knowledge(required=named[0], forbidden=named[1])


def concluded(algorithm, test):
    facts = Facts(test.n_variables, 1, tuple("abcde"[: test.n_variables]))
    outcome, _ = drive(algorithm.ask(facts), [respondent(test)])
    return algorithm.conclude(outcome, facts)


@pytest.mark.parametrize("rule", ["auto", "sepset", "conservative", "majority", "p_value_drop"])
@answers()
@given(seed=seeds, known=st.booleans())
def test_every_set_of_answers_gives_a_class_of_dags(rule, seed, known):
    rng = np.random.default_rng(seed)
    test = Answers(seed, int(rng.integers(2, 6)))
    told = knowledge(rng, "abcde"[: test.n_variables]) if known else None
    found = concluded(
        FedPC(evidence="weighted_p", alpha=0.2, colliders=rule, max_cond_size=None, knowledge=told),
        test,
    )
    assert type(found.graph) in ((CPDAG, MPDAG) if known else (CPDAG,))
    check_dags(found.graph, found.dag)
    check_exports(found.graph)
    if known:
        limits = told.over(found.graph.nodes)
        assert not (found.dag.arcs & limits.forbidden).any()
        assert not (limits.required & ~found.dag.arcs).any()


@pytest.mark.parametrize("rule", ["auto", "sepset", "conservative"])
@pytest.mark.parametrize("selection", [False, True])
@answers()
@given(seed=seeds)
def test_every_set_of_answers_gives_a_pag(rule, selection, seed):
    rng = np.random.default_rng(seed)
    test = Answers(seed, int(rng.integers(2, 6)))
    algorithm = FedFCI(
        evidence="weighted_p", alpha=0.2, colliders=rule, selection=selection, max_cond_size=None
    )
    graph = concluded(algorithm, test).graph
    assert type(graph) is PAG
    if len(graph.nodes) <= 4:
        assert graph.endpoints.tobytes() in true_pags(len(graph.nodes))
    check_exports(graph)


@pytest.mark.parametrize("search", ["fci", "rfci"])
@answers()
@given(seed=seeds)
def test_marks_that_need_not_be_a_pag_say_so(search, seed):
    rng = np.random.default_rng(seed)
    test = Answers(seed, int(rng.integers(2, 5)))
    told = knowledge(rng, "abcde"[: test.n_variables]) if search == "fci" else None
    algorithm = FedFCI(evidence="weighted_p", alpha=0.2, search=search, knowledge=told)
    try:
        graph = concluded(algorithm, test).graph
    except ParameterError:
        reject()  # what is known contradicts itself
    is_one = graph.endpoints.tobytes() in true_pags(len(graph.nodes))
    assert type(graph) is (PAG if is_one else PartialMixedGraph)
    check_exports(graph)
