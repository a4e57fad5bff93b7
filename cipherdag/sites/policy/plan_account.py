"""A plan in sentences, for the person who decides on it: all of it, or ten lines to read first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import msgspec

from cipherdag.algorithms.parameters import flattened, options_of
from cipherdag.algorithms.registry import algorithm_class, make_algorithm
from cipherdag.errors import CipherdagError
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.pages.numerals import counted
from cipherdag.privacy.mpc.batch import TWO_SITES
from cipherdag.privacy.protections import protection_kind
from cipherdag.program.program import plan_facts
from cipherdag.protocol.plan import Plan
from cipherdag.questions.disclosure import Disclosure, Whose, sentences
from cipherdag.sites.policy.parameter_rules import declared
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import SAME_ROWS
from cipherdag.sites.table.names import mixed_words

LOOK = "LOOK:"
IMPOSSIBLE = "NOT POSSIBLE HERE: "
IN_PARTS = "Answers that bits are computed from leave in sealed parts: only the bits are read."
LARGEST = "By many comparisons everybody also learns the largest number of any site."
FIRST_RUN = "this site has approved no other run yet."


@dataclass(frozen=True, slots=True)
class PlanAccount:
    """The sentences of `plan_lines`: printed they are lines, in a notebook a list."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(line)}</li>" for line in self.lines)
        return f"<ul>{items}</ul>"


def plan_lines(
    plan: Plan,
    *,
    n_variables: int | None = None,
    names: Sequence[str] = (),
    labels: tuple[int, ...] = (),
    determined: Determined = NOTHING,
    policy: Policy | None = None,
) -> list[str]:
    """The account of a plan: who asks for what and why, what it opens, and its bounds.

    Where variables are named, background knowledge is said by name; labels are positions. A site's
    policy says where it ends the run at the latest. Lines have no line ends; of an algorithm that
    is not installed here they say so.
    """
    sites = ", ".join(member.name for member in plan.cohort)
    opens = declared(plan.algorithm, plan.parameters)
    purpose = plan.purpose or "none is given"
    lines = [
        f"{plan.requester or 'The coordinator'} asks for {plan.algorithm} at {sites}.",
        f"Purpose: {purpose}{'' if purpose.endswith(('.', '?', '!')) else '.'}",
        *[line for text in (plan.requester, sites, plan.purpose) for line in _mixed_lines(text)],
        *_protection_lines(plan, opens),
        *_lacking_lines(plan),
        *_visit_lines(plan),
    ]
    try:
        algorithm = make_algorithm(plan.algorithm, plan.parameters)
        algorithm.check_measured(plan.measured)
        algorithm.check_visits(plan.visits)
        promise = algorithm.concludes.promise
        promise = promise or f"what {algorithm.title} computes from the sums below."
        lines.insert(2, f"The result: {promise} Rows of data stay at the sites.")
        lines += _parameter_lines(plan, names)
        lines += [
            f"Disclosed: {sentence}" for sentence in sentences(algorithm.disclosed(plan.visits))
        ]
        first = None
        if n_variables is not None:
            facts = plan_facts(plan, n_variables, labels, determined)
            lines += [facts.determined.disclosed] if facts.determined else []
            first = next(algorithm.ask(facts), None)
    except CipherdagError as error:
        return [*lines, f"{IMPOSSIBLE}{error.message}."]
    if first is not None:
        values = first.n_values
        asked = "bits" if first.opens_bits else "sums"
        decides = "what is disclosed decides" if _sealed(opens) else "the sums decide"
        lines.append(
            f"The first {asked}: {first.label}, {values:,} values. Which questions follow, "
            f"{decides}, by the same program at every site: nobody can ask another one."
        )
    if policy is not None:
        lines.append(
            f"This site's policy ends it after {policy.max_rounds:,} rounds or "
            f"{policy.max_values:,} values, if not before."
        )
    return lines


def _mixed_lines(text: str) -> list[str]:
    """A line for every word of the plan that looks like another one, or like none."""
    return [
        f"{LOOK} the word '{word}' has letters of {' and '.join(alphabets)}: it may pass for "
        "another one. Ask who wrote it."
        if alphabets
        else f"{LOOK} a letter, {word}, shows nothing. Ask who wrote it."
        for word, alphabets in mixed_words(text).items()
    ]


