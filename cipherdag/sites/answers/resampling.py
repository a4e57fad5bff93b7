"""Rows that a site draws from its own with replacement, and answers about them.

Source: Efron, Annals of Statistics 7 (1979); Friedman, Goldszmidt and Wyner, "Data analysis with
Bayesian networks: a bootstrap approach", UAI 1999. Every site draws as many rows as it holds, so
the sites are strata.

Leaks:
    Nothing: an answer stays inside the site until it is protected. Which rows are drawn follows
    from all rows of the site and its key, so nobody else can tell, but for a simulation, which has
    no key; were it known, sums over many replicates would be equations in single rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.question import Resampled
from cipherdag.sites.table.rows.digest import Keyed, rows_digest, unkeyed
from cipherdag.sites.table.site_table import SiteTable

if TYPE_CHECKING:
    from cipherdag.sites.answers.respondent import Respondent


MEMORY = 2**31
"""Bytes of drawn rows that a site keeps; others are drawn again when they are asked for."""


class Resamples:
    """Answers questions about the replicates of one site's rows.

    Args:
        table: The site's rows.
        respond: Makes a respondent of a table of drawn rows.
        keyed: The site's key.
        memory_bytes: Bounds the drawn rows that are kept, at least one replicate.
    """

    def __init__(
        self,
        table: SiteTable,
        respond: Callable[[SiteTable], Respondent],
        *,
        keyed: Keyed = unkeyed,
        memory_bytes: int = MEMORY,
    ) -> None:
        self._table = table
        self._respond = respond
        self._keyed = keyed
        arrays = [own for own in (table.codes, table.values) if own is not None]
        self._most = max(memory_bytes // max(sum(own.nbytes for own in arrays), 1), 1)
        self._digest = b""
        self._seed = -1
        self._known: dict[int, Respondent] = {}

    def answer(self, question: Resampled) -> FloatVector:
        """The site's answer about the rows of the replicate, before it is protected."""
        if question.seed != self._seed:  # another run: its replicates are other rows
            self._seed, self._known = question.seed, {}
        if question.replicate not in self._known:
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            rows = self.rows(question.replicate, question.seed)
            self._known[question.replicate] = self._respond(self._table.take(rows))
        return self._known[question.replicate].answer(question.question)

    def rows(self, replicate: int, seed: int) -> IndexArray:
        """Positions of the rows drawn with replacement, as many as there are, shape (n,).

        Args:
            replicate: 1 for the first.
            seed: Seed of the run.
        """
        if not self._digest:
            purpose = b"cipherdag resampled rows"
            self._digest = rows_digest(purpose, self._table.codes, self._table.values)
        number = seed.to_bytes(8, "big") + replicate.to_bytes(8, "big")
        entropy = hashlib.sha256(self._keyed(self._digest) + number).digest()
        rng = np.random.default_rng(int.from_bytes(entropy, "big"))
        return rng.integers(self._table.rows, size=self._table.rows)
