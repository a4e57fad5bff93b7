"""What the program of a plan knows before its first question, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.registry import reads_labels

if TYPE_CHECKING:
    from cipherdag.protocol.plan import Plan


def plan_facts(
    plan: Plan, n_variables: int, labels: tuple[int, ...] = (), names: tuple[str, ...] = ()
) -> Facts:
    """The facts of a plan.

    Args:
        plan: The plan.
        n_variables: Number of aligned variables, p.
        labels: Positions that the schema marks as labels, for an algorithm that reads them.
        names: The variables; identifiers where only the sites know their names.
    """
    return Facts(
        n_variables,
        len(plan.cohort),
        names=names,
        labels=labels if reads_labels(plan.algorithm) else (),
        seed=plan.seed,
        fewest=plan.min_contributors,
        measured=plan.measured,
    )
