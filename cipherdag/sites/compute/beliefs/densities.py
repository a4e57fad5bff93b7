"""Conditional densities of a number, whose parameters a network gives.

Source: Brouillard et al., "Differentiable causal discovery from interventional data", NeurIPS 2020
(the Gaussian and the deep sigmoidal flow); Huang et al., "Neural autoregressive flows", ICML 2018,
section 3.3 (the flow). Logarithms are kept throughout, so that no value needs clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

LOG_SD_BOUND = 4.0
FLOW_LAYERS, FLOW_UNITS = 2, 10


@dataclass(frozen=True, slots=True)
class Density:
    """A density of one number.

    Attributes:
        width: Parameters that a network gives.
        nll: Negative log-density of numbers of shape (...) given parameters (..., width), in nats.
    """

    width: int
    nll: Callable[[Tensor, Tensor], Tensor]


def normal_nll(values: Tensor, parameters: Tensor) -> Tensor:
    """Under a normal distribution with a mean and a log deviation."""
    log_sd = parameters[..., 1].clamp(-LOG_SD_BOUND, LOG_SD_BOUND)
    deviation = (values - parameters[..., 0]) * torch.exp(-log_sd)
    return 0.5 * deviation**2 + log_sd + 0.5 * math.log(2 * math.pi)


def flow_nll(values: Tensor, parameters: Tensor) -> Tensor:
    """Under a deep sigmoidal flow: layers of logit(sum_u w_u s(a_u x + b_u)) make x normal.

    Args:
        values: x, shape (...).
        parameters: For every layer the slopes before softplus, the offsets b, and the weights
            before softmax, each of `FLOW_UNITS`, shape (..., 3 layers units).
    """
    log_slope = torch.zeros_like(values)
    layers = parameters.reshape(*parameters.shape[:-1], FLOW_LAYERS, 3, FLOW_UNITS)
    for layer in layers.unbind(dim=-3):
        slope, offset, share = layer.unbind(dim=-2)
        slope = functional.softplus(slope)
        inner = slope * values[..., None] + offset
        log_share = functional.log_softmax(share, dim=-1)
        low, high = functional.logsigmoid(-inner), functional.logsigmoid(inner)
        below = torch.logsumexp(log_share + high, dim=-1)
        above = torch.logsumexp(log_share + low, dim=-1)
        inside = torch.logsumexp(log_share + low + high + slope.log(), dim=-1)
        log_slope = log_slope + inside - below - above
        values = below - above
    return 0.5 * values**2 + 0.5 * math.log(2 * math.pi) - log_slope


NORMAL = Density(2, normal_nll)
FLOW = Density(3 * FLOW_LAYERS * FLOW_UNITS, flow_nll)
