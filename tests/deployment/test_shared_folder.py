"""Onboarding for a study over files: keys, folders, checks and what is refused."""

import pytest

from cipherdag.deployment import processes
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.deployment.processes import serve, start
from cipherdag.deployment.shared_folder import (
    _coordinator_key,
    files_engine,
    folder_checks,
    install_answer,
    site_key,
)
from cipherdag.errors import (
    MalformedMessageError,
    ParameterError,
    PolicyRefusedError,
    SignatureError,
    SiteNotReadyError,
    SiteUnreachableError,
)
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.study.study import Approval, new_request
from cipherdag.sites.study.study_files import read_file, write_file

NAMES = ("north", "south", "west")


@pytest.fixture
def share(tmp_path):
    made = tmp_path / "share"
    made.mkdir()
    return made


def new_site(tmp_path, share, name):
    settings = SiteSettings(name=name, files=str(share / name), device="cpu")
    return SiteFolder.create(tmp_path / name, settings)


@pytest.fixture
def enrolled(tmp_path, share):
    """A coordinator and three activated sites."""
    coordinator = CoordinatorFolder.create(
        tmp_path / "coordinator", study="study", engine="files", files=str(share)
    )
    sites = {name: new_site(tmp_path, share, name) for name in NAMES}
    approvals = coordinator.approve([request_enrolment(site)[0] for site in sites.values()])
    for name, site in sites.items():
        activate(site, approvals[name], code=coordinator.fingerprint)
    return coordinator, sites, approvals


def same_key(coordinator, site, study):
    name = site.settings().name
    keys = _coordinator_key(coordinator.path, name, study), site_key(site, study)
    return keys[0].derive(b"test") == keys[1].derive(b"test")


def test_both_ends_have_one_key_and_no_secret_travels(enrolled, share):
    coordinator, sites, approvals = enrolled
    study = coordinator.study()
    assert study.engine == "files"
    secrets = set()
    for name, site in sites.items():
        assert same_key(coordinator, site, study)
        assert sorted(path.name for path in (share / name).iterdir()) == [
            "to-coordinator",
            "to-site",
        ]
        for path in (site.folder_key, coordinator.path / "sites" / f"{name}.key"):
            assert path.stat().st_mode & 0o077 == 0
            secrets.add(path.read_text()[:64])
    assert len(secrets) == 2 * len(NAMES)
    travelled = "".join(path.read_text() for path in approvals.values())
    travelled += "".join((site.path / f"{n}.request").read_text() for n, site in sites.items())
    assert not any(secret in travelled for secret in secrets)


def test_a_newer_study_keeps_the_key_and_a_new_request_changes_it(enrolled, tmp_path, share):
    coordinator, sites, _ = enrolled
    before = site_key(sites["north"], coordinator.study()).derive(b"test")
    late = new_site(tmp_path, share, "late")
    approvals = coordinator.approve([request_enrolment(late)[0]])
    activate(sites["north"], approvals["north"], code=coordinator.fingerprint)
    assert same_key(coordinator, sites["north"], coordinator.study())
    assert site_key(sites["north"], coordinator.study()).derive(b"test") == before
    approvals = coordinator.approve([request_enrolment(sites["north"])[0]])
    assert not same_key(coordinator, sites["north"], coordinator.study())
    activate(sites["north"], approvals["north"], code=coordinator.fingerprint)
    assert same_key(coordinator, sites["north"], coordinator.study())
    assert site_key(sites["north"], coordinator.study()).derive(b"test") != before


def test_a_revoked_site_has_no_key_any_more(enrolled):
    coordinator, _, _ = enrolled
    coordinator.revoke("west")
    assert not (coordinator.path / "sites" / "west.key").exists()
    with files_engine(coordinator.path, coordinator.share, coordinator.study()) as engine:
        assert set(engine._links) == {"north", "south"}


def test_an_answer_that_was_altered_or_is_none_is_refused(enrolled):
    coordinator, sites, approvals = enrolled
    approval = read_file(approvals["north"], Approval)
    with pytest.raises(MalformedMessageError, match="no key for a shared folder"):
        install_answer(sites["north"], b"", coordinator.study())
    altered = bytes([approval.certificate[0] ^ 1]) + approval.certificate[1:]
    write_file(approvals["north"], approval.__class__(1, "north", approval.signed, altered, b""))
    with pytest.raises(SignatureError, match="not as the coordinator signed it"):
        activate(sites["north"], approvals["north"], code=coordinator.fingerprint)


