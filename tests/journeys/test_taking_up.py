"""A run that outlasts the process of a site: after a restart it holds the same keys again."""

import json

import hospital_folders
import msgspec
import pytest
from adversary import CrashError, CrashingEngine, RecordingEngine
from driving import outcome_over

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.audit.auditing import site_ledger
from cipherdag.errors import RefusedError, SessionLostError, SiteUnreachableError
from cipherdag.privacy.secrecy import drawn, fresh_bytes, recorded, repeated
from cipherdag.protocol.journal import Journal
from cipherdag.results.site_result import site_result
from cipherdag.sites.record.ledger import REPEAT, read_releases
from cipherdag.sites.record.run_record import Answered, SessionLog

SUMS, CLOSED = FedPC(evidence="vote"), FedPC(evidence="vote", reveal="bits")
SHORT = FedPC(evidence="vote", max_cond_size=0)
KINDS = [(SUMS, "masking"), (SHORT, "bfv"), (CLOSED, "masking")]


@pytest.fixture
def hospitals(tmp_path):
    made = hospital_folders.hospitals(tmp_path)
    made.installed = made.resumable = True
    yield made
    made.close()


def about(algorithm, protection):
    return {"parameters": msgspec.to_builtins(algorithm), "protection": protection}


def learn(session, algorithm):
    return outcome_over(session, algorithm).arcs.tobytes(), session.finish()


def restarting(hospitals, handlers, *, when):
    """An engine where sites restart before a message, or after one whose reply is lost."""
    engine = RecordingEngine(handlers)

    def restart(operation, site, message):
        if when(operation, site):
            engine._handlers[site](operation, message)  # its answer is lost
            hospitals.restart(engine._handlers, site)
        return message

    engine.tamper = restart
    return engine


@pytest.mark.parametrize(("algorithm", "protection"), KINDS)
def test_every_site_may_be_killed_at_every_message(hospitals, algorithm, protection):
    reference = hospitals.session(hospitals.handlers(), **about(algorithm, protection))
    expected, _ = learn(reference, algorithm)
    hospitals.close()
    hospitals.forget()
    engine = restarting(hospitals, hospitals.handlers(), when=lambda _operation, _site: True)
    session = hospitals.session(engine._handlers, engine=engine, **about(algorithm, protection))
    found, closed = learn(session, algorithm)
    assert found == expected
    assert set(closed) == set(hospital_folders.NAMES)
    assert session.dropouts == ()
    assert [r.aggregate for r in session.rounds] == [r.aggregate for r in reference.rounds]
    for folder in hospitals.folders.values():
        lines, _ = site_ledger(folder)
        kinds = [release.kind for release in read_releases(lines)]
        assert REPEAT in kinds
        assert site_result(folder).finding.graph is not None


@pytest.mark.parametrize(("algorithm", "protection"), KINDS)
def test_a_site_killed_before_it_wrote_answers_anew(hospitals, algorithm, protection, monkeypatch):
    """Nothing left: what was drawn for that answer is drawn afresh."""
    expected, _ = learn(
        hospitals.session(hospitals.handlers(), **about(algorithm, protection)), algorithm
    )
    hospitals.close()
    hospitals.forget()
    handlers, engine = hospitals.handlers(), None
    add, killed = SessionLog.add, []

    def kill(session_log, answered):
        if session_log.path.parent.name == "hospital-1" and answered.operation not in killed:
            killed.append(answered.operation)
            raise CrashError
        add(session_log, answered)

    def again(operation, site, message):
        try:
            engine._handlers[site](operation, message)
        except CrashError:
            hospitals.restart(engine._handlers, site)
        return message

    monkeypatch.setattr(SessionLog, "add", kill)
    engine = RecordingEngine(handlers)
    engine.tamper = again
    session = hospitals.session(handlers, engine=engine, **about(algorithm, protection))
    found, _ = learn(session, algorithm)
    assert found == expected
    assert {"offers", "sealed", "ask"} <= set(killed)


