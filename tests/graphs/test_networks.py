"""The demonstration network: published structure, published chances, reproducible draws."""

from itertools import product

import numpy as np
import pytest

from cipherdag.errors import GraphError, ParameterError
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.networks import DiscreteNetwork, asia

# chances of "yes" without evidence, in per cent with two digits, as every textbook prints them
PUBLISHED = {
    "VisitToAsia": 1.00,
    "Tuberculosis": 1.04,
    "Smoking": 50.00,
    "LungCancer": 5.50,
    "Bronchitis": 45.00,
    "TubOrCancer": 6.48,
    "XRay": 11.03,
    "Dyspnoea": 43.60,
}


def exact_chances(network, given=()):
    """P(yes) of every variable given others, by adding up all 256 worlds."""
    total = dict.fromkeys(network.names, 0.0)
    evidence = 0.0
    for world in product((0, 1), repeat=len(network.names)):
        codes = dict(zip(network.names, world, strict=True))
        if any(codes[name] != value for name, value in dict(given).items()):
            continue
        chance = 1.0
        for name in network.names:
            row = tuple(codes[parent] for parent in network.parents[name])
            chance *= network.tables[name][row][codes[name]]
        evidence += chance
        for name in network.names:
            total[name] += chance * (codes[name] == 0)
    return {name: value / evidence for name, value in total.items()}


def test_chances_are_the_published_ones():
    chances = exact_chances(asia())
    assert {name: round(100 * value, 2) for name, value in chances.items()} == PUBLISHED
    # the patient of the paper's introduction: dyspnoea after a visit to Asia
    visitor = exact_chances(asia(), {"VisitToAsia": 0, "Dyspnoea": 0})
    assert visitor["Tuberculosis"] == pytest.approx(0.0878, abs=1e-4)
    assert visitor["Bronchitis"] == pytest.approx(0.8114, abs=1e-4)


def test_the_graph_is_the_published_one():
    edges = [
        ("VisitToAsia", "Tuberculosis"),
        ("Smoking", "LungCancer"),
        ("Smoking", "Bronchitis"),
        ("Tuberculosis", "TubOrCancer"),
        ("LungCancer", "TubOrCancer"),
        ("TubOrCancer", "XRay"),
        ("TubOrCancer", "Dyspnoea"),
        ("Bronchitis", "Dyspnoea"),
    ]
    assert asia().graph == CausalGraph.from_edges(PUBLISHED, directed=edges)
    assert len(asia().graph.to_cpdag().undirected) == 3


def test_samples_follow_the_tables():
    n = 40_000
    data = asia().sample(n, np.random.default_rng(0))
    assert list(data.columns) == list(PUBLISHED)
    assert set(np.unique(data.to_numpy(dtype=str))) == {"yes", "no"}
    yes = data == "yes"
    for name, chance in exact_chances(asia()).items():
        deviation = (chance * (1 - chance) / n) ** 0.5
        assert abs(yes[name].mean() - chance) < 4 * deviation
    network = asia()
    for name in network.names:
        for row in np.ndindex(*[2] * len(network.parents[name])):
            here = np.ones(n, dtype=bool)
            for parent, code in zip(network.parents[name], row, strict=True):
                here &= yes[parent].to_numpy() == (code == 0)
            chance, count = network.tables[name][row][0], here.sum()
            deviation = (chance * (1 - chance) * count) ** 0.5
            assert abs(yes[name][here].sum() - chance * count) <= 4 * deviation
    assert (yes["TubOrCancer"] == (yes["Tuberculosis"] | yes["LungCancer"])).all()


def test_samples_depend_on_the_generator_only():
    one, same, other = (asia().sample(50, np.random.default_rng(s)) for s in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)
    assert asia().sample(0, np.random.default_rng(1)).shape == (0, 8)
    with pytest.raises(ParameterError, match="-1"):
        asia().sample(-1, np.random.default_rng(1))


def two(parents, table):
    return DiscreteNetwork(
        names=("a", "b"),
        parents={"a": (), "b": ("a",)} | parents,
        categories={"a": ("x", "y", "z"), "b": ("u", "v")},
        tables={"a": np.array([0.2, 0.3, 0.5]), "b": np.array(table)},
    )


def test_networks_of_more_categories():
    network = two({}, [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    data = network.sample(3000, np.random.default_rng(4))
    assert set(data.loc[data["a"] == "x", "b"]) == {"u"}
    assert set(data.loc[data["a"] == "y", "b"]) == {"v"}
    assert set(data.loc[data["a"] == "z", "b"]) == {"u", "v"}
    assert data["a"].value_counts(normalize=True)["z"] == pytest.approx(0.5, abs=0.04)


def test_wrong_networks_are_refused():
    coin = np.full((2, 2), 0.5)
    with pytest.raises(GraphError, match="cycle"):
        DiscreteNetwork(
            names=tuple("abc"),
            parents={"a": ("c",), "b": ("a",), "c": ("b",)},
            categories=dict.fromkeys("abc", ("u", "v")),
            tables=dict.fromkeys("abc", coin),
        )
    with pytest.raises(GraphError, match="two edges"):
        two({"a": ("b",)}, [[0.5, 0.5]] * 3)
    with pytest.raises(GraphError, match="'c'"):
        two({"a": ("c",)}, [[0.5, 0.5]] * 3)
    with pytest.raises(ParameterError, match="shape"):
        two({}, [[0.5, 0.5]] * 2)
    with pytest.raises(ParameterError, match="'b' does not hold"):
        two({}, [[0.5, 0.6]] * 3)
    with pytest.raises(ParameterError, match="'b' does not hold"):
        two({}, [[-0.5, 1.5]] * 3)
