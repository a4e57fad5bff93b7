"""The process that carries a site's messages: kept from files, seen in status and ledger."""

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from waiting import wait_until

from cipherdag.cli.programs.site_status import site_state, status_lines
from cipherdag.deployment import certificates, engine_checks, processes
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.engine_checks import (
    EngineRecord,
    engine_address,
    recorder,
    separation_checks,
)
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.errors import SiteNotReadyError
from cipherdag.privacy.wire import encode
from cipherdag.protocol.engines.channel import Notice, Started
from cipherdag.protocol.engines.engine_process import EngineDoor, EngineProcess, serve
from cipherdag.protocol.engines.flare_site import CONNECTED, LOST, NOT_ADMITTED
from cipherdag.protocol.site_log import log_into
from cipherdag.results.sentences import release_history
from cipherdag.sites.record.ledger import ledger_lines, read_releases, verify_ledger
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings

NOBODY = 65534


@pytest.fixture
def enrolled(tmp_path):
    """One enrolled and activated site of a study whose server nobody started."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    _, site = activated(tmp_path, host="localhost")
    site.data_path(site.settings()).write_text("a,b\n1,2\n")
    return site


def activated(folder, *, host):
    """A coordinator at a host, and its one site."""
    from loopback import free_port

    address = {"host": host, "port": free_port()}
    coordinator = CoordinatorFolder.create(folder / "c", study="study", **address)
    site = SiteFolder.create(folder / "north", SiteSettings(name="north"))
    approvals = coordinator.approve([request_enrolment(site)[0]])
    activate(site, approvals["north"], code=coordinator.fingerprint)
    return coordinator, site


def test_check_starts_the_process_and_says_what_guards_the_files(enrolled):
    (finding,) = separation_checks(enrolled)
    assert finding.state == "ok"
    assert "landlock" in finding.finding
    assert "cannot open this site's files" in finding.finding
    assert not enrolled.engine_path.exists(), "a check records no start"


def test_check_warns_where_nothing_keeps_it(enrolled, monkeypatch):
    """As on a kernel without Landlock, with one user."""
    free = EngineRecord(started="now", user=os.getuid(), opened=("/site/data.csv",))
    monkeypatch.setattr(engine_checks, "_tried", lambda _: free)
    (finding,) = engine_checks.separation_checks(enrolled)
    assert finding.state == "warn"
    assert "nothing keeps it from /site/data.csv" in finding.finding
    assert "docs/roles/it.md" in finding.fix


def test_a_start_stands_in_the_ledger_and_refusals_in_the_status(enrolled, caplog):
    kept = KeptSite(enrolled.path)
    record = recorder(enrolled, kept.record_start)
    address = engine_address(enrolled, enrolled.study())
    assert "PRIVATE KEY" in address.key.decode()
    assert "PRIVATE KEY" not in repr(address)
    with (
        contextlib.closing(kept),
        EngineProcess(address, kept.handle, record, console=enrolled.path / "engine.log"),
    ):
        record(Notice("a command of FLARE", 3, refused=True))
        record(Notice("a\x1b[31m false " + "x" * 500, 1, refused=True))
    lines = ledger_lines(enrolled.ledger_path.read_text())
    verify_ledger(lines, identity=enrolled.identity().public.hex())
    (start,) = read_releases(lines)
    assert (start.kind, start.values, start.bytes) == ("engine-start", 0, 0)
    assert "landlock" in start.question
    state = site_state(enrolled)
    assert state["refused"].startswith("4 times, last a[31m false xxx")
    assert "\x1b" not in state["refused"]
    assert len(state["refused"]) < 200
    said = "\n".join(status_lines(state))
    assert "the kernel (seccomp and landlock)" in said
    assert "refused a command of FLARE" in caplog.text


def served_by(enrolled, messages):
    """What is left of an engine's connection after it has said some things; whether it is cut."""
    from multiprocessing import Pipe

    with contextlib.closing(KeptSite(enrolled.path)) as kept:
        own, theirs = Pipe()
        serving = threading.Thread(
            target=serve, args=(own, kept.handle, recorder(enrolled, kept.record_start))
        )
        serving.start()
        with theirs:
            for message in messages:
                theirs.send_bytes(message)
            cut = theirs.poll(5.0)
        serving.join(20.0)
        assert not serving.is_alive()
    return cut


def test_a_notice_that_cannot_be_recorded_ends_the_process(enrolled, caplog):
    """The site would look started, and answer nothing."""
    enrolled.engine_path.write_text("{")
    assert served_by(enrolled, [encode(Notice("a command", 1, refused=True))])
    assert "engine.json cannot be read" in caplog.text


def test_news_of_a_connection_is_printed_where_the_site_was_started(enrolled):
    said = []
    record = recorder(enrolled, lambda _: None, said.append)
    for what in (CONNECTED, LOST, CONNECTED, NOT_ADMITTED):
        record(Notice(what, 1, refused=False))
    record(Notice("a server whose certificate is not the coordinator's", 7, refused=True))
    assert said == [
        "Connected to the coordinator.",
        "The connection to the coordinator is lost; connecting again.",
        f"{NOT_ADMITTED[:1].upper()}{NOT_ADMITTED[1:]}",
        "Refused: a server whose certificate is not the coordinator's.",
    ]


