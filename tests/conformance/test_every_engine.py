"""What every engine does with messages, and what NVIDIA FLARE's does besides.

What the files engine does besides is in ``tests/protocol/test_files_engine.py``.

The FLARE cases run real processes over mutual TLS on the loopback interface. They are skipped
where the extra is not installed, unless CIPHERDAG_REQUIRE_FLARE is set.
"""

import contextlib
import os
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from files_share import Share
from waiting import wait_until

from cipherdag.errors import CohortError, SiteUnreachableError
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.protocol.engines.flare_engine import FlareEngine

SITES = ("site-1", "site-2", "site-3")
ASK = "invite"  # an operation that sites know
TIMEOUT_S = 60.0
SECRET = "the cell in row 7 is 42.125"


@dataclass
class Deployment:
    """Three sites whose own processes are this one, and a server of the coordinator."""

    study: Any
    engine: Any = None
    processes: dict[str, Any] = field(default_factory=dict)
    noticed: dict[str, list[Any]] = field(default_factory=dict)
    seen: dict[str, list[bytes]] = field(default_factory=lambda: {name: [] for name in SITES})
    release: threading.Event = field(default_factory=threading.Event)

    def start(self, site):
        noticed = self.noticed.setdefault(site, [])
        process = self.study.site(site, self.handler(site), noticed.append)
        self.processes[site] = process.__enter__()

    def handler(self, site):
        def handle(_operation, message):
            self.seen[site].append(message)
            if message == b"raise":
                raise RuntimeError(SECRET)
            if message == b"text":
                return "not bytes"
            if message == b"hang":
                self.release.wait()
            return site.encode() + b":" + message

        return handle


def require_flare():
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")


@pytest.fixture(scope="module")
def flare(tmp_path_factory):
    require_flare()
    from loopback import LoopbackStudy

    made = Deployment(LoopbackStudy.make(tmp_path_factory.mktemp("flare"), SITES))
    with contextlib.ExitStack() as up:
        up.enter_context(made.study.relay())
        for name in SITES:
            made.start(name)
            up.callback(lambda own=name: made.processes[own].__exit__())
        up.callback(made.release.set)
        made.engine = FlareEngine(made.study.coordinator, sites=SITES, start_s=TIMEOUT_S)
        yield made


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    with contextlib.ExitStack() as up:
        yield Share(tmp_path_factory.mktemp("files"), up, SITES)


@pytest.fixture(params=["local", "nvflare", "files"])
def engine(request):
    if request.param == "files":
        return request.getfixturevalue("files").engine
    if request.param == "nvflare":
        return request.getfixturevalue("flare").engine
    return LocalEngine({site: echo(site) for site in SITES})


def echo(site):
    return lambda _operation, message: site.encode() + b":" + message


# what every engine does


@pytest.mark.parametrize("message", [b"", b"\x00\xff" * 50_000, bytes(range(256))])
def test_every_site_gets_and_returns_the_same_bytes(engine, message):
    replies = engine.call(ASK, dict.fromkeys(SITES, message), timeout_s=TIMEOUT_S)
    assert replies == {site: site.encode() + b":" + message for site in SITES}


