"""Regressions with constants of every site's own: statsmodels with an indicator of every site."""

import numpy as np
import pandas as pd
import pytest
from driving import drive
from mixed_sites import ALL_KINDS, CATEGORIES, mixed_data, mixed_site, p_value, with_effect
from queries import Queries, random_tests

from cipherdag import Federation, FedPC
from cipherdag.algorithms.algorithm import Facts

SIZES = (350, 420, 500)
SITE = np.repeat(range(3), SIZES)
"""Of every row of the parts together."""


def shifted_sites(rng, missing=0.0):
    """Parts of one model whose columns differ in level from site to site."""
    parts = []
    for site, rows in enumerate(SIZES):
        data = mixed_data(rng, rows, missing)
        data[:, 0] += 3.0 * site
        data[:, 3] -= 2.0 * site
        parts.append(data)
    return parts


def p_values(parts, tests):
    queries = with_effect("glm", tests)
    drive(queries.ask(Facts(len(CATEGORIES), len(parts))), [mixed_site(part) for part in parts])
    return queries.found


@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_statsmodels_with_indicators_of_sites_gives_the_same_p_values(missing):
    rng = np.random.default_rng(8)
    parts = shifted_sites(rng, missing)
    tests = random_tests(6, [15, 20, 15], rng)
    for rows, found in zip(tests, p_values(parts, tests), strict=True):
        expected = [p_value(np.concatenate(parts), row, site=SITE) for row in rows]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_a_site_whose_response_never_varies_says_nothing():
    rng = np.random.default_rng(3)
    parts = shifted_sites(rng)
    silent = mixed_data(rng, 200)
    silent[:, 1] = 1.0
    two = mixed_data(rng, 200)
    two[:, 2] = np.minimum(two[:, 2], 1.0)  # one category of three is missing here
    tests = [np.array([[1, 0], [1, 3]]), np.array([[1, 0, 3], [1, 3, 4]])]
    for one, other in zip(p_values(parts, tests), p_values([*parts, silent], tests), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    found = p_values([*parts, two], [np.array([[2, 0], [2, 3]])])[0]
    assert ((found >= 0.0) & (found <= 1.0)).all()


def test_what_only_the_sites_have_in_common_is_no_dependence():
    rng = np.random.default_rng(5)
    level = np.repeat([-2.0, 0.0, 2.0], 250)
    data = pd.DataFrame(
        {
            "dose": level + rng.standard_normal(750),
            "pain": rng.random(750) < 1.0 / (1.0 + np.exp(-level)),
            "age": rng.standard_normal(750),
        }
    )
    data["pain"] = data["pain"].astype(int)
    wards = {f"ward{k}": data[250 * k : 250 * k + 250] for k in range(3)}
    federation = Federation.simulate(wards, device="cpu", policy=ALL_KINDS)
    edges = {
        evidence: federation.run(FedPC(evidence=evidence)).finding.graph.edges
        for evidence in ("glm", "glm-site-effect")
    }
    assert [(edge.source, edge.target) for edge in edges["glm"]] == [("dose", "pain")]
    assert edges["glm-site-effect"] == ()


@pytest.mark.parametrize("kind", [Queries, with_effect])
@pytest.mark.parametrize("cuts", [[0.2], [-0.5, 0.5]])
def test_what_separates_all_categories_leaves_nothing_to_add(kind, cuts):
    rng = np.random.default_rng(0)
    x, other = rng.standard_normal((2, 300))
    data = np.column_stack([np.digitize(x, cuts), x, other])
    categories = (len(cuts) + 1, 0, 0)
    queries = kind("glm", [np.array([[0, 1], [0, 2]]), np.array([[0, 2, 1]])])
    sites = [mixed_site(part, categories) for part in np.split(data, 3)]
    rounds = drive(queries.ask(Facts(3, 3)), sites)[1]
    alone, given_x = queries.found
    assert alone[0] < 1e-60  # the likelihood ratio of x is twice that of the constants alone
    assert 1e-3 < alone[1] < 1.0
    assert given_x[0] > 0.99
    assert len(rounds) <= 42
