"""Graphs that fit the same data: how many have an edge, or a path from one variable to another.

A share is of graphs, and no probability: it counts draws, and assumes what the search assumes.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix
from cipherdag.errors import GraphError
from cipherdag.pages.numerals import first_of

MOST_GRAPHS = 10_000


@dataclass(frozen=True)
class GraphSample:
    """DAGs over the same variables, as they were drawn; some may occur often."""

    nodes: tuple[str, ...]  # names of the p variables
    arcs: NDArray[np.bool_]  # directed edges of each graph, shape (G, p, p)

    def __len__(self) -> int:
        return len(self.arcs)

    @cached_property
    def arrows(self) -> FloatMatrix:
        """The share of graphs with an edge from the first to the second, shape (p, p)."""
        shares: FloatMatrix = self.arcs.mean(axis=0)
        return shares

    def shares(self, first: str, second: str) -> tuple[float, float]:
        """The shares of graphs with an edge from the first to the second, and with one back."""
        x, z = self.nodes.index(first), self.nodes.index(second)
        return float(self.arrows[x, z]), float(self.arrows[z, x])

    @cached_property
    def causes(self) -> FloatMatrix:
        """The share of graphs with a directed path from the first to the second, shape (p, p)."""
        shares: FloatMatrix = self._paths.mean(axis=0)
        return shares

    @cached_property
    def _paths(self) -> NDArray[np.bool_]:
        paths = self.arcs
        for _ in range(max(len(self.nodes) - 1, 1).bit_length()):
            steps = paths.astype(np.float32)
            paths = paths | (steps @ steps > 0.0)
        return paths

    def parents_with_path(self, treatment: str, outcome: str) -> Counter[tuple[str, ...]]:
        """How many graphs in which the treatment causes the outcome give it these direct causes.

        Raises:
            GraphError: A name is no variable of the graphs.
        """
        if missing := {treatment, outcome} - {*self.nodes}:
            raise GraphError(
                f"the graphs have no variable '{min(missing)}'",
                remedy=f"Its variables are {first_of(self.nodes)}.",
            )
        x, y = self.nodes.index(treatment), self.nodes.index(outcome)
        parents = self.arcs[self._paths[:, x, y], :, x]
        return Counter(tuple(self.nodes[u] for u in np.flatnonzero(row)) for row in parents)

    def saved(self) -> str:
        """All graphs as one text, which `from_saved` reads."""
        packed = zlib.compress(np.packbits(self.arcs).tobytes(), 9)
        return base64.b64encode(packed).decode("ascii")

    @classmethod
    def from_saved(cls, nodes: tuple[str, ...], n_graphs: int, text: str) -> GraphSample:
        """Read `saved`.

        Raises:
            GraphError: The text is none of so many graphs over these variables.
        """
        if not 0 < n_graphs <= MOST_GRAPHS:
            raise GraphError(f"a sample has 1 to {MOST_GRAPHS} graphs, not {n_graphs}")
        shape = (n_graphs, len(nodes), len(nodes))
        size = -(-math.prod(shape) // 8)
        unpacking = zlib.decompressobj()
        try:
            packed = unpacking.decompress(base64.b64decode(text, validate=True), size + 1)
        except (binascii.Error, zlib.error, ValueError) as error:
            raise GraphError("a sample of graphs cannot be read") from error
        if len(packed) != size:
            raise GraphError(f"a sample of {n_graphs} graphs has {size} bytes, not {len(packed)}")
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=math.prod(shape))
        return cls(nodes, bits.astype(bool).reshape(shape))