def test_coordinator_and_sites_may_all_be_killed(hospitals, tmp_path):
    expected, _ = learn(hospitals.session(hospitals.handlers(), **about(CLOSED, "masking")), CLOSED)
    hospitals.close()
    hospitals.forget()
    handlers = hospitals.handlers()
    path = tmp_path / "journal.jsonl"
    for operation, count in (
        ("invite", 1),
        ("offers", 1),
        ("sealed", 1),
        ("ask", 2),
        ("secure", 2),
        ("finish", 1),
    ):
        engine = CrashingEngine(handlers, operation, count)
        session = hospitals.session(
            handlers,
            engine=engine,
            journal=Journal(path),
            **(about(CLOSED, "masking") if operation == "invite" else {}),
        )
        with pytest.raises(CrashError):
            learn(session, CLOSED)
        for name in hospital_folders.NAMES:
            hospitals.restart(handlers, name)
    found, _ = learn(hospitals.session(handlers, journal=Journal(path)), CLOSED)
    assert found == expected


def test_after_the_end_no_key_of_the_run_lies_at_a_site(hospitals):
    handlers = hospitals.handlers()
    session = hospitals.session(handlers, **about(SUMS, "masking"))
    n_variables = session.open()
    kept = hospitals.folders["hospital-0"].session_path
    assert kept.stat().st_mode & 0o077 == 0
    drawn_then = {
        draw for line in kept.read_bytes().splitlines()[1:] for draw in json.loads(line)["draws"]
    }
    assert drawn_then
    outcome_over(session, SUMS, n_variables)
    session.finish()
    opened, last = map(json.loads, kept.read_bytes().splitlines())
    assert opened["type"] == "opened"
    assert (last["operation"], last["draws"]) == ("finish", [])


@pytest.mark.parametrize("changed", ["data.csv", "policy.toml", "session.jsonl"])
def test_what_changed_in_between_ends_the_run_at_that_site(hospitals, changed, caplog):
    handlers = hospitals.handlers()
    engine = RecordingEngine(handlers)
    session = hospitals.session(handlers, engine=engine, **about(SUMS, "masking"))
    n_variables = session.open()
    folder = hospitals.folders["hospital-1"]
    with (folder.path / changed).open("a") as file:
        file.write("\n" if changed != "session.jsonl" else "{}\n")
    hospitals.restart(handlers, "hospital-1")
    engine._handlers = handlers
    assert "the run that was under way is lost" in caplog.text
    assert not folder.session_path.exists()
    with pytest.raises((SessionLostError, SiteUnreachableError, RefusedError)):
        outcome_over(session, SUMS, n_variables)


def test_a_site_that_answers_otherwise_now_loses_the_run(hospitals, caplog, monkeypatch):
    """As with another version of a package: the draws are the same, and the answer is not."""
    handlers = hospitals.handlers()
    engine = CrashingEngine(handlers, "ask", 2)
    session = hospitals.session(handlers, engine=engine, **about(SUMS, "masking"))
    with pytest.raises(CrashError):
        learn(session, SUMS)
    kept = SessionLog(hospitals.folders["hospital-1"].session_path)
    files, answered = kept.read()
    kept.begin(files)
    for said in answered:
        other = said if said.operation != "ask" else msgspec.structs.replace(said, reply=b"another")
        kept.add(other)
    hospitals.restart(handlers, "hospital-1")
    assert "does not come out any more" in caplog.text
    assert not kept.path.exists()


def test_a_line_that_a_crash_cut_short_did_not_leave(tmp_path):
    kept = SessionLog(tmp_path / "session.jsonl")
    said = Answered("ask", b"message", (b"draw",), b"reply")
    kept.begin([(1, 2)])
    kept.add(said)
    with kept.path.open("ab") as file:
        file.write(b'{"type":"answered","operation":"unm')
    assert kept.read() == (((1, 2),), [said])
    kept.add(said)
    assert kept.read() == (((1, 2),), [said, said])
    assert "draw" not in repr(said).replace("draws", "")


def test_what_was_drawn_is_repeated_in_order_and_no_more():
    draws: list[bytes] = []
    with recorded(draws):
        first = fresh_bytes(16), drawn(lambda: b"a key of a library"), fresh_bytes(8)
    assert draws == list(first)
    with repeated(draws):
        assert (fresh_bytes(16), drawn(bytes), fresh_bytes(8)) == first
        with pytest.raises(SessionLostError, match="ends early"):
            fresh_bytes(1)
    assert fresh_bytes(16) != first[0]
