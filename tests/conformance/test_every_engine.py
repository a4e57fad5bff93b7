"""What every engine does, and what a site under NVIDIA FLARE refuses a hostile server.

The FLARE cases run real processes over mutual TLS on the loopback interface. They are skipped
where the extra is not installed, unless CIPHERDAG_REQUIRE_FLARE is set.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loopback import free_port, loopback_kits

from cipherdag.errors import CohortError, ParameterError, SiteNotReadyError, SiteUnreachableError
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.local import LocalEngine
from cipherdag.protocol.engines.site_socket import SiteSocket

SITES = ("site-1", "site-2", "site-3")
EXECUTOR = "echo_site.EchoExecutor"
TIMEOUT_S = 60.0
TESTS = str(Path(__file__).parents[1] / "support")


@dataclass
class Deployment:
    folder: Path
    kits: dict[str, Any]
    processes: dict[str, Any]
    engine: Any

    def restart(self, site):
        from cipherdag.protocol.engines.nvflare_process import KitProcess

        self.processes[site] = KitProcess(self.kits[site], environment=environment())


def environment():
    found = [TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(found)}


def require_flare():
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")


@pytest.fixture(scope="module")
def flare(tmp_path_factory):
    """Three sites and a server whose own limits are lifted, as if the coordinator were hostile."""
    require_flare()
    from cipherdag.protocol.engines.nvflare import FlareEngine
    from cipherdag.protocol.engines.nvflare_process import KitProcess

    folder = tmp_path_factory.mktemp("flare")
    sites = {name: folder / "private" / name for name in SITES}
    for path in sites.values():
        path.mkdir(parents=True)
    kits = loopback_kits(folder / "kits", sites, port=free_port(), executor=EXECUTOR)
    lift_limits(kits["server"])
    processes: dict[str, Any] = {}
    try:
        for name in ("server", *SITES):
            processes[name] = KitProcess(kits[name], environment=environment())
        with FlareEngine(
            kits["coordinator"],
            sites=SITES,
            executor=EXECUTOR,
            start_s=120.0,
            probe_s=0.5,
            misses=2,
        ) as engine:
            yield Deployment(folder, kits, processes, engine)
    finally:
        for process in processes.values():
            process.stop()


def lift_limits(server):
    local = server.folder / "local"
    rights = {"format_version": "1.0", "permissions": {"lead": "any"}}
    (local / "authorization.json").write_text(json.dumps(rights))
    resources = json.loads((local / "resources.json").read_text())
    resources["class_allow_list"] = ["*"]
    (local / "resources.json").write_text(json.dumps(resources))


@pytest.fixture(params=["local", "nvflare"])
def engine(request):
    if request.param == "nvflare":
        return request.getfixturevalue("flare").engine
    return LocalEngine({site: echo(site) for site in SITES})


def echo(site):
    return lambda _operation, message: site.encode() + b":" + message


# what every engine does


@pytest.mark.parametrize("message", [b"", b"\x00\xff" * 50_000, bytes(range(256))])
def test_every_site_gets_and_returns_the_same_bytes(engine, message):
    replies = engine.call("echo", dict.fromkeys(SITES, message), timeout_s=TIMEOUT_S)
    assert replies == {site: site.encode() + b":" + message for site in SITES}


def test_every_site_gets_its_own_message_and_no_other_site_is_asked(engine):
    messages = {"site-1": b"one", "site-3": b"three"}
    replies = engine.call("echo", messages, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": b"site-1:one", "site-3": b"site-3:three"}


def test_a_missing_site_fails_alone(engine):
    replies = engine.call("echo", {"site-1": b"x", "site-9": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": b"site-1:x", "site-9": SiteFailure("unreachable")}


def test_a_hundred_megabytes_go_there_and_back(engine):
    message = os.urandom(1_000_000) * 100
    replies = engine.call("echo", {"site-2": message}, timeout_s=300.0)
    assert replies == {"site-2": b"site-2:" + message}


# what a distributed engine does besides


def test_a_site_refuses_an_operation_that_it_does_not_know(flare):
    replies = flare.engine.call("shell", dict.fromkeys(SITES, b"x"), timeout_s=TIMEOUT_S)
    assert replies == dict.fromkeys(SITES, SiteFailure("failed"))


def test_a_reply_that_is_not_bytes_does_not_leave(flare):
    replies = flare.engine.call("text", {"site-1": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": SiteFailure("failed")}


def test_the_text_of_an_exception_stays_in_the_site_s_own_folder(flare):
    from echo_site import SECRET

    replies = flare.engine.call("raise", {"site-1": b"x", "site-2": b""}, timeout_s=TIMEOUT_S)
    assert replies == dict.fromkeys(("site-1", "site-2"), SiteFailure("failed"))
    holders = {
        path.relative_to(flare.folder).as_posix()
        for path in flare.folder.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    }
    assert holders == {"private/site-1/site.log", "private/site-2/site.log"}


def test_a_hung_site_fails_alone_and_costs_the_next_round_nothing(flare):
    replies = flare.engine.call("hang", {"site-3": b"x"}, timeout_s=1.0)
    assert replies == {"site-3": SiteFailure("timeout")}
    started = time.monotonic()
    replies = flare.engine.call("echo", dict.fromkeys(SITES, b"x"), timeout_s=300.0)
    assert replies["site-1"] == b"site-1:x"
    assert replies["site-3"] == SiteFailure("timeout")
    assert time.monotonic() - started < 150.0
    (flare.folder / "private" / "site-3" / "release").touch()
    wait_until(lambda: flare.engine.call("echo", {"site-3": b"x"}, timeout_s=TIMEOUT_S)["site-3"])


def test_a_slow_site_is_waited_for_while_it_shows_that_it_lives(flare):
    # it is silent for longer than it takes to call a site dead that does not answer pings
    replies = flare.engine.call("slow", {"site-2": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"site-2": b"site-2:x"}


def test_what_the_site_s_own_process_holds_outlives_a_job(flare):
    """A coordinator that was restarted begins a new job, and meets the sites as it left them."""
    seen = []

    def kept(operation, message):
        seen.append(message)
        return b"%d messages" % len(seen)

    with SiteSocket(flare.folder / "private" / "site-1", kept):
        for number in (1, 2):
            replies = flare.engine.call("kept", {"site-1": b"x"}, timeout_s=TIMEOUT_S)
            assert replies == {"site-1": b"%d messages" % number}
        flare.engine._start_job()
        replies = flare.engine.call("kept", {"site-1": b"x"}, timeout_s=TIMEOUT_S)
        assert replies == {"site-1": b"3 messages"}
    replies = flare.engine.call("kept", {"site-1": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"site-1": SiteFailure("failed")}


def test_a_killed_site_fails_alone_and_is_reached_again_after_its_restart(flare):
    flare.processes["site-2"].kill()
    everyone = dict.fromkeys(SITES, b"x")
    started = time.monotonic()
    for _ in range(2):
        replies = flare.engine.call("echo", everyone, timeout_s=600.0)
        assert replies == {
            "site-1": b"site-1:x",
            "site-2": SiteFailure("unreachable"),
            "site-3": b"site-3:x",
        }
    assert time.monotonic() - started < 300.0
    flare.restart("site-2")
    wait_until(lambda: flare.engine.call("echo", {"site-2": b"x"}, timeout_s=TIMEOUT_S)["site-2"])
    replies = flare.engine.call("echo", everyone, timeout_s=TIMEOUT_S)
    assert replies == {site: site.encode() + b":x" for site in SITES}


def wait_until(reply, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not isinstance(reply(), bytes):
        assert time.monotonic() < deadline
        time.sleep(0.2)


# what a site refuses, whatever the server allows


def session_of(flare):
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    kit = flare.kits["coordinator"]
    return new_secure_session(kit.party.name, str(kit.folder), command_timeout=20.0)


def end_of(session, job):
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        status = session.get_job_status(job) or ""
        if status.startswith("FINISHED"):
            return status
        time.sleep(0.2)
    return "RUNNING"


def hostile_job(folder, executor):
    from cipherdag.protocol.engines.nvflare import write_job

    relay = {"start_s": 5.0, "probe_s": 1.0, "misses": 2}
    return write_job(folder / "cipherdag", SITES, executor=executor, relay=relay)


def test_a_site_deploys_no_job_that_carries_code(flare, tmp_path):
    job = hostile_job(tmp_path, EXECUTOR)
    (job / "site" / "custom").mkdir()
    marker = tmp_path / "ran"
    (job / "site" / "custom" / "echo_site.py").write_text(f"open({str(marker)!r}, 'w')\n")
    session = session_of(flare)
    try:
        assert end_of(session, session.submit_job(str(job))) == "FINISHED:FAILED_TO_RUN"
    finally:
        session.close()
    assert not marker.exists()
    assert not list(flare.kits["site-1"].folder.rglob("custom"))


def test_a_site_deploys_no_job_that_names_another_class(flare, tmp_path):
    job = hostile_job(tmp_path, "nvflare.app_common.executors.init_executor.InitExecutor")
    session = session_of(flare)
    try:
        assert end_of(session, session.submit_job(str(job))) == "FINISHED:FAILED_TO_RUN"
    finally:
        session.close()


def test_a_site_answers_no_shell_command(flare):
    session = session_of(flare)
    try:
        printed = str(session.api.do_command("cat site-1 log.txt"))
    finally:
        session.close()
    assert "invalid_request" in printed


def test_the_commands_that_a_site_keeps_exist_and_print_no_file():
    require_flare()
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    from cipherdag.protocol.engines.nvflare_site import CLIENT_COMMANDS, needed_commands

    known = ClientRequestProcessors.request_processors
    assert {type(command).__name__ for command in needed_commands(known)} == CLIENT_COMMANDS
    assert "ShellCommandProcessor" in {type(command).__name__ for command in known}
    assert "ShellCommandProcessor" not in CLIENT_COMMANDS


@pytest.mark.parametrize(
    "alter",
    [
        lambda app, text: (app / "custom").mkdir(),
        lambda app, text: (app / "config" / "more.json").write_text("{}"),
        lambda app, text: (app / "config" / "config_fed_client.json").write_text("{"),
        lambda app, text: (app / "config" / "config_fed_client.json").write_text("[" * 100_000),
        lambda app, text: (app / "config" / "config_fed_client.json").write_text(
            text.replace(EXECUTOR, "os.system")
        ),
        lambda app, text: (app / "config" / "config_fed_client.json").write_text(
            text.replace('"args": {}', '"args": {"x": 1}')
        ),
        lambda app, text: (app / "config" / "config_fed_client.json").write_text(
            text.replace('"components": []', '"components": [{"id": "x", "path": "os.system"}]')
        ),
    ],
)
def test_the_job_validator_accepts_one_job_only(tmp_path, alter):
    require_flare()
    from cipherdag.protocol.engines.nvflare_site import SiteJobValidator

    app = hostile_job(tmp_path, EXECUTOR) / "site"
    validator = SiteJobValidator(EXECUTOR)
    assert validator.validate(str(app)) == ("", {})
    alter(app, (app / "config" / "config_fed_client.json").read_text())
    error, _ = validator.validate(str(app))
    assert error


# kits


@pytest.fixture
def authority(tmp_path):
    require_flare()
    from cipherdag.protocol.engines.nvflare_kit import open_authority

    folder = tmp_path / "authority"
    return folder, open_authority(folder, project="study", host="localhost", port=8002)


def test_a_site_s_kit_allows_nothing_but_its_executor(authority, tmp_path):
    from cipherdag.protocol.engines import nvflare_kit as kits

    folder, fingerprint = authority
    party = kits.Party("north", "client", "hospital")
    private = tmp_path / "private"
    request = kits.request_kit(tmp_path / "north", party, project="study")
    signed = kits.approve_kit(folder, request)
    kit = kits.assemble_kit(
        tmp_path / "north", party, signed, fingerprint=fingerprint, site_folder=private
    )
    assert kits.Kit.load(kit.folder) == kit
    local = kit.folder / "local"
    rights = json.loads((local / "authorization.json").read_text())["permissions"]
    assert rights["lead"]["byoc"] == rights["lead"]["shell_commands"] == "none"
    assert rights["lead"]["operate"] == rights["project_admin"] == "none"
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["class_allow_list"] == [kits.SITE_EXECUTOR]
    assert resources["allow_log_streaming"] is False
    assert "Streamer" not in json.dumps(resources)
    assert str(private) not in json.dumps(resources)  # FLARE sends parts of it to the server
    server_side = [path for path in folder.rglob("*") if path.is_file()] + [request, signed]
    key = (kit.folder / "startup" / "client.key").read_bytes()
    assert len(key) > 100
    assert all(key not in path.read_bytes() for path in server_side)


def test_a_kit_of_another_authority_is_refused(authority, tmp_path):
    from cipherdag.protocol.engines import nvflare_kit as kits

    folder, fingerprint = authority
    party = kits.Party("north", "client", "hospital")
    request = kits.request_kit(tmp_path / "north", party, project="study")
    signed = kits.approve_kit(folder, request)
    wrong = fingerprint[:-2] + ("00" if fingerprint[-2:] != "00" else "11")
    with pytest.raises(SiteNotReadyError):
        kits.assemble_kit(
            tmp_path / "north", party, signed, fingerprint=wrong, site_folder=tmp_path
        )


def test_names_that_could_alter_a_command_are_refused(authority, tmp_path):
    from cipherdag.protocol.engines import nvflare_kit as kits

    for name in ("", "../up", "a b", "-x", "a\n", "x" * 65):
        with pytest.raises(ParameterError):
            kits.Party(name, "client", "hospital")
    with pytest.raises(ParameterError):
        kits.open_authority(tmp_path / "other", project="--help", host="localhost", port=1)


def test_an_engine_needs_distinct_sites(flare):
    from cipherdag.protocol.engines.nvflare import FlareEngine

    for sites in ((), ("site-1", "site-1")):
        with pytest.raises(CohortError):
            FlareEngine(flare.kits["coordinator"], sites=sites)


def test_a_server_that_refuses_the_job_says_so(flare):
    from cipherdag.protocol.engines.nvflare import FlareEngine

    with pytest.raises(SiteUnreachableError, match="the FLARE job ended at once"):
        FlareEngine(flare.kits["coordinator"], sites=SITES, start_s=30.0, executor="os.system")
