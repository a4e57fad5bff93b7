"""Runs that a lying coordinator would subtract from one another, refused by name at the sites."""

import itertools
import json

import hospital_folders
import numpy as np
import pytest
from click.testing import CliRunner
from driving import outcome_over
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.cli.main import cli
from cipherdag.errors import (
    DifferencingError,
    PolicyRefusedError,
    SiteNotReadyError,
    SiteUnreachableError,
)
from cipherdag.privacy.wire import decode
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.protocol.messages import Refusal, read_envelope
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.sites.policy.approvals import Person
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.opened_sums import OpenedSums

NAMES = tuple(f"hospital-{k}" for k in range(4))
QUESTION = EdgeVotes(
    skeleton=Skeleton.from_matrix(~np.eye(5, dtype=bool)), layer=0, test=CITestSpec(alpha=0.01)
)


@pytest.fixture
def hospitals(tmp_path):
    made = hospital_folders.hospitals(tmp_path, names=NAMES)
    yield made
    made.close()


def run(hospitals, handlers, names=NAMES, question=QUESTION, **options):
    """One question over some of the sites."""
    session = hospitals.session(handlers, names=names, **options)
    session.open()
    total = session.ask(question)
    session.finish()
    return total


def approve(hospitals, session, names):
    for name in names:
        own = hospitals.folders[name]
        own.approvals().decide(session.hex(), "approved", own.identity(), Person("A. Weber"))


def test_the_same_sites_may_run_again_and_get_the_same_sums(hospitals):
    handlers = hospitals.handlers()
    first = run(hospitals, handlers)
    assert (run(hospitals, handlers) == first).all()
    hospitals.close()
    assert (run(hospitals, hospitals.handlers(), tuple(reversed(NAMES))) == first).all()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_run_without_one_of_the_sites_is_refused(hospitals, restarted):
    handlers = hospitals.handlers()
    run(hospitals, handlers)
    if restarted:
        hospitals.close()
        handlers = hospitals.handlers()
    for left_out in NAMES:
        rest = tuple(name for name in NAMES if name != left_out)
        with pytest.raises(DifferencingError, match="subtraction") as caught:
            run(hospitals, handlers, rest)
        assert caught.value.exit_code == 3


def test_a_run_with_one_site_more_or_another_one_is_refused(hospitals):
    handlers = hospitals.handlers()
    run(hospitals, handlers, NAMES[:3])
    for names in (NAMES, (*NAMES[:2], NAMES[3])):
        with pytest.raises(DifferencingError):
            run(hospitals, handlers, names)


def test_a_nearly_equal_question_or_another_algorithm_does_not_help(hospitals):
    handlers = hospitals.handlers()
    run(hospitals, handlers)
    nearly = EdgeVotes(skeleton=QUESTION.skeleton, layer=0, test=CITestSpec(alpha=0.01 + 1e-12))
    for options in ({"question": nearly}, {"algorithm": "fedcmfs"}, {"protection": "bfv"}):
        with pytest.raises(DifferencingError):
            run(hospitals, handlers, NAMES[:3], **options)


def test_what_the_refused_run_would_have_shown_is_one_site_s_answer(hospitals):
    """The attack works where people let it: so it has to be asked for by name."""
    handlers = hospitals.handlers()
    everyone = run(hospitals, handlers)
    session = hospitals.session(handlers, names=NAMES[:3])
    with pytest.raises(DifferencingError):
        session.open()
    (asked,) = hospitals.folders["hospital-0"].approvals().runs()
    assert "would show the answers of 'hospital-3' by subtraction" in asked.consider
    for name in NAMES[:2]:
        approve(hospitals, session._plan.session, [name])
        with pytest.raises(DifferencingError):
            session.open()
    approve(hospitals, session._plan.session, [NAMES[2]])
    session.open()
    without = session.ask(QUESTION)
    respondent = handlers["hospital-3"].__self__._open._respondent
    assert (everyone - without == respondent.answer(QUESTION)).all()


def test_an_approval_holds_for_that_run_alone(hospitals):
    handlers = hospitals.handlers()
    run(hospitals, handlers)
    session = hospitals.session(handlers, names=NAMES[:3])
    for name in NAMES[:3]:
        with pytest.raises(DifferencingError):
            session.open()
        approve(hospitals, session._plan.session, [name])
    session.open()
    with pytest.raises(DifferencingError):
        hospitals.session(handlers, names=NAMES[:3]).open()


