"""Every algorithm as published is that of its paper or program, by independent implementations."""

import itertools
import math

import networkx as nx
import numpy as np
import original_fedpc as original
import pandas as pd
import plain_papers
import pytest
from driving import drive, respondent
from label_tables import continuous_table, discrete_table
from regretting import algorithm_1, every_dag, gaussian, linear_sites, worst_regrets

from cipherdag import FedBOSS, FedCD, FedCMFS, Federation, FedPC, Policy, RFcd, Run
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.parameters import flattened
from cipherdag.errors import ParameterError, SiteNotReadyError
from cipherdag.findings.features import SelectedFeatures
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.dags import dag_of
from cipherdag.questions.local_beliefs import binary_graph
from cipherdag.sites.answers.belief_answers import site_weights
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest

OURS = {"categories": DiscreteTest, "numbers": FisherZTest}
TESTS = {"categories": original.g2_test, "numbers": original.fisher_z_test}


def remembered(test):
    """The same test, each computed once."""
    memo = {}

    def once(rows, x, y, given):
        key = id(rows), x, y, tuple(given)
        if key not in memo:
            memo[key] = test(rows, x, y, list(given))
        return memo[key]

    return once


def parts(kind, seed, n_sites, n=7):
    """Rows of some sites of uneven sizes, of which the smallest cannot do most tests."""
    rng = np.random.default_rng(seed)
    make = discrete_table if kind == "categories" else continuous_table
    rows = make(rng, n=n, rows=220 * n_sites)
    cuts = np.cumsum(np.linspace(0.1, 1.9, n_sites) * 220).astype(int)[:-1]
    return np.split(rows, cuts)


def together(sites, **more):
    names = [f"v{k}" for k in range(sites[0].shape[1])]
    data = {f"site-{k}": pd.DataFrame(rows, columns=names) for k, rows in enumerate(sites, 1)}
    return Federation.simulate(data, policy=Policy.as_published(), device="cpu", **more)


def fedpc_by(algorithm, kind, seed, n_sites):
    """Rows of some sites, the plain test, and what is found; at three sites by a run, too."""
    sites, test = parts(kind, seed, n_sites), remembered(TESTS[kind])
    respondents = [respondent(OURS[kind](rows)) for rows in sites]
    outcome, _ = drive(algorithm.ask(Facts(sites[0].shape[1], n_sites)), respondents)
    if n_sites == 3:
        assert (together(sites).run(algorithm, seed=0).finding.graph.arcs == outcome.arcs).all()
    separating = {pair: own and frozenset(own) for pair, own in outcome.separators.items()}
    return sites, test, outcome, separating


