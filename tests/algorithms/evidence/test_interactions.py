"""Conditioning on combinations of categories: what main effects of S cannot explain."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from driving import drive
from mixed_sites import ALL_KINDS, mixed_site
from queries import Queries
from scipy import stats

from cipherdag import CausalGraph, Federation, FedPC
from cipherdag.algorithms.algorithm import Facts

BINARY = (2, 2, 2, 2)


def copies_of_a_difference(seed, rows=2000, share=0.5):
    """s1, s2, and two noisy copies of whether they differ."""
    rng = np.random.default_rng(seed)
    s1, s2 = (rng.random((2, rows)) < share).astype(int)
    x, y = ((s1 ^ s2) ^ (rng.random((2, rows)) < 0.1)).astype(int)
    return np.column_stack([s1, s2, x, y]).astype(float)


def p_values(data, tests, categories, **settings):
    queries = Queries("glm", tests, **settings)
    sites = [mixed_site(part, categories) for part in np.array_split(data, 3)]
    drive(queries.ask(Facts(len(categories), 3)), sites)
    return queries.found


def test_noisy_copies_are_independent_only_with_interactions():
    found = {False: [], True: []}
    for seed in range(60):
        data = copies_of_a_difference(seed)
        for interactions, own in found.items():
            tests = [np.zeros((0, 2), int), np.zeros((0, 3), int), np.array([[2, 3, 0, 1]])]
            own.append(p_values(data, tests, BINARY, interactions=interactions)[2][0])
    assert max(found[False]) < 1e-20  # main effects alone are wrong every time
    assert stats.kstest(found[True], "uniform").pvalue > 1e-3


def test_the_graph_has_no_edge_between_copies_of_a_difference():
    wrong = {False: 0, True: 0}
    for seed in range(4):
        data = copies_of_a_difference(seed, 3000, share=0.3)
        frame = pd.DataFrame(data.astype(int), columns=["s1", "s2", "x", "y"])
        # tables that a site withholds would be tested as they are
        policy = replace(ALL_KINDS, min_cell_size=0)
        federation = Federation.split(frame, 3, seed=seed, device="cpu", policy=policy)
        for interactions in wrong:
            evidence = "glm-interactions" if interactions else "glm"
            graph = federation.run(FedPC(evidence=evidence)).finding.graph
            x, y = graph.nodes.index("x"), graph.nodes.index("y")
            wrong[interactions] += int(graph.skeleton()[x, y])
    assert wrong == {False: 4, True: 0}


def by_statsmodels(data, response, given, other, categories):
    """Likelihood ratio with a design written out by combinations of categories."""
    discrete = [v for v in given if categories[v]]
    cells = np.unique(data[:, discrete], axis=0)
    inside = np.column_stack([(data[:, discrete] == cell).all(axis=1) for cell in cells])
    slopes = [data[:, [v]] * inside for v in given if not categories[v]]
    small = np.column_stack([inside, *slopes]).astype(float)
    own = data[:, [other]]
    if categories[other]:
        own = (own == np.arange(1, categories[other])).astype(float)
    fits = []
    for design in (small, np.column_stack([small, own])):
        if not categories[response]:
            fits.append(sm.OLS(data[:, response], design).fit().llf)
            continue
        model = sm.Logit if categories[response] == 2 else sm.MNLogit
        fits.append(model(data[:, response], design).fit(disp=0, maxiter=200, tol=1e-12).llf)
    dof = max(categories[response] - 1, 1) * own.shape[1]
    return stats.chi2.sf(2 * (fits[1] - fits[0]), dof)


@pytest.mark.parametrize("row", [(0, 1, 2, 3), (4, 0, 2, 3), (2, 3, 1, 0), (0, 4, 1, 2)])
def test_a_cell_for_every_combination_gives_statsmodels_p_values(row):
    categories = (0, 2, 3, 2, 0)
    rng = np.random.default_rng(sum(row))
    data = np.column_stack(
        [rng.integers(0, c, 900) if c else rng.standard_normal(900) for c in categories]
    ).astype(float)
    data[:, 0] += data[:, 1] * data[:, 2]
    tests = [np.zeros((0, 2), int), np.zeros((0, 3), int), np.array([row])]
    found = p_values(data, tests, categories, interactions=True)[2][0]
    x, y, *given = row
    response, other = (y, x) if categories[y] and not categories[x] else (x, y)
    if categories[x] and categories[y] and categories[y] < categories[x]:
        response, other = y, x
    expected = by_statsmodels(data, response, given, other, categories)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-10)


def test_a_site_with_small_cells_falls_back_with_interactions():
    data = copies_of_a_difference(3, 600, share=0.3)
    frame = pd.DataFrame(data.astype(int), columns=["s1", "s2", "x", "y"])
    federation = Federation.split(frame, 3, device="cpu", policy=ALL_KINDS)
    asked = FedPC(evidence="glm-interactions")
    tests = federation.run(asked).finding.details["tests"]
    assert tests["withheld: within sites"] > 0
    assert tests["regression"] > 0


def patients(seed, rows):
    """Age, sex, smoking and body mass: x depends on what stands before it."""
    rng = np.random.default_rng(seed)
    age, sex = rng.normal(50, 12, rows), rng.integers(0, 2, rows)
    chance = 1 / (1 + np.exp(0.5 - (age - 50) / 10 - sex))
    smokes = (rng.random(rows) < chance).astype(int)
    bmi = 25 + 0.1 * (age - 50) + 2 * smokes + rng.normal(0, 3, rows)
    return pd.DataFrame({"age": age, "sex": sex, "smokes": smokes, "bmi": bmi})


def noise(seed, rows):
    """Two discrete and two continuous columns, two of them alike."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 2, rows))
    return pd.DataFrame({"a": a, "b": b, "c": rng.normal(size=rows), "d": rng.normal(size=rows)})


def at_one_place(data, algorithm):
    """The graph that one site with all rows gives; columns in the order of the names."""
    data = data[sorted(data.columns)]
    categories = tuple(2 if data[name].nunique() == 2 else 0 for name in data)
    site = mixed_site(data.to_numpy(dtype=float), categories)
    outcome, _ = drive(algorithm.ask(Facts(len(categories), 1)), [site])
    return CausalGraph.from_arcs(data.columns, outcome.arcs)


@pytest.mark.parametrize("draw", [patients, noise])
@pytest.mark.parametrize("rows", [240, 1500])
def test_small_mixed_data_give_the_graph_of_all_rows_at_one_place(draw, rows):
    """The question of small counts is asked once about each set, in whichever layer."""
    compared = 0
    for seed in range(6):
        data = draw(seed, rows)
        algorithm = FedPC(evidence="glm", alpha=0.05)
        sites = {f"site{k}": data[k::3] for k in range(3)}
        found = Federation.simulate(sites, device="cpu", policy=ALL_KINDS).run(algorithm)
        if "withheld: within sites" not in found.finding.details["tests"]:
            compared += 1
            assert found.finding.graph == at_one_place(data, algorithm)
    assert compared == 6 or rows == 240
