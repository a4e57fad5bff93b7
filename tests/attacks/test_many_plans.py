"""Attacks that are several honest plans: what a site's policy, and a person there, make of them.

A plan opens what it says, and nothing else. Plans that differ in one number, though, open what the
questions of the attacks opened before: votes at fifty values of alpha, or whether rows fit a bound.
"""

from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import hospital_folders
import msgspec
import numpy as np
import pytest
from adversary import ROWS
from click.testing import CliRunner
from site_logs import REASONS

from cipherdag import CausalGraph, FedCMFS, FedFCI, FedPC, GraphCheck
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.algorithms.graphcheck.algorithm import STEPS
from cipherdag.algorithms.parameters import LEVELS
from cipherdag.cli.main import cli
from cipherdag.errors import (
    CipherdagError,
    CohortError,
    DifferencingError,
    ParameterError,
    PolicyRefusedError,
    SiteUnreachableError,
)
from cipherdag.program.versions import computed_with
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.questions.scores.score_test import p_values
from cipherdag.sites.compute.score_tests.tables import normal_score
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import read_releases

NAMES = tuple(f"hospital-{k}" for k in range(4))
AUTOMATIC = {"approve_runs": "automatic"}
LONE = "hospital-3"
CHAIN = CausalGraph.from_edges("abc", [("a", "b"), ("b", "c")])


@pytest.fixture
def clinics(tmp_path):
    """Folders of sites that let sums leave; their plans are of algorithms that they installed."""
    made = []

    def make(names=NAMES, **policy):
        own = Policy(reveal="sums", **policy)
        hospitals = hospital_folders.hospitals(tmp_path, policy=own, names=names)
        hospitals.installed = True
        made.append(hospitals)
        return hospitals

    yield make
    for hospitals in made:
        hospitals.close()


def planned(hospitals, algorithm, **about):
    parameters = msgspec.to_builtins(algorithm)
    about = {"algorithm": algorithm.name, "versions": computed_with()} | about
    return hospitals.plan(parameters=parameters, **about)


def carried_out(hospitals, handlers, algorithm, *, engine=None, rounds=None, **about):
    """The sums of a plan's rounds, of all or the first of them."""
    plan = planned(hospitals, algorithm, **about)
    return [
        sums
        for _, sums in hospitals.carry_out(handlers, algorithm, plan, engine=engine, rounds=rounds)
    ]


def kinds_left(hospitals, session):
    """What left each site in a session, by its ledger."""
    return {
        name: [
            line.kind
            for line in read_releases(folder.ledger_path.read_text("utf-8").splitlines())
            if line.session == session.hex()
        ]
        for name, folder in hospitals.folders.items()
    }


def refused_plan(hospitals, handlers, algorithm, said, **about):
    """A plan that every site refuses before it makes a key."""
    plan = planned(hospitals, algorithm, **about)
    known = len(REASONS)
    with pytest.raises(PolicyRefusedError, match=said):
        hospitals.session(handlers, plan=plan).open()
    assert {type(why) for why in list(REASONS.values())[known:]} == {PolicyRefusedError}
    kind = "waits" if "waits" in said else "refusal"
    assert set(map(tuple, kinds_left(hospitals, plan.session).values())) == {(kind,)}
    return plan


# ------------------------------------------------------------------ what a policy refuses


def test_one_plan_more_than_max_runs_is_refused_by_every_site(clinics):
    """P-values of single tests by a search over alpha take some forty plans a site."""
    hospitals = clinics(**AUTOMATIC, max_runs=3)
    handlers = hospitals.handlers()
    for number in range(3):
        carried_out(
            hospitals, handlers, FedPC(evidence="vote", alpha=0.01 + number * 1e-3), rounds=1
        )
    refused_plan(hospitals, handlers, FedPC(evidence="vote", alpha=0.05), "max_runs")
    # a restart of the sites does not make them forget
    for name in NAMES:
        hospitals.restart(handlers, name)
    refused_plan(hospitals, handlers, FedPC(evidence="vote", alpha=0.06), "max_runs")


@pytest.mark.parametrize(
    "algorithm",
    [
        FedPC(alpha=0.0359),
        FedFCI(alpha=0.06),
        FedCMFS(alpha=0.012),
        GraphCheck(CHAIN, alpha=0.0684),
        FedPC(evidence="fisher", reveal="bits", alpha=0.03),
    ],
    ids=lambda algorithm: algorithm.name,
)
def test_bits_at_levels_of_any_choice_are_refused_by_every_site(clinics, algorithm):
    hospitals = clinics(**AUTOMATIC)
    refused_plan(hospitals, hospitals.handlers(), algorithm, "at few levels")


