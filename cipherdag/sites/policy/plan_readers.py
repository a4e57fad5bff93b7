"""Who could read what of a plan's run, in sentences: as far as protection and collusion go."""

from cipherdag.pages.language import ENGLISH, Language
from cipherdag.privacy.mpc.batch import TWO_SITES
from cipherdag.privacy.protections import protection_kind
from cipherdag.protocol.plan import Plan
from cipherdag.questions.disclosure import Disclosure, Whose
from cipherdag.sites.policy.parameter_rules import declared
from cipherdag.sites.record.ledger import SAME_ROWS

SEALED = "Answers that bits are computed from leave in sealed parts: only the bits are read."
LARGEST = "By many comparisons everybody also learns the largest number of any site."
OF_ONE = "That number is a single site's."


def protection_lines(plan: Plan, opens: frozenset[Disclosure], say: Language) -> list[str]:
    """The lines on how answers leave, how many sites a sum covers, and who reads what."""
    kind, sealed = protection_kind(plan.protection), opens_sealed(opens)
    covered = {"sites": sites_covered(plan, say)}
    covers = (
        say("A sum covers {sites} at least.", **covered)
        if plan.measured.everywhere
        else say(
            "A sum covers {sites} at least, all from one of the groups listed below.", **covered
        )
    )
    more = [say(SEALED), of_colluding_sites(len(plan.cohort), say)] if sealed else []
    more = [" ".join(more)] if more else []
    more += [f"{say(LARGEST)} {say(OF_ONE)}"] if _of_one(opens) else []
    how = {"how": say(kind.left)}
    if kind.protects:
        leave = say("Answers leave {how}: only their sum over sites can be read.", **how)
        seen = say(
            "The coordinator, {helped}, sees bits and sums only. All sites see the same.",
            helped=_helped(plan, opens, say),
        )
        more.append(say.of(plan.keys_sentence))
    else:
        leave = say("Answers leave {how}: the coordinator reads every site's answer.", **how)
        seen = say("All sites see the sums.")
    return [line for line in (leave, f"{covers} {seen} {say(SAME_ROWS)}", *more) if line]


def sites_covered(plan: Plan, say: Language = ENGLISH) -> str:
    """How many sites a sum covers at least."""
    n_sites, measured = len(plan.cohort), plan.measured
    if measured.everywhere:
        return say("{n} of the {all} sites", n=plan.min_survivors, all=n_sites)
    # at worst only the smallest group measured a test's columns, and all that leave are of it
    left = measured.smallest_group(range(n_sites)) - (n_sites - plan.min_survivors)
    return say("{n} sites", n=left)


def _helped(plan: Plan, opens: frozenset[Disclosure], say: Language) -> str:
    """By whom the coordinator may be helped and still see no more."""
    if not plan.colluders or (opens_sealed(opens) and len(plan.cohort) == TWO_SITES):
        return say("as long as no site sides with it")
    return say.counted("even if one site helps it", "even if {n} sites help it", plan.colluders)


def seen_sentences(plan: Plan, say: Language) -> str:
    """Who could read what, as far as protection and colluding parties go."""
    kind, opens = protection_kind(plan.protection), declared(plan.algorithm, plan.parameters)
    more = [say(LARGEST)] if _of_one(opens) else []
    more += [of_colluding_sites(len(plan.cohort), say)] if opens_sealed(opens) else []
    if not kind.protects:
        clear = say(
            "answers leave {how}, and the coordinator reads every site's.", how=say(kind.left)
        )
        return " ".join([clear, *more])
    seen = say(
        "everybody sees only what covers at least {sites}. The coordinator sees no more, {helped}.",
        sites=sites_covered(plan, say),
        helped=_helped(plan, opens, say),
    )
    return " ".join([seen, *more])


def of_colluding_sites(n_sites: int, say: Language = ENGLISH) -> str:
    """What sites that side with each other could read where tests open bits."""
    if n_sites == TWO_SITES:
        return say(
            "The coordinator and one site together could read the other site's numbers. The "
            "coordinator deals the comparisons, which nobody checks."
        )
    if n_sites == TWO_SITES + 1:
        return say(
            "Any two sites together could read the third one's numbers. One site deals the "
            "comparisons, which nobody checks."
        )
    return say(
        "Of {n} pairs of sites, 5 drawn by lot could together read the sums behind bits.",
        n=n_sites * (n_sites - 1) // 2,
    )


def opens_sealed(opens: frozenset[Disclosure]) -> bool:
    """True if anything is opened by tests whose answers leave in sealed parts."""
    return any(each.sealed for each in opens)


def _of_one(opens: frozenset[Disclosure]) -> bool:
    return any(each.whose == Whose.ONE for each in opens)
