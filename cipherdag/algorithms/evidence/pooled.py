"""The test of the pooled data, exactly: contingency tables, or the moments, of all sites together.

Leaks:
    The tables of the tests, or once the moments, over all sites; see `open_tables`, `open_moments`
    and `Columns`.
"""

from __future__ import annotations

from collections.abc import Generator

from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.pooled_moments import open_moments
from cipherdag.algorithms.evidence.pooled_tables import open_tables
from cipherdag.arrays import FloatVector
from cipherdag.errors import MixedTypesError
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.question import Question


def open_pooled(
    settings: EvidenceSettings,
) -> Generator[Question, FloatVector, FederatedCITest]:
    """Tests of the pooled data; two rounds, or three where a site restricts counts.

    Raises:
        MixedTypesError: The test does not fit the columns.
    """
    question = Columns(n_variables=settings.n_variables, max_rows=settings.max_rows, few=True)
    kinds = question.read((yield question))
    name = settings.spec.name
    if kinds.categories.all() and name in ("auto", "g2", "pearson"):
        return (yield from open_tables(kinds, settings))
    if not kinds.categories.any() and name in ("auto", "fisherz"):
        return (yield from open_moments(kinds, settings))
    mixed = kinds.categories.any() and not kinds.categories.all()
    columns = "discrete and continuous" if mixed else "these"
    raise MixedTypesError(
        f"pooled evidence cannot test {columns} columns by '{name}'",
        remedy="Run with --evidence glm, which takes any columns, or with columns of one type and "
        "a --test that fits them.",
    )


POOLED = CombinationMethod(
    name="pooled",
    discloses="The contingency tables of the tests, or the moments, of all sites together: as much "
    "as the pooled data would show of them.",
    open=open_pooled,
    asks_columns=True,
    mixes_sites=True,
)