def test_requests_and_settings_of_another_engine_are_refused(enrolled, tmp_path, share):
    coordinator, sites, approvals = enrolled
    path, request = request_enrolment(new_site(tmp_path, share, "other"))
    key = sites["north"].identity()
    unlike = new_request(
        key,
        name="other",
        organisation="site",
        study="study",
        certificate_request=b"-----BEGIN CERTIFICATE REQUEST-----",
        versions=request.versions,
    )
    write_file(path, unlike)
    with pytest.raises(ParameterError, match="not for a study over files"):
        coordinator.read_request(path)
    text = sites["north"].settings_path.read_text()
    sites["north"].settings_path.write_text(text.replace(str(share / "north"), ""))
    with pytest.raises(SiteNotReadyError, match="'files', site.toml is made for 'flare'"):
        activate(sites["north"], approvals["north"], code=coordinator.fingerprint)
    with pytest.raises(ParameterError, match="has no server to start"):
        serve(coordinator, stopped=lambda _: True)


def test_a_share_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ParameterError, match="the shared folder .* is not there"):
        CoordinatorFolder.create(
            tmp_path / "c", study="study", engine="files", files=str(tmp_path / "missing")
        )


def test_a_key_that_others_may_read_is_not_used(enrolled):
    coordinator, sites, _ = enrolled
    key = coordinator.path / "sites" / "south.key"
    key.chmod(0o644)
    with (
        pytest.raises(PolicyRefusedError, match="open to other users"),
        files_engine(coordinator.path, coordinator.share, coordinator.study()),
    ):
        pass
    sites["north"].folder_key.chmod(0o640)
    with pytest.raises(SiteNotReadyError, match="open to other users"):
        start(sites["north"], stopped=lambda _: True)


def test_checks_say_what_is_wrong_with_the_folder(enrolled, tmp_path, share):
    _, sites, _ = enrolled
    (found,) = folder_checks(sites["north"])
    assert found.state == "ok"
    (share / "north").rename(share / "away")
    (found,) = folder_checks(sites["north"])
    assert (found.state, found.check) == ("fail", "shared folder")
    assert "correct files in site.toml" in found.fix
    late = new_site(tmp_path, share, "late")
    (found,) = folder_checks(late)
    assert found.state == "warn"
    other = SiteFolder.create(tmp_path / "other", SiteSettings(name="other"))
    assert [*folder_checks(other)] == []


def test_a_site_without_an_answer_does_not_start(enrolled):
    coordinator, sites, _ = enrolled
    sites["north"].folder_answer.unlink()
    with pytest.raises(SiteNotReadyError, match="no key of its study"):
        site_key(sites["north"], coordinator.study())


def test_commands_ask_for_the_folder(call, tmp_path, share):
    words = ("coordinator", "new", "--dir", tmp_path / "c", "--study", "study")
    for wrong in (("--engine", "files"), ("--files", share), ("--engine", "files", "--host", "h")):
        code, _, err = call(*words, *wrong)
        assert code == 2, err
    code, out, _ = call(*words, "--engine", "files", "--files", share)
    assert code == 0
    assert "the coordinator's code" in out
    made = tmp_path / "north"
    words = ("site", "new", "north", "--study", "study", "--algorithm", "fedpc", "--dir", made)
    code, _, err = call(*words, "--files", share / "north")
    assert code == 0, err
    assert SiteFolder(made).settings().engine == "files"
    assert "to-coordinator" in SiteFolder(made).settings_path.read_text()


class Standing:
    """In the place of what looks into the folder: it runs for as long as the test wants."""

    running = True

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("idle_s", [0.0, 60.0])
def test_a_site_forgets_the_keys_of_an_idle_run(enrolled, monkeypatch, idle_s):
    _, sites, _ = enrolled
    folder, held = sites["north"], []

    class Held(KeptSite):
        def __init__(self, path, **options):
            super().__init__(path, **options)
            self._open = self._opened()
            self._log.begin([])
            held.append(self)

    monkeypatch.setattr(processes, "KeptSite", Held)
    monkeypatch.setattr(processes, "IDLE_S", idle_s)
    monkeypatch.setattr(processes, "FilesSite", Standing)
    looks = iter([False, True])
    start(folder, stopped=lambda _: next(looks))
    assert (held[0]._open is None) == (idle_s == 0.0)
    assert folder.session_path.exists() == (idle_s != 0.0)
    monkeypatch.setattr(Standing, "running", False)
    with pytest.raises(SiteUnreachableError, match="nothing looks into the shared folder"):
        start(folder, stopped=lambda _: False)
