"""Uneven splits of one table over several sites, for simulations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import ParameterError

RowIndex = NDArray[np.int64]


def split_rows(
    n_rows: int, n_sites: int, *, rng: np.random.Generator, shuffle: bool = True
) -> list[RowIndex]:
    """Divide the rows 0..n_rows-1 unevenly over N sites, as FedPC's experiments do.

    Site i = 1..N-1 receives a number of rows drawn uniformly from n/(2N) up to left/(N-i), where
    ``left`` counts the rows not yet given away, capped so that every later site can still have
    n/(2N); the last site takes the rest. The sites receive consecutive blocks.

    The published code redraws until 100 further rows remain for the later sites, which never ends
    on small tables, and does not shuffle: pass ``shuffle=False`` for its contiguous blocks.

    Args:
        n_rows: Number of rows n, at least 2N.
        n_sites: Number of sites N, at least 1.
        rng: Source of the sizes and of the order.
        shuffle: Permute the rows before cutting.

    Returns:
        N index arrays that partition 0..n_rows-1, each of at least floor(n/(2N)) rows.

    Raises:
        ParameterError: If ``n_sites`` < 1 or ``n_rows`` < 2 ``n_sites``.

    Source:
        Guo et al., FedPC, experimental setting (section on data splits) and its published code.
    """
    if n_sites < 1:
        raise ParameterError(f"a split needs at least one site, not {n_sites}")
    if n_rows < 2 * n_sites:
        raise ParameterError(
            f"{n_rows} rows cannot be split over {n_sites} sites",
            remedy=f"Use at least {2 * n_sites} rows or fewer sites.",
        )
    smallest = n_rows // (2 * n_sites)
    sizes: list[int] = []
    left = n_rows
    for later in range(n_sites - 1, 0, -1):
        largest = min(left // later, left - smallest * later)
        sizes.append(int(rng.integers(smallest, largest, endpoint=True)))
        left -= sizes[-1]
    order = rng.permutation(n_rows) if shuffle else np.arange(n_rows)
    return np.split(order.astype(np.int64), np.cumsum(sizes, dtype=np.int64))
