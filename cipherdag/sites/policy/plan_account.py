"""A plan in sentences, for the person who decides on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cipherdag.algorithms.registry import make_algorithm
from cipherdag.errors import CipherdagError
from cipherdag.privacy.protections import protection_kind
from cipherdag.questions.question import finds_verdicts
from cipherdag.sites.plan_facts import plan_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from cipherdag.protocol.plan import Plan
    from cipherdag.sites.policy.policy import Policy


def plan_lines(
    plan: Plan,
    *,
    n_variables: int | None = None,
    labels: tuple[int, ...] = (),
    policy: Policy | None = None,
) -> list[str]:
    """Who asks for what and why, what will be opened, and how far it can go.

    Args:
        plan: The plan.
        n_variables: Number of aligned variables, p; None where only the sites know it.
        labels: Positions of the labels, where there are any.
        policy: The site's limits, which end the run at the latest; none for a coordinator.

    Returns:
        Lines without line ends. Of an algorithm that is not installed here they say so.
    """
    names = ", ".join(member.name for member in plan.cohort)
    lines = [
        f"{plan.requester or 'The coordinator'} asks for {plan.algorithm} at {names}.",
        f"Purpose: {_sentence(plan.purpose or 'none is given')}",
        f"Answers leave {protection_kind(plan.protection).left}.",
        (
            f"A sum covers {plan.min_survivors} of the {len(plan.cohort)} sites at least; up to "
            f"{plan.colluders} that collude with the coordinator still see sums only."
        ),
    ]
    try:
        algorithm = make_algorithm(plan.algorithm, plan.parameters)
        lines += [f"Parameters: {_parameters(plan)}; seed {plan.seed}."]
        lines += [f"Opened: {sentence}" for sentence in algorithm.disclosures()]
        first = None
        if n_variables is not None:
            first = next(algorithm.ask(plan_facts(plan, n_variables, labels)), None)
    except CipherdagError as error:
        return [*lines, f"NOT POSSIBLE HERE: {error.message}."]
    if first is not None:
        values = sum(encoding.length for encoding in first.encodings)
        opened = "verdicts" if finds_verdicts(first) else "sums"
        lines.append(
            f"The first {opened}: {first.label}, {values:,} values. What follows, the {opened} "
            "decide, by the same program at every site."
        )
    if policy is not None:
        lines.append(
            f"This site's policy ends it after {policy.max_rounds:,} rounds or "
            f"{policy.max_values:,} values."
        )
    return lines


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def differences(plan: Plan, earlier: Iterable[Plan]) -> list[str]:
    """How a plan differs from those that were carried out before: one line for each.

    Sums of two runs show more than those of one, and a run that is repeated with a little change
    shows what neither would.
    """
    lines = []
    for other in earlier:
        when = f"run {other.session.hex()[:8]} of {other.created[:10]}"
        if other.algorithm != plan.algorithm:
            lines.append(f"{when} was {other.algorithm}.")
            continue
        changed = _changes(_told(other), _told(plan))
        told = _printable(", ".join(changed)) or "no difference but its date and purpose"
        lines.append(f"{when}: {told}.")
    return lines


def _printable(text: str) -> str:
    """A text of the coordinator's that cannot pass for another line, or steer a terminal."""
    return "".join(own if own.isprintable() else repr(own)[1:-1] for own in text)


def _told(plan: Plan) -> dict[str, Any]:
    return {
        **plan.parameters,
        "seed": plan.seed,
        "protection": plan.protection,
        "sites": ", ".join(member.name for member in plan.cohort),
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"{key} {old.get(key)} -> {new.get(key)}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def _parameters(plan: Plan) -> str:
    """All parameters with their values, those that are not the default's first."""
    usual = msgspec.json.decode(msgspec.json.encode(make_algorithm(plan.algorithm, {})))
    changed = [name for name in plan.parameters if plan.parameters[name] != usual.get(name)]
    rest = [name for name in plan.parameters if name not in changed]
    told = [_valued(name, plan.parameters[name]) for name in changed]
    as_usual = ", ".join(_valued(name, plan.parameters[name]) for name in rest)
    return ", ".join([*told, *([f"as usual {as_usual}"] if rest else [])])


def _valued(name: str, value: Any) -> str:
    return _printable(f"{name} {'none' if value is None else value}")
