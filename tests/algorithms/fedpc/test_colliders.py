"""Collider rules over all separating sets: true graphs, plain loops, and where the rules differ."""

from itertools import combinations, permutations

import numpy as np
import pytest
from driving import drive, respondent
from enumeration import arcs_of, colliders_of, every_extension, is_cyclic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleTest, random_dag

from cipherdag import Federation, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import ParameterError
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.compute.ci_tests.ci_test import CITestResult

RULES = ("auto", "sepset", "conservative", "majority", "p_value_drop")
seeds = st.integers(0, 100_000)


class TableTest:
    """p-values from a function of x < y and the set, a frozenset; one row each."""

    def __init__(self, n_variables, p_value):
        self.n_variables = n_variables
        self._p_value = p_value

    def evaluate(self, x, y, given):
        triplets = zip(x.tolist(), y.tolist(), given.tolist(), strict=True)
        found = [self._p_value(min(a, b), max(a, b), frozenset(s)) for a, b, s in triplets]
        one = np.ones(len(found))
        return CITestResult(np.array(found), one, one, one, one.astype(np.int64))


def run(test, n_sites=1, **parameters):
    algorithm = FedPC(evidence="weighted_p", max_cond_size=None, **parameters)
    return drive(algorithm.ask(Facts(test.n_variables, n_sites)), [respondent(test)] * n_sites)


@pytest.mark.parametrize("reveal", ["sums", "bits"])
@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_with_d_separation_every_rule_gives_the_true_graph(rule, reveal, seed):
    rng = np.random.default_rng(seed)
    dag = random_dag(int(rng.integers(2, 8)), 2.5, rng)
    outcome, _ = run(OracleTest(dag), n_sites=3, colliders=rule, reveal=reveal)
    assert (outcome.arcs == cpdag_of(dag)).all()
    assert outcome.ambiguous == ()


# against plain loops


def hashed(seed, n_variables):
    """A test whose answers agree with nothing: half of all sets separate."""
    known = {}
    rng = np.random.default_rng(seed)
    edges = random_dag(n_variables, 3.0, rng)
    edges = edges | edges.T

    def p_value(x, y, given):
        if edges[x, y]:
            return 0.0
        if (x, y, given) not in known:
            own = np.random.default_rng([seed, x, y, *sorted(given)])
            known[x, y, given] = round(float(own.random()), 6) if given else 0.0
        return known[x, y, given]

    return TableTest(n_variables, p_value), p_value


def plain_verdicts(skeleton, p_value, rule, alpha):
    """Colliders and ambiguous triples, triple by triple."""
    colliders, ambiguous = set(), set()
    n = len(skeleton)
    for x, z in combinations(range(n), 2):
        if skeleton[x, z]:
            continue
        sets = set()
        for own, other in ((x, z), (z, x)):
            pool = [v for v in range(n) if skeleton[own, v] and v != other]
            for size in range(len(pool) + 1):
                sets |= {frozenset(chosen) for chosen in combinations(pool, size)}
        separating = [chosen for chosen in sets if p_value(x, z, chosen) > alpha]
        for y in range(n):
            if not (skeleton[x, y] and skeleton[y, z]):
                continue
            share = np.mean([y in chosen for chosen in separating]) if separating else np.nan
            open_low, open_high = (0.0, 1.0) if rule == "conservative" else (0.5, 0.5)
            if share < open_low or share == 0.0:
                colliders.add((x, y, z))
            elif not (share > open_high or share == 1.0):
                ambiguous.add((x, y, z))
    return colliders, ambiguous


