"""A site's interventions determine how reliable its belief about every edge is.

Source: Abyaneh et al., "FED-CD" (2023), Proposition 4.2, Algorithm 1 and Eq. 7; the distance rule
is that of the published program. Rounding is ours: sums of exact weights disclose the rows of every
intervention (ADR 49).

Leaks:
    Nothing: weights disclose the interventions of a site, so they leave it as protected summands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolMatrix, FloatMatrix, FloatVector

ROW_STEP = 25
"""Rows of an intervention are rounded to multiples of it where small counts are restricted."""
WEIGHT_STEPS = 8
"""There, weights are rounded to multiples of one over it."""


def stepped_rows(counts: FloatVector, least: int) -> FloatVector:
    """Rounds the rows of every intervention to multiples of a public step, shape (p,).

    The step does not depend on the question, so that no choice of `full_mass` discloses more.

    Args:
        counts: Rows in which each variable was intervened on, shape (p,).
        least: Smallest count that may be disclosed; smaller ones are 0, others one step or more.
    """
    step = float(max(ROW_STEP, least))
    return np.where(counts < least, 0.0, step * np.maximum(np.rint(counts / step), 1.0))


def coarse_weights(weights: FloatMatrix, smallest: float) -> FloatMatrix:
    """Rounds weights to multiples of 1 / `WEIGHT_STEPS`; 0 becomes ``smallest``."""
    steps = np.rint(weights * WEIGHT_STEPS) / WEIGHT_STEPS
    return np.where(steps > 0, steps, smallest)


def mass_at(belief: FloatMatrix, graph: BoolMatrix, mass: FloatVector) -> FloatVector:
    """Computes the largest mass that reaches every variable along a path, shape (p,).

    Mass flows along the edges of the graph without being divided, times the belief in each edge.

    Args:
        belief: psi, shape (p, p).
        graph: The edges along which mass flows, shape (p, p).
        mass: Mass injected at every variable, shape (p,); 0 where the site did not intervene.
    """
    flow = np.where(graph, belief, 0.0)
    reached = mass.astype(np.float64)
    for _ in range(len(mass)):  # a path that gains nothing by repeating has fewer than p edges
        further = np.maximum(reached, (reached[:, None] * flow).max(axis=0))
        if (further == reached).all():
            break
        reached = further
    return reached


def reliability(
    belief: FloatMatrix, graph: BoolMatrix, mass: FloatVector, *, reach: str = "edges"
) -> FloatMatrix:
    """Computes r_ij, the largest product of mass and beliefs along a path that ends with i -> j.

    Args:
        belief: psi, shape (p, p).
        graph: Edges of the last round's graph, shape (p, p).
        mass: Mass of every intervened variable, shape (p,), in [0, 1].
        reach: ``edges``: 0 for pairs that are no edge, which the paper does not define; ``tails``:
            all pairs are treated like edges, so that a site that intervened on i or an ancestor of
            it has weight on the absence of i -> j, too; ``ends``: so has one that intervened on j.

    Returns:
        Shape (p, p), in [0, belief_ij].
    """
    arriving = mass_at(belief, graph, mass)[:, None]
    if reach == "ends":
        arriving = np.maximum(arriving, mass[None, :])
    passing = arriving * belief
    return np.where(graph, passing, 0.0) if reach == "edges" else passing


def softmax_weights(scores: FloatMatrix, offset: FloatMatrix, sharpness: float) -> FloatMatrix:
    """Computes exp(beta (r - c)) with a public offset c >= r, so that no weight exceeds 1 (Eq. 7).

    The ratio of the sites' sums does not depend on c; the weights lie in [exp(-beta c), 1].
    """
    return np.exp(sharpness * np.minimum(scores - offset, 0.0))


def distance_weights(
    graph: BoolMatrix, intervened: NDArray[np.bool_], *, decay: float, least: float
) -> FloatMatrix:
    """Computes the published program's weights, shape (p, p): decay**distance, at least ``least``.

    The distance of an edge i -> j is the number of edges on the shortest directed path from an
    intervened variable to i, infinite where there is none: with a decay of 1 all edges weigh 1.
    Pairs that are no edge of the graph weigh ``least``.
    """
    distance = np.where(intervened, 0.0, np.inf)
    for _ in range(len(intervened)):
        distance = np.minimum(distance, np.where(graph, distance[:, None] + 1, np.inf).min(axis=0))
    return np.where(graph, np.maximum(decay**distance, least)[:, None], least)
