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
from cipherdag.pages.files import printable
from cipherdag.pages.language import ENGLISH, Language
from cipherdag.program.program import plan_facts
from cipherdag.protocol.plan import Plan
from cipherdag.questions.disclosure import sentences
from cipherdag.questions.question import Question
from cipherdag.sites.policy.parameter_rules import declared
from cipherdag.sites.policy.plan_readers import opens_sealed, protection_lines, seen_sentences
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import SAME_ROWS
from cipherdag.sites.table.names import mixed_words

LOOK = "LOOK:"
IMPOSSIBLE = "NOT POSSIBLE HERE:"


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
    say: Language = ENGLISH,
) -> list[str]:
    """The account of a plan: who asks for what and why, what it opens, and its bounds.

    Where variables are named, background knowledge is said by name; labels are positions. A site's
    policy says where it ends the run at the latest. Lines have no line ends; of an algorithm that
    is not installed here they say so.
    """
    sites = ", ".join(member.name for member in plan.cohort)
    opens = declared(plan.algorithm, plan.parameters)
    texts = (plan.requester, sites, plan.purpose)
    lines = [
        *_asking_lines(plan, sites, say),
        *[line for text in texts for line in _mixed_lines(text, say)],
        *protection_lines(plan, opens, say),
        *_lacking_lines(plan, say),
        *_visit_lines(plan, say),
    ]
    try:
        algorithm = make_algorithm(plan.algorithm, plan.parameters)
        algorithm.check_measured(plan.measured)
        algorithm.check_visits(plan.visits)
        promise = say(algorithm.concludes.promise) or say(
            "what {title} computes from the sums below.", title=algorithm.title
        )
        promised = say("The result: {promise} Rows of data stay at the sites.", promise=promise)
        lines.insert(2, promised)
        lines += _parameter_lines(plan, names, say)
        opened = sentences(algorithm.disclosed(plan.visits), say)
        lines += [say("Disclosed: {sentence}", sentence=each) for each in opened]
        first = None
        if n_variables is not None:
            facts = plan_facts(plan, n_variables, labels, determined)
            lines += [say.of(facts.determined.disclosed)] if facts.determined else []
            first = next(algorithm.ask(facts), None)
    except CipherdagError as error:
        return [*lines, f"{say(IMPOSSIBLE)} {say.of(error.message)}."]
    if first is not None:
        lines.append(_first_line(first, say, sealed=opens_sealed(opens)))
    if policy is not None:
        limits = {"rounds": policy.max_rounds, "values": policy.max_values}
        lines.append(
            say(
                "This site's policy ends it after {rounds:,} rounds or {values:,} values, if not "
                "before.",
                **limits,
            )
        )
    return lines


def _asking_lines(plan: Plan, sites: str, say: Language) -> list[str]:
    who, purpose = plan.requester or say("The coordinator"), plan.purpose or say("none is given")
    purpose += "" if purpose.endswith((".", "?", "!")) else "."
    about = {"who": who, "algorithm": plan.algorithm, "sites": sites}
    asks = say("{who} asks for {algorithm} at {sites}.", **about)
    return [asks, say("Purpose: {purpose}", purpose=purpose)]


def _first_line(first: Question, say: Language, *, sealed: bool) -> str:
    """The line on what is asked first, and on what decides the rest."""
    asked = {"question": say.of(first.label), "n": first.n_values}
    begin = (
        say("The first bits: {question}, {n:,} values.", **asked)
        if first.opens_bits
        else say("The first sums: {question}, {n:,} values.", **asked)
    )
    decides = say("what is disclosed decides") if sealed else say("the sums decide")
    rest = say(
        "Which questions follow, {decides}, by the same program at every site: nobody can ask "
        "another one.",
        decides=decides,
    )
    return f"{begin} {rest}"


def _mixed_lines(text: str, say: Language) -> list[str]:
    """A line for every word of the plan that looks like another one, or like none."""
    lines = []
    for word, alphabets in mixed_words(text).items():
        if alphabets:
            line = say(
                "the word '{word}' has letters of {alphabets}: it may pass for another one. Ask "
                "who wrote it.",
                word=word,
                alphabets=f" {say('and')} ".join(map(say, alphabets)),
            )
        else:
            line = say("a letter, {word}, shows nothing. Ask who wrote it.", word=word)
        lines.append(f"{say(LOOK)} {line}")
    return lines


def _lacking_lines(plan: Plan, say: Language) -> list[str]:
    """The lines on which sites lack which variables, and what sums disclose of these."""
    measured = plan.measured
    if measured.everywhere:
        return []
    lines = [
        say("Sites measured different variables; sums cover those that have what a test needs:")
    ]
    for group in measured.groups(range(len(plan.cohort))):
        names = ", ".join(plan.cohort[site].name for site in group)
        numbers = ", ".join(str(each + 1) for each in measured.lacking[group[0]])
        lines.append(
            say("Lacking numbers {numbers}: {sites}.", numbers=numbers, sites=names)
            if numbers
            else say("Lacking nothing: {sites}.", sites=names)
        )
    subtracted = say(
        "Sums over different groups can be subtracted: what remains covers a whole group at least."
    )
    return [*lines, subtracted]


def _visit_lines(plan: Plan, say: Language) -> list[str]:
    """The line on sites whose rows are visits of patients, and what is disclosed of these."""
    names = ", ".join(member.name for member in plan.cohort if member.visits > 1)
    if not names:
        return []
    visits = say(
        "Rows are visits of patients, of each {n} at most: {sites}.", n=plan.visits, sites=names
    )
    counted = say("Keys of patients stay here.")
    return [f"{visits} {counted}"]


