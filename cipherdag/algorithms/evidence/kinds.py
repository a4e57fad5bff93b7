"""The kinds of evidence by name, and the source of p-values of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from cipherdag.algorithms.evidence.source import CombinedTests, EvidenceSource
from cipherdag.errors import MixedTypesError
from cipherdag.questions.combined_evidence import COMBINATIONS
from cipherdag.questions.pooled_data import Columns

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.questions.question import CITestSpec, FloatVector, Question

EvidenceKind = Literal["vote", "statistic", "fisher", "stouffer", "weighted_p", "pooled", "glm"]


def open_evidence(
    kind: EvidenceKind,
    spec: CITestSpec,
    *,
    n_variables: int,
    max_cells: int,
    max_rows: int,
    site_effect: bool = False,
) -> Generator[Question, FloatVector, EvidenceSource]:
    """The source of p-values of one kind.

    Args:
        kind: Any but ``vote``.
        spec: The test.
        n_variables: Number of aligned variables, p.
        max_cells: Largest table that ``pooled`` asks for; larger ones fall back to ``statistic``.
        max_rows: Declared bound of a site's rows.
        site_effect: Whether regressions of ``glm`` have constants of every site's own.

    Returns:
        The source. Rounds: none; for ``glm`` one; for ``pooled`` two, or three where a
            site restricts counts.

    Raises:
        MixedTypesError: ``pooled``, and the test does not fit the columns.

    Leaks:
        See the source of the kind, and for ``pooled`` and ``glm`` `Columns`.
    """
    if kind in COMBINATIONS:
        return CombinedTests(kind, spec, n_variables=n_variables, max_rows=max_rows)
    from cipherdag.algorithms.evidence.pooled_moments import open_moments
    from cipherdag.algorithms.evidence.pooled_regressions import RegressionTests
    from cipherdag.algorithms.evidence.pooled_tables import open_tables

    question = Columns(n_variables=n_variables, max_rows=max_rows, order=kind == "glm")
    kinds = question.read((yield question))
    if kind == "glm":
        own = msgspec.structs.replace(spec, name="regression")
        fallback = CombinedTests("statistic", own, n_variables=n_variables, max_rows=max_rows)
        return RegressionTests(kinds, fallback, max_rows=max_rows, site_effect=site_effect)
    if kinds.categories.all() and spec.name in ("auto", "g2", "pearson"):
        return (yield from open_tables(kinds, spec, max_cells=max_cells, max_rows=max_rows))
    if not kinds.categories.any() and spec.name in ("auto", "fisherz"):
        return (yield from open_moments(kinds, spec, max_rows=max_rows))
    mixed = kinds.categories.any() and not kinds.categories.all()
    columns = "discrete and continuous" if mixed else "these"
    raise MixedTypesError(
        f"pooled evidence cannot test {columns} columns by '{spec.name}'",
        remedy="Use evidence glm, or columns of one type and a test that fits them.",
    )
