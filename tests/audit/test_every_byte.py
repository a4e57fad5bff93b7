"""The ledger is the whole truth: what leaves a site, captured on its way, is there to the byte."""

import hashlib
from collections import Counter
from dataclasses import replace

import hospital_folders
import pytest
from adversary import Ward, silence, votes
from departures import Leaving
from trials import departing

from cipherdag.errors import CipherdagError, OutputError
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.messages import Finish, read_envelope
from cipherdag.protocol.plan import make_plan
from cipherdag.protocol.session import Session
from cipherdag.sites.record.ledger import read_releases, verify_ledger

TRIALS = departing()
LEFT = "site-2"


class Captured(Leaving):
    """Keeps every reply of every site as it comes out of the site's one door."""

    def __init__(self, handlers, *gone, **options):
        self.left = {name: [] for name in handlers}
        watched = {name: self._watched(name, handle) for name, handle in handlers.items()}
        super().__init__(watched, *gone, **options)

    def _watched(self, name, handle):
        def watching(operation, message):
            reply = handle(operation, message)
            self.left[name].append(reply)
            return reply

        return watching


def assert_whole(lines, left):
    """Every reply is one record, in its order, with its length and its digest."""
    verify_ledger(lines)
    records = read_releases(lines)
    assert [own.bytes for own in records] == [len(reply) for reply in left]
    assert [own.content for own in records] == [hashlib.sha256(r).hexdigest() for r in left]
    assert sum(own.bytes for own in records) == sum(map(len, left))
    return records


def carried_out(name, protection, *gone, **options):
    """A trial's run, and all that left its sites; its sites' ledgers are read in any case."""
    algorithm, federation = TRIALS[name]
    engines, ledgers = [], {}

    def wire(handlers):
        # the ledgers of a run that fails are nowhere but at the sites
        for site, handle in handlers.items():
            ledgers[site] = handle.args[0].ledger
        engines.append(Captured(handlers, *gone, **options))
        return engines[0]

    own = replace(federation, wire=wire, protection=protection)
    result, error = None, None
    try:
        result = own.run(algorithm, seed=1)
    except CipherdagError as failed:
        error = failed
    for site, ledger in ledgers.items():
        assert_whole(ledger.lines, engines[0].left[site])
    return result, error, engines[0]


@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
@pytest.mark.parametrize("name", TRIALS)
def test_every_byte_of_a_run_stands_in_the_ledger(name, protection):
    result, error, engine = carried_out(name, protection)
    assert error is None
    for site, left in engine.left.items():
        assert result.bytes_sent_per_site[site] == sum(map(len, left))
        own = result.releases[result.releases["site"] == site]
        assert own["bytes"].sum() == sum(map(len, left))
        assert (own["question"] != "").sum() >= len(result.rounds)


@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
@pytest.mark.parametrize("operation", ["ask", "unmask", "finish"])
@pytest.mark.parametrize("after", [False, True])
def test_every_byte_stands_there_where_a_site_leaves(protection, operation, after):
    """What it sent before, and what the coordinator did not hear of, too."""
    number = 1 if operation == "finish" else 2
    for name in ("fedpc weighted_p", "fedpc fisher", "rfcd nodewise"):
        _, _, engine = carried_out(name, protection, operation, number, after=after, site=LEFT)
        assert engine.heard[operation] >= number
        kinds = Counter(read_envelope(r).topic for own in engine.left.values() for r in own)
        if (protection, operation) == ("masking", "unmask"):
            assert kinds["recovered"] > 0


@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
def test_refusals_and_repeats_are_records_like_any_other(protection):
    ward = Ward(protection, n_sites=4)
    left = {name: [] for name in ward.runtimes}
    honest = ward.engine.call

    def call(operation, messages, *, timeout_s):
        replies = honest(operation, messages, timeout_s=timeout_s)
        for site, reply in replies.items():
            left[site].append(reply)
        return replies

    ward.engine.call = call
    ward.session.open()
    ward.session.ask(votes())
    for operation, site, message in list(ward.engine.sent):
        for own in (message, message[:-1] + b"x", b"", message):
            left[site].append(ward.runtimes[site].handle(operation, own))
    silence(ward, "hospital-3", "unmask")
    ward.session.ask(votes(0.02))
    ward.session.finish()
    for site, runtime in ward.runtimes.items():
        for operation in ("ask", "finish", "share", "?"):
            left[site].append(runtime.handle(operation, ward.message("finish", Finish(rounds=9))))
        records = assert_whole(ward.ledgers[site].lines, left[site])
        assert {"refusal", "repeat"} < {own.kind for own in records}
        assert all(own.values == 0 for own in records if own.kind in ("refusal", "repeat"))


