"""Onboarding for the PySyft engine, without PySyft: files, settings, and a site that stands by."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import hospital_folders
import msgspec
import pytest
from commands import call
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.engine_checks import datasite_checks
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.deployment.site_process import start
from cipherdag.deployment.study_engine import open_datasite_engine
from cipherdag.errors import (
    CohortError,
    ParameterError,
    PolicyRefusedError,
    ReplayError,
    SignatureError,
    SiteNotReadyError,
    SiteUnreachableError,
)
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.addresses import check_datasite_url
from cipherdag.protocol.replay import Replay
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.private_files import START_LOCK, locked
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.site_folder import DatasiteSettings, SiteFolder, SiteSettings
from cipherdag.sites.study.study import Request, check_request, new_request
from cipherdag.sites.study.study_files import read_file, write_file

PORTS = {"north": 8101, "south": 8102, "west": 8103}


def settings(name, port=None, **changes):
    port = port or PORTS[name]
    own = DatasiteSettings(url=f"http://127.0.0.1:{port}", port=port, python=sys.executable)
    return SiteSettings(name=name, datasite=own, device="cpu", **changes)


@pytest.fixture
def enrolled(tmp_path):
    """A coordinator and three activated sites, made without FLARE or PySyft."""
    coordinator = CoordinatorFolder.create(tmp_path / "coordinator", study="study", engine="syft")
    sites = {name: SiteFolder.create(tmp_path / name, settings(name)) for name in PORTS}
    requests = [request_enrolment(site)[0] for site in sites.values()]
    approvals = coordinator.approve(requests)
    for name, site in sites.items():
        activate(site, approvals[name], code=coordinator.fingerprint)
    return coordinator, sites, approvals


# addresses and settings


@given(st.text(max_size=60))
def test_an_address_is_https_or_loopback_or_refused(text):
    try:
        check_datasite_url(text)
    except ParameterError:
        return
    assert text.startswith(("https://", "http://127.", "http://[::1]"))
    assert "@" not in text


def test_settings_read_back_and_name_their_fault(tmp_path):
    made = settings("north")
    path = tmp_path / "site.toml"
    path.write_text(made.dumps(), encoding="utf-8")
    assert SiteSettings.load(path) == made
    faults = {
        'url = "http://127.0.0.1:8101"': 'url = "http://site.example"',
        "port = 8101": "port = 8102",  # not the one that the address names
        f"python = {json.dumps(sys.executable)}": 'python = ""',
        "[datasite]": "[datasite]\nfurther = 1",
    }
    for right, wrong in faults.items():
        assert made.dumps().count(right) == 1
        path.write_text(made.dumps().replace(right, wrong), encoding="utf-8")
        with pytest.raises(SiteNotReadyError, match=r"site\.toml is not valid"):
            SiteSettings.load(path)
    for text in ("datasite = 1", '[datasite]\nurl = "https://site.example"', "[datasite]\nport=1"):
        path.write_text(f'name = "north"\n{text}\n', encoding="utf-8")
        with pytest.raises(SiteNotReadyError, match="datasite"):
            SiteSettings.load(path)


# the files that travel


def test_nothing_secret_travels_and_the_study_pins_the_calls_key(enrolled):
    coordinator, sites, approvals = enrolled
    key = SigningIdentity.load(coordinator.path / "keys" / "datasites.pem")
    for name, site in sites.items():
        study = site.study()
        assert study.engine == "syft"
        assert bytes.fromhex(study.root) == key.public
        assert key.public != study.coordinator
        assert read_file(site.path / f"{name}.request", Request).datasite.endswith(str(PORTS[name]))
        assert not site.tls_key.exists()
    travelled = b"".join(path.read_bytes() for path in approvals.values())
    travelled += b"".join((site.path / f"{n}.request").read_bytes() for n, site in sites.items())
    assert b"PRIVATE KEY" not in travelled
    private = [p for p in coordinator.path.rglob("*.pem") if b"PRIVATE KEY" in p.read_bytes()]
    assert {path.name for path in private} == {"identity.pem", "datasites.pem"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in private)


def test_the_fingerprint_covers_the_calls_key(enrolled, tmp_path):
    """Who replaces the key in an approval has another fingerprint than the one read aloud."""
    coordinator, sites, _ = enrolled
    before = coordinator.fingerprint
    (coordinator.path / "root").write_text(SigningIdentity.generate().public.hex() + "\n")
    late = SiteFolder.create(tmp_path / "late", settings("late", 8104))
    approvals = coordinator.approve([request_enrolment(late)[0]])
    with pytest.raises(SignatureError, match="not from the coordinator with this code"):
        activate(late, approvals["late"], code=before)
    with pytest.raises(SignatureError):
        activate(sites["north"], approvals["north"], code=before)


def test_an_altered_address_breaks_the_request_s_proof(enrolled):
    coordinator, sites, _ = enrolled
    path = sites["north"].path / "north.request"
    path.write_text(path.read_text().replace("127.0.0.1:8101", "127.0.0.1:9999"))
    with pytest.raises(SignatureError, match="not signed by the identity key"):
        coordinator.read_request(path)


def test_a_request_in_the_clear_or_without_an_address_is_refused(enrolled, tmp_path):
    coordinator, _, _ = enrolled
    about = {
        "name": "late",
        "organisation": "site",
        "study": "study",
        "certificate_request": b"",
        "versions": {},
    }
    for url in ("http://site.example", "ftp://127.0.0.1"):
        with pytest.raises(ParameterError, match="neither https nor loopback"):
            check_request(new_request(SigningIdentity.generate(), **about, datasite=url))
    bare = new_request(SigningIdentity.generate(), **about)
    write_file(tmp_path / "late.request", bare)
    with pytest.raises(ParameterError, match="names no Datasite") as caught:
        coordinator.read_request(tmp_path / "late.request")
    assert caught.value.site == "late"


def test_a_site_that_moves_sends_a_new_request_and_no_study_changes(enrolled):
    coordinator, sites, _ = enrolled
    before = coordinator.study()
    moved = settings("north", 9101).dumps()
    sites["north"].settings_path.write_text(moved, encoding="utf-8")
    coordinator.approve([request_enrolment(sites["north"])[0]])
    assert coordinator.study() == before
    kept = read_file(coordinator.path / "sites" / "north.request", Request)
    assert kept.datasite == "http://127.0.0.1:9101"


def test_a_site_for_the_other_engine_is_told_so(enrolled, tmp_path):
    coordinator, sites, approvals = enrolled
    plain = SiteSettings(name="north").dumps()
    sites["north"].settings_path.write_text(plain, encoding="utf-8")
    with pytest.raises(SiteNotReadyError, match="engine is 'syft', site.toml is made for 'flare'"):
        activate(sites["north"], approvals["north"], code=coordinator.fingerprint)


def test_a_revoked_site_is_in_no_study_and_not_enrolled_again(enrolled):
    coordinator, sites, _ = enrolled
    approvals = coordinator.revoke("west")
    assert set(approvals) == {"north", "south"}
    done = activate(sites["north"], approvals["north"], code=coordinator.fingerprint)
    assert done.removed == ("west",)
    assert done.study.revoked == ("west",)
    with pytest.raises(PolicyRefusedError, match="was revoked"):
        coordinator.read_request(sites["west"].path / "west.request")
    with pytest.raises(SignatureError, match="is for 'north', not for 'west'"):
        activate(sites["west"], approvals["north"], code=coordinator.fingerprint)


# commands


def test_the_commands_of_both_sides(tmp_path, capsys, monkeypatch):
    own = tmp_path / "coordinator"
    new = ("coordinator", "new", "--study", "study", "--dir", own)
    assert call(capsys, monkeypatch, *new)[0] == 2  # FLARE needs a host
    assert call(capsys, monkeypatch, *new, "--engine", "syft", "--host", "localhost")[0] == 2
    code, out, _ = call(capsys, monkeypatch, *new, "--engine", "syft")
    assert (code, "fingerprint" in out) == (0, True)
    code, _, err = call(capsys, monkeypatch, "coordinator", "start", "--dir", own)
    assert (code, "no server to start" in err) == (2, True)
    site = tmp_path / "north"
    new = ("site", "new", "north", "--algorithm", "fedpc", "--dir", site)
    new += ("--datasite", "http://127.0.0.1:8101")
    assert call(capsys, monkeypatch, *new)[0] == 2  # and --pysyft
    assert call(capsys, monkeypatch, *new, "--pysyft", sys.executable)[0] == 0
    assert SiteFolder(site).settings().datasite.python == sys.executable
    code, out, _ = call(capsys, monkeypatch, "site", "request", "--dir", site)
    assert (code, "fingerprint" in out) == (0, True)
    code, _, err = call(capsys, monkeypatch, "site", "start", "--dir", site)
    assert (code, "not activated" in err) == (4, True)
    code, out, _ = call(capsys, monkeypatch, "site", "check", "--json", "--dir", site)
    rows = {row["check"]: row for row in json.loads(out)}
    assert code == 4  # there are no data, and no PySyft
    assert "nvflare" not in rows["versions"]["finding"]
    assert rows["PySyft"]["state"] == "fail"
    assert "docs/engines/pysyft.md" in rows["PySyft"]["fix"]
    assert not {"DNS", "TLS", "port"} & set(rows)


def test_a_run_where_pysyft_is_missing_is_named(enrolled, capsys, monkeypatch):
    coordinator, _, _ = enrolled
    with pytest.raises(SiteNotReadyError, match="PySyft is not installed here"):
        open_datasite_engine(coordinator.path, coordinator.study())
    run = ("coordinator", "run", "fedpc", "--purpose", "a test", "--dir", coordinator.path)
    code, _, err = call(capsys, monkeypatch, *run)
    assert code == 4
    assert "constraints-syft.txt" in err


def test_a_site_whose_environment_is_not_pysyft_s_does_not_start(enrolled):
    _, sites, _ = enrolled
    made = hospital_folders.adversary.patients(100, 0)

    made.to_csv(sites["north"].path / "data.csv", index=False)
    schema = infer_schema([made]).dumps()
    (sites["north"].path / "schema.toml").write_text(schema, encoding="utf-8")
    with pytest.raises(SiteNotReadyError, match="Datasite did not start"):
        start(sites["north"], stopped=lambda _: True)
    assert not (sites["north"].path / "keys" / "datasites.pem").exists()


class StandingDatasite:
    """A Datasite in place of PySyft's: it runs for as long as the test wants."""

    running = True

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("idle_s", [0.0, 60.0])
def test_a_site_behind_a_datasite_forgets_the_keys_of_an_idle_run(tmp_path, monkeypatch, idle_s):
    from cipherdag.deployment import site_process
    from cipherdag.protocol.engines import syft_site

    folder = hospital_folders.hospitals(tmp_path).folders["hospital-0"]
    own = DatasiteSettings(url="http://127.0.0.1:8101", port=8101, python=sys.executable)
    moved = msgspec.structs.replace(folder.settings(), datasite=own)
    folder.settings_path.write_text(moved.dumps(), encoding="utf-8")
    kept = []

    class Kept(KeptSite):
        def __init__(self, path, **options):
            super().__init__(path, **options)
            self._open = self._opened()
            kept.append(self)

    monkeypatch.setattr(site_process, "KeptSite", Kept)
    monkeypatch.setattr(site_process, "IDLE_S", idle_s)
    monkeypatch.setattr(syft_site, "SyftSite", StandingDatasite)
    looks = iter([False, True])
    start(folder, stopped=lambda _: next(looks))
    assert (kept[0]._open is None) == (idle_s == 0.0)
    monkeypatch.setattr(StandingDatasite, "running", False)
    with pytest.raises(SiteUnreachableError, match="Datasite has ended"):
        start(folder, stopped=lambda _: False)


