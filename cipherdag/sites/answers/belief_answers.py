"""A site's answer to Fed-CD's question: it trains on its own rows and weighs what it learnt.

An answer is a function of the question, the rows and the site's key alone: the generator is seeded
from the run's seed, the round, a digest of the rows and that key, and networks are new in every
round. So a round that is asked again, even of a restarted site, has the same answer.

Source: Abyaneh et al., "FED-CD" (2023), Proposition 4.2, Algorithm 1 and Eq. 7; the distance rule
is that of the published program. Rounding is ours: sums of exact weights disclose the rows of every
intervention (ADR 49), so weights leave the site as protected summands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolMatrix, FloatMatrix, FloatVector
from cipherdag.errors import MalformedMessageError, SchemaError
from cipherdag.questions.local_beliefs import (
    LOGIT_BOUND,
    LocalBeliefs,
    binary_graph,
    edge_probability,
    off_diagonal,
)
from cipherdag.sites.answers.registry import answers
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.device import resolve_device, threads_for
from cipherdag.sites.compute.noise import Keyed, rows_digest, unkeyed
from cipherdag.sites.table.site_table import SiteTable

if TYPE_CHECKING:
    import torch

    from cipherdag.sites.compute.beliefs.regimes import Regimes

ROW_STEP = 25
"""Rows of an intervention are rounded to multiples of it where small counts are restricted."""
WEIGHT_STEPS = 8
"""Where small counts are restricted, weights are rounded to multiples of one over this."""


def stepped_rows(counts: FloatVector, least: int) -> FloatVector:
    """Rounds the rows of every intervention to a public step; those below ``least`` are 0, (p,).

    The step does not depend on the question, so that no choice of `full_mass` discloses more.
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

    Where ``reach`` is ``edges``, pairs that are no edge of the graph, of which the paper says
    nothing, have 0. With ``tails`` all pairs are treated like edges. So a site that intervened on i
    or an ancestor of it has weight on the absence of i -> j, too. With ``ends`` so has a site that
    intervened on j. Masses lie in [0, 1]; the result, shape (p, p), in [0, belief_ij].
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


@answers(LocalBeliefs)
def local_beliefs(question: LocalBeliefs, view: SiteView) -> FloatVector:
    return view.remember("beliefs", question, lambda: _trained(question, view))


def _trained(question: LocalBeliefs, view: SiteView) -> FloatVector:
    """The answer of a method that was trained on the site's rows, whole and enough of them."""
    if view.learn is not None:
        return view.learn(question)
    if view.experiments is None:
        raise MalformedMessageError("this site does not train on its rows")
    table, least = view.experiments, view.min_cell_size
    view.spend(question.training_steps)
    regimes = view.remember("regimes", None, lambda: _regimes(table, view.device_name, least))
    learnt = learn(question, regimes, site_generator(question, table, view.keyed))
    return weighted_answer(question, learnt, regimes.counts().numpy(), table.rows, least=least)


def _regimes(table: SiteTable, device: str, least: int) -> Regimes:
    """The rows by experiment; those of fewer rows than ``least`` take no part."""
    from cipherdag.sites.compute.beliefs.regimes import Regimes

    marks, where = table.interventions, resolve_device(device)
    if marks is None:
        raise no_interventions(
            "no column names interventions: without one no direction can be told"
        )
    cells, levels = table.numbers(), table.cardinalities
    return Regimes.of(cells, levels, marks, device=where, least=least)


def no_interventions(message: str) -> SchemaError:
    """An error that says how to name the column of interventions."""
    return SchemaError(
        message, remedy='Name it by --interventions, or write kind = "intervention" in schema.toml.'
    )


def site_generator(
    question: LocalBeliefs, table: SiteTable, keyed: Keyed = unkeyed
) -> torch.Generator:
    """The site's generator of one round, from the run's seed, the round, its rows and its key."""
    import torch

    purpose = b"cipherdag local beliefs"
    purpose += question.seed.to_bytes(8, "big") + question.round.to_bytes(8, "big")
    digest = rows_digest(purpose, table.codes, table.values, table.interventions)
    seed = int.from_bytes(keyed(digest)[:8], "big") >> 1
    return torch.Generator().manual_seed(seed)


def learn(question: LocalBeliefs, regimes: Regimes, generator: torch.Generator) -> FloatMatrix:
    """Train the local method, and return psi, or gamma and theta, shape (m, p, p)."""
    from cipherdag.sites.compute.beliefs.methods import learn_belief, learn_logits

    prior, training = question.belief_arrays(), question.training
    with threads_for(question.n_variables * training.batch * training.hidden):
        if question.reference == "code":
            logits = learn_logits(regimes, prior, training, generator)
            return np.clip(logits, -LOGIT_BOUND, LOGIT_BOUND)
        return learn_belief(
            question.method,
            regimes,
            None if prior is None else prior[0],
            training,
            generator,
            prior_weight=question.prior_weight,
            sampled=question.start == "sampled",
            perfect=question.intervention_type == "perfect",
        )[None]


def weighted_answer(
    question: LocalBeliefs, learnt: FloatMatrix, counts: FloatVector, rows: int, *, least: int
) -> FloatVector:
    """Weighted beliefs, weights, binary graph and 1, as `LocalBeliefs.encodings` lays them out.

    ``learnt`` is what the site believes now, shape (m, p, p), ``counts`` the rows in which each
    variable was intervened on, and ``least`` the smallest count that may leave.
    """
    weights = site_weights(question, learnt, counts, rows, least=least)
    weighted = weights * learnt
    if least > 1:
        # a belief times a coarse weight would tell the weight again by its last digits
        unit = 2.0**-question.coarse_bits
        weighted = np.rint(weighted / unit) * unit
    return np.concatenate(
        [
            off_diagonal(weighted),
            off_diagonal(weights) if question.aggregation == "proximity" else weights.ravel()[:1],
            off_diagonal(binary_graph(learnt).astype(np.float64)),
            np.ones(1),
        ]
    )


def site_weights(
    question: LocalBeliefs, learnt: FloatMatrix, counts: FloatVector, rows: int, *, least: int
) -> FloatMatrix:
    """How much the site's belief about every pair weighs, shape (p, p).

    Where ``least`` is more than 1, weights by proximity are a function of the question, of the
    beliefs and of counts in steps: two sites whose counts lie in the same steps have equal
    weights in every round.
    """
    p = question.n_variables
    if question.aggregation == "naive":
        return np.full((p, p), float(rows) if question.reference == "paper" else 1.0)
    if least <= 1:
        return proximity_weights(question, learnt, counts)
    weights = proximity_weights(question, learnt, stepped_rows(counts, least))
    return coarse_weights(weights, question.coarse_weight)


def proximity_weights(
    question: LocalBeliefs, learnt: FloatMatrix, counts: FloatVector
) -> FloatMatrix:
    """Weights by how near a pair is to what the site intervened on, shape (p, p)."""
    p, last = question.n_variables, question.belief_arrays()
    if question.reference == "code":
        graph = binary_graph(learnt if last is None else last)  # a site's own in the first round
        return distance_weights(
            graph, counts > 0, decay=question.decay, least=question.least_weight
        )
    # before the first aggregate no edge carries mass, and no site's own belief may weigh itself
    belief = np.ones((p, p)) if last is None else edge_probability(last)
    graph = np.zeros((p, p), dtype=bool) if last is None else binary_graph(last)
    mass = np.minimum(counts / question.full_mass, 1.0)
    scores = reliability(belief, graph, mass, reach=question.reach)
    return softmax_weights(scores, belief, question.sharpness)
