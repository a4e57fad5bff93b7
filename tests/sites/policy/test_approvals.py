"""Decisions of people: signed over one plan by the site's own key, and expired after a while."""

import contextlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cipherdag.deployment.processes import LOOK_S, waiting_plans
from cipherdag.errors import ParameterError, PolicyRefusedError, SiteNotReadyError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.sites.policy.approvals import (
    ASKED_FILE,
    AWAITS,
    DENIED,
    EXPIRES,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    TOO_MANY_WAIT,
    Approvals,
    AskedRun,
    Person,
)

WEBER, LANGE = Person("A. Weber", "head of data protection"), Person("B. Lange")
OWN, STRANGER = SigningIdentity.generate(), SigningIdentity.generate()
MEMBERS = tuple(Member(name=f"hospital-{k}", identity=bytes([k]) * 32) for k in range(3))


class Clock:
    """The time, which a test moves."""

    def __init__(self):
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def approvals(tmp_path, clock):
    return Approvals(tmp_path / "runs", OWN.public, clock)


def plan(**changes):
    about = {"algorithm": "fedpc", "protection": "masking", "purpose": "a test"}
    return make_plan(MEMBERS, **(about | changes))


def asked(approvals, own):
    """A plan asks, and is not decided on."""
    with pytest.raises(PolicyRefusedError, match=AWAITS):
        approvals.check(own)


def approve(approvals, own, *, identity=OWN, person=WEBER):
    return approvals.decide(own.session.hex(), "approved", identity, person)


def path_of(approvals, own):
    return approvals.folder / own.session.hex() / ASKED_FILE


def altered(approvals, own, **changes):
    """The file of a plan that asked, with other fields."""
    run = msgspec.json.decode(path_of(approvals, own).read_bytes(), type=AskedRun)
    changed = msgspec.structs.replace(run, **changes)
    path_of(approvals, own).write_bytes(msgspec.json.encode(changed))


def test_a_plan_passes_once_it_is_approved_and_not_before(approvals):
    own = plan()
    for _ in range(2):
        asked(approvals, own)
    (run,) = approvals.runs()
    assert (run.plan, run.decision, run.session) == (own, "waits", own.session.hex())
    approve(approvals, own)
    approvals.check(own)
    approvals.check(own)


def test_a_plan_that_waits_names_the_command_that_approves_it(approvals):
    own = plan()
    with pytest.raises(PolicyRefusedError) as caught:
        approvals.check(own)
    assert f"`cipherdag site approve {own.session.hex()[:8]}`" in caught.value.remedy


def test_what_to_consider_is_kept_with_the_plan(approvals):
    with pytest.raises(PolicyRefusedError):
        approvals.check(plan(), consider=["it would show the answers of 'x'"])
    assert approvals.runs()[0].consider == "it would show the answers of 'x'"


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "rfcd"},
        {"parameters": {"alpha": 0.02}},
        {"seed": 1},
        {"purpose": "another"},
        {"requester": "another"},
        {"cohort": MEMBERS[::-1]},
        {"nonce": bytes(16)},
        {"min_survivors": 2},
    ],
)
def test_an_approval_holds_for_the_plan_that_was_seen_only(approvals, change):
    own = plan()
    asked(approvals, own)
    approve(approvals, own)
    asked(approvals, msgspec.structs.replace(own, **change))
    approvals.check(own)


# the signature


def signed_for(approvals, own, other):
    """The decisions on another plan."""
    altered(approvals, own, decisions=approve(approvals, other).decisions)


def put_in_its_place(approvals, own, other):
    """Else whoever copies a folder has approved whatever lies under the other name."""
    approve(approvals, other)
    path_of(approvals, own).write_bytes(path_of(approvals, other).read_bytes())


def changed(approvals, own, **changes):
    """The one decision on a plan with other fields."""
    (decision,) = approvals.find(own.session.hex()).decisions
    altered(approvals, own, decisions=(msgspec.structs.replace(decision, **changes),))


