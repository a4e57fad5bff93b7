"""Many small neural networks of one shape as three tensors, so that nothing loops over them.

A network is a linear layer, LeakyReLU, a linear layer, LeakyReLU, and a linear layer: ENCO's (Lippe
et al., ICLR 2022, appendix) and DCDI's (Brouillard et al., NeurIPS 2020, appendix) alike.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

SLOPE = 0.1


class Networks:
    """N networks with H hidden units in each of two layers.

    Args:
        number: N.
        inputs: Inputs of each.
        hidden: H.
        outputs: Outputs of each.
        spread: Standard deviation of the first layer's initial weights and biases.
        device: Where they are.
        generator: Source of the initial weights, on the CPU, so that every device has the same.

    Attributes:
        first: Weights of the first layer, shape (N, inputs, H).
        first_bias: Its biases, shape (N, 1, H).
        weights: All weights and biases, which an optimiser moves.
    """

    def __init__(
        self,
        number: int,
        inputs: int,
        hidden: int,
        outputs: int,
        *,
        spread: float,
        device: torch.device,
        generator: torch.Generator,
    ) -> None:
        def normal(shape: tuple[int, ...], deviation: float) -> Tensor:
            return (torch.randn(shape, generator=generator) * deviation).to(device)

        self.first = normal((number, inputs, hidden), spread)
        self.first_bias = normal((number, 1, hidden), spread)
        gain = math.sqrt(2.0 / (1.0 + SLOPE**2))
        self._second = normal((number, hidden, hidden), gain / math.sqrt(hidden))
        self._second_bias = torch.zeros((number, 1, hidden), device=device)
        self._third = normal((number, hidden, outputs), 1.0 / math.sqrt(hidden))
        self._third_bias = torch.zeros((number, 1, outputs), device=device)
        layers = (self.first, self._second, self._third)
        biases = (self.first_bias, self._second_bias, self._third_bias)
        self.weights = [
            own.requires_grad_() for pair in zip(layers, biases, strict=True) for own in pair
        ]

    def of_rows(self, seen: Tensor) -> Tensor:
        """Outputs, shape (N, R, outputs), for what every network sees, (N, R, inputs)."""
        return self.after_first(torch.baddbmm(self.first_bias, seen, self.first))

    def after_first(self, summed: Tensor) -> Tensor:
        """The layers after the first, which is overwritten, shape (N, R, H) to (N, R, outputs)."""
        active = functional.leaky_relu(summed, SLOPE, inplace=True)
        second = torch.baddbmm(self._second_bias, active, self._second)
        active = functional.leaky_relu(second, SLOPE, inplace=True)
        return torch.baddbmm(self._third_bias, active, self._third)
