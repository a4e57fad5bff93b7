"""A site's policy: its file, its limits, and that the stricter side wins."""

import json
import os
from dataclasses import fields, replace

import adversary
import numpy as np
import pytest
from driving import outcome_over
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import Describe, Federation
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import CohortError, PolicyRefusedError, ProtectionError, SiteNotReadyError
from cipherdag.graphs.networks import asia
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy
from cipherdag.sites.policy.usage import TestBudget


def run(hospitals, **options):
    """A whole run over the folders, whose sites run what they have installed; its session."""
    hospitals.installed = True
    handlers = {name: hospitals.handler(name) for name in hospitals.folders}
    session = hospitals.session(handlers, **options)
    outcome_over(session)
    session.finish()
    return session


def set_policy(hospitals, name, **changes):
    folder = hospitals.folders[name]
    folder.policy_path.write_text(
        replace(Policy(approve_runs="automatic", reveal="sums"), **changes).dumps()
    )
    folder.policy_path.chmod(0o600)


# the file


@given(
    st.builds(
        Policy,
        algorithms=st.frozensets(st.sampled_from(["fedpc", "fedcmfs"])),
        questions=st.frozensets(st.sampled_from(sorted(QUESTION_KINDS))),
        protections=st.frozensets(st.sampled_from(["masking", "bfv"])),
        allow_unprotected=st.booleans(),
        min_sites=st.integers(2, 99),
        tolerated_colluders=st.integers(0, 9),
        allow_dropouts=st.booleans(),
        approve_cohorts=st.sampled_from(["automatic", "manual"]),
        min_cohort_difference=st.integers(0, 100),
        max_values=st.integers(0, 2**53),
        approve_runs=st.sampled_from(["automatic", "manual"]),
        parameters=st.frozensets(st.sampled_from(["alpha -1e-3..2.5", "evidence vote|pooled"])),
        purposes=st.frozensets(st.text(max_size=20)),
    )
)
def test_a_policy_reads_back_as_it_was_written(policy):
    assert Policy.loads(policy.dumps()) == policy


def test_the_file_names_every_limit_with_its_default():
    text = Policy().dumps()
    assert Policy.loads(text) == Policy.loads("") == Policy()
    for item in fields(Policy):
        assert f"\n{item.name} = " in text
    assert Policy().min_sites == 3
    assert Policy().allow_unprotected is False


@pytest.mark.parametrize(
    "text",
    [
        "min_site = 3",
        "min_sites = 1",
        "min_sites = -3",
        "min_sites = 3.0",
        'min_sites = "3"',
        "min_sites = true",
        "max_values = 1e9",
        "max_values = 99999999999999999999",
        "allow_unprotected = 1",
        'allow_unprotected = "false"',
        'algorithms = "fedpc"',
        "algorithms = [1]",
        'algorithms = ["../fedpc"]',
        'protections = ["none"]',
        'protections = ["maskng"]',
        'questions = ["edge-vote"]',
        'approve_runs = "yes"',
        'language = "it"',
        "language = 49",
        "approve_runs = false",
        "[table]\nmin_sites = 3",
        "min_sites",
        "min_sites = 3\nmin_sites = 2",
        "a." * 5000 + "b = 1",
        "x = " + "[" * 5000,
        'parameters = "alpha 0..1"',
        "parameters = [1]",
        "purposes = [1]",
        'purposes = "x"',
        "max_runs = -1",
    ],
)
def test_a_policy_with_a_fault_stops_the_site(text):
    with pytest.raises(SiteNotReadyError) as caught:
        Policy.loads(text)
    assert caught.value.exit_code == 4


def test_a_policy_that_cannot_be_read_stops_the_site(tmp_path):
    path = tmp_path / "policy.toml"
    with pytest.raises(SiteNotReadyError, match="cannot be read"):
        Policy.load(path)
    path.write_bytes(b"min_sites = 3 # \xff")
    path.chmod(0o600)
    with pytest.raises(SiteNotReadyError, match="UTF-8"):
        Policy.load(path)
    path.write_text("#" * 70_000)
    with pytest.raises(SiteNotReadyError, match="larger"):
        Policy.load(path)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_policy_that_others_may_change_stops_the_site(tmp_path, mode):
    path = tmp_path / "policy.toml"
    path.write_text(Policy().dumps())
    path.chmod(mode)
    with pytest.raises(SiteNotReadyError, match="changed by other users"):
        Policy.load(path)


# the stricter side