def test_what_leaves_sites_folders_is_whole_over_restarts(tmp_path):
    made = hospital_folders.hospitals(tmp_path)
    left = {name: [] for name in made.folders}
    handlers = made.handlers()

    class Watching(LocalEngine):
        def call(self, operation, messages, *, timeout_s):
            # a handler is looked up anew, since a site may have been restarted
            replies = {s: handlers[s](operation, m) for s, m in messages.items()}
            for site, reply in replies.items():
                left[site].append(reply)
            return replies

    first = made.session(handlers, engine=Watching({}))
    first.open()
    first.ask(votes())
    made.restart(handlers, "hospital-1")
    with pytest.raises(CipherdagError):
        first.ask(votes(0.02))
    first = made.session(handlers, engine=Watching({}))
    first.open()
    first.finish()
    with pytest.raises(CipherdagError):
        first.open()  # the session was opened before
    data = made.folders["hospital-2"].path / "data.csv"
    honest = data.read_bytes()
    data.write_text("gone\n")
    with pytest.raises(CipherdagError):
        made.session(handlers, engine=Watching({})).open()
    data.write_bytes(honest)
    last = made.session(handlers, engine=Watching({}))
    last.open()
    last.ask(votes())
    last.finish()
    for name, folder in made.folders.items():
        assert_whole(folder.ledger_path.read_text("utf-8").splitlines(), left[name])
    made.close()


# a ledger that cannot be written


@pytest.mark.parametrize("operation", ["invite", "offers", "sealed", "ask", "unmask", "finish"])
def test_nothing_leaves_a_site_whose_ledger_cannot_be_written(monkeypatch, operation):
    ward = Ward(n_sites=4)
    broken = ward.ledgers["hospital-3"]
    honest, full = broken.append, []

    def append(**record):
        if full:
            raise OutputError("No space left on device")
        return honest(**record)

    monkeypatch.setattr(broken, "append", append)
    call = ward.engine.call

    def watching(own, messages, *, timeout_s):
        full.extend([True] * (own == operation))
        return call(own, messages, timeout_s=timeout_s)

    ward.engine.call = watching
    try:
        ward.session.open()
        ward.session.ask(votes())
        ward.session.finish()
    except CipherdagError:
        assert operation in ("invite", "offers", "sealed")
    else:
        assert [left.site for left in ward.session.dropouts] == ["hospital-3"]
    told = [(o, r) for o, site, r in ward.engine.received if site == "hospital-3"]
    after = [reply for own, reply in told[[own for own, _ in told].index(operation) :]]
    assert set(after) == {b""}
    # nor is it said by the same message again, once there is room: that would be no repetition
    full.clear()
    before = len(broken.lines)
    (message,) = {m for o, s, m in ward.engine.sent if (o, s) == (operation, "hospital-3")}
    again = ward.runtimes["hospital-3"].handle(operation, message)
    assert len(broken.lines) == before + 1
    assert read_releases(broken.lines)[-1].kind != "repeat"
    assert read_releases(broken.lines)[-1].bytes == len(again)


def test_a_run_of_any_other_session_is_told_apart():
    """Records name their session, so that a run's bytes can be added up alone."""
    ward = Ward.opened()
    one = ward.session._plan.session.hex()
    other = make_plan(ward.session._plan.cohort, algorithm="fedpc", protection="masking")
    Session(ward.engine, ward.coordinator, other).open()
    for ledger in ward.ledgers.values():
        sessions = [own.session for own in read_releases(ledger.lines)]
        assert sessions == [one] * 3 + [other.session.hex()] * 3
