"""Reads the R code that graphs are exported as, by the little of R's grammar that it needs."""

import ast
import re

import networkx as nx
import numpy as np

from cipherdag.graphs.graph import CausalGraph

TEXTS = r'"(?:\\.|[^"\\])*"'


def texts(code):
    """The texts of a piece of R code; R escapes characters as Python does."""
    return [ast.literal_eval(text) for text in re.findall(TEXTS, code)]


def from_bnlearn(code):
    """A graph by the names and arcs that the code gives to bnlearn."""
    names, _, rest = code.partition("))\n")
    ends = texts(rest.partition("matrix")[2])
    arcs = set(zip(ends[::2], ends[1::2], strict=True))
    there = nx.DiGraph()
    there.add_nodes_from(texts(names))
    there.add_edges_from(arcs)
    return CausalGraph.from_networkx(there)


def from_pcalg(code):
    """The type, the names and the rows of an adjacency matrix."""
    kind, _, rest = code.partition("\n")
    rows = [re.findall(r"(\d)L", line) for line in rest.splitlines()[1:-1]]
    return kind, texts(rest.splitlines()[-1]), np.array(rows, dtype=np.int8)