def after_approval(**changes):
    return lambda had, own, _: (approve(had, own), changed(had, own, **changes))


FORGED = {
    "by another key": lambda had, own, _: approve(had, own, identity=STRANGER),
    "by nobody": after_approval(signature=b""),
    "no signature": after_approval(signature=bytes(64)),
    "of another person": after_approval(person=LANGE),
    "in another role": after_approval(person=Person(WEBER.name)),
    "of another time": after_approval(when="2026-03-02"),
    "a denial": lambda had, own, _: (
        had.decide(own.session.hex(), "denied", OWN, WEBER, note="ask the board first"),
        changed(had, own, decision="approved"),
    ),
    "another plan": lambda had, own, _: (
        approve(had, own), altered(had, own, plan=msgspec.structs.replace(own, parameters={}))
    ),
    "of another plan": signed_for,
    "in its place": put_in_its_place,
}  # fmt: skip


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_approval_is_none_and_the_plan_waits_again(approvals, forge):
    own, other = plan(parameters={"alpha": 0.5}), plan()
    for each in (own, other):
        asked(approvals, each)
    forge(approvals, own, other)
    asked(approvals, own)
    assert approvals.find(own.session.hex()).decision == "waits"
    approve(approvals, other)
    approvals.check(other)


# several persons


@pytest.fixture
def of_two(approvals):
    return replace(approvals, approvers=2)


def test_a_plan_waits_until_two_persons_approved_it(of_two):
    own = plan()
    asked(of_two, own)
    approve(of_two, own)
    asked(of_two, own)
    (run,) = of_two.runs()
    assert (run.decision, len(run.decisions)) == ("waits", 1)
    approve(of_two, own, person=LANGE)
    of_two.check(own)


def test_one_person_cannot_approve_for_two(of_two):
    own = plan()
    asked(of_two, own)
    for name in ("A. Weber", "a.  weber ", "A. WEBER"):
        approve(of_two, own, person=Person(name))
    asked(of_two, own)


def test_one_of_two_persons_denies_a_plan(of_two):
    own = plan()
    asked(of_two, own)
    approve(of_two, own)
    of_two.decide(own.session.hex(), "denied", OWN, LANGE, note="too wide")
    with pytest.raises(PolicyRefusedError, match=DENIED):
        of_two.check(own)


def test_a_plan_of_one_approver_waits_where_the_policy_wants_two(approvals, of_two):
    own = plan()
    asked(approvals, own)
    approve(approvals, own)
    approvals.check(own)
    asked(of_two, own)
    assert of_two.runs()[0].decisions == ()


@pytest.mark.parametrize("name", ["", "  ", "a" * 201, "a\x1b[2J"])
def test_a_decision_needs_a_name_that_can_be_printed(approvals, name):
    own = plan()
    asked(approvals, own)
    with pytest.raises(ParameterError, match="needs a name"):
        approve(approvals, own, person=Person(name))


# denials


def test_a_denied_plan_is_refused_and_the_reason_stays_here(approvals):
    own = plan()
    asked(approvals, own)
    approvals.decide(own.session.hex(), "denied", OWN, WEBER, note="Mrs. Smith said no")
    with pytest.raises(PolicyRefusedError, match=DENIED) as caught:
        approvals.check(own)
    assert "Smith" not in f"{caught.value.message} {caught.value.remedy}"
    assert approvals.find(own.session.hex()).decisions[0].note == "Mrs. Smith said no"


def test_a_decision_may_be_taken_back(approvals):
    own = plan()
    asked(approvals, own)
    for decision in ("denied", "approved", "denied"):
        approvals.decide(own.session.hex(), decision, OWN, WEBER)
    with pytest.raises(PolicyRefusedError, match=DENIED):
        approvals.check(own)


# the time


