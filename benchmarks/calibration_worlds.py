"""Rows of many small tests, at sites that are alike or differ; see `calibration`.

Columns lie in groups, one per test: x, y, and s if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

COLUMNS = ("categories", "numbers", "mixtures")
WORLDS = ("alike", "marginals", "mechanisms")
GIVEN = {
    "categories": {"3 x 3": (3, 3), "3 x 3 given 4": (3, 3, 4), "4 x 4 given 8": (4, 4, 8)},
    "numbers": {"pairs": (0, 0), "given one": (0, 0, 0)},
    "mixtures": {"pairs": (0, 2), "given one": (0, 2, 0)},
}
"""Categories of x, y and s by name; 0 for a number."""
CONCENTRATION = 2.0
LEVEL = 0.3
"""Standard deviation of the levels of sites that differ."""
SLOPE = 0.5
POWER_OFFSET, POWER_SLOPE = 7.9, 3.9
"""Noncentrality that finds four of five at level 0.01: about offset + slope sqrt(dof)."""


@dataclass(frozen=True)
class Cell:
    """Where tests are done.

    Attributes:
        columns: Kind of columns.
        given: What is tested, by name.
        sites: Number of sites.
        rows: Of each.
        world: How sites differ; `power`: they do not, and x and y depend on each other.
    """

    columns: str
    given: str
    sites: int
    rows: int
    world: str

    @property
    def categories(self) -> tuple[int, ...]:
        return GIVEN[self.columns][self.given]


def draw(cell: Cell, tests: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of every site: shape (rows, tests * columns of a test), codes or numbers."""
    make = _categories if cell.columns == "categories" else _numbers
    return make(cell, tests, rng)


def _chances(rng, own: bool, sites: int, *shape: int) -> np.ndarray:
    """Distributions, shape (sites, *shape); the same at all sites unless each has its own."""
    drawn = rng.dirichlet(np.full(shape[-1], CONCENTRATION), (sites if own else 1, *shape[:-1]))
    return np.broadcast_to(drawn, (sites, *shape))


def _categories(cell: Cell, tests: int, rng) -> list[np.ndarray]:
    x_levels, y_levels, *rest = cell.categories
    levels = rest[0] if rest else 1
    own = cell.world == "mechanisms" or (not rest and cell.world == "marginals")
    of_s = _chances(rng, cell.world in ("marginals", "mechanisms"), cell.sites, tests, levels)
    of_x = _chances(rng, own, cell.sites, tests, levels, x_levels)
    of_y = _chances(rng, own, cell.sites, tests, levels, y_levels)
    dof = (x_levels - 1) * (y_levels - 1) * levels
    needed = POWER_OFFSET + POWER_SLOPE * np.sqrt(dof)
    share = np.sqrt(needed / (cell.sites * cell.rows * (min(x_levels, y_levels) - 1)))
    every = np.arange(tests)
    found = []
    for site in range(cell.sites):
        s = _drawn(rng, np.broadcast_to(of_s[site], (cell.rows, tests, levels)))
        x = _drawn(rng, of_x[site][every, s])
        y = _drawn(rng, of_y[site][every, s])
        if cell.world == "power":
            y = np.where(rng.random(y.shape) < min(share, 1.0), x % y_levels, y)
        parts = [x, y, s] if rest else [x, y]
        found.append(np.stack(parts, axis=2).reshape(cell.rows, -1))
    return found


def _drawn(rng, chances: np.ndarray) -> np.ndarray:
    """One category of every distribution, the last axis."""
    below = np.cumsum(chances, axis=-1)[..., :-1]
    return (rng.random(chances.shape[:-1])[..., None] > below).sum(axis=-1)


def _numbers(cell: Cell, tests: int, rng) -> list[np.ndarray]:
    """Linear models; a variable of two categories is whether a logistic one lies above 0."""
    conditional = len(cell.categories) > 2
    shift = LEVEL if cell.world in ("marginals", "mechanisms") else 0.0
    levels = rng.normal(0.0, shift, (3, cell.sites, 1, tests))
    slopes = np.full((2, cell.sites, 1, tests), SLOPE)
    if cell.world == "mechanisms":
        slopes = rng.normal(0.0, SLOPE, slopes.shape)
    share = np.sqrt((POWER_OFFSET + POWER_SLOPE) / (cell.sites * cell.rows))
    found = []
    for site in range(cell.sites):
        shape = (cell.rows, tests)
        s = levels[0, site] + rng.standard_normal(shape)
        pull = s if conditional else 0.0
        own = rng.standard_normal(shape)
        x = levels[1, site] + slopes[0, site] * pull + own
        y = levels[2, site] + slopes[1, site] * pull
        if cell.world == "power":
            y = y + own * share * (np.pi / np.sqrt(3) if cell.categories[1] else 1.0)
        if cell.categories[1]:
            y = (y + rng.logistic(size=shape) > 0).astype(float)
        else:
            y = y + rng.standard_normal(shape)
        parts = [x, y, s] if conditional else [x, y]
        found.append(np.stack(parts, axis=2).reshape(cell.rows, -1))
    return found
