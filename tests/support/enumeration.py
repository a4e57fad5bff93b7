"""Graphs written as text, and every DAG of a graph by trying all directions."""

from itertools import combinations, product

import networkx as nx
import numpy as np
from oracle import random_dag

from cipherdag.graphs.graph import CausalGraph


def arcs_of(text, nodes="abcdefgh"):
    """A matrix from "a>b b-c"."""
    directed = [(e[0], e[2]) for e in text.split() if e[1] == ">"]
    undirected = [(e[0], e[2]) for e in text.split() if e[1] == "-"]
    used = [v for v in nodes if v in text]
    return CausalGraph.from_edges(used, directed, undirected).arcs


def small_dag(seed, largest=5):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, largest + 1))
    return random_dag(n, float(rng.uniform(0.5, n - 1)), rng), rng


def any_graph(seed, largest=5):
    """Any mixture of directed and undirected edges, often cyclic."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, largest + 1))
    kinds = rng.choice(4, size=(n, n), p=rng.dirichlet(np.ones(4)))
    arcs = np.triu((kinds == 1) | (kinds == 3), k=1) | np.triu((kinds == 2) | (kinds == 3), k=1).T
    return arcs, rng


def is_cyclic(directed):
    return not nx.is_directed_acyclic_graph(nx.from_numpy_array(directed, create_using=nx.DiGraph))


def colliders_of(arcs):
    """Unshielded colliders by looking at every triple."""
    n = len(arcs)
    into = arcs & ~arcs.T
    return {
        (x, y, z)
        for x, z in combinations(range(n), 2)
        for y in range(n)
        if into[x, y] and into[z, y] and not arcs[x, z] and not arcs[z, x]
    }


def every_extension(arcs):
    """All DAGs with the skeleton, directed edges and unshielded colliders of the graph."""
    free = [(i, j) for i, j in np.argwhere(arcs & arcs.T) if i < j]
    wanted = colliders_of(arcs)
    for turns in product((False, True), repeat=len(free)):
        dag = arcs.copy()
        for (i, j), turn in zip(free, turns, strict=True):
            dag[(i, j) if turn else (j, i)] = False
        if not is_cyclic(dag) and colliders_of(dag) == wanted:
            yield dag


def consensus(dags):
    return np.logical_or.reduce(list(dags))


def pattern_of(dag):
    """Skeleton with the unshielded colliders only."""
    pattern = dag | dag.T
    for x, y, z in colliders_of(dag):
        pattern[y, x] = pattern[y, z] = False
    return pattern


def relabelled(arcs, order):
    return arcs[np.ix_(order, order)]