def test_a_thousand_tables_fit_bits_of_all_runs_and_few_at_any_levels():
    """Of the other one of two sites of 150 rows, by the test of two columns given nothing."""
    rows = 150
    parts = np.array(list(combinations(range(rows + 3), 3)))  # bars between a, b, c and d
    tables = np.diff(parts, axis=1, prepend=-1, append=rows + 3) - 1
    rng = np.random.default_rng(7)
    fit, told = [], []
    for _ in range(15):
        share = rng.dirichlet(np.full(4, 4.0))
        mine, theirs = rng.multinomial(rows, share, size=2)
        p_value, true = joint(mine, tables), joint(mine, theirs[None])[0]
        steps = np.array(sorted({*LEVELS, *STEPS}))
        fit.append((np.searchsorted(steps, p_value) == np.searchsorted(steps, true)).sum())
        told.append((np.abs(p_value - true) < 2.0**-26).sum())  # 25 runs, each half of the last
    assert np.median(fit) >= 1000
    assert np.median(told) <= 20


def joint(mine, theirs):
    """P-values of the test over both sites, for every table of the other one, shape (T,)."""
    scores, variances, own = [], [], []
    for table in (mine[None], theirs):
        a, b, c, d = table.T.astype(float)
        n = a + b + c + d
        scores.append(a - (a + b) * (a + c) / n)
        variances.append((a + b) * (c + d) * (a + c) * (b + d) / (n**2 * (n - 1)))
        form = scores[-1] ** 2 / np.maximum(variances[-1], 1e-300)
        own.append(normal_score(form, np.ones(len(form)))[0])
    U, V, scored = (one + other for one, other in (scores, variances, own))
    one = np.ones(len(U))
    return p_values(one.astype(int), U, V, V, scored, 2 * one, 2)


@pytest.mark.parametrize(
    ("rule", "algorithm"),
    [
        ("alpha 0.001..0.1", FedPC(evidence="vote", alpha=1e-300)),
        ("alpha 0.001..0.1", FedPC(evidence="vote", alpha=0.9)),
        ("max_rows 1048576..1048576", FedPC(evidence="pooled", max_rows=1024)),
        ("evidence vote|pooled", FedPC(evidence="weighted_p")),
        ("bootstrap 0..100", FedPC(evidence="vote", bootstrap=1000)),
    ],
)
def test_a_rule_on_a_parameter_is_kept_by_every_site(clinics, rule, algorithm):
    hospitals = clinics(**AUTOMATIC, parameters=frozenset({rule}))
    handlers = hospitals.handlers()
    refused_plan(hospitals, handlers, algorithm, rule.split()[0])
    assert carried_out(hospitals, handlers, FedPC(evidence="vote"), rounds=1)


def test_a_plan_for_another_purpose_is_refused_by_every_site(clinics):
    hospitals = clinics(**AUTOMATIC, purposes=frozenset({"a test"}))
    handlers = hospitals.handlers()
    refused_plan(
        hospitals, handlers, FedPC(evidence="vote"), "purpose", purpose="a look at one hospital"
    )
    assert carried_out(hospitals, handlers, FedPC(evidence="vote"), rounds=1)


def approve(hospitals, plan):
    for name in NAMES:
        folder = str(hospitals.folders[name].path)
        said = ["site", "approve", plan.session.hex()[:8], "--dir", folder, "--yes"]
        assert CliRunner().invoke(cli, said).exit_code == 0


def status(hospitals, name):
    shown = CliRunner().invoke(cli, ["site", "status", "--dir", str(hospitals.folders[name].path)])
    return " ".join(shown.output.split())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("second", "shown"),
    [
        (FedPC(evidence="vote", alpha=0.01 + 1e-12), "alpha was 0.01, now 0.010000000001"),
        (FedPC(evidence="vote", max_rows=1024), "max_rows was 1048576, now 1024"),
        (FedPC(evidence="pooled"), "evidence was vote, now pooled"),
    ],
)
def test_a_person_is_shown_in_what_a_plan_differs_from_another(clinics, second, shown, turned):
    """Plans wait by default; the second of the attack is a line with one number in it.

    Whichever of the two asked first: the coordinator chooses the order.
    """
    hospitals = clinics()
    handlers = hospitals.handlers()
    plans = {}
    for algorithm in (
        (second, FedPC(evidence="vote")) if turned else (FedPC(evidence="vote"), second)
    ):
        plans[algorithm] = refused_plan(hospitals, handlers, algorithm, "waits until a person")
    approve(hospitals, plans[FedPC(evidence="vote")])
    for name in NAMES:
        assert shown in status(hospitals, name)