def test_the_findings_name_environment_and_port(enrolled):
    _, sites, _ = enrolled
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        moved = settings("north", port).dumps().replace(sys.executable, "/nowhere/python")
        sites["north"].settings_path.write_text(moved, encoding="utf-8")
        rows = {found.check: found for found in datasite_checks(sites["north"])}
        assert "/nowhere/python cannot be run" in rows["PySyft"].finding
        assert rows["Datasite"].state == "fail"
        assert f"another program listens on port {port}" in rows["Datasite"].finding
        with locked(sites["north"].path / START_LOCK):
            rows = {found.check: found for found in datasite_checks(sites["north"])}
        assert (rows["Datasite"].state, "started" in rows["Datasite"].finding) == ("ok", True)
    rows = {found.check: found for found in datasite_checks(sites["north"])}
    assert "is free" in rows["Datasite"].finding


# a site whose process outlives a run


@pytest.fixture
def standing(tmp_path):
    """Hospitals, and a standing site in each folder."""
    made = hospital_folders.hospitals(tmp_path)
    sites = {name: KeptSite(folder.path) for name, folder in made.folders.items()}
    yield made, sites, {name: own.handle for name, own in sites.items()}
    for own in sites.values():
        own.close()


def whole_run(hospitals, handlers):
    session = hospitals.session(handlers)
    outcome = session.run(
        Replay(FedPC(evidence="vote").ask(Facts(session.open(), len(handlers), fewest=3)))
    )
    session.finish()
    return outcome


