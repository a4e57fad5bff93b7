"""Scores of families without any table: the sites' own likelihoods, added up.

Every site says of a set how well its own distribution of these variables explains its rows, freed
of what chance alone would explain; the sum stands for the likelihood of all rows, and the penalty
is that of all rows. Differences between sites are no evidence: no site is compared with another.
What a site that restricts small counts moves a set by counts alike in all families that share it.

Leaks:
    Of every set that the search looks at, one number summed over the sites; see `LogLikelihoods`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence

from cipherdag.algorithms.fedboss.budget import Budget
from cipherdag.algorithms.fedboss.set_families import SetFamilies, positions_of
from cipherdag.arrays import FloatVector
from cipherdag.graphs.dags import mask_of
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.likelihoods import LogLikelihoods
from cipherdag.questions.question import Question
from cipherdag.statistics.set_scores import SetScore

Asking = Generator[Question, FloatVector, None]


class Likelihoods:
    """Asks for likelihoods and makes scores of them.

    Args:
        n_variables: Number of variables, p.
        score: Its penalty is taken from them.
        cost: The penalty of a set on the grid of the score.
        discount: See `LogLikelihoods`.
        max_rows: Declared bound of a site's rows.

    Attributes:
        of_nothing: The score of the empty set, as all rows' table of no variable has it.
    """

    def __init__(
        self,
        n_variables: int,
        score: SetScore,
        cost: Callable[[int], int],
        *,
        discount: int,
        max_rows: int,
    ) -> None:
        self.cost = cost
        self._n_variables = n_variables
        self._score = score
        self._discount = discount
        self._max_rows = max_rows
        self.of_nothing = score.plain.of_nothing

    def learn(self, masks: Sequence[int], values: dict[int, int | None]) -> Asking:
        """Ask for some sets and keep their scores in ``values``; one round."""
        by_size = positions_of(masks)
        counts, members = pack_blocks(by_size)
        sums = yield LogLikelihoods(
            n_variables=self._n_variables,
            counts=counts,
            members=members,
            discount=self._discount,
            max_rows=self._max_rows,
        )
        # as the blocks are packed
        asked = [mask_of(row) for rows in by_size for row in rows.tolist()]
        found = self._score.on_grid(sums).tolist()
        for mask, own in zip(asked, found, strict=True):
            values[mask] = own + self.of_nothing + self.cost(mask)


class LikelihoodScores(SetFamilies):
    """Scores from the sites' likelihoods alone.

    Args:
        levels: How many categories every variable has, 1 of a number, shape (p,).
        likelihoods: Asks.
        budget: What may be asked.
        settings: See `SetFamilies`.

    Attributes:
        tally: How many sets were scored.
    """

    def __init__(
        self, levels: Sequence[int], likelihoods: Likelihoods, budget: Budget, **settings: int
    ) -> None:
        super().__init__(levels, **settings)
        self.tally: Counter[str] = Counter(sites=0)
        self._likelihoods = likelihoods
        self._budget = budget
        self._values[0] = likelihoods.of_nothing

    def likelihood(self, mask: int) -> int | None:
        """See `SetFamilies.likelihood`."""
        value = self._values.get(mask)
        return None if value is None else value - self._likelihoods.cost(mask)

    def _learn(self, masks: Sequence[int]) -> Asking:
        """One round."""
        if not self._budget.spend(rounds=1, values=len(masks)):
            self.closed = True
            return
        yield from self._likelihoods.learn(masks, self._values)
        self.tally["sites"] += len(masks)