def differences(plan: Plan, earlier: Iterable[Plan], say: Language = ENGLISH) -> list[str]:
    """The differences of a plan from those carried out before, one line for each.

    Sums of two runs show more than those of one, and a run that is repeated with a little change
    shows what neither would.
    """
    lines = []
    for other in earlier:
        when = say("run {run} of {day}", run=other.session.hex()[:8], day=other.created[:10])
        if other.algorithm != plan.algorithm:
            changes = say("it ran {algorithm}", algorithm=other.algorithm)
        else:
            old, new = _compared_settings(other, say), _compared_settings(plan, say)
            changes = printable(say("; ").join(_changes(old, new, say)))
        changes = changes or say("no difference but its date and purpose")
        lines.append(say("{run}: {changes}.", run=when, changes=changes))
    return lines


def _compared_settings(plan: Plan, say: Language) -> dict[str, Any]:
    return {
        **_parameters(plan),
        say("seed"): plan.seed,
        say("protection"): plan.protection,
        say("sites"): ", ".join(member.name for member in plan.cohort),
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], say: Language) -> list[str]:
    return [
        say(
            "{name} was {before}, now {value}",
            name=key,
            before=worded(old.get(key), say),
            value=worded(new.get(key), say),
        )
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def _parameter_lines(plan: Plan, names: Sequence[str], say: Language) -> Iterator[str]:
    """Each parameter that is not as usual, in words; then all others with their values."""
    declared = options_of(algorithm_class(plan.algorithm))
    usual, given = _usual(plan), _parameters(plan)
    changed = [name for name in given if given[name] != usual.get(name)]
    for name in changed:
        value, before = given[name], usual.get(name)
        if declared[name].kind is Knowledge:
            value = _by_name(value, names)
        said = {"name": name, "value": worded(value, say), "help": say(declared[name].help)}
        yield printable(
            say("Parameter {name} is {value}. {help}", **said)  # a name has no usual one
            if before == ""
            else say(
                "Parameter {name} is {value}, usually {usual}. {help}",
                usual=worded(before, say),
                **said,
            )
        )
    unchanged = [f"{key} {worded(each, say)}" for key, each in given.items() if key not in changed]
    said = {"parameters": ", ".join(unchanged), "seed": str(plan.seed)}
    yield printable(
        say("All other parameters are as usual: {parameters}; random seed {seed}.", **said)
        if changed
        else say("All parameters are as usual: {parameters}; random seed {seed}.", **said)
    )


def changed_settings(plan: Plan, say: Language = ENGLISH) -> list[str]:
    """Each parameter that is not as usual, in a few words."""
    usual = _usual(plan)
    return [
        printable(
            say(
                "{name} {value} (usually {usual})",
                name=name,
                value=worded(value, say),
                usual=worded(usual.get(name), say) or say("empty"),
            )
        )
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


def worded(value: Any, say: Language = ENGLISH) -> str:
    """A value of JSON as a person writes it."""
    match value:
        case None:
            return say("none")
        case bool():
            return say("yes") if value else say("no")
        case dict():
            return ", ".join(f"{key} {worded(each, say)}" for key, each in value.items() if each)
        case [[*_], *_] | [tuple(), *_]:
            return "; ".join(worded(each, say) for each in value)
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
    say: Language = ENGLISH,
) -> list[str]:
    """Who asks, why, on what, what leaves, what it can show, for how long, and what is new.

    Nine lines, and one more where the plan cannot run here, or for each word in letters of two
    alphabets. ``account`` is what `plan_lines` says, ``before`` how each approved plan differs, and
    ``spent`` what secure tests found so far.
    """
    columns = (
        say("On what: the columns of the study's schema.")
        if n_variables is None
        else say.counted(
            "On what: all {n} column of the study's schema.",
            "On what: all {n} columns of the study's schema.",
            n_variables,
        )
    )
    other = [] if plan.measured.everywhere else [say("Sites measured different ones.")]
    about = [columns, *other, say("Rows and names stay here."), say(SAME_ROWS)]
    lines = [*account[:2], " ".join(about)]
    try:
        algorithm = make_algorithm(plan.algorithm, plan.parameters)
    except CipherdagError:
        pass  # the account says that it is not installed here
    else:
        changed = say("; ").join(changed_settings(plan, say)) or say("all as usual")
        opened = " ".join(sentences(algorithm.disclosed(plan.visits), say))
        promise = say(algorithm.concludes.promise) or say("computed totals.")
        lines += [
            say("What leaves: {sentences}", sentences=opened),
            say("Who sees it: {sentences}", sentences=seen_sentences(plan, say)),
            say("What the result can show: {promise}", promise=promise),
            say("Settings: {settings}.", settings=changed),
        ]
    ends = say(
        "For how long: this site's policy ends the run after {rounds:,} rounds or {values:,} "
        "values, if not before.",
        rounds=policy.max_rounds,
        values=policy.max_values,
    )
    bits = spent and opens_sealed(declared(plan.algorithm, plan.parameters))
    limit = [say("Secure tests find {bits}.", bits=spent)] if bits else []
    return [
        *lines,
        " ".join([ends, *limit]),
        say("What differs from before: {differences}", differences=_before(before, say)),
        *(line for line in account[2:] if line.startswith((say(LOOK), say(IMPOSSIBLE)))),
    ]


def _before(before: Sequence[str], say: Language) -> str:
    """How the plan differs from those approved before; of many the last alone."""
    if not before:
        return say("this site has approved no other run yet.")
    more = [
        say.counted(
            "{n} more run in the details.", "{n} more runs in the details.", len(before) - 1
        )
    ]
    together = say("Two runs together can show more than one.")
    return " ".join([before[-1], *more[: len(before) - 1], together])
