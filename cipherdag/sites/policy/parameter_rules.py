"""A site's rules on the parameters of a plan: "NAME LOW..HIGH" or "NAME A|B|C"."""

import contextlib
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal

from cipherdag.algorithms.parameters import Parameter, flattened, options_of
from cipherdag.algorithms.registry import algorithm_class, algorithm_names, make_algorithm
from cipherdag.errors import ParameterError, PolicyRefusedError
from cipherdag.protocol.plan import Plan
from cipherdag.questions.disclosure import Disclosure, Whose

_NUMBER = r"-?\d+(\.\d+)?(e-?\d+)?"
_RULE = re.compile(rf"[a-z_][a-z0-9_]* ({_NUMBER}\.\.{_NUMBER}|[\w-]+(\|[\w-]+)*)")


def fault_of_rule(rule: str) -> str:
    """The fault of a rule in words; "" if there is none.

    One whose name no algorithm has would never apply, and one from a number down to a smaller one
    would refuse every plan.
    """
    if not _RULE.fullmatch(rule):
        return f'{rule!r} is neither "NAME LOW..HIGH" nor "NAME A|B|C"'
    name, allowed = rule.split(" ", 1)
    low, dots, high = allowed.partition("..")
    if dots and float(low) > float(high):
        return f"no number is allowed by {rule!r}, as {low} is above {high}"
    parameter_names: set[str] = set()
    for algorithm in algorithm_names():
        with contextlib.suppress(ImportError):  # what cannot be imported cannot run here at all
            algorithm_type = algorithm_class(algorithm)
            parameter_names |= {*options_of(algorithm_type), *algorithm_type.retired}
        if name in parameter_names:  # the others need not be imported
            return ""
    close = get_close_matches(name, sorted(parameter_names))
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no algorithm has the parameter '{name}' of {rule!r}{hint}"


def parameters_used(plan: Plan) -> dict[str, Any]:
    """The parameters that a plan runs with: one that it leaves out has its default."""
    with contextlib.suppress(ParameterError):  # not installed: then it cannot run here at all
        algorithm = algorithm_class(plan.algorithm)
        usual = {name: each.written(each.default) for name, each in options_of(algorithm).items()}
        return {**usual, **flattened(algorithm, plan.parameters)}
    return plan.parameters


def declared(algorithm: str, parameters: Mapping[str, Any]) -> frozenset[Disclosure]:
    """What an algorithm opens at most; nothing is known of one that is not installed here."""
    with contextlib.suppress(ParameterError):
        return frozenset(make_algorithm(algorithm, parameters).disclosures())
    return frozenset()


def opened_of_tests(plan: Plan) -> Literal["bits", "sums", "none"]:
    """The openings of a plan's tests: bits, sums, or none where it has no such choice."""
    with contextlib.suppress(ParameterError):  # not installed: then it cannot run here at all
        algorithm = make_algorithm(plan.algorithm, plan.parameters)
        closed: bool | None = getattr(algorithm, "closed", None)
        # votes by bits open one site's p-values, too, and so count as sums
        bits = closed and all(each.whose != Whose.ONE for each in algorithm.disclosures())
        return "none" if closed is None else "bits" if bits else "sums"
    return "none"


def check_steps(plan: Plan) -> None:
    """Refuse (PolicyRefusedError) a plan that opens bits at a level other than the few allowed.

    A dozen runs, each at a level of its choice, would tell a p-value to three digits by halving.
    """
    used = parameters_used(plan)
    if opened_of_tests(plan) == "sums" or used.get("reveal") == "sums":
        return
    parameters: Mapping[str, Parameter] = {}
    with contextlib.suppress(ParameterError):  # not installed: then it cannot run here at all
        parameters = options_of(algorithm_class(plan.algorithm))
    for name, parameter in parameters.items():
        steps = parameter.range.steps if parameter.range else ()
        if steps and used[name] not in steps:
            raise PolicyRefusedError(
                f"bits of tests leave at few levels, and the plan has {name} {used[name]}",
                remedy=f"Plan with {name} one of {', '.join(f'{step:g}' for step in steps)}.",
            )


def allows(allowed: str, value: Any) -> bool:
    """True if a rule's right half holds for a parameter's value."""
    low, dots, high = allowed.partition("..")
    if dots:
        return isinstance(value, int | float) and float(low) <= value <= float(high)
    return str(value) in allowed.split("|")