def test_the_stricter_side_wins_both_ways():
    site = Policy(min_sites=4, protections=frozenset({"masking"}), allow_unprotected=True)
    both = site.stricter(min_sites=3, protections=("masking", "bfv"))
    assert (both.min_sites, both.protections) == (4, frozenset({"masking"}))
    assert both.allow_unprotected is False
    assert site.stricter(min_sites=5, protections=("bfv",)).min_sites == 5
    assert both.tolerated_colluders == site.tolerated_colluders
    for own, study, stricter in ((0, 2, 2), (2, 1, 2), (1, 1, 1)):
        asked = replace(site, tolerated_colluders=own)
        asked = asked.stricter(min_sites=3, protections=("bfv",), colluders=study)
        assert asked.tolerated_colluders == stricter
    assert site.stricter(min_sites=3, protections=("bfv",)).protections == frozenset()
    assert site.stricter(min_sites=3, protections=("none",)).allow_unprotected is True


def test_a_run_within_the_policy_goes_through(hospitals):
    assert len(run(hospitals).rounds) > 2


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"algorithms": frozenset()}, PolicyRefusedError, "does not allow 'fedpc'"),
        ({"questions": QUESTION_KINDS - {"edge-votes"}}, PolicyRefusedError, "edge-votes"),
        ({"protections": frozenset({"bfv"})}, ProtectionError, "does not accept"),
        ({"min_sites": 4}, CohortError, "asks for 4"),
        ({"min_rows": 10**6}, PolicyRefusedError, "fewer rows"),
        ({"max_rounds": 1}, PolicyRefusedError, "max_rounds"),
        ({"max_values": 11}, PolicyRefusedError, "max_values"),
        ({"max_tests": 9}, PolicyRefusedError, "max_tests"),
        ({"max_rounds_per_day": 1}, PolicyRefusedError, "max_rounds_per_day"),
        ({"max_values_per_day": 11}, PolicyRefusedError, "max_values_per_day"),
        ({"max_tests_per_day": 9}, PolicyRefusedError, "max_tests_per_day"),
    ],
)
def test_one_site_s_limit_stops_the_run_with_its_reason(hospitals, changes, error, said):
    set_policy(hospitals, "hospital-1", **changes)
    with pytest.raises(error, match=said) as caught:
        run(hospitals)
    assert caught.value.site == "hospital-1"
    assert str(adversary.ROWS[1]) not in str(caught.value)


def test_the_study_s_minimum_holds_where_the_policy_s_is_lower(hospitals):
    hospitals.pin(min_sites=4)
    with pytest.raises(CohortError, match="asks for 4"):
        run(hospitals)


def test_what_to_do_about_too_few_sites_names_no_other_number():
    """A site's own screen names its number; what a refusal carries has it in the message."""
    with pytest.raises(CohortError, match="asks for 5") as refused:
        Policy(min_sites=5).check_run(plan_of(3, parameters={"evidence": "vote"}), rows=9)
    assert refused.value.remedy.startswith("Run with at least 5 distinct sites")
    federation = Federation.split(
        asia().sample(300, np.random.default_rng(0)), 3, policy=Policy(min_sites=5)
    )
    with pytest.raises(CohortError, match="asks for 5") as refused:
        federation.run(Describe())
    assert "three" not in refused.value.remedy


def test_a_study_without_bfv_refuses_it_at_the_site(hospitals):
    hospitals.pin(protections=("masking",))
    with pytest.raises(ProtectionError):
        run(hospitals, protection="bfv")


def test_answers_in_the_clear_need_both_sides(hospitals):
    for name in hospitals.folders:
        set_policy(hospitals, name, allow_unprotected=True)
    with pytest.raises(ProtectionError):
        run(hospitals, protection="none")
    hospitals.close()
    hospitals.pin(protections=("none",))
    assert run(hospitals, protection="none").rounds


def test_an_unreadable_policy_stops_the_site_and_is_not_quoted(hospitals):
    hospitals.folders["hospital-2"].policy_path.write_text('secret_plan = "x"')
    with pytest.raises(SiteNotReadyError) as caught:
        run(hospitals)
    assert caught.value.site == "hospital-2"
    assert "secret_plan" not in str(caught.value)


# the day


def test_the_day_s_values_are_counted_over_runs_from_the_ledger(hospitals):
    first = run(hospitals)
    released = sum(report.values for report in first.rounds)
    hospitals.close()
    set_policy(hospitals, "hospital-0", max_values_per_day=released + 9)
    with pytest.raises(PolicyRefusedError, match="max_values_per_day"):
        run(hospitals)
    hospitals.close()
    set_policy(hospitals, "hospital-0", max_values_per_day=2 * released)
    run(hospitals)


