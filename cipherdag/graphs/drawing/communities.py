"""A large graph in few boxes: groups of variables that have more edges inside than between.

Source: Clauset, Newman and Moore, Phys. Rev. E 70, 066111 (2004): greedy modularity.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.mixed_graph import MixedGraph

MOST_VARIABLES = 100


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """A graph whose boxes stand for one or several variables.

    Attributes:
        graph: One box per community, called like its variable with the most edges and the number
            of the others. Two boxes are joined if any of their variables are: by an arrow if every
            edge between them points that way, else by a plain line.
        members: The variables of every box, the one with the most edges first.
        inside: Number of edges that stand inside a box, by box.
        between: Number of edges that an edge of the overview stands for, by unordered pair in
            alphabetical order.
    """

    graph: MixedGraph
    members: Mapping[str, tuple[str, ...]]
    inside: Mapping[str, int]
    between: Mapping[tuple[str, str], int]

    @property
    def collapsed(self) -> bool:
        """Whether any box stands for more than one variable."""
        return any(len(variables) > 1 for variables in self.members.values())


def overview(graph: MixedGraph, *, most: int = MOST_VARIABLES) -> Overview:
    """The graph itself if it has at most ``most`` variables, else its communities."""
    groups = [[i] for i in range(len(graph.nodes))]
    if len(graph.nodes) > most:
        groups = _communities(graph)
    return _of_groups(graph, groups)


def opened(graph: MixedGraph, shown: Overview, name: str) -> Overview:
    """The overview with the box ``name`` replaced by its variables."""
    index = graph.nodes.index
    others = [[*map(index, each)] for box, each in shown.members.items() if box != name]
    return _of_groups(graph, [[index(variable)] for variable in shown.members[name]] + others)


def _of_groups(graph: MixedGraph, groups: list[list[int]]) -> Overview:
    """The overview with a box for each group of positions."""
    degree = graph.skeleton().sum(axis=1)
    for group in groups:
        group.sort(key=lambda i: (-int(degree[i]), graph.nodes[i]))
    names = _names([[graph.nodes[i] for i in group] for group in groups])
    belongs = np.zeros((len(graph.nodes), len(groups)), dtype=np.int64)
    for number, group in enumerate(groups):
        belongs[group, number] = 1
    arcs = belongs.T @ graph.arcs.astype(np.int64) @ belongs
    edges = belongs.T @ np.triu(graph.skeleton()).astype(np.int64) @ belongs
    counts = edges + edges.T
    joined = arcs > 0
    np.fill_diagonal(joined, val=False)
    return Overview(
        graph=graph.with_edges(names, _between(graph, names, joined)),
        members={
            name: tuple(graph.nodes[i] for i in group)
            for name, group in zip(names, groups, strict=True)
        },
        inside={name: int(edges[k, k]) for k, name in enumerate(names)},
        between={
            (min(names[a], names[b]), max(names[a], names[b])): int(counts[a, b])
            for a, b in np.argwhere(np.triu(counts, k=1)).tolist()
        },
    )


def _between(graph: MixedGraph, names: list[str], joined: BoolMatrix) -> list[tuple[str, str, str]]:
    """The graph's edge between two boxes of one variable, else an arrow or a plain line."""
    edges = {frozenset((edge.source, edge.target)): edge for edge in graph.edges}
    between: list[tuple[str, str, str]] = []
    for a, b in np.argwhere(np.triu(joined | joined.T)).tolist():
        if edge := edges.get(frozenset((names[a], names[b]))):
            between.append((edge.source, edge.target, edge.mark))
            continue
        first, second = (a, b) if joined[a, b] else (b, a)
        mark = graph.undetermined if joined[a, b] and joined[b, a] else graph.one_way
        between.append((names[first], names[second], mark))
    return between


def _communities(graph: MixedGraph) -> list[list[int]]:
    """Groups of positions, the largest first; variables without an edge form one group."""
    import networkx as nx

    skeleton = graph.skeleton()
    isolated = np.flatnonzero(~skeleton.any(axis=1)).tolist()
    edges: nx.Graph[int] = nx.Graph()
    edges.add_nodes_from(np.flatnonzero(skeleton.any(axis=1)).tolist())
    edges.add_edges_from((i, j) for i, j in np.argwhere(np.triu(skeleton)).tolist())
    communities = (
        nx.community.greedy_modularity_communities(edges) if edges.number_of_edges() else []
    )
    groups = sorted(map(sorted, communities), key=lambda group: (-len(group), group[0]))
    return [*groups, isolated] if isolated else groups


def _names(groups: list[list[str]]) -> list[str]:
    """A name per group that no other group and no variable has."""
    taken = {name for group in groups for name in group}
    names = []
    for first, *rest in groups:
        name = f"{first} + {len(rest)} more" if rest else first
        while rest and name in taken:
            name += "'"
        taken.add(name)
        names.append(name)
    return names
