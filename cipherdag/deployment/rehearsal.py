"""Rehearsals of a run at a site: a secure sum of zeros, and a plan's first questions.

The sum is one between three pretend sites in this process, by the real protocol. A plan is checked
against the site's policy, and its questions are answered from the site's table, before it joins.

Leaks:
    Nothing leaves the site. No ledger of it is touched; its identity only seeds random numbers.
"""

from collections.abc import Callable, Generator
from functools import cache, partial

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import AggregateRangeError, CipherdagError, DataError, SiteNotReadyError
from cipherdag.privacy.fixedpoint import DIGEST_BYTES, encode
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.mpc.sharing import check_words
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.program.program import Program, installed_program, plan_facts
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.messages import declaration
from cipherdag.protocol.plan import (
    Member,
    Plan,
    Protection,
    check_group_sizes,
    check_lacking,
    make_plan,
)
from cipherdag.protocol.session import Session
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.question import Question
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime
from cipherdag.sites.study.checks import CheckResult
from cipherdag.sites.study.doctor import without_values
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable, load_table

N_VARIABLES = 4
NAMES = ("pretend-1", "pretend-2", "pretend-3")


class _Zeros(SiteView):
    """Answers every question with zeros."""

    def answer(self, question: Question) -> FloatVector:
        return np.zeros(question.n_values)


def rehearse(protection: Protection) -> None:
    """Sum zeros once; raises whatever would stop a run on this machine."""
    coordinator = SigningIdentity.generate()
    keys = {name: SigningIdentity.generate() for name in NAMES}
    pinned = {name: key.public for name, key in keys.items()}
    handlers = {
        name: SiteRuntime(
            SiteProfile(
                name=name,
                identity=key,
                coordinator=coordinator.public,
                pinned=pinned,
                schema=b"rehearsal",
                rows=0,
            ),
            _Zeros(None, None, (0,) * N_VARIABLES),
            Policy(),
            Ledger(name, key),
            programs=lambda _, facts: Program(Replay(_one_question()), facts),
        ).handle
        for name, key in keys.items()
    }
    members = [Member(name=name, identity=key) for name, key in pinned.items()]
    plan = make_plan(members, algorithm="fedpc", protection=protection)
    session = Session(LocalEngine(handlers), coordinator, plan)
    session.open()
    total = run_program(session, Replay(_one_question()))
    session.finish()
    if total.any():
        raise AggregateRangeError("a sum of zeros is not zero")


def _one_question() -> Generator[Question, FloatVector, FloatVector]:
    everything = ~np.eye(N_VARIABLES, dtype=bool)
    return (
        yield EdgeVotes(
            skeleton=Skeleton.from_matrix(everything),
            layer=0,
            test=CITestSpec(name="g2", alpha=0.01),
        )
    )


def plan_checks(site: SiteFolder, plan: Plan) -> list[CheckResult]:
    """Check a plan against the policy, what is installed, and the data's bounds.

    The plan's first questions are answered here, and the answers thrown away.
    """
    table = cache(partial(_table, site))
    steps: list[tuple[str, Callable[[], str]]] = [
        ("plan: cohort", lambda: _cohort(site, plan)),
        ("plan: policy", lambda: _allowed(site, plan, table)),
        ("plan: data", lambda: _answer(site, plan, table)),
    ]
    results = []
    for name, step in steps:
        try:
            results.append(CheckResult(name, "ok", step()))
        except CipherdagError as error:
            results.append(CheckResult(name, "fail", error.message, error.remedy))
    return results


def _cohort(site: SiteFolder, plan: Plan) -> str:
    study = site.study()
    pinned = study.pinned
    strangers = [each.name for each in plan.cohort if pinned.get(each.name) != each.identity]
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


def _allowed(site: SiteFolder, plan: Plan, table: Callable[[], SiteTable]) -> str:
    policy = site.policy_in(site.study())
    policy.check_run(plan, rows=table().rows)
    policy.check_colluders(plan.colluders, n_sites=len(plan.cohort))
    policy.check_plan(plan, runs=0)
    check_lacking(plan, table().schema.lacking)
    check_group_sizes(plan.cohort, policy.min_group_size(plan))
    return "the policy allows it"


def _answer(site: SiteFolder, plan: Plan, table: Callable[[], SiteTable]) -> str:
    """Answer as if all sites were like this one, until a question is of no new kind.

    Opened bits count as 0. Other answers are encoded just to raise if one is out of bounds.
    """
    policy, data = site.policy(), table()
    schema, everyone = data.schema, tuple(range(len(plan.cohort)))
    facts = plan_facts(plan, len(schema.names), schema.label_positions, schema.determined)
    program = installed_program(plan, facts)
    respondent = SiteView.of_table(
        data,
        min_cell_size=policy.min_cell_size,
        device=site.settings().device,
        keyed=site.identity().draw_key(),
    )
    asked: list[str] = []
    seen: set[str] = set()
    values, question = 0, program.replay.advance(1, None)
    while question is not None and not question.tags <= seen:
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
        seen |= question.tags
        values += len(answer)
        question = program.replay.advance(len(asked) + 1, opened, len(everyone))
    if not asked:
        return "the plan asks nothing"
    return f"the data fit the plan's bounds ({', '.join(asked)})"
