"""The local methods of Fed-CD update a matrix of edge beliefs from a site's data.

Source: Abyaneh et al., "FED-CD" (2023), section 4.1 and appendix A.2.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cipherdag.arrays import FloatMatrix
from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.dcdi import DENSITIES, Dcdi
from cipherdag.sites.compute.beliefs.enco import EdgeLogits, Enco, learn_sdi
from cipherdag.sites.compute.beliefs.regimes import LEAST_BELIEF, Regimes

DENSE = 0.95
"""Initial edge probability of DCDI; from a lower one, edges that help only jointly are lost."""


def learn_belief(
    method: str,
    regimes: Regimes,
    prior: FloatMatrix | None,
    training: Training,
    generator: torch.Generator,
    *,
    prior_weight: float,
    sampled: bool,
    perfect: bool = True,
) -> FloatMatrix:
    """Runs one round of a local method; returns the new psi, (p, p), zero on the diagonal.

    ``prior`` is the psi of the last round, None in the first, and ``prior_weight`` the lambda_prior
    of Eq. 2. If ``sampled``, training starts from a draw of Ber(psi) instead of psi: from 0.75 for
    a 1 and 0.25 for a 0, so that it can reverse the draw. DCDI alone models imperfect
    interventions.
    """
    device = regimes.feature_values.device
    p = regimes.n_variables
    start = torch.full((p, p), DENSE if method in DENSITIES else 0.25)
    penalty = torch.zeros((p, p))
    if prior is not None:
        psi = torch.from_numpy(prior).float()
        start = 0.25 + 0.5 * torch.bernoulli(psi, generator=generator) if sampled else psi
        penalty = -prior_weight * torch.logit(psi, LEAST_BELIEF)
    start, penalty = start.to(device), penalty.fill_diagonal_(0.0).to(device)
    if method == "sdi":
        learnt = learn_sdi(
            regimes, training, start=start, prior_penalty=penalty, generator=generator
        )
    elif method == "enco":
        enco = Enco(
            regimes, training, start=logits_of(start), prior_penalty=penalty, generator=generator
        )
        learnt = enco.learn().belief()
    else:
        dcdi = Dcdi(
            regimes,
            training,
            density=DENSITIES[method],
            perfect=perfect,
            start=start,
            prior_penalty=penalty,
            generator=generator,
        )
        learnt = dcdi.learn()
    return learnt.cpu().double().numpy()


def learn_logits(
    regimes: Regimes, prior: FloatMatrix | None, training: Training, generator: torch.Generator
) -> FloatMatrix:
    """Runs one round of ENCO from logits to logits, as the published program does.

    Both are gamma and theta, shape (2, p, p), zero on the diagonals; None before the first round.
    """
    device = regimes.feature_values.device
    p = regimes.n_variables
    logits = torch.zeros((2, p, p)) if prior is None else torch.from_numpy(prior).float()
    enco = Enco(
        regimes,
        training,
        start=EdgeLogits(logits[0].to(device), logits[1].to(device)),
        prior_penalty=torch.zeros((p, p), device=device),
        generator=generator,
    )
    learnt = enco.learn()
    both = torch.stack([learnt.gamma, learnt.theta]).cpu().double().numpy()
    both[:, np.arange(p), np.arange(p)] = 0.0
    return np.asarray(both)


def logits_of(belief: Tensor) -> EdgeLogits:
    """Returns logits whose belief is ``belief``, as far as an antisymmetric theta allows.

    The sum of psi_ij and psi_ji is the probability that the pair is adjacent, and psi_ij over this
    sum the probability of its orientation; both are bounded away from 0 and 1. A sum above 1, which
    no logits have, is clipped.
    """
    adjacent = (belief + belief.T).clamp(LEAST_BELIEF, 1 - LEAST_BELIEF)
    forward = (belief + LEAST_BELIEF) / (belief + belief.T + 2 * LEAST_BELIEF)
    theta = torch.logit(forward.clamp(LEAST_BELIEF, 1 - LEAST_BELIEF))
    return EdgeLogits(torch.logit(adjacent), 0.5 * (theta - theta.T))