def test_a_person_sees_what_two_runs_would_show_and_is_asked_again(hospitals):
    handlers = hospitals.handlers()
    run(hospitals, handlers)
    session = hospitals.session(handlers, names=NAMES[:3])
    with pytest.raises(DifferencingError):
        session.open()
    folder = str(hospitals.folders["hospital-0"].path)
    shown = CliRunner().invoke(cli, ["site", "status", "--dir", folder]).output
    assert "WAITS" in shown
    assert "CONSIDER: with run" in shown
    approve_it = ["site", "approve", session._plan.session.hex()[:8], "--dir", folder]
    refused = CliRunner().invoke(cli, approve_it, input="n\n")
    assert refused.exit_code == 1
    assert "the answers of 'hospital-3'" in refused.output
    with pytest.raises(DifferencingError):
        session.open()
    assert CliRunner().invoke(cli, [*approve_it, "--yes"]).exit_code == 0
    assert "approved" in CliRunner().invoke(cli, ["site", "status", "--dir", folder]).output


def drop(handlers, operation, *gone):
    """An engine under which some sites seem to have left at an operation."""
    honest = LocalEngine(handlers)

    class Dropping:
        left = False

        def call(self, name, messages, *, timeout_s):
            self.left |= name == operation
            replies = honest.call(name, messages, timeout_s=timeout_s)
            lost = set(gone) & set(replies) if self.left else ()
            return replies | dict.fromkeys(lost, SiteFailure("timeout"))

    return Dropping()


@pytest.mark.parametrize("alpha", [0.01, 0.01 + 1e-12, 0.2])
def test_no_sum_is_opened_without_a_site_that_is_said_to_have_left(hospitals, alpha):
    """Whatever is asked: how much two questions differ is not for a site to judge."""
    handlers = hospitals.handlers()
    run(hospitals, handlers)
    other = EdgeVotes(skeleton=QUESTION.skeleton, layer=0, test=CITestSpec(alpha=alpha))
    with pytest.raises(DifferencingError, match="nearly these sites"):
        run(hospitals, handlers, question=other, engine=drop(handlers, "ask", "hospital-3"))


def test_approving_the_same_sites_approves_no_sum_without_one(tmp_path):
    """People approve, as by default: they read the plan twice, and that it differs in nothing."""
    hospitals = hospital_folders.hospitals(tmp_path, names=NAMES, policy=Policy(reveal="sums"))
    handlers = hospitals.handlers()
    for engine in (LocalEngine(handlers), drop(handlers, "ask", "hospital-3")):
        session = hospitals.session(handlers, engine=engine)
        with pytest.raises(PolicyRefusedError):
            session.open()
        asked = [
            own.approvals().find(session._plan.session.hex()) for own in hospitals.folders.values()
        ]
        assert not any(own.consider for own in asked)
        approve(hospitals, session._plan.session, NAMES)
        session.open()
        if isinstance(engine, LocalEngine):
            session.ask(QUESTION)
            session.finish()
    with pytest.raises(DifferencingError, match="nearly these sites"):
        session.ask(QUESTION)
    hospitals.close()


def test_a_site_may_leave_where_nothing_was_opened_with_it(hospitals):
    handlers = hospitals.handlers()
    run(hospitals, handlers, engine=drop(handlers, "ask", "hospital-3"))


def test_a_run_with_a_site_that_left_the_last_waits_for_approval(hospitals):
    handlers = hospitals.handlers()
    run(hospitals, handlers, engine=drop(handlers, "ask", "hospital-3"))
    with pytest.raises(DifferencingError):
        run(hospitals, handlers)
    # the three that were left may repeat it
    run(hospitals, handlers, NAMES[:3])


def test_a_run_in_which_nothing_was_opened_is_held_against_no_other(hospitals):
    handlers = hospitals.handlers()
    session = hospitals.session(handlers, engine=drop(handlers, "ask", *NAMES[2:]))
    session.open()
    with pytest.raises(SiteUnreachableError):
        session.ask(QUESTION)
    hospitals.close()
    run(hospitals, hospitals.handlers(), NAMES[:3])


# the rule on cohorts that differ in many sites


SIX = tuple(f"hospital-{k}" for k in range(6))