def test_tests_are_counted_over_a_day_s_runs_and_not_the_next_day(tmp_path):
    days = ["2026-01-01"]
    policy = Policy(max_tests=10, max_tests_per_day=15)
    path = tmp_path / "usage.json"
    first = TestBudget(policy, path, clock=lambda: days[-1])
    first.spend(10)
    with pytest.raises(PolicyRefusedError, match=r"max_tests of"):
        first.spend(1)
    first.save()
    second = TestBudget(policy, path, clock=lambda: days[-1])
    second.spend(5)
    with pytest.raises(PolicyRefusedError, match="max_tests_per_day"):
        second.spend(1)
    days.append("2026-01-02")
    second.start_run()
    second.spend(10)
    path.write_text("gone")
    with pytest.raises(SiteNotReadyError):
        TestBudget(policy, path, clock=lambda: days[-1]).spend(1)


def test_a_repeated_invite_does_not_reset_the_count_of_tests(hospitals):
    set_policy(hospitals, "hospital-1", max_tests=15)
    handlers = {name: hospitals.handler(name) for name in hospitals.folders}
    engine = adversary.RecordingEngine(handlers)
    session = hospitals.session(handlers, engine=engine)
    session.open()
    full = Skeleton.from_matrix(~np.eye(5, dtype=bool))
    questions = [
        EdgeVotes(skeleton=full, layer=0, test=CITestSpec(alpha=0.01, min_rows_per_cell=rows))
        for rows in (5.0, 6.0)
    ]
    session.ask(questions[0])
    for operation, site, message in list(engine.sent):
        if operation == "invite":
            handlers[site](operation, message)
    with pytest.raises(PolicyRefusedError, match="max_tests of"):
        session.ask(questions[1])


# plans


def plan_of(n_sites=0, **changes):
    cohort = tuple(Member(name=f"site-{k}", identity=bytes([k]) * 32) for k in range(n_sites))
    about = {"algorithm": "fedpc", "protection": "masking", "purpose": "which drugs help"}
    return make_plan(cohort, **(about | changes), colluders=0)


def allowed(policy, runs=0, **changes):
    """Whether a policy lets a plan pass."""
    try:
        policy.check_plan(plan_of(**changes), runs=runs)
    except PolicyRefusedError:
        return False
    return True


def ruled(*rules):
    return Policy(parameters=frozenset(rules), reveal="sums")


@pytest.mark.parametrize("purpose", ["", " ", "   "])
def test_a_plan_says_what_it_is_for(purpose):
    with pytest.raises(PolicyRefusedError, match="does not say what its result is for"):
        Policy().check_plan(plan_of(purpose=purpose), runs=0)


def test_purposes_are_allowed_word_by_word():
    policy = Policy(purposes=frozenset({"which drugs help", "audit"}))
    assert allowed(policy)
    for purpose in ("which drugs helped", "Which drugs help", "which drugs help ", "audit 2"):
        assert not allowed(policy, purpose=purpose)


@pytest.mark.parametrize(
    ("rule", "parameters", "passes"),
    [
        ("alpha 0.001..0.1", {"alpha": 0.001}, True),
        ("alpha 0.001..0.1", {"alpha": 0.1}, True),
        ("alpha 0.001..0.1", {"alpha": 0.2}, False),
        ("alpha 1e-3..1e-1", {"alpha": 0.0009}, False),
        ("alpha 0.001..0.1", {"alpha": "0.05"}, False),
        ("alpha 0.001..0.1", {"alpha": None}, False),
        ("alpha 0.001..0.1", {"alpha": [0.05]}, False),
        ("evidence vote|pooled", {"evidence": "vote"}, True),
        ("evidence vote|pooled", {"evidence": "pool"}, False),
        ("evidence vote|pooled", {"evidence": "vote|pooled"}, False),
        ("max_cond_size 0..2", {"max_cond_size": 2}, True),
        ("max_cond_size 0..2", {"max_cond_size": 3}, False),
        ("max_cond_size 0..2", {"max_cond_size": None}, False),
        ("max_cond_size 0..2", {"max_cond_size": -1}, False),
        ("beam 1..2", {"alpha": 0.05}, True),  # no parameter of this algorithm
    ],
)
def test_rules_on_parameters(rule, parameters, passes):
    assert allowed(ruled(rule), parameters=parameters) is passes


