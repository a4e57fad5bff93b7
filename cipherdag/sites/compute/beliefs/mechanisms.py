"""One batched neural network models the conditional distributions of all variables.

The network of variable j maps its unmasked parents to the logits of its categories, or to mean and
log deviation.

Source: Lippe et al., "Efficient neural causal discovery without acyclicity constraints", ICLR 2022
(ENCO), appendix on architectures.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from cipherdag.sites.compute.beliefs.regimes import NORMAL, Density, Regimes

FIT_RATE = 5e-3
CHUNK_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 28}
PACKED_BITS = 62  # most variables whose set of parents fits one integer
SLOPE = 0.1  # of the leaky ReLU below 0


class Networks:
    """N networks, of p variables or more, with two layers of H hidden units; weights are drawn."""

    def __init__(
        self,
        regimes: Regimes,
        hidden: int,
        generator: torch.Generator,
        *,
        number: int | None = None,
        density: Density = NORMAL,
    ) -> None:
        p, device = regimes.n_variables, regimes.feature_values.device
        number = p if number is None else number
        inputs, outputs, spread = regimes.n_features, regimes.n_outputs(density), 2.0 / math.sqrt(p)

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
            w.requires_grad_() for pair in zip(layers, biases, strict=True) for w in pair
        ]

    def of_rows(self, seen: Tensor) -> Tensor:
        """Computes outputs, shape (N, R, outputs), from the networks' inputs, (N, R, inputs)."""
        return self.after_first(torch.baddbmm(self.first_bias, seen, self.first))

    def after_first(self, summed: Tensor) -> Tensor:
        """Applies the layers after the first, (N, R, H) to (N, R, outputs), overwriting them."""
        active = functional.leaky_relu(summed, SLOPE, inplace=True)
        second = torch.baddbmm(self._second_bias, active, self._second)
        active = functional.leaky_relu(second, SLOPE, inplace=True)
        return torch.baddbmm(self._third_bias, active, self._third)


class Mechanisms:
    """The networks of p variables model their conditional distributions given any parents.

    The generator of weights and later draws is on the CPU, so that every device draws the same.
    """

    def __init__(self, regimes: Regimes, *, hidden: int, generator: torch.Generator) -> None:
        self._regimes = regimes
        self._generator = generator
        p = regimes.n_variables
        self._device = regimes.feature_values.device
        self._networks = Networks(regimes, hidden, generator)
        self._source = torch.repeat_interleave(torch.arange(p, device=self._device), regimes.widths)
        self._optimiser = torch.optim.Adam(self._networks.weights, lr=FIT_RATE, fused=True)

    def fit(self, edge_probability: Tensor, *, steps: int, batch: int) -> None:
        """Fits the networks to observational rows, with parents drawn by P(i --> j), (p, p)."""
        regimes = self._regimes
        for _ in range(steps):
            rows = regimes.draw(regimes.observational, batch, self._generator)
            inputs = self._draw_inputs(edge_probability, batch)
            loss = regimes.nll(self._outputs_by_row(rows, inputs), rows).mean(dim=1).sum()
            self._optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()

    @torch.no_grad()
    def nll_of_graphs(self, graphs: Tensor, rows: Tensor) -> Tensor:
        """Computes mean negative log-likelihoods, (K, p), under graphs, (K, p, p), on some rows.

        [k, i, j] of ``graphs`` is 1 for i --> j. The first layer is linear in the graph, so that
        all parents contribute once, and each distinct parent set is a row of a matrix product.
        """
        p, batch = self._regimes.n_variables, len(rows)
        sets, which = distinct_parent_sets(graphs)
        networks = self._networks
        hidden = networks.first.shape[2]
        index, values = self._regimes.feature_index[rows].T, self._regimes.feature_values[rows].T
        parts = networks.first[:, index.reshape(-1)] * values.reshape(1, -1, 1)
        parts = parts.view(p, p, batch * hidden)
        # the bias is the contribution of a parent that all sets contain
        parts = torch.cat([parts, networks.first_bias.repeat(1, 1, batch)], dim=1)
        sets = functional.pad(sets.float(), (0, 1), value=1.0)
        size = max(1, CHUNK_ELEMENTS[self._device.type] // (p * batch * hidden))
        means = []
        for chunk in torch.split(sets, size, dim=1):
            summed = torch.bmm(chunk, parts).view(p, -1, hidden)
            outputs = networks.after_first(summed)
            means.append(self._regimes.nll(outputs, rows).view(p, -1, batch).mean(dim=2))
        return torch.cat(means, dim=1).gather(1, which).T

    def _outputs_by_row(self, rows: Tensor, inputs: Tensor) -> Tensor:
        """Computes outputs, shape (p, B, out), under a mask of inputs per row, (p, B, p)."""
        features = self._regimes.features(rows)
        seen = features * inputs[:, :, self._source]
        return self._networks.of_rows(seen)

    def _draw_inputs(self, edge_probability: Tensor, batch: int) -> Tensor:
        """Draws the input mask of every variable and row, float32 of shape (p, B, p)."""
        p = len(edge_probability)
        uniform = torch.rand((p, batch, p), generator=self._generator).to(self._device)
        return (uniform < edge_probability.T[:, None, :]).float()


def distinct_parent_sets(graphs: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the distinct parent sets that each variable has in some graphs, shape (K, p, p).

    Returns the sets, shape (p, U, p), padded by empty ones to the largest number U of any variable,
    and the index of each graph's set among them, shape (p, K).
    """
    n_graphs, p, _ = graphs.shape
    parents = graphs.permute(2, 0, 1)
    if p > PACKED_BITS:
        return parents, torch.arange(n_graphs, device=graphs.device).expand(p, n_graphs)
    powers = 1 << torch.arange(p, device=graphs.device)
    ordered, order = (parents * powers).sum(dim=2).sort(dim=1)
    rank = torch.zeros_like(ordered)
    rank[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).cumsum(dim=1)
    which = torch.empty_like(rank).scatter_(1, order, rank)
    most = int(rank.max()) + 1
    sets = torch.zeros((p, most, p), dtype=torch.bool, device=graphs.device)
    sets.scatter_(1, which[..., None].expand(-1, -1, p), parents.bool())
    return sets, which