def plain_p_value_drop(skeleton, p_value, alpha):
    """Colliders with the factor by which p falls, and ambiguous triples."""
    colliders, ambiguous, clear = {}, set(), np.log(2)
    n = len(skeleton)
    for x, y, z in permutations(range(n), 3):
        if x > z or skeleton[x, z] or not (skeleton[x, y] and skeleton[y, z]):
            continue
        falls, alone = [], []
        pools = [{v for v in range(n) if skeleton[own, v]} - {x, z} for own in (x, z)]
        others = sorted(set().union(*pools) - {y})
        for size in range(len(others) + 1):
            for chosen in map(set, combinations(others, size)):
                if not any(chosen | {y} <= pool for pool in pools):
                    continue
                one, two = (p_value(x, z, frozenset(s)) for s in (chosen, chosen | {y}))
                if max(one, two) > alpha:
                    falls.append(np.log(max(one, alpha / 100) / max(two, alpha / 100)))
                    if not any(v in pools[0] & pools[1] for v in chosen):
                        alone.append(falls[-1])
        falls = alone or falls
        mean = np.mean(falls) if falls else 0.0
        if mean >= clear:
            colliders[x, y, z] = np.exp(mean)
        elif mean > -clear:
            ambiguous.add((x, y, z))
    return colliders, ambiguous


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_p_value_drop_is_that_of_plain_loops(seed):
    test, p_value = hashed(seed, 6)
    outcome, _ = run(test, colliders="p_value_drop", alpha=0.3)
    colliders, ambiguous = plain_p_value_drop(outcome.skeleton, p_value, 0.3)
    assert set(outcome.ambiguous) == ambiguous
    assert outcome.colliders == pytest.approx(colliders)
    check_class(outcome, sorted(colliders, key=lambda t: -colliders[t]))


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_p_value_drop_by_bits_is_that_of_loops_over_two_levels(seed):
    test, p_value = hashed(seed, 6)
    closed, _ = run(test, n_sites=3, colliders="p_value_drop", alpha=0.1, reveal="bits")

    def middle(x, y, given):
        # on the grid on which sums over three sites, of a row each, are compared
        above = [np.rint((p_value(x, y, given) - level) * 2**12) > 0 for level in (0.1, 0.3)]
        return [0.01, 0.03**0.5, 0.3**0.5][int(np.sum(above))]

    colliders, ambiguous = plain_p_value_drop(closed.skeleton, middle, 0.1)
    assert set(closed.ambiguous) == ambiguous
    assert closed.colliders == pytest.approx(colliders)


def test_a_test_that_cannot_be_done_says_nothing_of_a_middle():
    def p_value(x, y, given):
        if (x, y) != (0, 2):
            return 0.0
        return {(): 0.5, (1,): float("nan"), (3,): 0.4, (1, 3): 0.1}.get(tuple(sorted(given)), 0.0)

    outcome, _ = run(TableTest(4, p_value), colliders="p_value_drop")
    # of y: {3} against {1, 3} alone; of w: {} against {3} alone, since {1} is untold
    assert outcome.colliders == pytest.approx({(0, 1, 2): 4.0})
    assert outcome.ambiguous == ((0, 3, 2),)


def check_class(outcome, ordered):
    """The class is that of a DAG with the colliders that were taken in this order."""
    taken = outcome.skeleton.copy()
    for x, y, z in ordered:
        further = taken.copy()
        further[y, x] = further[y, z] = False
        if taken[x, y] and taken[z, y] and not is_cyclic(further & ~further.T):
            taken = further
    dag = outcome.in_class.dag
    assert not is_cyclic(dag)
    assert (dag | dag.T == outcome.skeleton).all()
    assert (outcome.arcs == cpdag_of(dag)).all()
    assert not (dag & ~taken).any()
    whole = [own for own in every_extension(taken) if colliders_of(own) == colliders_of(taken)]
    if whole:  # some DAG has these colliders and no others
        assert colliders_of(dag) == colliders_of(taken)
    have = colliders_of(dag)
    assert set(outcome.in_class.set_aside) == set(ordered) - have
    assert set(outcome.in_class.forced) == have - set(ordered)


@pytest.mark.parametrize("rule", ["conservative", "majority"])
@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_verdicts_and_directions_are_those_of_plain_loops(rule, seed):
    test, p_value = hashed(seed, 6)
    outcome, _ = run(test, colliders=rule, alpha=0.5)
    colliders, ambiguous = plain_verdicts(outcome.skeleton, p_value, rule, 0.5)
    assert set(outcome.ambiguous) == ambiguous
    strength = {triple: outcome.support[triple[0], triple[2]] for triple in colliders}
    if len({*strength.values()}) == len({own[::2] for own in strength}) == len(strength):
        check_class(outcome, sorted(colliders, key=lambda t: -strength[t]))


# by hand


def disagreeing(x, y, given):
    """x - y - z and x - w - z with y - w: the set {w} separates best, {y} and {y, w} do too."""
    if (x, y) != (0, 2):
        return 0.0
    return {(3,): 0.9, (1,): 0.2, (1, 3): 0.3}.get(tuple(sorted(given)), 0.0)