def test_one_process_answers_run_after_run(standing):
    hospitals, _, handlers = standing
    first, second = (whole_run(hospitals, handlers) for _ in range(2))
    assert (first.skeleton == second.skeleton).all()
    assert (first.support, first.layers) == (second.support, second.layers)


def test_a_study_that_shuts_a_site_out_holds_from_the_next_run_on(standing):
    hospitals, _, handlers = standing
    before = hospitals.study
    whole_run(hospitals, handlers)
    del hospitals.folders["hospital-2"]  # which gets no new study
    hospitals.pin(sites=before.sites[:2], revoked=("hospital-2",), version=2, min_sites=2)
    hospitals.study = before  # a coordinator that takes the old one up again
    with pytest.raises(CohortError, match="names 'hospital-2', which is revoked"):
        hospitals.session(handlers).open()


def test_a_new_policy_holds_from_the_next_run_on_and_a_broken_one_stops_the_site(standing):
    hospitals, _, handlers = standing
    whole_run(hospitals, handlers)
    policy = hospitals.folders["hospital-1"].policy_path
    kept = policy.read_text()
    policy.write_text("nonsense = 1")
    with pytest.raises(SiteNotReadyError) as caught:
        hospitals.session(handlers).open()
    assert caught.value.site == "hospital-1"
    policy.write_text(kept)
    whole_run(hospitals, handlers)