def _protection_lines(plan: Plan, opens: frozenset[Disclosure]) -> list[str]:
    kind = protection_kind(plan.protection)
    n_sites, covered = len(plan.cohort), f"{sites_covered(plan)} at least"
    if not plan.measured.everywhere:
        covered += ", all from one of the groups listed below"
    more = [f"{IN_PARTS} {of_colluding_sites(n_sites)}"] if _sealed(opens) else []
    more += [f"{LARGEST} That number is a single site's."] if _of_one(opens) else []
    read, seen = "the coordinator reads every site's answer", "All sites see the sums."
    if kind.protects:
        read = "only their sum over sites can be read"
        seen = f"The coordinator, {_helped(plan, opens)}, sees bits and sums only."
        seen, more = f"{seen} All sites see the same.", [*more, plan.keys_sentence]
    covers = f"A sum covers {covered}. {seen} {SAME_ROWS}"
    return [line for line in (f"Answers leave {kind.left}: {read}.", covers, *more) if line]


def sites_covered(plan: Plan) -> str:
    """How many sites a sum covers at least."""
    n_sites, measured = len(plan.cohort), plan.measured
    if measured.everywhere:
        return f"{plan.min_survivors} of the {n_sites} sites"
    # at worst only the smallest group can do a test, and all that leave are of it
    left = measured.smallest_group(range(n_sites)) - (n_sites - plan.min_survivors)
    return f"{left} sites"


def _helped(plan: Plan, opens: frozenset[Disclosure]) -> str:
    """By whom the coordinator may be helped and still see no more."""
    if not plan.colluders or (_sealed(opens) and len(plan.cohort) == TWO_SITES):
        return "as long as no site sides with it"
    helping = "one site helps" if plan.colluders == 1 else f"{plan.colluders} sites help"
    return f"even if {helping} it"


def _sealed(opens: frozenset[Disclosure]) -> bool:
    return any(each.sealed for each in opens)


def _of_one(opens: frozenset[Disclosure]) -> bool:
    return any(each.whose == Whose.ONE for each in opens)


def _lacking_lines(plan: Plan) -> list[str]:
    """The lines on which sites lack which variables, and what sums disclose of these."""
    measured = plan.measured
    if measured.everywhere:
        return []
    lines = ["Sites measured different variables; sums cover those that have what a test needs:"]
    for group in measured.groups(range(len(plan.cohort))):
        names = ", ".join(plan.cohort[site].name for site in group)
        numbers = ", ".join(str(each + 1) for each in measured.lacking[group[0]])
        lines.append(f"Lacking {f'numbers {numbers}' if numbers else 'nothing'}: {names}.")
    lines.append(
        "Sums over different groups can be subtracted: what remains covers a whole group at least."
    )
    return lines


def _visit_lines(plan: Plan) -> list[str]:
    """The line on sites whose rows are visits of patients, and what is disclosed of these."""
    names = ", ".join(member.name for member in plan.cohort if member.visits > 1)
    if not names:
        return []
    counted = "The number of patients of all sites is disclosed; keys of patients stay here."
    return [f"Rows are visits of patients, of each {plan.visits} at most: {names}. {counted}"]


def differences(plan: Plan, earlier: Iterable[Plan]) -> list[str]:
    """The differences of a plan from those carried out before, one line for each.

    Sums of two runs show more than those of one, and a run that is repeated with a little change
    shows what neither would.
    """
    lines = []
    for other in earlier:
        when = f"run {other.session.hex()[:8]} of {other.created[:10]}"
        if other.algorithm != plan.algorithm:
            lines.append(f"{when}: it ran {other.algorithm}.")
            continue
        changed = _changes(_compared_settings(other), _compared_settings(plan))
        changes = printable("; ".join(changed)) or "no difference but its date and purpose"
        lines.append(f"{when}: {changes}.")
    return lines