@pytest.mark.parametrize(
    ("rule", "expected", "ambiguous"),
    [
        # by rule 3 of Meek w causes y as well
        ("sepset", "x>y z>y w>y x-w z-w", set()),
        # of y: {w} 0.9 falls to 0.3; {} rises from nothing to 0.2: no collider, nor is w by this
        ("p_value_drop", "x-y y-z w-y x-w z-w", set()),
        ("majority", "x-y y-z w-y x-w z-w", set()),
        ("conservative", "x-y y-z w-y x-w z-w", {(0, 1, 2), (0, 3, 2)}),
    ],
)
def test_the_rules_differ_where_separating_sets_do(rule, expected, ambiguous):
    outcome, questions = run(TableTest(4, disagreeing), colliders=rule)
    assert (outcome.arcs == arcs_of(expected, nodes="xyzw")).all()
    assert set(outcome.ambiguous) == ambiguous
    assert outcome.separators[0, 2] == {3}
    _, others = run(TableTest(4, disagreeing))
    assert len(questions) == len(others)  # no test is asked that the largest p does not ask


def test_half_of_the_sets_are_no_majority():
    half = TableTest(4, lambda x, y, given: 0.5 * (x == 0 and y == 2 and given in ({1}, {3})))
    outcome, _ = run(half, colliders="majority")
    assert set(outcome.ambiguous) == {(0, 1, 2), (0, 3, 2)}
    assert (outcome.arcs == outcome.skeleton).all()


# as users see it


@pytest.mark.parametrize("evidence", ["auto", "pooled"])
def test_an_edge_that_stands_for_want_of_sites_turns_no_true_arrow(evidence):
    """Two sites of three have an X-ray to show that it needs no LungCancer given TubOrCancer."""
    truth = asia().graph
    patients = asia().sample(6000, np.random.default_rng(1))
    sites = {"north": patients[:2500], "south": patients[2500:4000], "west": patients[4000:]}
    result = Federation.simulate(sites).run(FedPC(evidence=evidence, reveal="sums"), seed=0)
    edges = {
        frozenset(own) for own in (*result.finding.graph.directed, *result.finding.graph.undirected)
    }
    assert {"LungCancer", "XRay"} in edges
    open_triples = [
        own for own in result.finding.details["unresolved"] if own["tests_say"] == "open"
    ]
    ends = [(own["first"], own["middle"], own["last"]) for own in open_triples]
    assert ("LungCancer", "XRay", "Tuberculosis") in ends
    assert not {(b, a) for a, b in truth.directed} & set(result.finding.graph.directed)
    assert result.finding.evidence.of("LungCancer", "XRay").status == "undone"
    assert ("LungCancer", "TubOrCancer") in result.finding.graph.directed


def test_votes_do_not_support_them():
    for rule in ("conservative", "majority", "p_value_drop"):
        with pytest.raises(ParameterError, match="needs other evidence than vote"):
            FedPC(evidence="vote", colliders=rule)
    with pytest.raises(ParameterError, match="one of auto, sepset, conservative, majority"):
        FedPC(evidence="fisher", colliders="first")


def test_result_and_report_name_the_open_triples():
    data = asia().sample(700, np.random.default_rng(3))
    asked = FedPC(evidence="fisher", colliders="conservative", alpha=0.1)
    found = Federation.split(data, 3).run(asked, seed=1).finding
    edges = {frozenset((e.source, e.target)) for e in found.graph.edges}
    assert found.details["unresolved"]
    for own in found.details["unresolved"]:
        x, y, z = own["first"], own["middle"], own["last"]
        assert {frozenset((x, y)), frozenset((y, z))} <= edges
        assert frozenset((x, z)) not in edges


def test_the_command_prints_and_repeats_them(call, tmp_path):
    asia().sample(700, np.random.default_rng(3)).to_csv(tmp_path / "all.csv", index=False)
    options = ("--evidence", "fisher", "--alpha", 0.1)
    command = ("simulate", "fedpc", tmp_path / "all.csv", "--sites", 3, *options)
    code, shown, _ = call(*command, "--out", tmp_path / "out")
    assert code == 0
    assert "Unresolved triples" in shown
    assert "Directions near these triples" in (tmp_path / "out" / "report.html").read_text("utf-8")
    again = call("repeat", tmp_path / "out")[1]
    told = shown[shown.index("Unresolved triples") :].split("\n\n")[0]
    assert len(told.splitlines()) > 1
    assert told in again
