"""One way into a site: a message is opened once, and refused for the first reason of the list."""

import hashlib
import shutil

import msgspec
import pytest
from adversary import RecordingEngine, Ward, refused, votes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from site_logs import why

from cipherdag.cli.programs.site_status import site_state, status_lines
from cipherdag.errors import (
    CohortError,
    MalformedMessageError,
    OutputError,
    PolicyRefusedError,
    ReplayError,
    SessionLostError,
    SignatureError,
    SiteNotReadyError,
)
from cipherdag.privacy.key_graph import KeyBounds
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol import messages
from cipherdag.protocol.messages import (
    OPERATIONS,
    REPLIES,
    Finish,
    Refusal,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.plan import Member
from cipherdag.protocol.site_log import log_into
from cipherdag.protocol.states import SET_UP
from cipherdag.sites.policy.approvals import Approvals, Person
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import read_releases
from cipherdag.sites.session.runtime import SiteRuntime

NAME = "hospital-0"
STRANGER = SigningIdentity.generate()


def coordinator_s(hospitals, topic, body, session, key=None):
    key = key or hospitals.coordinator
    return seal_envelope(key, session=session, sender="coordinator", topic=topic, body=body)


def invited(hospitals, plan=None, key=None):
    """The message that opens a plan's session."""
    plan = plan or hospitals.plan()
    return coordinator_s(hospitals, "invite", plan, plan.session, key)


def malformed(message, key):
    """The same message with a body cut short, signed all the same."""
    envelope = read_envelope(message)
    body = envelope.body[:-2]
    parts = messages._signed_parts(envelope.session, envelope.sender, envelope.topic, body)
    signature = key.sign(*parts)
    return encode(msgspec.structs.replace(envelope, body=body, signature=signature))


def about(number):
    """The question of a step, and where in the run it is asked."""
    return votes(0.01 * number), {"number": number, "step": number}


def ask(hospitals, session, number):
    """The request for a step, and the sum of the step before."""
    question, where = about(number)
    return hospitals.scripts.asking(session._plan, question, previous=session._previous, **where)


def approvals(folder):
    """The plans that asked at a site."""
    return Approvals(folder.runs, folder.identity().public)


def approve(folder, plan):
    """A person of the site approves a plan."""
    approvals(folder).decide(plan.session.hex(), "approved", folder.identity(), Person("A. Weber"))


def limited(hospitals, **policy):
    """The hospitals, one of which has another policy."""
    text = Policy(**({"approve_runs": "automatic", "reveal": "sums"} | policy)).dumps()
    hospitals.folders[NAME].policy_path.write_text(text)
    return hospitals


def run(hospitals, handlers, engine=None, rounds=1):
    session = hospitals.session(handlers, engine=engine)
    session.open()
    for number in range(1, rounds + 1):
        session.ask(about(number)[0])
    return session


def text(reply):
    return decode(read_envelope(reply).body, Refusal).message


def test_every_operation_has_a_reply_and_no_other_topic_is_one():
    assert set(REPLIES) == OPERATIONS
    assert not set(REPLIES.values()) & OPERATIONS


@pytest.mark.parametrize("restarts", [False, True])
def test_a_site_reads_and_verifies_every_message_once(hospitals, monkeypatch, restarts):
    handlers = hospitals.handlers()
    engine = RecordingEngine({NAME: handlers[NAME]})
    run(hospitals, handlers, RecordingEngine({**handlers, NAME: recording(handlers, engine)}))
    opened, verified = [], []
    read, verify = messages.read_envelope, messages.verify

    def counted_read(message, *topic):
        opened.append(message)
        return read(message, *topic)

    def counted_verify(public, *parts):
        verified.append(public)
        verify(public, *parts)

    monkeypatch.setattr(messages, "read_envelope", counted_read)
    monkeypatch.setattr(messages, "verify", counted_verify)
    if restarts:
        hospitals.restart(handlers, NAME)
    for operation, _, message in engine.sent:
        opened.clear()
        verified.clear()
        handlers[NAME](operation, message)
        assert opened.count(message) == 1
        assert verified.count(hospitals.coordinator.public) == 1
    assert {operation for operation, _, _ in engine.sent} == OPERATIONS - {
        "recover", "open", "secure", "finish", "commitments", "chances", "linked"
    }  # fmt: skip


def recording(handlers, engine):
    def handle(operation, message):
        engine.sent.append((operation, NAME, message))
        return handlers[NAME](operation, message)

    return handle


def test_a_run_goes_on_while_a_coordinator_asks_in_vain(hospitals):
    """However much it varies what is refused: messages that have an answer have it at any time."""
    handlers = hospitals.handlers()
    about = [coordinator_s(hospitals, "finish", Finish(n), bytes([n]) * 16) for n in range(200)]
    replies = [handlers[NAME]("finish", message) for message in about + about[:1] * 200]
    assert replies[0]
    assert set(replies[100:200]) == {b""}
    assert set(replies[200:]) == {replies[0]}
    lines = hospitals.folders[NAME].ledger_path.read_text("utf-8").splitlines()
    assert len(lines) < 60
    run(hospitals, handlers)


# the reasons in their order: a message at fault in two ways is refused for the first


def test_an_unknown_operation_comes_before_all_else(hospitals):
    handle = hospitals.handler(NAME)
    for message in (b"", coordinator_s(hospitals, "share", Finish(rounds=1), bytes(16))):
        reply = handle("share", message)
        assert refused(reply) is ReplayError
        assert text(reply) == "this site knows no such operation"


@pytest.mark.parametrize("key", [STRANGER, None])
def test_the_turn_comes_before_what_is_wrong_with_the_message(hospitals, key):
    handle = hospitals.handler(NAME)
    honest = coordinator_s(hospitals, "unmask", Finish(rounds=1), bytes(16), key)
    for message in (honest, honest[:-1], b""):
        for operation in OPERATIONS - {"invite"}:
            assert refused(handle(operation, message)) is ReplayError
        assert refused(handle("invite", message)) is MalformedMessageError


def test_a_stranger_hears_only_that_a_session_exists(hospitals):
    handlers = hospitals.handlers()
    session = run(hospitals, handlers)
    second, own = ask(hospitals, session, 2), session._plan.session
    asked = coordinator_s(hospitals, "ask", second, own, STRANGER)
    assert refused(handlers[NAME]("ask", asked)) is SignatureError
    other = coordinator_s(hospitals, "ask", second, b"x" * 16)
    assert refused(handlers[NAME]("ask", other)) is SignatureError
    body = malformed(coordinator_s(hospitals, "ask", second, own), hospitals.coordinator)
    assert refused(handlers[NAME]("ask", body)) is MalformedMessageError


@pytest.mark.parametrize("change", ["none", "stranger", "no body"])
def test_another_session_is_refused_after_form_and_before_signature(change):
    ward = Ward.opened()
    key = STRANGER if change == "stranger" else ward.coordinator
    message = ward.message("unmask", Finish(rounds=1), key=key, session=b"x" * 16)
    if change == "no body":
        message = malformed(message, key)
    reply = ward.runtimes[NAME].handle("unmask", message)
    assert refused(reply) is SignatureError
    assert why(reply) == "the message belongs to another session or sender"
    assert text(reply) == ""
    for operation, bytes_ in (("open", message), ("unmask", message[:-1])):
        assert refused(ward.runtimes[NAME].handle(operation, bytes_)) is MalformedMessageError


def test_lost_keys_are_said_to_the_coordinator_before_the_turn(hospitals):
    handlers = hospitals.handlers()
    session = run(hospitals, handlers)._plan.session
    hospitals.restart(handlers, NAME)
    for key, error in ((STRANGER, SignatureError), (None, SessionLostError)):
        message = coordinator_s(hospitals, "finish", Finish(rounds=1), session, key)
        assert refused(handlers[NAME]("finish", message)) is error
    cut = malformed(message, hospitals.coordinator)
    assert refused(handlers[NAME]("finish", cut)) is SessionLostError


def test_the_day_s_limit_comes_after_lost_keys_and_not_for_strangers(hospitals):
    """What a step costs the day is known once the site derived its question."""
    handlers = limited(hospitals, max_rounds_per_day=1).handlers()
    session = run(hospitals, handlers)
    request, own = ask(hospitals, session, 2), session._plan.session
    second = coordinator_s(hospitals, "ask", request, own)
    reply = handlers[NAME]("ask", second)
    assert refused(reply) is PolicyRefusedError
    assert "max_rounds_per_day" in why(reply)
    assert text(reply) == ""
    unsigned = coordinator_s(hospitals, "ask", request, own, STRANGER)
    assert refused(handlers[NAME]("ask", unsigned)) is SignatureError
    cut = malformed(second, hospitals.coordinator)
    assert refused(handlers[NAME]("ask", cut)) is MalformedMessageError
    hospitals.restart(handlers, NAME)
    assert refused(handlers[NAME]("ask", second)) is SessionLostError
    assert refused(handlers[NAME]("ask", unsigned)) is SignatureError
    assert refused(handlers[NAME]("ask", cut)) is SessionLostError


def test_a_step_that_was_refused_today_is_answered_tomorrow(hospitals):
    handlers = limited(hospitals, max_rounds_per_day=1).handlers()
    session = run(hospitals, handlers)
    own = session._plan.session
    second = coordinator_s(hospitals, "ask", ask(hospitals, session, 2), own)
    for _ in range(2):
        assert refused(handlers[NAME]("ask", second)) is PolicyRefusedError
    another_sum = msgspec.structs.replace(ask(hospitals, session, 2), previous=b"")
    reply = handlers[NAME]("ask", coordinator_s(hospitals, "ask", another_sum, own))
    assert refused(reply) is ReplayError
    site = handlers[NAME].__self__._open
    site._admission.folder.daily.clock = lambda: "2999-01-01"
    assert read_envelope(handlers[NAME]("ask", second)).topic == "share"


def test_an_answer_of_the_day_is_repeated_at_any_limit_of_the_day(hospitals):
    handlers = limited(hospitals, max_rounds_per_day=1).handlers()
    engine = RecordingEngine(handlers)
    session = run(hospitals, handlers, engine)
    (asked,) = [m for o, site, m in engine.sent if (o, site) == ("ask", NAME)]
    (share,) = [r for o, site, r in engine.received if (o, site) == ("ask", NAME)]
    request = ask(hospitals, session, 2)
    second = coordinator_s(hospitals, "ask", request, read_envelope(asked).session)
    assert refused(handlers[NAME]("ask", second)) is PolicyRefusedError
    assert handlers[NAME]("ask", asked) == share


def test_revoked_sites_come_first_then_a_person_then_the_session(hospitals):
    folder = hospitals.folders[NAME]
    limited(hospitals, approve_runs="manual")
    everyone = hospitals.study.sites
    plan = hospitals.plan()
    hospitals.pin(sites=everyone[:2], revoked=("hospital-2",), version=2, min_sites=2)
    site = hospitals.open(NAME)
    message = invited(hospitals, plan)
    assert refused(site.handle("invite", message)) is CohortError
    assert approvals(folder).runs() == []
    hospitals.pin(sites=everyone, revoked=(), version=3)
    hospitals.close()
    site = hospitals.open(NAME)
    assert refused(site.handle("invite", message)) is PolicyRefusedError
    (asked,) = approvals(folder).runs()
    assert asked.session == plan.session.hex()
    approve(folder, plan)
    assert read_envelope(site.handle("invite", message)).topic == "offer"
    other = msgspec.structs.replace(plan, algorithm="fedcmfs")
    again = coordinator_s(hospitals, "invite", other, plan.session)
    assert refused(site.handle("invite", again)) is MalformedMessageError
    assert refused(site.handle("invite", invited(hospitals, other))) is PolicyRefusedError
    approve(folder, other)
    assert read_envelope(site.handle("invite", invited(hospitals, other))).topic == "offer"
    decided = approvals(folder).find(plan.session.hex())
    limited(hospitals, approve_runs="manual", approvers=2)  # the approval of one counts no more
    reply = site.handle("invite", message)
    assert (refused(reply), text(reply)) == (ReplayError, "the session was opened before")
    assert approvals(folder).find(plan.session.hex()) == decided, "who approved it stays"
    shutil.rmtree(folder.runs)
    reply = site.handle("invite", message)
    assert (refused(reply), text(reply)) == (ReplayError, "the session was opened before")


def test_nobody_is_asked_to_approve_what_the_policy_forbids_anyway(hospitals):
    folder = hospitals.folders[NAME]
    limited(hospitals, approve_runs="manual", algorithms=frozenset())
    message = invited(hospitals)
    reply = hospitals.handler(NAME)("invite", message)
    assert "does not allow 'fedpc'" in text(reply)
    assert approvals(folder).runs() == []


def test_ten_thousand_invented_sites_are_refused_uncomputed(hospitals, monkeypatch):
    """Bounds of a graph of keys over so many sites took a minute, before anybody looked at them."""

    def computed(*_):
        raise AssertionError("the plan is computed with")

    invented = tuple(Member(f"x-{number}", number.to_bytes(32, "big")) for number in range(10_000))
    plan = hospitals.plan()
    plan = msgspec.structs.replace(plan, cohort=plan.cohort + invented, min_survivors=9_000)
    handler = hospitals.handler(NAME)
    monkeypatch.setattr(KeyBounds, "fewest", computed)
    monkeypatch.setattr(SiteRuntime, "_program", computed)
    reply = handler("invite", invited(hospitals, plan))
    assert (refused(reply), "'x-0'" in text(reply)) == (CohortError, True)
    assert approvals(hospitals.folders[NAME]).runs() == []


def test_a_folder_that_fails_a_check_is_refused_by_name_alone(hospitals, caplog):
    folder = hospitals.folders[NAME]
    limited(hospitals, approve_runs="manual")
    (folder.runs / "ab").mkdir()
    (folder.runs / "ab" / "asked.json").write_text("row 17 holds Alice")
    message = invited(hospitals)
    handle = hospitals.handler(NAME)
    reply = handle("invite", message)
    assert (refused(reply), text(reply)) == (SiteNotReadyError, "")
    assert "is not a run that asked" in caplog.text
    shutil.rmtree(folder.runs)
    folder.runs.write_text("not a folder")
    reply = handle("invite", message)
    assert (refused(reply), text(reply)) == (OutputError, "")


# a site that is not ready, or no longer the one that was started


def test_a_site_that_is_not_ready_says_nothing_else_to_anybody(hospitals):
    (hospitals.folders[NAME].path / "data.csv").write_text("gone\n")
    handle = hospitals.handler(NAME)
    invite = invited(hospitals)
    unsigned = invited(hospitals, key=STRANGER)
    messages_, known = (b"", invite, unsigned), "the site is not ready; its own log says why"
    in_rounds = OPERATIONS - set(SET_UP)
    early = {handle(o, m) for o in (*SET_UP, "share") for m in messages_}
    assert {*map(text, early)} == {known}
    late = {handle(o, m) for o in in_rounds for m in messages_}
    said = {bytes(read_envelope(reply).body) for reply in late}
    assert said == {encode(Refusal(error="RefusedError", message=""))}
    ledger = hospitals.folders[NAME].ledger_path.read_text("utf-8").splitlines()
    assert {own.kind for own in read_releases(ledger)} == {"refusal"}
    assert len(ledger) == len(early | late)  # what leaves again is counted


def test_a_site_whose_study_got_another_coordinator_answers_neither(hospitals, caplog):
    handlers = hospitals.handlers()
    run(hospitals, handlers).finish()
    old, new = hospitals.coordinator, SigningIdentity.generate()
    hospitals.coordinator = new
    hospitals.pin(coordinator=new.public)
    for key in (new, old):
        message = invited(hospitals, key=key)
        error = SiteNotReadyError if key is old else SignatureError
        assert refused(handlers[NAME]("invite", message)) is error
    assert "another coordinator" in caplog.text


def test_a_run_that_goes_on_is_not_idle_however_old_the_process(hospitals, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("cipherdag.sites.session.serving.time.monotonic", lambda: now[0])
    handlers = hospitals.handlers()
    kept = handlers[NAME].__self__
    now[0] = 90_000.0
    session = run(hospitals, handlers)
    kept.forget_idle(86_400.0)
    session.ask(about(2)[0])
    now[0] += 86_401.0
    kept.forget_idle(86_400.0)
    message = coordinator_s(hospitals, "finish", Finish(rounds=2), session._plan.session)
    assert refused(handlers[NAME]("finish", message)) is SessionLostError


def test_a_refused_invite_leaves_the_session_as_it_is():
    ward = Ward.opened()
    other = msgspec.structs.replace(ward.session._plan, algorithm="unknown")
    message = ward.message("invite", other, session=other.session)
    assert refused(ward.runtimes[NAME].handle("invite", message)) is PolicyRefusedError
    ward.session.ask(votes())


def test_a_signature_covers_everything_and_the_body_by_its_digest():
    envelope = read_envelope(invited(None, plan=Ward().session._plan, key=STRANGER))
    parts = (
        b"cipherdag envelope",
        (10).to_bytes(2, "big"),
        envelope.session,
        b"coordinator",
        b"invite",
        hashlib.sha256(envelope.body).digest(),
    )
    signed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    Ed25519PublicKey.from_public_bytes(STRANGER.public).verify(envelope.signature, signed)


STEERING = "\x1b[2J\nrun 00000000  approved " + "x" * 100_000


@pytest.mark.parametrize("field", ["algorithm", "created", "name", "alpha"])
def test_a_refused_plan_leaves_one_short_plain_line_anywhere(hospitals, field):
    plan, folder = (
        limited(hospitals, parameters=["alpha 0.01..0.05"]).plan(),
        hospitals.folders[NAME],
    )
    stranger = msgspec.structs.replace(plan.cohort[0], name=STEERING, identity=b"x" * 32)
    changes = {
        "name": {"cohort": (*plan.cohort, stranger)},
        "alpha": {"parameters": {**plan.parameters, "alpha": STEERING}},
    }
    lying = msgspec.structs.replace(plan, **changes.get(field, {field: STEERING}))
    log_into(folder.log_path)
    assert refused(hospitals.handlers()[NAME]("invite", invited(hospitals, lying)))
    (line,) = folder.ledger_path.read_text("utf-8").splitlines()
    (record,) = read_releases([line])
    assert (record.algorithm + record.question).isprintable()
    status = "\n".join(status_lines(site_state(folder)))
    for text in (line, folder.log_path.read_text("utf-8"), status):
        assert len(text) < 10_000
        assert "\x1b" not in text
        assert "\nrun 00000000" not in text