def test_other_sites_wait_for_a_person_even_if_they_differ_enough(tmp_path):
    """Three cohorts may be combined though no two of them can: see the next test."""
    hospitals = hospital_folders.hospitals(tmp_path, names=SIX)
    handlers = hospitals.handlers()
    run(hospitals, handlers, SIX[:3])
    with pytest.raises(DifferencingError):
        run(hospitals, handlers, SIX)
    hospitals.close()
    for name in SIX:
        policy = Policy(approve_cohorts="automatic", approve_runs="automatic", reveal="sums")
        hospitals.folders[name].policy_path.write_text(policy.dumps())
    handlers = hospitals.handlers()
    run(hospitals, handlers, SIX)
    with pytest.raises(DifferencingError):
        run(hospitals, handlers, SIX[:5])
    hospitals.close()


def test_three_cohorts_isolate_a_site_though_none_sees_them_all():
    cohorts = ({"a", "b", "c"}, {"a", "d", "e"}, {"b", "c", "d", "e"})
    assert all(len(one ^ other) >= 3 for one, other in itertools.combinations(cohorts, 2))
    sites = "abcde"
    vectors = [np.array([site in cohort for site in sites], dtype=int) for cohort in cohorts]
    assert (vectors[0] + vectors[1] - vectors[2]).tolist() == [2, 0, 0, 0, 0]
    for site in sites:
        assert sum(site in cohort for cohort in cohorts) == 2


@given(
    cohorts=st.lists(st.frozensets(st.sampled_from("abcdefgh"), min_size=3), max_size=8),
    fewest=st.integers(0, 5),
)
def test_no_two_cohorts_that_pass_differ_by_fewer_sites_than_declared(cohorts, fewest):
    record = OpenedSums(b"schema")
    passed = []
    for number, cohort in enumerate(cohorts):
        session = number.to_bytes(16, "big")
        change = record.change(session, cohort)
        if change is not None and len(change.differing) < fewest:
            assert any(0 < len(cohort ^ other) < fewest for other in passed)
            continue
        record.write(session, cohort)
        passed.append(cohort)
        later = record.change(bytes(range(16)), cohort)
        assert later is None or later.covered_before
    for one, other in itertools.combinations(passed, 2):
        assert one == other or len(one ^ other) >= fewest


# the record itself


def test_the_record_is_private_and_holds_no_answer(hospitals):
    run(hospitals, hospitals.handlers())
    path = hospitals.folders["hospital-0"].sums_path
    assert path.stat().st_mode & 0o777 == 0o600
    (line,) = path.read_text().splitlines()
    assert set(json.loads(line)) == {"session", "day", "schema", "sites"}


@pytest.mark.parametrize("change", ["removed", "older", "garbage"])
def test_a_record_that_was_cut_removed_or_altered_stops_the_site(hospitals, change):
    handlers = hospitals.handlers()
    run(hospitals, handlers)
    path = hospitals.folders["hospital-1"].sums_path
    older = path.read_bytes()
    run(hospitals, handlers)
    hospitals.close()
    if change == "removed":
        path.unlink()
    else:
        path.write_bytes(older if change == "older" else b"{}\n")
    with pytest.raises(SiteNotReadyError) as caught:
        run(hospitals, hospitals.handlers())
    assert caught.value.site == "hospital-1"


def test_a_line_that_a_crash_cut_short_is_dropped(hospitals):
    run(hospitals, hospitals.handlers())
    hospitals.close()
    path = hospitals.folders["hospital-1"].sums_path
    with path.open("ab") as file:
        file.write(b'{"session":"00')
    run(hospitals, hospitals.handlers())


def test_the_refusal_reaches_the_coordinator_by_name_and_without_data(hospitals):
    handlers = hospitals.handlers()
    run(hospitals, handlers)
    replies = {}
    honest = LocalEngine(handlers)

    class Listening:
        def call(self, name, messages, *, timeout_s):
            replies.update(honest.call(name, messages, timeout_s=timeout_s))
            return dict(replies)

    with pytest.raises(DifferencingError):
        run(hospitals, handlers, NAMES[:3], engine=Listening())
    for name in NAMES[:3]:
        refusal = decode(read_envelope(replies[name]).body, Refusal)
        assert isinstance(refusal_error(refusal, name), DifferencingError)
        assert isinstance(refusal_error(refusal, name), PolicyRefusedError)
        assert not any(character.isdigit() for character in refusal.message)


def test_a_whole_run_may_be_repeated_and_is_remembered_once(hospitals):
    handlers = hospitals.handlers()
    for _ in range(2):
        session = hospitals.session(handlers)
        outcome_over(session)
        session.finish()
    lines = hospitals.folders["hospital-0"].sums_path.read_text().splitlines()
    assert len(session.rounds) > 1
    assert len({json.loads(line)["session"] for line in lines}) == len(lines) == 2
