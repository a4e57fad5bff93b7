"""SDI learns edge logits by scoring sampled graphs on interventional rows.

SDI has one logit per edge and no orientation logits. Distribution fitting is that of ENCO. A graph
step weights the sampled graphs by their likelihood on rows of one regime and updates each edge's
probability towards its weighted frequency; cycles of two edges are penalised.

Source: Ke et al., "Learning neural causal models from unknown interventions", arXiv 1910.01075,
sections 3.3 to 3.5; the intervened variable is given here, so none is predicted, and the weights of
the regularisers are ours, since a round is much shorter than their training. The prior term is
Eq. 2 of Fed-CD.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.enco import MaskedAdam
from cipherdag.sites.compute.beliefs.mechanisms import Mechanisms
from cipherdag.sites.compute.beliefs.regimes import LEAST_BELIEF, Regimes

RATE, BETAS = 5e-2, (0.9, 0.999)
TWO_CYCLES = 4.0
TEMPERATURE = 4.0


def likelihood_gradient(graphs: Tensor, nll: Tensor, probability: Tensor, rows: int) -> Tensor:
    """Computes s(gamma_ij) minus the likelihood-weighted frequency of i -> j (Eq. 3 of SDI).

    Args:
        graphs: K graphs drawn from the belief, bool of shape (K, p, p).
        nll: Mean negative log-likelihoods, shape (K, p).
        probability: s(gamma), shape (p, p).
        rows: Number of rows that ``nll`` is the mean of.

    Returns:
        Shape (p, p): the gradient in gamma of the expected negative log-likelihood.
    """
    # untempered, the likelihood of a batch would give one graph all the weight
    weights = torch.softmax(-nll * rows / TEMPERATURE, dim=0)
    return probability - torch.einsum("kj,kij->ij", weights, graphs.to(nll.dtype))


def two_cycle_gradient(probability: Tensor) -> Tensor:
    """Computes the gradient in gamma of the sum of cosh(s_ij s_ji) over pairs, shape (p, p)."""
    slope = probability * (1 - probability)
    return torch.sinh(probability * probability.T) * probability.T * slope


def learn_sdi(
    regimes: Regimes,
    training: Training,
    *,
    start: Tensor,
    prior_penalty: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Learns edge probabilities from one site's data by SDI.

    Args:
        regimes: The data.
        training: Hyperparameters, such as numbers of epochs, steps and graphs.
        start: Initial beliefs, shape (p, p).
        prior_penalty: Derivative of the prior term in every edge's probability, shape (p, p).
        generator: Source of randomness, on the CPU.

    Returns:
        The belief s(gamma), shape (p, p), zero on the diagonal.
    """
    device, p = start.device, regimes.n_variables
    gamma = torch.logit(start.clamp(LEAST_BELIEF, 1 - LEAST_BELIEF))
    optimiser = MaskedAdam(gamma, RATE, BETAS)
    mechanisms = Mechanisms(regimes, hidden=training.hidden, generator=generator)
    off_diagonal = ~torch.eye(p, dtype=torch.bool, device=device)
    kinds = [*range(len(regimes.rows)), *([] if len(regimes.rows) == p else [-1])]
    for step in range(training.epochs * training.graph_steps):
        belief = torch.sigmoid(gamma) * off_diagonal
        if step % training.graph_steps == 0:
            mechanisms.fit(belief, steps=training.fit_steps, batch=training.batch)
        regime = kinds[int(torch.randint(len(kinds), (1,), generator=generator))]
        rows, target = regimes.regime(regime)
        batch = regimes.draw(rows, training.batch, generator)
        uniform = torch.rand((training.graphs, p, p), generator=generator).to(device)
        graphs = uniform < belief
        nll = mechanisms.nll_of_graphs(graphs, batch)
        gradient = likelihood_gradient(graphs, nll, belief, len(batch))
        slope = belief * (1 - belief)
        gradient += slope * (training.sparsity + prior_penalty)
        gradient += TWO_CYCLES * two_cycle_gradient(belief)
        updated = off_diagonal & ~target
        optimiser.step(gradient * updated, updated.float())
    return torch.sigmoid(gamma) * off_diagonal