def test_the_same_refusal_again_and_again_is_one_line_of_the_log(enrolled):
    log_into(enrolled.log_path)
    said = [encode(Notice("a command", times, refused=True)) for times in range(1, 16)]
    assert not served_by(enrolled, said)
    logging.getLogger("cipherdag").handlers[-1].close()  # which says how often it came
    lines = enrolled.log_path.read_text().splitlines()
    first, more = [line.partition(" WARNING ")[2] for line in lines if "a command" in line]
    assert first == "refused a command"
    assert more.startswith("14 times more in ")
    assert EngineRecord.load(enrolled.engine_path).refused == sum(range(1, 16))


def test_the_console_of_the_process_holds_no_secret(enrolled):
    console = enrolled.path / "engine.log"
    address = engine_address(enrolled, enrolled.study())
    with EngineProcess(address, lambda *_: b"", lambda _: None, console=console) as process:
        assert console.stat().st_mode & 0o077 == 0
        line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        known = Path(f"/proc/{process.pid}/environ").read_bytes()
    secret = b"".join(address.key.split(b"\n")[1:-2])
    assert len(secret) > 100
    for content in (line, known, console.read_bytes()):
        assert secret[:40] not in content


def test_a_site_without_a_certificate_says_what_to_do(tmp_path):
    site = SiteFolder.create(tmp_path / "north", SiteSettings(name="north"))
    with pytest.raises(SiteNotReadyError, match="no certificate") as caught:
        engine_address(site, None)
    assert "cipherdag site request" in caught.value.remedy


def test_a_coordinator_may_be_reached_at_an_address_instead_of_a_name(tmp_path):
    """TLS compares an address with addresses, and FLARE takes no name whose parts are equal."""
    pytest.importorskip("nvflare", reason="needs the extra 'flare'")

    coordinator, site = activated(tmp_path, host="127.0.0.1")
    ended = threading.Event()
    server = threading.Thread(
        target=processes.serve, args=(coordinator,), kwargs={"stopped": ended.wait}
    )
    server.start()
    heard = []
    try:
        with EngineProcess(
            engine_address(site, site.study()),
            lambda *_: b"",
            heard.append,
            console=site.path / "engine.log",
        ):
            wait_until(lambda: any("connected to" in getattr(own, "what", "") for own in heard))
    finally:
        ended.set()
        server.join()


def test_an_expired_certificate_is_named_before_the_site_starts(enrolled):
    """The server says no word to it: TLS closes the connection."""
    from cryptography import x509

    asked = certificates.request_certificate(
        certificates.load_key(enrolled.tls_key), site="north", organisation="site"
    )
    folder = enrolled.path.parent / "c"
    chain = certificates.certify_site(folder, x509.load_pem_x509_csr(asked), days=0)
    enrolled.tls_chain.write_bytes(chain)
    with pytest.raises(SiteNotReadyError, match="the certificate expired"):
        engine_address(enrolled, enrolled.study())


def test_a_torn_record_is_named(tmp_path):
    path = tmp_path / "engine.json"
    path.write_text("{")
    with pytest.raises(SiteNotReadyError, match="cannot be read"):
        EngineRecord.load(path)
    EngineRecord(refused=2).save(path)
    assert json.loads(path.read_text())["refused"] == 2
    assert EngineRecord.load(path).refused == 2


CONNECTS = """
import encodings.ascii, hmac, os, resource, sys, sysconfig
sysconfig.get_path("stdlib")  # before it may not read where Python lies
from pathlib import Path
from cipherdag.protocol.engines import flare_site
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
flare_site.serve(flare_site.connect(Path(sys.argv[1])))
"""


def test_a_process_of_another_user_connects_by_the_door_and_its_token(enrolled):
    heard = []
    folder = Path(tempfile.mkdtemp(prefix="door-"))
    folder.chmod(0o750)
    try:
        with EngineDoor(folder, engine_address(enrolled, None), lambda *_: b"", heard.append):
            assert (folder / "token").stat().st_mode & 0o777 == 0o640
            assert (folder / "door").stat().st_mode & 0o777 == 0o660
            token = (folder / "token").read_text()
            if os.getuid() == 0:
                for path in (folder, folder / "door", folder / "token"):
                    shutil.chown(path, group=NOBODY)
            (folder / "token").write_text("00" * 32)
            code = CONNECTS.format(nobody=NOBODY)
            wrong = subprocess.run(
                [sys.executable, "-c", code, folder], capture_output=True, text=True, check=False
            )
            assert "AuthenticationError" in wrong.stderr, wrong.stderr
            wait_until(lambda: any(getattr(own, "refused", False) for own in heard))
            (folder / "token").write_text(token)
            right = subprocess.run(
                [sys.executable, "-c", code, folder], capture_output=True, text=True, check=False
            )
            assert (right.returncode, right.stderr) == (0, "")
            wait_until(lambda: any(isinstance(own, Started) for own in heard))
    finally:
        shutil.rmtree(folder)
    (started,) = (own for own in heard if isinstance(own, Started))
    assert started.separation.opened == ()
    assert started.separation.user == (NOBODY if os.getuid() == 0 else os.getuid())


def test_a_start_is_a_sentence_of_its_own_among_what_left(enrolled):
    kept = KeptSite(enrolled.path)
    kept.record_start("kept from this site's files by the kernel's landlock")
    kept.close()
    lines = ledger_lines(enrolled.ledger_path.read_text())
    heading, line = release_history(read_releases(lines))
    assert heading.startswith("Outside a run, ")
    assert line == (
        "  A start of the process that carries messages; nothing left: kept from this site's "
        "files by the kernel's landlock."
    )
