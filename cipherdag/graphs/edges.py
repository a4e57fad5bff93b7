"""The edges of a graph, by name, and their marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BoolMatrix = NDArray[np.bool_]


Pair = tuple[str, str]


Mark = Literal["-->", "---"]


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One edge; of an undirected one the source is the name that sorts first."""

    source: str
    target: str
    mark: Mark

    def __str__(self) -> str:
        return f"{self.source} {self.mark} {self.target}"