def test_a_plan_that_nobody_decided_on_expires(approvals, clock):
    own = plan()
    asked(approvals, own)
    clock.now += EXPIRES
    approve(approvals, own)
    approvals.check(own)
    other = plan()
    asked(approvals, other)
    clock.now += EXPIRES + timedelta(seconds=1)
    with pytest.raises(ParameterError, match="has expired"):
        approve(approvals, other)
    asked(approvals, other)  # it asks anew
    approve(approvals, other)
    approvals.check(other)


@pytest.mark.parametrize("decision", ["approved", "denied"])
def test_a_decision_expires(approvals, clock, decision):
    own = plan()
    asked(approvals, own)
    approvals.decide(own.session.hex(), decision, OWN, WEBER)
    clock.now += EXPIRES + timedelta(seconds=1)
    asked(approvals, own)
    (run,) = approvals.runs()
    assert (run.decision, run.asked) == ("waits", clock.now.isoformat(timespec="seconds"))


# the folder


@pytest.mark.parametrize("wrong", ["", "*", "../../x", "ffffffff", "0123456", "g" * 8])
def test_a_plan_is_found_by_eight_digits_of_its_session(approvals, wrong):
    own = plan()
    asked(approvals, own)
    assert approvals.find(own.session.hex()[:8]).plan == own
    with pytest.raises(ParameterError):
        approvals.find(wrong)


def test_files_of_earlier_versions_are_passed_over(approvals):
    """They lay beside the folders, a file for each run, and were never signed."""
    own = plan()
    approvals.folder.mkdir()
    old = {"session": own.session.hex(), "approved": True, "algorithm": "fedpc"}
    for name in (f"{own.session.hex()}.json", "asked.json", "notes.txt"):
        (approvals.folder / name).write_text(json.dumps(old))
    (approvals.folder / "ab" / "deep").mkdir(parents=True)
    assert approvals.runs() == []
    asked(approvals, own)
    assert len(approvals.runs()) == 1


@pytest.mark.parametrize("content", [b"", b"row 17 holds Alice", b'{"plan": {}}', b"[]", b"\xff"])
def test_a_file_that_cannot_be_read_stops_the_site_without_its_text(approvals, content):
    own = plan()
    asked(approvals, own)
    path_of(approvals, own).write_bytes(content)
    with pytest.raises(SiteNotReadyError) as caught:
        approvals.check(own)
    assert "Alice" not in str(caught.value)


def test_files_are_private(approvals):
    own = plan()
    asked(approvals, own)
    assert path_of(approvals, own).stat().st_mode & 0o777 == 0o600
    assert path_of(approvals, own).parent.stat().st_mode & 0o777 == 0o700


def test_a_flood_of_runs_fills_no_disk_and_drops_no_waiting_one(approvals):
    for number in range(MAX_WAITING):
        approvals.clock.now += timedelta(seconds=1)
        asked(approvals, plan(seed=number))
    with pytest.raises(PolicyRefusedError, match=TOO_MANY_WAIT):
        approvals.check(plan(seed=MAX_WAITING))
    assert [run.plan.seed for run in approvals.runs()] == list(range(MAX_WAITING))
    # what a person decides on makes room
    approvals.decide(approvals.runs()[0].session, "denied", OWN, WEBER)
    asked(approvals, plan(seed=MAX_WAITING))


def test_long_plans_that_wait_fill_no_disk(approvals):
    """A number of two bytes takes a line of its own in the file: 50 such plans had a gigabyte."""
    zeros = {"evidence": "vote", "junk": [0] * 150_000}
    for number in range(6):
        with contextlib.suppress(PolicyRefusedError):
            approvals.check(plan(seed=number, parameters=zeros))
    stored = [path.stat().st_size for path in approvals.folder.glob("*/*")]
    assert 1 < len(stored) < 6
    assert sum(stored) <= MAX_WAITING_BYTES
    asked(approvals, plan(seed=MAX_WAITING))


