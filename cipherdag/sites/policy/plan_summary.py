"""A plan in ten plain lines, which a person reads before deciding; `plan_account` has all of it."""

from __future__ import annotations

from collections.abc import Sequence

from cipherdag.algorithms.registry import make_algorithm
from cipherdag.errors import CipherdagError
from cipherdag.pages.numerals import counted
from cipherdag.privacy.mpc.batch import TWO_SITES
from cipherdag.privacy.protections import protection_kind
from cipherdag.protocol.plan import Plan
from cipherdag.questions.disclosure import sentences
from cipherdag.sites.policy.parameter_rules import opened_of_tests
from cipherdag.sites.policy.plan_account import IMPOSSIBLE, LOOK, changed_settings, sites_covered
from cipherdag.sites.policy.policy import Policy

FIRST_RUN = "this site has approved no other run yet."


def summary_lines(
    plan: Plan,
    account: Sequence[str],
    *,
    n_variables: int | None,
    policy: Policy,
    before: Sequence[str] = (),
) -> list[str]:
    """Who asks, why, on what, what leaves, what it can show, for how long, and what is new.

    Args:
        plan: The plan.
        account: All that `plan_account.plan_lines` says of it.
        n_variables: Number of columns, where the site has a schema.
        policy: The site's limits.
        before: How the plan differs from each that was approved before.

    Returns:
        Lines without line ends: nine, and one more where the plan cannot run here, or for each
        word in letters of two alphabets.
    """
    columns = "the columns" if n_variables is None else f"all {counted(n_variables, 'column')}"
    different = "" if plan.measured.everywhere else " Sites measured different ones."
    lines = [
        *account[:2],
        f"On what: {columns} of the study's schema.{different} Rows and names stay at this site.",
    ]
    try:
        algorithm = make_algorithm(plan.algorithm, plan.parameters)
    except CipherdagError:
        pass  # the account says that it is not installed here
    else:
        changed = changed_settings(plan)
        lines += [
            f"What leaves: {' '.join(sentences(algorithm.disclosures()))}",
            f"Who sees it: {_seen(plan)}",
            f"What the result can show: {algorithm.concludes.promise or 'computed totals.'}",
            f"Settings: {'; '.join(changed) if changed else 'all as usual'}.",
        ]
    most = f"{policy.max_rounds:,} rounds or {policy.max_values:,} values"
    return [
        *lines,
        f"For how long: this site's policy ends the run after {most}, if not before.",
        f"What differs from before: {_before(before)}",
        *(line for line in account if line.startswith((LOOK, IMPOSSIBLE))),
    ]


def _before(before: Sequence[str]) -> str:
    """How the plan differs from those approved before; of many the last alone."""
    if not before:
        return FIRST_RUN
    more = f" {counted(len(before) - 1, 'more run')} in the details." if before[1:] else ""
    return f"{before[-1]}{more} Two runs together can show more than one."


def _seen(plan: Plan) -> str:
    """Who could read what, as far as protection and colluding parties go."""
    kind, n_sites = protection_kind(plan.protection), len(plan.cohort)
    bits = opened_of_tests(plan) == "bits"
    colluding = f" {_of_colluding_sites(n_sites)}" if bits else ""
    if not kind.protects:
        return f"answers leave {kind.left}, and the coordinator reads every site's.{colluding}"
    seen = f"only what covers at least {sites_covered(plan)}"
    if bits and n_sites == TWO_SITES:
        return f"everybody sees {seen}.{colluding}"
    helped = "as long as no site sides with it"
    if plan.colluders:
        sites = "one site helps" if plan.colluders == 1 else f"{plan.colluders} sites help"
        helped = f"even if {sites} it"
    return f"everybody sees {seen}. The coordinator sees no more, {helped}.{colluding}"


def _of_colluding_sites(n_sites: int) -> str:
    """What sites that side with each other could read where tests open bits."""
    if n_sites == TWO_SITES:
        return "The coordinator and one site together could read the other site's numbers."
    if n_sites == TWO_SITES + 1:
        return "Any two sites together could read the third one's numbers."
    pairs = n_sites * (n_sites - 1) // 2
    return f"Of {pairs} pairs of sites, 5 drawn by lot could together read the sums behind bits."