# ------------------------------------------------------------------ what still succeeds in part


class Without(LocalEngine):
    """An engine that says that a site does not answer questions."""

    def call(self, operation, messages, *, timeout_s):
        gone = {LONE} & set(messages) if operation in ("ask", "unmask", "finish") else set()
        there = {site: own for site, own in messages.items() if site not in gone}
        replies = super().call(operation, there, timeout_s=timeout_s)
        return replies | {site: SiteFailure("timeout") for site in gone}


STRICT = FedPC(alpha=1e-60, evidence="vote", voting=Voting(reference="code"))
"""A level at which sites differ, and votes in the first round; of the paper's that is a count."""


def difference_of_two_plans(hospitals):
    """Votes of all sites, less those at a little more alpha of all but one."""
    handlers = hospitals.handlers()
    (whole,) = carried_out(hospitals, handlers, STRICT, rounds=1)
    more = replace(STRICT, alpha=STRICT.alpha * (1 + 1e-12))
    (rest,) = carried_out(hospitals, handlers, more, rounds=1, engine=Without(handlers))
    return whole - rest


def own_votes(hospitals):
    """What the site that is said to leave answers."""
    respondent = hospitals.open(LONE)._respondent
    votes = respondent.answer(next(STRICT.ask(Facts(respondent.n_variables, 4))))
    hospitals.close()
    return votes


def test_two_plans_that_nobody_reads_hide_the_votes_of_one_site(clinics):
    """However little they differ: that another run opened sums with the site is enough."""
    hospitals = clinics(**AUTOMATIC)
    assert 0 < own_votes(hospitals).mean() < 1
    with pytest.raises(DifferencingError, match="nearly these sites"):
        difference_of_two_plans(hospitals)


def test_without_leaving_two_plans_hide_the_votes_of_one_site(clinics):
    hospitals = clinics(**AUTOMATIC, allow_dropouts=False)
    assert 0 < own_votes(hospitals).mean() < 1
    with pytest.raises((CohortError, SiteUnreachableError)):
        difference_of_two_plans(hospitals)


def who_refuses(hospitals, handlers, max_rows):
    """Which sites' rows are beyond a bound, as the coordinator sees it."""
    algorithm = FedPC(evidence="pooled", max_rows=max_rows)
    plan = planned(hospitals, algorithm)
    session = hospitals.session(handlers, plan=plan)
    facts = Facts(session.open(), len(plan.cohort), min_contributors=plan.min_contributors)
    with suppress(CipherdagError):
        session.ask(next(algorithm.ask(facts)))
    return {left.site for left in session.dropouts}


def test_unread_plans_disclose_a_site_s_rows_within_a_factor_of_two(clinics):
    hospitals = clinics(NAMES[:3], **AUTOMATIC)
    handlers = hospitals.handlers()
    finer = msgspec.to_builtins(FedPC(evidence="pooled")) | {"max_rows": ROWS[1] - 1}
    plan = hospitals.plan(parameters=finer, versions=computed_with())
    with pytest.raises(ParameterError, match="out of its range"):
        hospitals.session(handlers, plan=plan).open()
    beyond = {
        bound: NAMES[1] in who_refuses(hospitals, handlers, 1 << bound) for bound in range(6, 15)
    }
    assert beyond == {bound: ROWS[1] > 1 << bound for bound in beyond}
    assert not any(rows & (rows - 1) == 0 for rows in ROWS)


def test_a_rule_on_max_rows_leaves_one_plan_to_tell_of_rows(clinics):
    hospitals = clinics(**AUTOMATIC, parameters=frozenset({"max_rows 1048576..1048576"}))
    handlers = hospitals.handlers()
    for rows in (1 << 10, 1 << 11, 1 << 19):
        refused_plan(hospitals, handlers, FedPC(evidence="pooled", max_rows=rows), "max_rows")
    assert who_refuses(hospitals, handlers, 1 << 20) == set()