@pytest.mark.parametrize("kind", TESTS)
@pytest.mark.parametrize("n_sites", [1, 3, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_fedpcs_code_is_the_program(kind, n_sites, seed):
    published = FedPC.as_published("code")
    sites, test, outcome, separating = fedpc_by(published, kind, seed, n_sites)
    skeleton = original.skeleton(sites, test, 0.01)
    assert (outcome.skeleton == skeleton).all()
    expected = original.separators(sites, test, skeleton, 0.01, kind == "numbers")
    assert {pair: own or frozenset() for pair, own in separating.items()} == expected
    assert (outcome.arcs == original.orient(skeleton, expected)).all()


@pytest.mark.parametrize("kind", TESTS)
@pytest.mark.parametrize("n_sites", [3, 10])
@pytest.mark.parametrize("seed", range(3))
def test_fedpc_is_the_paper(kind, n_sites, seed):
    sites, test, outcome, separating = fedpc_by(FedPC.as_published(), kind, seed, n_sites)
    skeleton, expected, arcs = plain_papers.fedpc(sites, test)
    assert (outcome.skeleton == skeleton).all()
    assert separating == expected
    # the paper leaves open what colliders that contradict each other come to
    if not (outcome.in_class.set_aside or outcome.in_class.forced):
        assert (outcome.arcs == arcs).all()


@pytest.mark.parametrize("kind", TESTS)
@pytest.mark.parametrize("n_sites", [2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_fedcmfs_is_the_paper(kind, n_sites, seed):
    sites, test = parts(kind, seed, n_sites, n=9), remembered(TESTS[kind])
    how = {"alpha": 0.05, "k1": 50.0, "k2": 50.0}
    labels = ["v0", "v1", "v2"]
    found = together(sites, labels=labels).run(FedCMFS.as_published(**how), seed=0).finding
    expected = plain_papers.fedcmfs(sites, test, (0, 1, 2), **how, largest=3)
    for label, features in expected.items():
        selected = [own.feature for own in found.features[f"v{label}"]]
        assert selected == [f"v{v}" for v in features]


@pytest.mark.parametrize("seed", range(6))
def test_rfcd_is_algorithm_1(seed):
    _, tables = linear_sites(4, 3, 120, seed)
    scores = gaussian([own - own.mean(axis=0) for own in tables])
    values = worst_regrets(scores, every_dag(4), grid_bits=20)
    width = (1, 5, 10)[seed % 3]
    best = algorithm_1(values, 4, width)[-1]
    found = together(tables).run(RFcd.as_published(beam=width), seed=0).finding
    assert dag_of(found.dag.arcs) == best.dag
    assert found.details["regret"] == pytest.approx(best.value / 2**20, abs=1e-5)


def reliabilities(belief, graph, mass):
    """r of every edge by all simple paths to it (Algorithm 1); 0 where there is none."""
    paths = nx.DiGraph(list(zip(*np.nonzero(graph), strict=True)))
    paths.add_nodes_from(range(len(graph)))
    found = np.zeros(graph.shape)
    for i, j in zip(*np.nonzero(graph), strict=True):
        for source in np.flatnonzero(mass):
            ways = [[i]] if source == i else nx.all_simple_paths(paths, source, i)
            for way in ways:
                along = math.prod(belief[a, b] for a, b in itertools.pairwise([*way, j]))
                found[i, j] = max(found[i, j], mass[source] * along)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_fedcd_weighs_by_equation_7(seed):
    rng = np.random.default_rng(seed)
    p, n_sites, full = 5, 3, 200
    last = rng.random((p, p)) * ~np.eye(p, dtype=bool)
    algorithm = FedCD.as_published(full_mass=full, sharpness=3.0)
    question = algorithm._question(p, 2, 0, last[None])
    counts = rng.integers(0, full + 1, (n_sites, p)) * (rng.random((n_sites, p)) < 0.5)
    learnt = [rng.random((1, p, p)) for _ in range(n_sites)]
    weights = np.array(
        [
            site_weights(question, own, np.asarray(done, dtype=float), 900, least=0)
            for own, done in zip(learnt, counts, strict=True)
        ]
    )
    graph = binary_graph(last[None])
    expected = np.exp([3.0 * reliabilities(last, graph, done / full) for done in counts])
    assert np.allclose(weights / weights.sum(axis=0), expected / expected.sum(axis=0))
    assert question.start == "sampled"


def test_fedcd_runs_every_round_of_the_paper():
    last = FedCD.as_published(full_mass=200)
    assert last.averaging.every_round
    assert not FedCD().averaging.every_round


# presets


@pytest.mark.parametrize("algorithm", [FedPC, FedCMFS, RFcd, FedCD])
def test_what_a_preset_fixes_cannot_be_said_otherwise(algorithm):
    for source, published in algorithm.published.items():
        needed = dict.fromkeys(published.needed, 7)
        made = algorithm.as_published(source, **needed)
        for name, value in published.parameters.items():
            assert flattened(algorithm, made.get_params())[name] == value
            assert algorithm.as_published(source, **needed, **{name: value}) == made
        with pytest.raises(TypeError):
            published.parameters["alpha"] = 0.5


@pytest.mark.parametrize(
    ("algorithm", "source", "wrong", "said"),
    [
        (FedPC, "paper", {"alpha": 0.05}, "alpha 0.05 contradicts FedPC as published in its paper"),
        (FedPC, "paper", {"bootstrap": 10}, "bootstrap 10 contradicts"),
        (FedPC, "code", {"max_cond_size": None}, "max_cond_size None contradicts"),
        (FedPC, "thesis", {}, "FedPC follows paper, code as published, not 'thesis'"),
        (FedPC, "paper", {"alhpa": 0.01}, "has no parameter 'alhpa'"),
        (FedCMFS, "code", {}, "FedCMFS follows paper as published, not 'code'"),
        (FedCD, "paper", {}, "Fed-CD as published in its paper needs full_mass"),
        (FedCD, "code", {"reach": "edges"}, "reach edges contradicts"),
        (RFcd, "paper", {"search": "auto"}, "search auto contradicts"),
        (FedBOSS, "paper", {}, "FedBOSS follows nothing as published"),
    ],
)
def test_contradictions_are_named(algorithm, source, wrong, said):
    with pytest.raises(ParameterError, match=said.replace("(", r"\(")):
        algorithm.as_published(source, **wrong)


def test_sites_may_be_alone_only_where_nothing_is_protected():
    assert Policy.as_published().min_sites == 1
    with pytest.raises(SiteNotReadyError, match="min_sites"):
        Policy(min_sites=1)
    with pytest.raises(SiteNotReadyError, match="min_sites"):
        Policy.loads(Policy.as_published().dumps())


# the command line


@pytest.fixture
def file(tmp_path):
    rows = discrete_table(np.random.default_rng(3), n=5, rows=400)
    path = tmp_path / "rows.csv"
    pd.DataFrame(rows, columns=list("abcde")).to_csv(path, index=False)
    return path


def test_a_run_as_published_says_so_and_is_the_one_of_python(call, file, tmp_path):
    out = tmp_path / "result"
    code, _, said = call("simulate", "fedpc", "--as-published", file, "--out", out)
    assert code == 0, said
    assert "As published (paper): small counts are not protected" in said
    saved = Run.load(out, LearntGraph)
    whole = Federation.split(file, 3, seed=0, policy=Policy.as_published(), device="cpu")
    expected = whole.run(FedPC.as_published(), seed=0)
    assert saved.parameters == expected.parameters
    assert saved.finding.graph == expected.finding.graph
    assert call("repeat", out)[0] == 0


def test_the_code_and_what_a_paper_varies_can_be_said(call, file, tmp_path):
    out = tmp_path / "code"
    assert call("simulate", "fedpc", "--as-published", "code", file, "--out", out)[0] == 0
    assert Run.load(out, LearntGraph).parameters["voting"]["reference"] == "code"
    given, out = ("--as-published", "--labels", "a,b", "--k1", "30", file), tmp_path / "features"
    assert call("simulate", "fedcmfs", *given, "--out", out)[0] == 0
    parameters = Run.load(out, SelectedFeatures).parameters
    assert (parameters["k1"], parameters["retrieval"]) == (30.0, "paper")


@pytest.mark.parametrize(
    ("name", "said", "cause"),
    [
        ("fedpc", ("--alpha", "0.05"), "alpha 0.05 contradicts"),
        ("fedpc", ("--min-cell-size", "11"), "--min-cell-size contradicts --as-published"),
        ("rfcd", ("--objective", "sum"), "objective sum contradicts"),
    ],
)
def test_a_contradicting_option_is_refused(call, file, name, said, cause):
    code, _, printed = call("simulate", name, "--as-published", *said, file)
    assert code == 2
    assert cause in printed
    assert "or --as-published" in printed


def mixed_file(folder, categories):
    """A label, a feature that hides behind it, three categories, and numbers."""
    rng = np.random.default_rng(5)
    grade, age = rng.integers(0, 3, 500), rng.normal(60, 9, 500).round(1)
    ill = (grade + 0.08 * (age - 60) + rng.logistic(size=500) > 1).astype(int)
    told = pd.DataFrame({"age": age, "grade": np.array(categories)[grade], "ill": ill})
    path = folder / "mixed.csv"
    told.assign(other=rng.normal(size=500).round(2)).to_csv(path, index=False)
    return path


def test_three_categories_and_numbers_run_from_the_file_alone(call, tmp_path):
    file, out = mixed_file(tmp_path, [1, 2, 5]), tmp_path / "out"
    given = ("--as-published", "--labels", "ill", "--out", out)
    assert call("simulate", "fedcmfs", file, *given)[0] == 0
    whole = Federation.split(
        file, 3, labels=["ill"], policy=Policy.as_published(), relations=False, device="cpu"
    )
    names = whole.sites[0].table.names
    test = remembered(original.fisher_z_test)
    sites = [site.table.scored_numbers() for site in whole.sites]
    found = Run.load(out, SelectedFeatures).finding.features["ill"]
    how = {"alpha": 0.05, "k1": 10.0, "k2": 10.0}
    expected = plain_papers.fedcmfs(sites, test, (names.index("ill"),), **how, largest=3)
    assert [own.feature for own in found] == [names[v] for v in expected[names.index("ill")]]
    assert {own.feature for own in found} == {"age", "grade"}


def test_words_beside_numbers_are_refused_with_ways_that_work(call, tmp_path):
    file = mixed_file(tmp_path, ["low", "middle", "high"])
    code, _, said = call("simulate", "fedcmfs", file, "--labels", "ill")
    assert code == 6
    assert "--evidence stratified, or cut continuous columns" in said
    assert "fedpc" not in said
    given = ("--labels", "ill", "--evidence", "stratified")
    assert call("simulate", "fedcmfs", file, *given)[0] == 0
