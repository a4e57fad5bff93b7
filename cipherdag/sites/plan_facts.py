"""What the program of a plan knows before its first question, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.registry import reads_labels, reads_relations
from cipherdag.errors import KeyAgreementError
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.protocol.plan import Plan
from cipherdag.sites.table.schema import Schema


def plan_facts(
    plan: Plan,
    n_variables: int,
    labels: tuple[int, ...] = (),
    names: tuple[str, ...] = (),
    determined: Determined = NOTHING,
) -> Facts:
    """The facts of a plan.

    Args:
        plan: The plan.
        n_variables: Number of aligned variables, p.
        labels: Positions that the schema marks as labels, for an algorithm that reads them.
        names: The variables; identifiers where only the sites know their names.
        determined: Which variables follow from others by the schema, for an algorithm that reads
            it.
    """
    return Facts(
        n_variables,
        len(plan.cohort),
        names=names,
        labels=labels if reads_labels(plan.algorithm) else (),
        seed=plan.seed,
        fewest=plan.min_contributors,
        measured=plan.measured,
        determined=determined if reads_relations(plan.algorithm) else NOTHING,
    )


def facts_by(plan: Plan, schema: Schema) -> Facts:
    """The facts of a plan where its schema is known, but for the names, which a program lacks."""
    n_variables, determined = len(schema.names), schema.determined
    return plan_facts(plan, n_variables, schema.label_positions, determined=determined)


def two_categories(schema: Schema) -> tuple[tuple[str, str] | None, ...]:
    """The two categories or bins of every binary variable, in order, else None."""
    return tuple(
        (variable.category_name(0), variable.category_name(1))
        if variable.cardinality == len(("0", "1"))
        else None
        for variable in schema.variables
    )


def check_lacking(plan: Plan, lacking: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a plan by which a site measured other variables than by this site's schema.

    Args:
        plan: The plan.
        lacking: Positions that sites lack by the schema, of sites that lack some.

    Raises:
        KeyAgreementError: It says otherwise of some site.
    """
    for member in plan.cohort:
        if member.lacking != lacking.get(member.name, ()):
            raise KeyAgreementError(
                f"by the plan '{member.name}' measured other variables than by the schema",
                remedy="Plan with --lacking as `cipherdag schema overlap` prints it.",
            )