def test_an_old_invite_opens_no_run_and_a_repeated_one_gets_the_same_bytes(standing):
    hospitals, _, handlers = standing
    sent = []

    def recording(operation, message):
        if operation == "invite":
            sent.append(message)
        return handlers["hospital-0"](operation, message)

    session = hospitals.session({**handlers, "hospital-0": recording})
    session.open()
    assert handlers["hospital-0"]("invite", sent[0]) == handlers["hospital-0"]("invite", sent[0])
    whole_run(hospitals, handlers)
    from cipherdag.privacy.wire import decode
    from cipherdag.protocol.cohort_channel import refusal_error
    from cipherdag.protocol.messages import Refusal, read_envelope

    refused = read_envelope(handlers["hospital-0"]("invite", sent[0]))
    assert refused.topic == "refusal"
    error = refusal_error(decode(refused.body, Refusal), "hospital-0")
    assert isinstance(error, ReplayError)


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    made = hospital_folders.hospitals(tmp_path_factory.mktemp("idle"), names=("hospital-0",))
    site = KeptSite(made.folders["hospital-0"].path)
    site.handle("invite", b"")  # opens it
    yield site
    site.close()


@given(message=st.binary(max_size=200))
def test_garbage_does_not_reopen_a_site(idle, message):
    before = idle._open
    assert isinstance(idle.handle("invite", message), bytes)
    assert idle._open is before


def test_two_processes_cannot_stand_for_one_site(standing):
    hospitals, _, _ = standing
    with pytest.raises(SiteNotReadyError, match="another process"):
        KeptSite(hospitals.folders["hospital-0"].path, lock_wait_s=0.0)


def test_the_interpreter_is_kept_as_the_link_that_it_is(tmp_path, capsys, monkeypatch):
    """Resolving an environment's interpreter would leave its environment."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    where = ("--algorithm", "fedpc", "--datasite", "http://127.0.0.1:8101", "--pysyft", link)
    site = tmp_path / "north"
    assert call(capsys, monkeypatch, "site", "new", "north", "--dir", site, *where)[0] == 0
    assert Path(SiteFolder(site).settings().datasite.python) == link
