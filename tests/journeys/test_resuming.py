"""Runs that go on after a crash: of the coordinator always, of a site never with its old keys."""

import contextlib
import stat
import threading
import time
from pathlib import Path

import hospital_folders
import msgspec
import pytest
from adversary import CrashError, CrashingEngine, RecordingEngine
from click.testing import CliRunner
from driving import outcome_over
from site_logs import REASONS, refused

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.cli.main import cli
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.errors import (
    OutputError,
    ParameterError,
    RefusedError,
    ReplayError,
    SessionLostError,
    SiteNotReadyError,
    SiteUnreachableError,
)
from cipherdag.federation.checkpoint import StartedRun
from cipherdag.federation.connected import ConnectedFederation
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.flare_engine import ADDRESS_FILE, LocalSocket, ask
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import Ask, read_envelope
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.results.sentences import dropout_lines
from cipherdag.results.site_result import site_result

LOST = RefusedError.summary  # the coordinator hears no more of a round; the site's log does
FOUR = tuple(f"hospital-{k}" for k in range(4))


@pytest.fixture
def hospitals(tmp_path):
    made = hospital_folders.hospitals(tmp_path, names=FOUR)
    made.installed = True
    yield made
    made.close()


def last_reason():
    """Why a site refused last, as its own log has it."""
    return type(list(REASONS.values())[-1])


SUMS, CLOSED = FedPC(evidence="vote"), FedPC(evidence="vote", reveal="bits")


def learn(session, algorithm=SUMS):
    return outcome_over(session, algorithm).arcs.tobytes(), session.finish()


def questions(*engines):
    """Under which messages each question was asked, over all lives of the coordinator."""
    asked = {}
    for engine in engines:
        for operation, _, message in engine.sent:
            if operation == "ask":
                ask = decode(read_envelope(message).body, Ask)
                asked.setdefault(ask.content, set()).add(message)
    return asked


