"""Front doors in distributions of any form, instruments in linear models, both by brute force."""

import networkx as nx
import numpy as np
from linear_effects import BinaryNetwork, LinearModel, reached, subsets
from oracle import OracleTest, random_dag

from cipherdag.graphs.dags import dag_of, mask_of, members
from cipherdag.graphs.identification.criteria import conditional_instruments, front_door_set


def hidden_dags(seed, count, p=6, degree=2.5):
    """DAGs with a treatment, an outcome that it causes, and what is observed beside the two."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        dag = random_dag(p, degree, rng)
        causes = np.argwhere(reached(dag) & ~np.eye(p, dtype=bool)).tolist()
        if causes:
            x, y = causes[rng.integers(len(causes))]
            seen = [v for v in range(p) if v not in (x, y) and rng.random() < 0.6]
            yield dag, x, y, tuple(seen), rng


def is_front_door(dag, x, y, mediators):
    """Pearl's three conditions, word for word."""
    graph = nx.from_numpy_array(dag, create_using=nx.DiGraph)
    through = all(set(path) & set(mediators) for path in nx.all_simple_paths(graph, x, y))
    without_x, without_all = dag.copy(), dag.copy()
    without_x[x] = False
    without_all[list(mediators)] = False
    back_doors, further = OracleTest(without_x), OracleTest(without_all)
    return (
        through
        and all(back_doors.separated(x, m) for m in mediators)
        and all(further.separated(m, y, [x]) for m in mediators)
    )


def test_a_front_door_is_found_iff_there_is_one_and_gives_the_effect():
    found = 0
    for dag, x, y, seen, rng in hidden_dags(1, 900):
        mask = front_door_set(dag_of(dag), x, y, mask_of(seen))
        some = [own for own in subsets(seen) if is_front_door(dag, x, y, own)]
        assert (mask is not None) == bool(some)
        if mask is None:
            continue
        own = tuple(members(mask))
        assert own in some
        assert not any(set(other) < set(own) for other in some)
        network = BinaryNetwork(dag, rng)
        given = network.by_front_door(x, y, list(own))
        np.testing.assert_allclose(given, network.effect(x, y), atol=1e-12)
        found += 1
    assert found > 50


def test_a_front_door_may_need_a_variable_beside_the_way():
    # m <- n -> y: m alone leaves n's path open, m and n close it
    dag = np.zeros((5, 5), dtype=bool)
    x, y, m, n, u = range(5)
    for cause, effect in ((x, m), (m, y), (n, m), (n, y), (u, x), (u, y)):
        dag[cause, effect] = True
    assert front_door_set(dag_of(dag), x, y, mask_of([m])) is None
    assert front_door_set(dag_of(dag), x, y, mask_of([m, n])) == mask_of([m, n])


def is_instrument(dag, x, y, z, given):
    """z moves x and not y by another way, given what x does not change."""
    cut = dag.copy()
    cut[x] = False
    oracle = OracleTest(cut)
    return oracle.separated(z, y, given) and not oracle.separated(z, x, given)


def test_an_instrument_is_found_iff_there_is_one_and_gives_the_effect():
    found = 0
    for dag, x, y, seen, rng in hidden_dags(2, 700):
        below = reached(dag)
        usable = tuple(v for v in seen if not below[x, v])
        every = {
            z: [w for w in subsets(usable) if z not in w and is_instrument(dag, x, y, z, w)]
            for z in usable
        }
        named = dict(conditional_instruments(dag_of(dag), x, y, mask_of(seen)))
        assert bool(named) == any(every.values())
        model = LinearModel(dag, rng)
        for z, mask in named.items():
            given = tuple(members(mask))
            assert given in every[z]
            ratio = model.partial(z, y, list(given)) / model.partial(z, x, list(given))
            np.testing.assert_allclose(ratio, model.total[x, y], atol=1e-6)
            found += 1
    assert found > 100