def test_a_parameter_that_a_plan_leaves_out_counts_with_its_default():
    """Else a rule would be got round by not naming what it is about."""
    assert FedPC(evidence="vote").alpha == 0.01
    assert allowed(ruled("alpha 0.001..0.02"))
    assert not allowed(ruled("alpha 0.02..0.1"))
    assert not allowed(ruled("evidence pooled|glm"))
    # where nothing is known of the algorithm, only what the plan says counts
    assert allowed(ruled("alpha 0.02..0.1"), algorithm="not-installed")
    assert not allowed(
        ruled("alpha 0.02..0.1"), algorithm="not-installed", parameters={"alpha": 0.01}
    )


def test_every_rule_has_to_hold():
    rules = ruled("alpha 0.001..0.1", "evidence vote|pooled")
    assert allowed(rules, parameters={"alpha": 0.05, "evidence": "vote"})
    assert not allowed(rules, parameters={"alpha": 0.5, "evidence": "vote"})
    assert not allowed(rules, parameters={"alpha": 0.05, "evidence": "fisher"})


def test_there_are_so_many_runs_over_the_same_data_and_no_more():
    assert allowed(Policy(max_runs=2), runs=1)
    assert not allowed(Policy(max_runs=2), runs=2)
    assert not allowed(Policy(max_runs=0))


def test_the_runs_of_a_site_are_counted_from_what_it_opened(hospitals):
    set_policy(hospitals, "hospital-1", max_runs=2)
    for _ in range(2):
        run(hospitals)
        hospitals.close()
    with pytest.raises(PolicyRefusedError, match="max_runs") as caught:
        run(hospitals)
    assert caught.value.site == "hospital-1"


@pytest.mark.parametrize(
    "rule",
    ["alpha", "alpha 0.1", "alpha 0.1..", "alpha ..0.1", "alpha 0.1...0.2", "Alpha 0..1", "",
     "alpha 0..1 beta 0..1", "alpha  0..1", "evidence vote|", "evidence |vote", "alpha 0..1\n",
     "evidence vote pooled", "alpha nan..inf"],
)  # fmt: skip
def test_a_malformed_rule_stops_the_site(rule):
    with pytest.raises(SiteNotReadyError):
        Policy.loads(f"parameters = {json.dumps([rule])}")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("alfa 0.001..0.05", "did you mean alpha"),
        ("evidnce vote|pooled", "did you mean evidence"),
        ("xyzzy 0..1", "no algorithm has the parameter 'xyzzy'"),
        ("alpha 0.05..0.001", "0.05 is above 0.001"),
    ],
)
def test_a_rule_that_never_applies_or_never_holds_stops_the_site(rule, said):
    with pytest.raises(SiteNotReadyError, match=said) as refused:
        Policy.loads(f"parameters = {json.dumps(['evidence vote', rule])}")
    assert rule in refused.value.message


@pytest.mark.parametrize(
    "rule", ["k1 0..0.1", "beam 1..2", "alpha 0.01..0.01", "reveal bits", "event_category 2..2"]
)
def test_a_rule_on_a_parameter_of_any_algorithm_is_read(rule):
    assert Policy.loads(f"parameters = {json.dumps([rule])}").parameters == {rule}


@pytest.mark.parametrize("limit", [5.5, True, -1, "5"])
def test_limits_are_whole_numbers_in_python_too(limit):
    with pytest.raises(SiteNotReadyError, match="min_cell_size is not a whole number from 0"):
        Policy(min_cell_size=limit)


def test_a_refusal_names_the_option_that_allows_it():
    plan = plan_of(n_sites=3, algorithm="effect")
    strict = Policy(algorithms=frozenset({"fedpc"}))
    with pytest.raises(PolicyRefusedError) as caught:
        strict.check_run(plan, rows=1000)
    assert 'add "effect" to algorithms in its policy.toml' in caught.value.remedy
    replace(strict, algorithms=strict.algorithms | {"effect"}).check_run(plan, rows=1000)


@pytest.mark.follows('add "{}" to questions in its policy.toml')
def test_a_refusal_of_a_question_names_the_option_that_allows_it(hospitals):
    set_policy(hospitals, "hospital-1", questions=QUESTION_KINDS - {"edge-votes"})
    with pytest.raises(PolicyRefusedError) as caught:
        run(hospitals)
    assert 'add "edge-votes" to questions in its policy.toml' in caught.value.remedy
    hospitals.close()
    set_policy(hospitals, "hospital-1", questions=QUESTION_KINDS)
    assert run(hospitals).rounds
