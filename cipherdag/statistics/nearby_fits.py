"""Which fit a regression begins from: one of the same rows with as many of its predictors as any.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

from cipherdag.questions.regression_steps import Regression
from cipherdag.statistics.regression_fits import Fit

Rows = tuple[int, frozenset[int]]
"""A response, and the variables of a model that miss values: models with the same have the
same rows."""


@dataclass(slots=True)
class NearbyFits:
    """Finished fits without interactions, by rows and predictors.

    Attributes:
        misses: Whether some row misses a value of a variable.
    """

    misses: Callable[[int], bool]
    _known: dict[Rows, dict[frozenset[int], Fit]] = field(default_factory=dict)

    def keep(self, fit: Fit) -> None:
        """Remember a finished fit."""
        if not fit.model.crossed:
            own = self._known.setdefault(self._rows(fit.model), {})
            own[frozenset(fit.model.predictors)] = fit

    def near(self, model: Regression) -> Fit | None:
        """The fit with most of the model's predictors; of some the likeliest, then the first."""
        known = self._known.get(self._rows(model))
        if model.crossed or known is None:
            return None
        for size in range(len(model.predictors), -1, -1):
            among = map(frozenset, combinations(model.predictors, size))
            found = [known[own] for own in among if own in known]
            if found:
                return max(found, key=lambda fit: fit.value)
        return None

    def _rows(self, model: Regression) -> Rows:
        used = (model.response, *model.predictors, *model.complete_in)
        return model.response, frozenset(filter(self.misses, used))