CRASHES = [
    *(
        ("sums", *own)
        for own in (
            ("masking", "invite", 1), ("masking", "offers", 1), ("masking", "sealed", 1),
            ("masking", "ask", 1), ("masking", "ask", 2), ("masking", "unmask", 2),
            ("masking", "finish", 1), ("bfv", "unmask", 2), ("bfv", "open", 2),
        )
    ),
    *(
        ("verdicts", *own)
        for own in (
            ("masking", "sealed", 1), ("masking", "ask", 1), ("masking", "ask", 2),
            *(("masking", "secure", count) for count in range(1, 6)), ("masking", "finish", 1),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("reveal", "protection", "operation", "count"), CRASHES)
def test_a_run_goes_on_where_its_coordinator_crashed(
    hospitals, tmp_path, reveal, protection, operation, count
):
    algorithm = {"sums": SUMS, "verdicts": CLOSED}[reveal]
    about = {"parameters": msgspec.to_builtins(algorithm), "protection": protection}
    reference = hospitals.session(hospitals.handlers(), **about)
    expected, _ = learn(reference, algorithm)
    hospitals.close()
    hospitals.forget()
    handlers = hospitals.handlers()
    path = tmp_path / "journal.jsonl"
    crashing = CrashingEngine(handlers, operation, count)
    first = hospitals.session(handlers, engine=crashing, journal=Journal(path), **about)
    with pytest.raises(CrashError):
        learn(first, algorithm)
    engine = RecordingEngine(handlers)
    second = hospitals.session(handlers, engine=engine, journal=Journal(path))
    found, closed = learn(second, algorithm)
    assert found == expected
    assert set(closed) == set(FOUR)
    if reveal == "verdicts":
        results = [site_result(folder) for folder in hospitals.folders.values()]
        assert len({len(own.finding.graph.edges) for own in results}) == 1
    assert second.dropouts == ()
    assert [r.aggregate for r in second.rounds] == [r.aggregate for r in reference.rounds]
    numbers = [r.number for r in reference.rounds]
    asked = questions(crashing, engine).values()
    signed = (operation, count) == ("secure", 4)  # holders are asked by the same bytes
    if reveal == "sums" or operation in ("sealed", "finish") or signed:
        # no site was asked a question twice under two digests
        assert [r.number for r in second.rounds] == numbers
        assert all(len(messages) == 1 for messages in asked)
    else:
        # a round of secure tests that was cut short is begun anew, as another attempt
        assert [r.number for r in second.rounds][-1] == numbers[-1] + 1
        assert sorted(map(len, asked)) == [1] * (len(numbers) - 1) + [2]
    sent, again = reference.bytes_sent_per_site, second.bytes_sent_per_site
    # of verdicts whoever deals sends more
    for names in [(name,) for name in FOUR] if reveal == "sums" else [FOUR]:
        assert sum(again[own] for own in names) >= 0.99 * sum(sent[own] for own in names)
    assert second._plan == first._plan
    assert path.stat().st_mode & 0o077 == 0


def test_a_coordinator_may_crash_in_every_round(hospitals, tmp_path):
    expected, _ = learn(hospitals.session(hospitals.handlers()))
    hospitals.close()
    hospitals.forget()
    handlers = hospitals.handlers()
    engines, found = [], None
    while found is None:
        # every life ends the round that the last one left, and crashes in the next
        engines.append(CrashingEngine(handlers, "ask", 2))
        session = hospitals.session(
            handlers, engine=engines[-1], journal=Journal(tmp_path / "journal.jsonl")
        )
        with contextlib.suppress(CrashError):
            found, _ = learn(session)
    assert found == expected
    assert len(engines) == len(session.rounds) > 3
    assert all(len(messages) == 1 for messages in questions(*engines).values())


def test_a_run_stopped_for_want_of_sites_goes_on_with_them(hospitals, tmp_path):
    handlers = hospitals.handlers()
    away = RecordingEngine(handlers)
    away.forge = lambda o, s, r: SiteFailure("timeout") if o == "ask" and s[-1] in "23" else r
    path = tmp_path / "journal.jsonl"
    with pytest.raises(SiteUnreachableError, match="2 of 4 sites remain"):
        learn(hospitals.session(handlers, engine=away, journal=Journal(path)))
    back = RecordingEngine(handlers)
    resumed = hospitals.session(handlers, engine=back, journal=Journal(path))
    _, closed = learn(resumed)
    assert set(closed) == set(FOUR)
    assert all(len(messages) == 1 for messages in questions(away, back).values())


@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_a_site_that_was_restarted_is_left_out_and_the_run_goes_on(hospitals, protection):
    handlers = hospitals.handlers()
    engine = RecordingEngine(handlers)
    session = hospitals.session(handlers, protection=protection, engine=engine)

    def restart(operation, site, message):
        if operation == "ask" and site == "hospital-2" and len(session.rounds) == 2:
            hospitals.restart(engine._handlers, site)
        return message

    engine.tamper = restart
    _, closed = learn(session)
    (left,) = session.dropouts
    assert (left.site, left.reason, left.n_sites, left.fewest) == ("hospital-2", LOST, 3, 3)
    assert last_reason() is SessionLostError
    assert set(closed) == set(FOUR) - {"hospital-2"}
    lines = dropout_lines(left)
    assert len(lines) == 4
    assert lines[0] == "Site 'hospital-2' left the run in round 3, before it sent its share."
    assert [line.split()[0] for line in lines[1:]] == ["cause", "effect", "do"]
    assert "3 sites remain, 3 are needed" in lines[1]
    assert session.rounds[2].left == (left,)


def crashed(hospitals, handlers, folder):
    """The journal of a run whose coordinator ended while it asked the second time."""
    journal, engine = folder / "journal.jsonl", CrashingEngine(handlers, "ask", 2)
    with pytest.raises(CrashError):
        learn(hospitals.session(handlers, engine=engine, journal=Journal(journal)))
    return journal


def test_a_site_is_left_out_where_the_coordinator_restarts_too(hospitals, tmp_path):
    handlers = hospitals.handlers()
    path = crashed(hospitals, handlers, tmp_path)
    hospitals.restart(handlers, "hospital-1")
    session = hospitals.session(handlers, journal=Journal(path))
    learn(session)
    assert [(left.site, left.reason) for left in session.dropouts] == [("hospital-1", LOST)]
    assert last_reason() is SessionLostError
    assert session.rounds[0].n_sites == 4
    assert {report.n_sites for report in session.rounds[1:]} == {3}


def test_with_three_sites_a_restarted_one_stops_the_run_and_says_why(tmp_path):
    hospitals = hospital_folders.hospitals(tmp_path)
    hospitals.installed = True
    handlers = hospitals.handlers()
    session = hospitals.session(handlers)
    session.open()
    hospitals.restart(handlers, "hospital-1")
    session._channel.engine = RecordingEngine(handlers)
    with pytest.raises(SessionLostError) as caught:  # as the site's log has it
        outcome_over(session, n_variables=5)
    assert isinstance(caught.value.__context__, SiteUnreachableError)
    assert LOST in caught.value.__context__.message
    assert caught.value.site == "hospital-1"
    hospitals.close()


def test_a_restarted_site_neither_answers_nor_reopens_its_session(hospitals):
    """Resuming at the site would need its masks on disk, or would use them twice."""
    handlers = hospitals.handlers()
    engine = CrashingEngine(handlers, "unmask", 2)
    with pytest.raises(CrashError):
        learn(hospitals.session(handlers, engine=engine))
    old = [(o, m) for o, site, m in engine.sent if site == "hospital-0"]
    hospitals.restart(handlers, "hospital-0")
    for operation, message in old:
        expected = ReplayError if operation == "invite" else SessionLostError
        assert refused(handlers["hospital-0"](operation, message)) is expected
    invite = next(m for o, m in old if o == "invite")
    forged = read_envelope(invite)
    stranger = encode(forged)[:-1] + bytes([encode(forged)[-1] ^ 1])
    assert refused(handlers["hospital-0"]("ask", stranger)) is not SessionLostError


def test_another_run_in_between_ends_the_first_one_for_good(hospitals, tmp_path):
    handlers = hospitals.handlers()
    path = crashed(hospitals, handlers, tmp_path)
    learn(hospitals.session(handlers))
    with pytest.raises(SessionLostError) as caught:
        learn(hospitals.session(handlers, journal=Journal(path)))
    assert isinstance(caught.value.__context__, SiteUnreachableError)
    assert LOST in caught.value.__context__.message


def test_a_journal_is_not_taken_up_over_other_sites(hospitals, tmp_path):
    handlers = hospitals.handlers()
    path = crashed(hospitals, handlers, tmp_path)
    for other in ({"names": FOUR[:3]}, {"protection": "bfv"}, {"algorithm": "fedcmfs"}):
        plan = hospitals.plan(**other)
        with pytest.raises(OutputError, match="of another plan"):
            hospitals.session(handlers, journal=Journal(path), plan=plan)


def test_the_folder_is_read_anew_for_every_run_and_not_within_one(hospitals):
    handlers = hospitals.handlers()
    first = hospitals.session(handlers)
    first.open()
    data = hospitals.folders["hospital-3"].path / "data.csv"
    kept = data.read_text()
    data.write_text("gone\n")
    outcome_over(first, n_variables=5)
    first.finish()
    with pytest.raises(Exception, match="not ready") as caught:
        hospitals.session(handlers).open()
    assert caught.value.site == "hospital-3"
    data.write_text(kept)
    assert hospitals.session(handlers).open() == 5


def test_the_keys_of_a_run_that_nobody_goes_on_with_are_forgotten(hospitals):
    handlers = hospitals.handlers()
    session = hospitals.session(handlers)
    session.open()
    kept = handlers["hospital-0"].__self__
    kept.forget_idle(60.0)
    assert kept._open._current.session
    kept.forget_idle(0.0)
    assert kept._open is None
    handlers.pop("hospital-1")
    session._channel.engine = RecordingEngine(handlers)
    with pytest.raises(SessionLostError) as caught:
        outcome_over(session, n_variables=5)
    assert isinstance(caught.value.__context__, SiteUnreachableError)


def test_the_private_halves_of_a_set_up_do_not_outlive_it(hospitals):
    handlers = hospitals.handlers()
    session = hospitals.session(handlers)
    session.open()
    runtime = handlers["hospital-0"].__self__._open
    assert runtime._current.set_up is None
    outcome_over(session, n_variables=5)
    session.finish()
    assert not runtime._current.session


# the socket between processes of one machine


def test_a_message_reaches_the_process_of_a_folder_and_returns(tmp_path):
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    message = bytes(range(256)) * 40_000
    with LocalSocket(folder, lambda operation, m: operation.encode() + m, most=8):
        assert ask(folder, "ask", message) == b"ask" + message
        assert ask(folder, "", b"") == b""
        address = folder / ADDRESS_FILE
        assert address.stat().st_mode & 0o777 == 0o600
        private = Path(address.read_text().split()[0]).parent
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert not address.exists()
    assert not private.exists()
    with pytest.raises(SiteNotReadyError, match="did not answer"):
        ask(folder, "ask", b"")


def test_what_fails_there_reaches_no_caller(tmp_path, caplog):
    def handler(operation, message):
        raise RuntimeError("row 17 holds Alice")

    with LocalSocket(tmp_path, handler, most=8):
        with pytest.raises(SiteNotReadyError) as caught:
            ask(tmp_path, "ask", b"x")
        with pytest.raises(SiteNotReadyError):
            ask(tmp_path, "x" * 65, b"x")
    assert "Alice" not in str(caught.value) + caught.value.remedy
    for _ in range(100):  # the caller is let go before the line is written
        if "Alice" in caplog.text:
            break
        time.sleep(0.1)
    assert "Alice" in caplog.text


def test_a_caller_that_asks_again_waits_for_the_answer_under_way(hospitals):
    """A coordinator that comes back while a site still computes must not lose the site."""
    handlers = hospitals.handlers()
    session = hospitals.session(handlers)
    session.open()
    kept = handlers["hospital-0"].__self__
    computing, release = threading.Event(), threading.Event()
    honest = kept._open.answer

    def slow(message):
        computing.set()
        release.wait(30)
        return honest(message)

    kept._open = type("Slow", (), {"answer": staticmethod(slow), "ledger": None})
    message = b"the same"
    with LocalSocket(hospitals.folders["hospital-0"].path, kept.handle, most=8):
        replies = []
        threads = [
            threading.Thread(
                target=lambda: replies.append(
                    ask(hospitals.folders["hospital-0"].path, "ask", message)
                )
            )
            for _ in range(2)
        ]
        threads[0].start()
        computing.wait(30)
        threads[1].start()
        release.set()
        for thread in threads:
            thread.join(30)
    assert len(replies) == 2
    assert replies[0] == replies[1]


# the run's folder and the commands


MEMBERS = [Member(name=name, identity=bytes([k]) * 32) for k, name in enumerate(FOUR)]


def started(folder, **changes):
    about = {"algorithm": "fedpc", "parameters": {"alpha": 0.05}, "protection": "masking"}
    StartedRun(make_plan(MEMBERS, **(about | changes)), source={}).write(folder)
    return StartedRun.read(folder)


def test_a_started_run_reads_back_as_the_algorithm_it_began_with(tmp_path):
    assert started(tmp_path).make_algorithm() == FedPC(alpha=0.05)
    assert (tmp_path / "started.json").stat().st_mode & 0o777 == 0o600
    for wrong in (
        {"algorithm": "magic"},
        {"parameters": {"beta": 1}},
        {"parameters": {"alpha": 7}},
    ):
        with pytest.raises(OutputError, match="does not know"):
            started(tmp_path, **wrong).make_algorithm()


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b'{"algorithm": "fedpc"}', b'{"plan": {}, "source": {}}', b"\xff"]
)
def test_a_folder_that_is_no_run_s_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "started.json").write_bytes(content)
    with pytest.raises(OutputError, match="not the folder of a run"):
        StartedRun.read(tmp_path)


def test_a_run_that_has_ended_is_not_resumed(tmp_path):
    started(tmp_path)
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(OutputError, match="has ended"):
        ConnectedFederation(CoordinatorFolder(tmp_path)).resume(tmp_path)


@pytest.mark.parametrize("command", [["run"], ["coordinator", "run"], ["simulate"]])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name what to run"),
        (["--resume", ".", "fedpc", "file.csv"], "name none"),
        (["--json", "fedpc", "file.csv"], "stand after its name"),
    ],
)
def test_resume_takes_the_place_of_an_algorithm(command, options, said):
    done = CliRunner().invoke(cli, [*command, *options])
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize("command", [["run"], ["coordinator", "run"]])
def test_resume_names_a_folder_under_runs(command, tmp_path):
    with pytest.raises(ParameterError, match="not under runs"):
        cli([*command, "--resume", str(tmp_path)], standalone_mode=False)
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    with pytest.raises(OutputError, match="not the folder of a run"):
        cli([*command, "--resume", str(folder)], standalone_mode=False)
