"""Whether this site would take part in a plan, and whether its data fit: said before it joins.

Leaks:
    Nothing leaves the site; findings are for its own screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from cipherdag.errors import CipherdagError, DataError, SiteNotReadyError
from cipherdag.privacy.fixedpoint import DIGEST_BYTES, encode
from cipherdag.privacy.mpc.sharing import check_words
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.protocol.messages import declaration
from cipherdag.protocol.plan import Plan, check_alike
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.plan_facts import check_lacking, facts_by
from cipherdag.sites.program import installed_program
from cipherdag.sites.study.doctor import without_values
from cipherdag.sites.study.finding import Finding
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable, load_table


def plan_findings(site: SiteFolder, plan: Plan) -> list[Finding]:
    """Check a plan against the policy, what is installed, and the data's bounds.

    The plan's first questions are answered here, and the answers thrown away.
    """
    table = cache(partial(_table, site))
    steps: list[tuple[str, Callable[[], str]]] = [
        ("plan: cohort", lambda: _cohort(site, plan)),
        ("plan: policy", lambda: _policy(site, plan, table)),
        ("plan: data", lambda: _answer(site, plan, table)),
    ]
    return [found for name, step in steps for found in _tried(name, step)]


def _tried(name: str, step: Callable[[], str]) -> Iterator[Finding]:
    try:
        yield Finding(name, "ok", step())
    except CipherdagError as error:
        yield Finding(name, "fail", error.message, error.remedy)


def _cohort(site: SiteFolder, plan: Plan) -> str:
    study = site.study()
    pinned = study.pinned
    strangers = [own.name for own in plan.cohort if pinned.get(own.name) != own.identity]
    if strangers:
        raise CipherdagError(
            f"the plan names sites that this one does not know: {', '.join(strangers)}",
            remedy="Activate the newest version of the study.",
        )
    return f"{len(plan.cohort)} sites, all of the study '{study.name}'"


def _table(site: SiteFolder) -> SiteTable:
    settings = site.settings()
    try:
        schema = Schema.load(site.schema_path(settings))
        return load_table(site.data_source(settings), schema, site=settings.name, folder=site.path)
    except DataError as error:
        what, fix = without_values(error)
        raise SiteNotReadyError(what, remedy=fix) from None


def _policy(site: SiteFolder, plan: Plan, table: Callable[[], SiteTable]) -> str:
    policy = site.policy_in(site.study())
    policy.check_run(plan, rows=table().rows)
    policy.check_colluders(plan.colluders, n_sites=len(plan.cohort))
    policy.check_plan(plan, runs=0)
    check_lacking(plan, table().schema.lacking)
    check_alike(plan.cohort, policy.fewest_alike(plan))
    return "the policy allows it"


def _answer(site: SiteFolder, plan: Plan, table: Callable[[], SiteTable]) -> str:
    """Answer as if all sites were like this one, as long as questions are of new kinds.

    Tests that open bits are answered as if each said independent.
    """
    policy, own = site.policy(), table()
    schema, everyone = own.schema, tuple(range(len(plan.cohort)))
    program = installed_program(plan, facts_by(plan, schema))
    respondent = SiteView.of_table(
        own,
        min_cell_size=policy.min_cell_size,
        device=site.settings().device,
        keyed=site.identity().draw_key(),
    )
    asked: list[str] = []
    known: set[str] = set()
    values, question = 0, program.replay.advance(1, None)
    while question is not None and not question.tags <= known:
        policy.check_question(question, round_number=len(asked) + 1, values_so_far=values)
        answer = respondent.answer(question)
        if question.opens_bits:
            words = np.asarray(answer, dtype=np.int64)
            check_words(words, question.predicates(len(everyone)))
            opened = np.zeros(question.n_values)
        else:
            encode(answer, declaration(question, everyone, bytes(DIGEST_BYTES), plan), WORD_MODULI)
            opened = answer * len(everyone)
        asked.append(question.label)
        known |= question.tags
        values += len(answer)
        question = program.replay.advance(len(asked) + 1, opened, len(everyone))
    if not asked:
        return "the plan asks nothing"
    return f"the data fit the plan's bounds ({', '.join(asked)})"
