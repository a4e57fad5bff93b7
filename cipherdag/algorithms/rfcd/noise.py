"""What Gaussian noise on regrets is worth: a differential-privacy guarantee in closed form.

Replacing one row of a table changes a family's maximised log likelihood, sum n_jk ln(n_jk / n_j),
by at most 1 + ln n either way: taking a row out raises it by 0 to 1 + ln n, because n ln n is
convex and n_jk <= n_j, and putting one in lowers it by as much. The score of a graph over p
variables hence changes by at most p (1 + ln n), the score of the best graph of all too, and a
regret against the *exact* best graph by at most twice that. Gaussian models have no such bound, and
the graph of a greedy search may jump.

Source: Bun and Steinke, "Concentrated differential privacy", TCC 2016 (proposition 1.6 and 1.3).

Leaks:
    Nothing: public parameters only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cipherdag.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What the noise promises to every row of a site.

    Attributes:
        sensitivity: Most that one row changes a regret, in nats.
        rho: All answers together are rho-zCDP.
        epsilon: And (epsilon, delta)-differentially private.
        delta: See ``epsilon``.
    """

    sensitivity: float
    rho: float
    epsilon: float
    delta: float


def guarantee(
    noise: float, *, n_graphs: int, n_variables: int, rows: int, delta: float = 1e-6
) -> Guarantee:
    """The guarantee of Gaussian noise, drawn once per graph at every site.

    Args:
        noise: Standard deviation in nats, above 0.
        n_graphs: Number of graphs asked about.
        n_variables: Number of variables, p.
        rows: Rows of the site, n; where it is not known, an upper bound.
        delta: Between 0 and 1.

    Raises:
        ParameterError: A number is out of its range.
    """
    if noise <= 0.0 or not 0.0 < delta < 1.0 or min(n_graphs, n_variables, rows) < 1:
        raise ParameterError("a guarantee needs noise, a delta in (0, 1), graphs and rows")
    sensitivity = 2.0 * n_variables * (1.0 + math.log(rows))
    rho = n_graphs * sensitivity**2 / (2.0 * noise**2)
    epsilon = rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
    return Guarantee(sensitivity, rho, epsilon, delta)
