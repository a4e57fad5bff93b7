"""Random causal models of numbers and categories, with rows of several sites that may differ.

Two columns in five are numbers and the others have two to four categories. A number is a sum over
its causes and normal noise; a category is drawn by a multinomial logistic model. Where sites differ
in levels, each adds its constants to numbers and logits; where they differ in slopes, each
multiplies every effect by 1 and a normal number of standard deviation 0.4. With interactions half
of the pairs of causes of a column also have an effect together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

KINDS = (0, 0, 2, 3, 4)
"""Numbers of categories, 0 for a number, from which those of a column are drawn."""
SLOPES, LEVELS = 0.4, 1.0
"""Standard deviations of what sites multiply effects by, and add to numbers and logits."""


@dataclass(frozen=True, eq=False)
class MixedModel:
    """A causal model.

    Attributes:
        dag: Whether i -> j, shape (p, p).
        categories: Number of categories of every column, 0 for a number, shape (p,).
        effects: What a column adds to another one, by (cause, effect).
        joint: What two columns together add to another one, by (cause, cause, effect).
        constants: What every column starts from.
    """

    dag: np.ndarray
    categories: np.ndarray
    effects: dict[tuple[int, int], np.ndarray]
    joint: dict[tuple[int, int, int], np.ndarray]
    constants: list[np.ndarray]

    def sample(self, rows: int, rng: np.random.Generator, *, levels=False, slopes=False):
        """Rows of one site as a table."""
        from cipherdag.graphs.extension import topological_order

        designs: dict[int, np.ndarray] = {}
        columns: dict[int, np.ndarray] = {}
        for v in topological_order(self.dag):
            constant = self.constants[v] + levels * rng.normal(0.0, LEVELS, len(self.constants[v]))
            score = np.tile(constant, (rows, 1))
            for u in np.flatnonzero(self.dag[:, v]):
                factor = 1.0 + slopes * rng.normal(0.0, SLOPES)
                score += factor * designs[u] @ self.effects[u, v]
            for (u, w, child), effect in self.joint.items():
                if child == v:
                    score += np.einsum("ni,nj,ijk->nk", designs[u], designs[w], effect)
            if self.categories[v]:
                chances = np.exp(score - score.max(axis=1, keepdims=True))
                chances /= chances.sum(axis=1, keepdims=True)
                drawn = (chances.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
                columns[v] = np.array(list("abcd"))[drawn.clip(0, self.categories[v] - 1)]
                designs[v] = (columns[v][:, None] == list("abcd"[: self.categories[v]])) * 1.0
            else:
                columns[v] = score[:, 0] + rng.normal(size=rows)
                # the variance of a number with causes is about twice that of its noise
                designs[v] = columns[v][:, None] / (1.5 if self.dag[:, v].any() else 1.0)
        return pd.DataFrame({name_of(v): columns[v] for v in sorted(columns)})


def name_of(variable: int) -> str:
    """The name of a column, such that names sort as positions."""
    return f"v{variable:03d}"


def mixed_model(
    variables: int,
    degree: float,
    rng: np.random.Generator,
    *,
    interactions: bool = False,
    kinds: Sequence[int] = KINDS,
    strength: float = 1.0,
) -> MixedModel:
    """A model of as many columns, of which each has ``degree`` neighbours on average.

    Numbers of categories are drawn from ``kinds``; effects are multiplied by ``strength``.
    """
    pairs = np.argwhere(np.triu(np.ones((variables, variables), dtype=bool), k=1))
    order = rng.permutation(variables)
    dag = np.zeros((variables, variables), dtype=bool)
    for cause, effect in order[rng.permutation(pairs)[: round(variables * degree / 2)]]:
        dag[cause, effect] = True
    categories = rng.choice(kinds, variables)
    effects = {
        (u, v): strength * _effect(categories[u], categories[v], rng)
        for u, v in np.argwhere(dag).tolist()
    }
    joint = {
        (u, w, v): 0.7 * rng.normal(size=[max(categories[own], 1) for own in (u, w, v)])
        for v in range(variables)
        for u, w in combinations(np.flatnonzero(dag[:, v]).tolist(), 2)
        if interactions and rng.random() < 0.5
    }
    constants = [rng.normal(0.0, 0.4, max(own, 1)) for own in categories]
    return MixedModel(dag, categories, effects, joint, constants)


def _effect(cause: int, effect: int, rng: np.random.Generator) -> np.ndarray:
    """Coefficients, shape (categories of the cause, of the effect), 1 each for numbers."""
    if not cause and not effect:
        return np.array([[rng.choice([-1.0, 1.0]) * rng.uniform(0.4, 1.0)]])
    drawn = rng.normal(size=(max(cause, 1), max(effect, 1)))
    if effect:
        drawn -= drawn.mean(axis=1, keepdims=True)
    if cause:
        drawn -= drawn.mean(axis=0)
    return drawn * (1.3 if effect else 1.0) / max(drawn.std(), 0.3)
