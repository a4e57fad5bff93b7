"""FedCMFS's rivals that rank features, by name: each looks at one site's rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from comparators import glfs, grroor, pdmfs, pmfs

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


@dataclass(frozen=True)
class Selector:
    """One way to rank features.

    Attributes:
        rank: From features (n, d), labels (n, q) and a generator to columns, the best first.
        source: Where it is described.
        built_from: What it was written from, where that is not the paper's text.
    """

    rank: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
    source: str
    built_from: str


def by_chance(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Columns in random order: what a ranking must beat."""
    del labels
    return rng.permutation(features.shape[1])


SELECTORS = {
    "GLFS": Selector(glfs.rank, "Zhang et al. 2023", "the authors' program and the abstract"),
    "PDMFS": Selector(pdmfs.rank, "Miao et al. 2023, Algorithm 1", "the paper and its program"),
    "GRROOR": Selector(grroor.rank, "Xu et al. 2025", "the authors' program and the abstract"),
    "PMFS": Selector(pmfs.rank, "Hashemi et al. 2021", "the authors' program and the abstract"),
    "random": Selector(by_chance, "none", "a control"),
}