def printable(text: str) -> str:
    """Another party's text, which then cannot pass for another line, or steer a terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _compared_settings(plan: Plan) -> dict[str, Any]:
    return {
        **_parameters(plan),
        "seed": plan.seed,
        "protection": plan.protection,
        "sites": ", ".join(member.name for member in plan.cohort),
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"{key} was {worded(old.get(key))}, now {worded(new.get(key))}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def _parameter_lines(plan: Plan, names: Sequence[str]) -> Iterator[str]:
    """Each parameter that is not as usual, in words; then all others with their values."""
    declared = options_of(algorithm_class(plan.algorithm))
    usual, given = _usual(plan), _parameters(plan)
    changed = [name for name in given if given[name] != usual.get(name)]
    for name in changed:
        value, before = given[name], usual.get(name)
        if declared[name].kind is Knowledge:
            value = _by_name(value, names)
        usually = "" if before == "" else f", usually {worded(before)}"  # a name has no usual one
        yield printable(f"Parameter {name} is {worded(value)}{usually}. {declared[name].help}")
    others = "All other parameters" if changed else "All parameters"
    unchanged = [f"{key} {worded(each)}" for key, each in given.items() if key not in changed]
    yield printable(f"{others} are as usual: {', '.join(unchanged)}; random seed {plan.seed}.")


def changed_settings(plan: Plan) -> list[str]:
    """Each parameter that is not as usual, in a few words."""
    usual = _usual(plan)
    return [
        printable(f"{name} {worded(value)} (usually {worded(usual.get(name)) or 'empty'})")
        for name, value in _parameters(plan).items()
        if value != usual.get(name)
    ]


def _parameters(plan: Plan) -> dict[str, Any]:
    """What a plan says of its parameters, with settings each by itself."""
    return flattened(algorithm_class(plan.algorithm), plan.parameters)


def _usual(plan: Plan) -> dict[str, Any]:
    """The same of its algorithm as it usually is."""
    usual = msgspec.json.decode(msgspec.json.encode(make_algorithm(plan.algorithm, {})))
    return flattened(algorithm_class(plan.algorithm), usual)


def _by_name(value: Any, names: Sequence[str]) -> Any:
    """Background knowledge of a plan with the site's names in place of identifiers."""
    if isinstance(value, dict):
        return {key: _by_name(each, names) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_by_name(each, names) for each in value]
    name = {str(number): name for number, name in enumerate(names, start=1)}
    return name.get(value, value)


def worded(value: Any) -> str:
    """A value of JSON as a person writes it."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key} {worded(each)}" for key, each in value.items() if each)
        case [[*_], *_] | [tuple(), *_]:
            return "; ".join(map(worded, value))
        case list() | tuple():
            return " ".join(map(str, value))
    return str(value)


def summary_lines(
    plan: Plan,
    account: Sequence[str],
    *,
    n_variables: int | None,
    policy: Policy,
    before: Sequence[str] = (),
    spent: str = "",
) -> list[str]:
    """Who asks, why, on what, what leaves, what it can show, for how long, and what is new.

    Nine lines, and one more where the plan cannot run here, or for each word in letters of two
    alphabets. ``account`` is what `plan_lines` says, ``before`` how each approved plan differs, and
    ``spent`` what secure tests found so far.
    """
    columns = "the columns" if n_variables is None else f"all {counted(n_variables, 'column')}"
    other = "" if plan.measured.everywhere else "Sites measured different ones. "
    lines = [
        *account[:2],
        f"On what: {columns} of the study's schema. {other}Rows and names stay here. {SAME_ROWS}",
    ]
    try:
        algorithm = make_algorithm(plan.algorithm, plan.parameters)
    except CipherdagError:
        pass  # the account says that it is not installed here
    else:
        changed = changed_settings(plan)
        lines += [
            f"What leaves: {' '.join(sentences(algorithm.disclosed(plan.visits)))}",
            f"Who sees it: {_seen(plan)}",
            f"What the result can show: {algorithm.concludes.promise or 'computed totals.'}",
            f"Settings: {'; '.join(changed) if changed else 'all as usual'}.",
        ]
    most = f"{policy.max_rounds:,} rounds or {policy.max_values:,} values"
    bits = spent and _sealed(declared(plan.algorithm, plan.parameters))
    limit = f" Secure tests find {spent}." if bits else ""
    return [
        *lines,
        f"For how long: this site's policy ends the run after {most}, if not before.{limit}",
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
    kind, opens = protection_kind(plan.protection), declared(plan.algorithm, plan.parameters)
    more = f" {LARGEST}" if _of_one(opens) else ""
    more += f" {of_colluding_sites(len(plan.cohort))}" if _sealed(opens) else ""
    if not kind.protects:
        return f"answers leave {kind.left}, and the coordinator reads every site's.{more}"
    seen = f"only what covers at least {sites_covered(plan)}"
    return f"everybody sees {seen}. The coordinator sees no more, {_helped(plan, opens)}.{more}"


def of_colluding_sites(n_sites: int) -> str:
    """What sites that side with each other could read where tests open bits."""
    if n_sites == TWO_SITES:
        either = "The coordinator and one site together could read the other site's numbers."
        return f"{either} The coordinator deals the comparisons, which nobody checks."
    if n_sites == TWO_SITES + 1:
        either = "Any two sites together could read the third one's numbers."
        return f"{either} One site deals the comparisons, which nobody checks."
    pairs = n_sites * (n_sites - 1) // 2
    return f"Of {pairs} pairs of sites, 5 drawn by lot could together read the sums behind bits."