def test_what_has_expired_is_forgotten_the_oldest_first(approvals, monkeypatch):
    monkeypatch.setattr("cipherdag.sites.policy.approvals.MAX_STORED_RUNS", 20)
    for number in range(23):
        approvals.clock.now += EXPIRES / 10
        asked(approvals, plan(seed=number))
    assert [run.plan.seed for run in approvals.runs()] == list(range(3, 23))


def test_what_was_decided_is_never_forgotten(approvals, monkeypatch):
    monkeypatch.setattr("cipherdag.sites.policy.approvals.MAX_STORED_RUNS", 5)
    decided = plan()
    asked(approvals, decided)
    approve(approvals, decided)
    for number in range(1, 9):
        approvals.clock.now += 2 * EXPIRES
        asked(approvals, plan(seed=number))
    assert [run.plan.seed for run in approvals.runs()] == [0, 5, 6, 7, 8]


def test_a_denial_outlives_any_number_of_other_runs(approvals, monkeypatch):
    monkeypatch.setattr("cipherdag.sites.policy.approvals.MAX_STORED_RUNS", 5)
    denied = plan()
    asked(approvals, denied)
    approvals.decide(denied.session.hex(), "denied", OWN, WEBER)
    for number in range(1, 9):
        approvals.clock.now += timedelta(seconds=1)
        asked(approvals, plan(seed=number))
    with pytest.raises(PolicyRefusedError, match=DENIED):
        approvals.check(denied)


# a whole run


def test_a_started_site_tells_of_each_plan_that_waits_once(approvals, clock):
    now = [0.0]
    news = waiting_plans(approvals, lambda: now[0])
    assert next(news) == []
    first, second = plan(), plan(seed=1)
    asked(approvals, first)
    assert next(news) == [], "it looks every few seconds only"
    now[0] += LOOK_S
    own = first.session.hex()[:8]
    (told,) = next(news)
    assert told == (
        f"A plan waits for a person here: run {own}, fedpc. Read it with `cipherdag site status`, "
        f'then `cipherdag site approve {own}`, or `cipherdag site deny {own} --why "..."`.'
    )
    asked(approvals, second)
    approvals.decide(own, "approved", OWN, WEBER)
    now[0] += LOOK_S
    (told,) = next(news)
    assert second.session.hex()[:8] in told
    now[0] += LOOK_S
    assert next(news) == []
    asked(approvals, third := plan(seed=2))
    clock.now += EXPIRES + timedelta(seconds=1)
    now[0] += LOOK_S
    assert next(news) == [], "what has expired waits for nobody"
    (approvals.folder / third.session.hex() / ASKED_FILE).write_bytes(b"{")
    now[0] += LOOK_S
    assert next(news) == [], "a torn file does not end the site"


# notice


def program(folder, text, mode=0o700):
    path = folder / "on-waiting"
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(mode)
    return path


def test_the_site_s_program_hears_once_of_a_plan_that_waits(approvals, tmp_path):
    notice = program(tmp_path, f'echo "$@" >> {tmp_path}/heard')
    own = plan()
    asked(approvals, own)
    looks = waiting_plans(approvals, lambda: next(times), notice=notice)
    times = iter(10.0 * k for k in range(9))
    assert [len(next(looks)) for _ in range(3)] == [1, 0, 0]
    assert (tmp_path / "heard").read_text("utf-8") == f"{own.session.hex()}\n"


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("exit 3", 0o700, "did not give notice"),
        ("exit 0", 0o600, "did not give notice"),
        ("exit 0", 0o722, "other users can change it"),
    ],
)
def test_a_program_that_cannot_give_notice_is_logged(approvals, tmp_path, caplog, text, mode, why):
    notice = program(tmp_path, text, mode)
    asked(approvals, plan())
    assert len(next(waiting_plans(approvals, notice=notice))) == 1
    assert why in caplog.text