def test_every_site_gets_its_own_message_and_no_other_site_is_asked(engine):
    messages = {"site-1": b"one", "site-3": b"three"}
    replies = engine.call(ASK, messages, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": b"site-1:one", "site-3": b"site-3:three"}


def test_a_missing_site_fails_alone(engine):
    replies = engine.call(ASK, {"site-1": b"x", "site-9": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": b"site-1:x", "site-9": SiteFailure("unreachable")}


def test_a_hundred_megabytes_go_there_and_back(engine):
    message = os.urandom(1_000_000) * 100
    replies = engine.call(ASK, {"site-2": message}, timeout_s=300.0)
    assert replies == {"site-2": b"site-2:" + message}


# what a distributed engine does besides


def test_a_site_refuses_an_operation_that_it_does_not_know(flare):
    before = {site: len(flare.seen[site]) for site in SITES}
    replies = flare.engine.call("shell", dict.fromkeys(SITES, b"x"), timeout_s=TIMEOUT_S)
    assert replies == dict.fromkeys(SITES, SiteFailure("failed"))
    assert before == {site: len(flare.seen[site]) for site in SITES}
    for site in SITES:
        wait_until(lambda own=site: any("operation" in n.what for n in refusals(flare, own)))


def refusals(flare, site):
    return [notice for notice in flare.noticed[site] if getattr(notice, "refused", False)]


def test_a_reply_that_is_not_bytes_does_not_leave(flare):
    replies = flare.engine.call(ASK, {"site-1": b"text"}, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": SiteFailure("failed")}


def test_the_text_of_an_exception_stays_in_the_site_s_own_process(flare, caplog):
    asked = {"site-1": b"raise", "site-2": b""}
    replies = flare.engine.call(ASK, asked, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": SiteFailure("failed"), "site-2": b"site-2:"}
    assert SECRET in caplog.text
    files = [path for path in flare.study.folder.rglob("*") if path.is_file()]
    assert files
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


def test_a_hung_site_fails_alone_and_costs_the_next_round_nothing(flare):
    replies = flare.engine.call(ASK, {"site-3": b"hang"}, timeout_s=0.5)
    assert replies == {"site-3": SiteFailure("timeout")}
    replies = flare.engine.call(ASK, dict.fromkeys(SITES, b"x"), timeout_s=3600.0)
    assert replies["site-1"] == b"site-1:x"
    assert replies["site-3"] == SiteFailure("timeout")  # at once: it says that it is busy
    flare.release.set()
    wait_until(lambda: reached(flare, "site-3"))


def reached(flare, site):
    reply = flare.engine.call(ASK, {site: b"x"}, timeout_s=TIMEOUT_S)[site]
    return reply == site.encode() + b":x"


def test_a_coordinator_back_while_a_site_computes_gets_the_answer(flare):
    """Another run, as after a crash, waits for its turn; the run that gave up is not served."""
    flare.release.clear()
    assert call(flare, "site-1", b"hang", timeout_s=0.5) == {"site-1": SiteFailure("timeout")}
    assert call(flare, "site-1", b"x") == {"site-1": SiteFailure("timeout")}
    engine = FlareEngine(flare.study.coordinator, sites=SITES, start_s=TIMEOUT_S)
    answers: dict[str, Any] = {}
    again = threading.Thread(
        target=lambda: answers.update(engine.call(ASK, {"site-1": b"again"}, timeout_s=3600.0))
    )
    again.start()
    flare.release.set()
    again.join(TIMEOUT_S)
    assert answers == {"site-1": b"site-1:again"}
    wait_until(lambda: reached(flare, "site-1"))


def test_a_killed_site_fails_alone_and_is_reached_after_a_restart(flare):
    os.kill(flare.processes["site-2"].pid, 9)
    everyone = dict.fromkeys(SITES, b"x")
    for _ in range(2):
        # it is not waited for: the closed connection tells
        replies = flare.engine.call(ASK, everyone, timeout_s=3600.0)
        assert replies == {
            "site-1": b"site-1:x",
            "site-2": SiteFailure("unreachable"),
            "site-3": b"site-3:x",
        }
    flare.processes["site-2"].__exit__()
    flare.start("site-2")
    wait_until(lambda: reached(flare, "site-2"))
    replies = flare.engine.call(ASK, everyone, timeout_s=TIMEOUT_S)
    assert replies == {site: site.encode() + b":x" for site in SITES}


def test_a_site_that_dies_while_it_is_asked_fails_at_once(flare):
    flare.release.clear()
    asked = threading.Thread(target=lambda: answers.update(call(flare, "site-2", b"hang")))
    answers: dict[str, Any] = {}
    asked.start()
    wait_until(lambda: flare.seen["site-2"][-1:] == [b"hang"])
    os.kill(flare.processes["site-2"].pid, 9)
    asked.join(TIMEOUT_S)
    assert answers == {"site-2": SiteFailure("unreachable")}
    flare.release.set()
    flare.processes["site-2"].__exit__()
    flare.start("site-2")
    wait_until(lambda: reached(flare, "site-2"))


def call(flare, site, message, timeout_s=3600.0):
    return flare.engine.call(ASK, {site: message}, timeout_s=timeout_s)


def test_an_engine_needs_distinct_sites(flare):
    for sites in ((), ("site-1", "site-1")):
        with pytest.raises(CohortError):
            FlareEngine(flare.study.coordinator, sites=sites)


def test_a_server_that_does_not_run_is_said_to_be_not_started(tmp_path):
    require_flare()

    with pytest.raises(SiteUnreachableError, match="not started") as caught:
        FlareEngine(tmp_path, sites=SITES, start_s=0.0)
    assert f"coordinator start --dir {tmp_path}" in caught.value.remedy


def test_a_run_goes_on_with_the_sites_that_are_connected(flare):
    engine = FlareEngine(flare.study.coordinator, sites=(*SITES, "site-4"), start_s=0.0)
    replies = engine.call(ASK, {"site-1": b"x", "site-4": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": b"site-1:x", "site-4": SiteFailure("unreachable")}


def test_no_site_at_all_is_an_error(flare):
    with pytest.raises(SiteUnreachableError, match="no site is connected"):
        FlareEngine(flare.study.coordinator, sites=("site-8", "site-9"), start_s=0.0)
