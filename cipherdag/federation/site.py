"""One site of a federation in this process, and uneven splits of one table over several sites."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray
from cipherdag.errors import ParameterError
from cipherdag.sites.compute.noise import Keyed, unkeyed
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.study.study import check_site_name
from cipherdag.sites.table.site_table import SiteTable


@dataclass(frozen=True, slots=True)
class Site:
    """One site of a federation in this process: its name, its aligned table, its own policy.

    By default no key enters what it draws at random, noise included. So a simulation can be
    repeated, and whoever guesses all rows can compute it. With ``keyed`` it answers as a real site.

    Raises:
        ParameterError: No real site may have this name.
    """

    name: str
    table: SiteTable = field(repr=False)
    policy: Policy = field(default_factory=Policy)
    keyed: Keyed = field(default=unkeyed, repr=False)

    def __post_init__(self) -> None:
        check_site_name(self.name)


def split_rows(
    n_rows: int, n_sites: int, *, rng: np.random.Generator, shuffle: bool = True
) -> list[IndexArray]:
    """Divide the rows 0..n_rows-1 unevenly over N sites, as FedPC's experiments do.

    Site i = 1..N-1 receives a number of rows drawn uniformly from n/(2N) up to left/(N-i), where
    ``left`` counts the rows not yet given away, capped so that every later site can still have
    n/(2N); the last site takes the rest. The sites receive consecutive blocks.

    The published code redraws until 100 further rows remain for the later sites, which never ends
    on small tables, and does not shuffle: pass ``shuffle=False`` for its contiguous blocks.

    ``shuffle`` permutes the rows before cutting. The N index arrays partition 0..n-1, and each has
    at least floor(n/(2N)) rows.

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


def split_patients(
    patients: IndexArray, n_sites: int, *, rng: np.random.Generator
) -> list[IndexArray]:
    """Divide rows as `split_rows` divides patients, shape (n,): none is torn apart."""
    parts = split_rows(int(patients.max()) + 1, n_sites, rng=rng)
    return [np.flatnonzero(np.isin(patients, part)) for part in parts]


def split_regimes(
    interventions: NDArray[np.bool_], n_sites: int, *, vertical: bool, rng: np.random.Generator
) -> list[IndexArray]:
    """Divide observational and interventional rows over N sites, as Fed-CD's experiments do.

    ``vertical`` deals out whole regimes (rows with the same intervened variables), as evenly as
    possible, so that no two sites intervened on the same; else every regime is divided. The
    observational rows are divided evenly. The N index arrays partition 0..n-1.

    Raises:
        ParameterError: If ``n_sites`` < 1, there are fewer than two observational rows per site,
            or fewer regimes than sites where they are dealt out.

    Source:
        Abyaneh et al., "FED-CD" (2023), section 3 and appendix B.1.
    """
    kinds, which = np.unique(interventions, axis=0, return_inverse=True)
    observed = ~kinds.any(axis=1)
    regimes = [np.flatnonzero(which.ravel() == kind) for kind in range(len(kinds))]
    free = np.concatenate([np.zeros(0, np.int64), *(regimes[k] for k in np.flatnonzero(observed))])
    manipulated = [regimes[kind] for kind in np.flatnonzero(~observed)]
    if n_sites < 1 or len(free) < 2 * n_sites:
        raise ParameterError(
            f"{len(free)} observational rows are too few for {n_sites} sites",
            remedy="Use fewer sites, or more rows without an intervention.",
        )
    if vertical and len(manipulated) < n_sites:
        raise ParameterError(
            f"{len(manipulated)} regimes cannot be dealt out over {n_sites} sites",
            remedy="Use fewer sites, or divide every regime (horizontal).",
        )
    parts = [[rows] for rows in np.array_split(rng.permutation(free), n_sites)]
    if vertical:
        order = rng.permutation(len(manipulated))
        for site, dealt in enumerate(np.array_split(order, n_sites)):
            parts[site] += [manipulated[regime] for regime in dealt]
    else:
        for rows in manipulated:
            for site, part in enumerate(np.array_split(rng.permutation(rows), n_sites)):
                parts[site].append(part)
    return [np.concatenate(pieces).astype(np.int64) for pieces in parts]
