"""From request to activated site, with every file swapped, altered, oversized or not proven."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hospital_checks
import hospital_folders
import msgspec
import pytest
from commands import call
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from driving import outcome_over
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.audit.auditing import check_ledger
from cipherdag.deployment import enrolment
from cipherdag.deployment.certificates import (
    certificates_of,
    certify_site,
    check_certificate,
    check_certificate_request,
    check_validity,
    make_authority,
    make_key,
    request_certificate,
)
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.deployment.processes import expiring
from cipherdag.errors import (
    CipherdagError,
    CohortError,
    LedgerError,
    MalformedMessageError,
    MissingColumnError,
    OutputError,
    ParameterError,
    PolicyRefusedError,
    SignatureError,
    SiteNotReadyError,
)
from cipherdag.federation.simulated import Federation
from cipherdag.privacy.keys.identity import SigningIdentity, pairing_code, same_fingerprint
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.journal import TranscribingEngine, read_transcript
from cipherdag.protocol.progress import LedgerHead
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.private_files import START_LOCK, lock, locked
from cipherdag.sites.record.ledger import Ledger, ledger_lines
from cipherdag.sites.study.doctor import examine
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.study.study import (
    Approval,
    Request,
    SignedStudy,
    approve,
    check_approval,
    check_request,
    check_site_name,
    check_study,
    coordinator_fingerprint,
    new_request,
    sign_study,
    study_fingerprint,
)
from cipherdag.sites.study.study_files import (
    MAX_REQUEST_BYTES,
    MAX_STUDY_BYTES,
    read_file,
    write_file,
)

GOLDEN = Path(__file__).parents[1] / "support" / "golden"
PATH_TRICKS = (
    "", ".", "..", "../up", "a/b", "a\\b", "/etc/passwd", "a b", "a\n", "-rf", "a\0", "é", "x" * 64,
    "coordinator", "Server", "localhost", "CON:", "a.b", "~root", "$HOME", "a;b", "%2e%2e",
)  # fmt: skip


KEY_OF_ODD_REQUESTS = SigningIdentity.generate()


def request_of(identity, **changes):
    about = {
        "name": "north",
        "organisation": "hospital",
        "study": "study",
        "certificate_request": b"zip",
        "versions": {"python": "3.11"},
    }
    return new_request(identity, **(about | changes))


def approval_of(hospitals, site="hospital-0", *, signed=None, identity=None):
    key = identity or hospitals.coordinator
    signed = signed or sign_study(key, hospitals.study)
    return approve(key, site=site, signed=signed, certificate=b"zip")


def accept(hospitals, approval, site="hospital-0", **changes):
    study = hospitals.study
    expected = {
        "site": site,
        "identity": study.pinned[site],
        "code": coordinator_fingerprint(study.coordinator, study.root),
        "study": "study",
    }
    return check_approval(approval, **(expected | changes))


# requests


def test_a_request_travels_as_a_file_and_proves_its_key(tmp_path):
    request = request_of(SigningIdentity.generate())
    write_file(tmp_path / "north.request", request)
    back = read_file(tmp_path / "north.request", Request)
    assert back == request
    check_request(back)


def test_a_request_survives_e_mail_line_ends(tmp_path):
    path = tmp_path / "north.request"
    write_file(path, request_of(SigningIdentity.generate()))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    check_request(read_file(path, Request))


@pytest.mark.parametrize(
    "versions", [{"torch": "\x1b[2J2.9"}, {"torch\n": "2.9"}, {"torch": "9" * 3000}]
)
def test_a_request_whose_versions_would_steer_the_terminal_is_refused(versions):
    with pytest.raises(ParameterError, match="versions") as refused:
        check_request(request_of(SigningIdentity.generate(), versions=versions))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "south"},
        {"organisation": "other"},
        {"study": "other"},
        {"certificate_request": b"zap"},
        {"versions": {}},
        {"proof": b""},
        {"proof": bytes(64)},
        {"identity": SigningIdentity.generate().public},
        {"identity": b"short"},
    ],
)
def test_a_request_without_proof_of_its_key_is_refused(changes):
    request = msgspec.structs.replace(request_of(SigningIdentity.generate()), **changes)
    with pytest.raises(SignatureError):
        check_request(request)


@pytest.mark.parametrize("name", PATH_TRICKS)
def test_a_name_like_a_path_or_a_word_of_a_command_is_refused(name, tmp_path):
    with pytest.raises(ParameterError):
        check_site_name(name)
    with pytest.raises(ParameterError):
        check_request(request_of(SigningIdentity.generate(), name=name))
    with pytest.raises(ParameterError):
        SiteSettings(name=name)
    assert not list(tmp_path.iterdir())


# files that are not what they should be


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"null",
        b'{"format": 1}',
        b"[" * 100_000,
        b'{"a":' * 10_000,
        b'{"format": 1, "name": 7}',
    ],
)
@pytest.mark.parametrize("kind", [Request, SignedStudy, Approval])
def test_a_file_that_does_not_decode_is_named_malformed(tmp_path, content, kind):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(MalformedMessageError):
        read_file(path, kind)


@pytest.mark.parametrize(
    ("kind", "limit"), [(Request, MAX_REQUEST_BYTES), (Approval, MAX_STUDY_BYTES)]
)
def test_an_oversized_file_is_refused_unread(tmp_path, kind, limit):
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(50 * limit)
    with pytest.raises(MalformedMessageError, match="larger"):
        read_file(path, kind)


def test_a_further_field_or_format_is_refused(tmp_path, hospitals):
    path = tmp_path / "file"
    write_file(path, approval_of(hospitals))
    known = path.read_bytes()
    path.write_bytes(known.replace(b'"site"', b'"more": 1, "site"', 1))
    with pytest.raises(MalformedMessageError):
        read_file(path, Approval)
    path.write_bytes(known.replace(b'"format": 1', b'"format": 2', 1))
    with pytest.raises(MalformedMessageError, match="format 2"):
        read_file(path, Approval)


# approvals


def test_an_approval_gives_the_study_with_every_site_pinned(hospitals):
    study = accept(hospitals, approval_of(hospitals))
    assert study == hospitals.study
    assert set(study.pinned) == set(hospital_folders.NAMES)


def test_the_fingerprint_may_be_read_aloud_in_any_grouping():
    fingerprint = coordinator_fingerprint(bytes(32), "ab" * 32)
    assert len(fingerprint) == 95
    plain = fingerprint.replace(":", "").lower()
    assert same_fingerprint(fingerprint, plain)
    assert same_fingerprint(f" {plain[:8]} {plain[8:]}\n", fingerprint)
    assert not same_fingerprint(fingerprint, plain[:-1] + ("0" if plain[-1] != "0" else "1"))
    assert not same_fingerprint(fingerprint, "")


def test_the_fingerprint_covers_identity_and_root():
    first = coordinator_fingerprint(bytes(32), "ab" * 32)
    assert first != coordinator_fingerprint(bytes(31) + b"\1", "ab" * 32)
    assert first != coordinator_fingerprint(bytes(32), "ac" * 32)
    for root in ("", "ab", "zz" * 32, "ab" * 33):
        with pytest.raises(MalformedMessageError):
            coordinator_fingerprint(bytes(32), root)


def test_a_wrong_fingerprint_is_refused_before_anything_else(hospitals):
    other = coordinator_fingerprint(SigningIdentity.generate().public, hospital_folders.ROOT)
    for wrong in ("00" * 32, other, pairing_code(other)):
        with pytest.raises(
            SignatureError, match="not from the coordinator with this code"
        ) as caught:
            accept(hospitals, approval_of(hospitals), code=wrong)
        assert caught.value.exit_code == 3
    for none in ("", "00", "acorn"):
        with pytest.raises(ParameterError, match="a code has 9 words"):
            accept(hospitals, approval_of(hospitals), code=none)


def test_the_code_of_words_stands_for_the_fingerprint(hospitals):
    study = hospitals.study
    code = pairing_code(coordinator_fingerprint(study.coordinator, study.root))
    heard = " ".join(word[:4].upper() for word in code.split("-"))
    assert accept(hospitals, approval_of(hospitals), code=heard) == study
    for changed in ({"coordinator": SigningIdentity.generate().public}, {"root": "cd" * 32}):
        other = msgspec.structs.replace(study, **changed)
        assert pairing_code(coordinator_fingerprint(other.coordinator, other.root)) != code


def test_another_coordinator_s_approval_is_refused(hospitals):
    """Someone in between signs everything anew with a key of their own."""
    thief = SigningIdentity.generate()
    study = msgspec.structs.replace(hospitals.study, coordinator=thief.public)
    forged = approve(thief, site="hospital-0", signed=sign_study(thief, study), certificate=b"zip")
    with pytest.raises(SignatureError, match="fingerprint"):
        accept(hospitals, forged)


def test_a_study_signed_by_another_than_its_coordinator_is_refused(hospitals):
    thief = SigningIdentity.generate()
    with pytest.raises(SignatureError):
        accept(hospitals, approval_of(hospitals, identity=thief))
    mixed = approve(
        hospitals.coordinator,
        site="hospital-0",
        signed=sign_study(thief, hospitals.study),
        certificate=b"zip",
    )
    with pytest.raises(SignatureError):
        accept(hospitals, mixed)


@pytest.mark.parametrize(
    "changes", [{"site": "hospital-0 "}, {"certificate": b"zap"}, {"signature": bytes(64)}]
)
def test_an_altered_approval_is_refused(hospitals, changes):
    altered = msgspec.structs.replace(approval_of(hospitals), **changes)
    with pytest.raises(SignatureError):
        accept(hospitals, altered)


def altered_studies():
    thief = SigningIdentity.generate().public
    return [
        lambda s: {"sites": (*s.sites, msgspec.structs.replace(s.sites[0], name="ghost"))},
        lambda s: {"sites": (*s.sites[:-1], msgspec.structs.replace(s.sites[-1], identity=thief))},
        lambda s: {"sites": s.sites[:-1]},
        lambda s: {"min_sites": 2},
        lambda s: {"protections": ("none",)},
        lambda s: {"revoked": ("hospital-0",)},
        lambda s: {"host": "evil.example"},
        lambda s: {"port": 1},
        lambda s: {"version": 2},
        lambda s: {"issued": "2026-01-02T00:00:00+00:00"},
        lambda s: {"name": "other"},
        lambda s: {"colluders": 0},
        lambda s: {"colluders": 1},
    ]


@pytest.mark.parametrize("alter", altered_studies())
def test_a_study_altered_on_its_way_or_on_disk_is_refused(hospitals, alter):
    signed = sign_study(hospitals.coordinator, hospitals.study)
    study = msgspec.structs.replace(hospitals.study, **alter(hospitals.study))
    with pytest.raises(SignatureError):
        check_study(SignedStudy(study=study, signature=signed.signature))
    folder = hospitals.folders["hospital-0"]
    write_file(folder.study_path, SignedStudy(study=study, signature=signed.signature))
    with pytest.raises(SignatureError):
        hospitals.handler("hospital-0")
    assert study_fingerprint(study) != study_fingerprint(hospitals.study)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (lambda s: {"sites": (*s.sites, s.sites[0])}, CohortError),
        (
            lambda s: {"sites": (s.sites[0], msgspec.structs.replace(s.sites[0], name="x"))},
            CohortError,
        ),
        (
            lambda s: {
                "sites": (s.sites[0], msgspec.structs.replace(s.sites[1], name="HOSPITAL-0"))
            },
            CohortError,
        ),
        (
            lambda s: {"sites": (msgspec.structs.replace(s.sites[0], identity=s.coordinator),)},
            CohortError,
        ),
        (
            lambda s: {"sites": (msgspec.structs.replace(s.sites[0], identity=b"short"),)},
            CohortError,
        ),
        (lambda s: {"revoked": ("Hospital-1",)}, CohortError),
        (lambda s: {"sites": (msgspec.structs.replace(s.sites[0], name="../x"),)}, ParameterError),
        (lambda s: {"name": "../x"}, ParameterError),
        (lambda s: {"host": "a b"}, ParameterError),
        (lambda s: {"port": 0}, ParameterError),
        (lambda s: {"min_sites": 1}, ParameterError),
        (lambda s: {"protections": ()}, ParameterError),
        (lambda s: {"colluders": -1}, ParameterError),
        (lambda s: {"colluders": 2}, ParameterError),
        (lambda s: {"colluders": 1, "min_sites": 2}, ParameterError),
        (lambda s: {"colluders": 2**40}, ParameterError),
    ],
)
def test_even_a_signed_study_must_make_sense(hospitals, changes, error):
    study = msgspec.structs.replace(hospitals.study, **changes(hospitals.study))
    with pytest.raises(error):
        check_study(sign_study(hospitals.coordinator, study))


# how many colluding sites a study's runs are safe against


def test_a_study_of_before_there_were_colluders_reads_and_verifies():
    """Signed by the revision before, with ``min_sites = 2``, which allows no colluder today."""
    signed = read_file(GOLDEN / "study_without_colluders.json", SignedStudy)
    study = check_study(signed)
    assert study.colluders is msgspec.UNSET
    assert (study.safe_against, study.min_sites, study.revoked) == (1, 2, ("hospital-9",))
    assert study_fingerprint(study) == (
        "DE:70:C8:5B:67:9D:DB:BA:B8:6E:EF:4F:E6:67:CA:11:65:29:FD:DF:31:08:DB:59:1B:16:41:36:F4:D9:3C:63"
    )
    with pytest.raises(SignatureError):
        check_study(
            msgspec.structs.replace(signed, study=msgspec.structs.replace(study, colluders=0))
        )


@pytest.mark.parametrize(("colluders", "min_sites"), [(0, 2), (1, 3), (2, 4), (7, 9)])
def test_a_study_file_says_what_runs_are_safe_against(hospitals, tmp_path, colluders, min_sites):
    study = msgspec.structs.replace(hospitals.study, colluders=colluders, min_sites=min_sites)
    path = tmp_path / "study.json"
    write_file(path, sign_study(hospitals.coordinator, study))
    assert f'"colluders": {colluders}' in path.read_text()
    back = check_study(read_file(path, SignedStudy))
    assert (back, back.safe_against) == (study, colluders)
    write_file(path, sign_study(hospitals.coordinator, hospitals.study))
    assert "colluders" not in path.read_text()
    text = path.read_text()
    for wrong in ("1.5", "null", "true", '"1"'):
        path.write_text(text.replace('"engine"', f'"colluders": {wrong}, "engine"', 1))
        with pytest.raises(MalformedMessageError):
            read_file(path, SignedStudy)


def test_every_site_holds_the_coordinator_to_what_the_study_promises(tmp_path):
    names = tuple(f"hospital-{k}" for k in range(4))
    lax = Policy(tolerated_colluders=0, approve_runs="automatic", reveal="sums")
    made = hospital_folders.hospitals(tmp_path, names=names, policy=lax)
    made.pin(colluders=2, min_sites=4)
    handlers = made.handlers()
    with pytest.raises(CohortError, match="tolerates 1 colluding sites, .* asks for 2"):
        made.session(handlers).open()
    session = made.session(handlers, colluders=made.study.safe_against)
    assert session.open() == 5
    made.close()


# certificates


@pytest.fixture(scope="module")
def keys():
    return [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]


def certificate(name, public, issuer_name, issuer_key):
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer_name)]))
        .public_key(public)
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(issuer_key, hashes.SHA256())
    )


def pem(thing):
    return thing.public_bytes(serialization.Encoding.PEM)


def test_someone_else_s_certificate_is_refused(keys):
    authority, own, other = keys
    root = certificate("study", authority.public_key(), "study", authority)
    fingerprint = root.fingerprint(hashes.SHA256()).hex()

    def check(name="north", key=own, issuer=authority, expected=fingerprint, more=b""):
        issued = certificate(name, key.public_key(), "study", issuer)
        chain = pem(issued) + pem(root) + more
        check_certificate(chain, name="north", key=own.public_key(), root=expected)

    check()
    for wrong in (
        {"key": other},
        {"name": "south"},
        {"issuer": other},
        {"expected": "00" * 32},
        {"more": pem(root)},
        {"more": b" " * 20_000},
    ):
        with pytest.raises(SignatureError):
            check(**wrong)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_certificate_are_refused(content):
    with pytest.raises(SignatureError):
        certificates_of(content, "north")
    with pytest.raises(MalformedMessageError):
        check_certificate_request(request_of(KEY_OF_ODD_REQUESTS, certificate_request=content))


def test_a_request_for_more_than_a_site_s_certificate_is_refused(keys):
    """Whatever it asks for, the authority signs a name, an organisation and one purpose."""

    def check(key=keys[0], name="north", organisation="hospital", more=(), extension=None):
        named = [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
            *more,
        ]
        asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(named))
        if extension is not None:
            asked = asked.add_extension(extension, critical=True)
        content = pem(asked.sign(key, hashes.SHA256()))
        check_certificate_request(request_of(KEY_OF_ODD_REQUESTS, certificate_request=content))

    check()
    for wrong in (
        {"name": "south"},
        {"organisation": "coordinator"},
        {"more": [x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]},
        {"more": [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "lead")]},
        {"extension": x509.BasicConstraints(ca=True, path_length=None)},
        {"extension": x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])},
        {"extension": x509.SubjectAlternativeName([x509.DNSName("localhost")])},
        {"key": rsa.generate_private_key(public_exponent=65537, key_size=2048)},
        {"key": ec.generate_private_key(ec.SECP224R1())},
    ):
        with pytest.raises(SignatureError):
            check(**wrong)


def test_certificates_say_what_they_are_for(tmp_path):
    make_authority(tmp_path, study="study", host="study.example")
    root, server = (
        x509.load_pem_x509_certificate((tmp_path / path).read_bytes())
        for path in ("authority/root.crt", "server/server.crt")
    )
    asked = request_certificate(make_key(tmp_path / "key"), site="north", organisation="hospital")
    chain = certify_site(tmp_path, x509.load_pem_x509_csr(asked), days=9999)
    site, issuer = certificates_of(chain, "north")
    assert issuer == root
    purposes = [
        [*own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value]
        for own in (server, site)
    ]
    assert purposes == [[ExtendedKeyUsageOID.SERVER_AUTH], [ExtendedKeyUsageOID.CLIENT_AUTH]]
    issues = [
        own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        for own in (root, server, site)
    ]
    assert issues == [True, False, False]
    assert site.not_valid_after_utc <= root.not_valid_after_utc
    assert (root.not_valid_after_utc - root.not_valid_before_utc).days <= 5 * 366


# the folder


def test_a_new_site_s_keys_are_private_and_its_settings_read_back(tmp_path):
    settings = SiteSettings(name="north", host="hub.example", data="/data/x.csv")
    folder = SiteFolder.create(tmp_path / "north", settings)
    assert folder.settings() == settings
    assert folder.path.stat().st_mode & 0o077 == 0
    for path in (folder.identity_path, folder.policy_path, folder.settings_path):
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OutputError, match="not empty"):
        SiteFolder.create(tmp_path / "north", settings)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name = 3",
        'name = "../x"',
        'name = "north"\nport = "8002"',
        'name = "north"\nport = true',
        'name = "north"\nhost = "a b"',
        'name = "north"\ndevice = "tpu"',
        'name = "north"\nnames = "x"',
        "name",
        "[" * 9000,
        "#" + "x" * 70_000 + '\nname = "north"',
    ],
)
def test_settings_with_a_fault_stop_the_site(tmp_path, text):
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(SiteNotReadyError):
        SiteFolder(tmp_path).settings()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_key_that_others_may_read_stops_the_site(hospitals, mode):
    folder = hospitals.folders["hospital-0"]
    folder.identity_path.chmod(mode)
    with pytest.raises(PolicyRefusedError, match="open to other users"):
        hospitals.handler("hospital-0")
    folder.identity_path.chmod(0o600)
    folder.tls_key.parent.mkdir(parents=True)
    folder.tls_key.write_text("key")
    folder.tls_key.chmod(mode)
    with pytest.raises(SiteNotReadyError, match="open to other users"):
        folder.check_keys()


def test_a_site_that_is_not_activated_does_not_answer(hospitals):
    folder = hospitals.folders["hospital-0"]
    folder.study_path.unlink()
    with pytest.raises(SiteNotReadyError, match="not activated"):
        hospitals.handler("hospital-0")
    os.close(lock(folder.path / ".lock", wait_s=0.0))


@pytest.mark.parametrize("address", [("elsewhere.example", 8002), ("localhost", 443)])
def test_an_address_that_is_edited_after_activation_is_named(hospitals, caplog, address):
    folder = hospitals.folders["hospital-0"]
    host, port = address
    settings = msgspec.structs.replace(folder.settings(), host=host, port=port)
    folder.settings_path.write_text(settings.dumps(), "utf-8")
    said = f"names the coordinator {host}:{port}, the study names localhost:8002"
    (finding,) = (
        each for each in examine(folder, rehearse=lambda _: None) if each.check == "study"
    )
    assert (finding.state, said in finding.finding) == ("fail", True)
    with pytest.raises(SiteNotReadyError):
        whole_run(hospitals)
    assert said in caplog.text


# runs over the folders


def whole_run(hospitals, engine=None, protection="masking"):
    hospitals.installed = True
    handlers = {name: hospitals.handler(name) for name in hospitals.folders}
    session = hospitals.session(handlers, protection=protection)
    if engine is not None:
        session._channel.engine = engine(LocalEngine(handlers))
    return session, outcome_over(session), session.finish()


def test_folders_give_the_graph_of_a_run_in_one_process(hospitals):
    _, outcome, _ = whole_run(hospitals)
    data = {name: folder.path / "data.csv" for name, folder in hospitals.folders.items()}
    schema = hospitals.folders["hospital-0"].path / "schema.toml"
    reference = Federation.simulate(data, schema=schema, device="cpu").run(FedPC(evidence="vote"))
    names = reference.finding.graph.nodes
    facts = Facts(len(names), 3, names=names)
    assert FedPC(evidence="vote").conclude(outcome, facts).graph == reference.finding.graph


def test_a_site_whose_data_do_not_fit_says_so_without_its_data(hospitals, caplog):
    folder = hospitals.folders["hospital-1"]
    (folder.path / "data.csv").write_text("Secret column\nsecret value\nother\n")
    with pytest.raises(MissingColumnError) as caught:
        whole_run(hospitals)
    assert caught.value.site == "hospital-1"
    assert "ecret" not in str(caught.value) + caught.value.remedy
    assert "hospital-1" in caplog.text or "Cholesterol" in caplog.text


def test_a_cohort_with_a_revoked_site_is_refused(hospitals):
    everyone = hospitals.study.sites
    hospitals.pin(sites=everyone[:2], revoked=("hospital-2",), version=2, min_sites=2)
    handlers = {name: hospitals.open(name).handle for name in ("hospital-0", "hospital-1")}
    hospitals.study = msgspec.structs.replace(hospitals.study, sites=everyone, revoked=())
    session = hospitals.session(handlers)
    with pytest.raises(CohortError, match="revoked"):
        session.open()


# ledgers against transcripts


def audited(hospitals, tmp_path):
    path = tmp_path / "transcript.jsonl"
    _, _, closed = whole_run(hospitals, lambda engine: TranscribingEngine(engine, path))
    name = "hospital-1"
    ledger = hospitals.folders[name].ledger_path
    lines = ledger_lines(ledger.read_text())
    head = LedgerHead(
        closed[name].records,
        closed[name].ledger_head.hex(),
        name,
        hospitals.study.pinned[name].hex(),
    )
    return lines, read_transcript(path), head


def test_a_ledger_agrees_with_what_the_coordinator_received(hospitals, tmp_path):
    lines, transcript, head = audited(hospitals, tmp_path)
    checked = check_ledger(lines, transcript, expected=head)
    assert checked.matched == len(lines) > 4
    assert checked.unreceived == ()
    lost = next(r for r in transcript if r.site == "hospital-1" and r.topic == "share")
    checked = check_ledger(lines, [r for r in transcript if r != lost], expected=head)
    assert len(checked.unreceived) == 1


def test_an_answer_that_the_ledger_hides_is_found(hospitals, tmp_path):
    lines, transcript, head = audited(hospitals, tmp_path)
    shorter = LedgerHead(0, "0" * 64, head.site, head.identity)
    with pytest.raises(LedgerError, match="does not record"):
        check_ledger(lines[:3], transcript, expected=shorter)
    with pytest.raises(LedgerError, match="1 answers arrived that the ledger does not record"):
        check_ledger(lines[:-1], transcript, expected=head)
    with pytest.raises(LedgerError, match="shorter"):
        check_ledger(lines[:-2], transcript, expected=head)
    # nor is one rewritten after the run
    identity = hospitals.folders["hospital-1"].identity()
    forged = Ledger("hospital-1", identity)
    for _ in lines:
        forged.append(
            session=bytes(16), round_number=1, algorithm="fedpc", kind="edge-votes", values=1,
            content=b"", protection="masking", sites=3, digest=bytes(32),
        )  # fmt: skip
    with pytest.raises(LedgerError, match="not the one"):
        check_ledger(forged.lines, transcript, expected=head)


# the whole way with certificates


@pytest.fixture(scope="module")
def flare():
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")


@pytest.fixture(scope="module")
def folders(flare, tmp_path_factory):
    """Of a coordinator and three sites, of which the first two are activated."""
    folder = tmp_path_factory.mktemp("enrolled")
    coordinator = CoordinatorFolder.create(
        folder / "coordinator", study="study", host="localhost", port=8002
    )
    sites = {
        name: SiteFolder.create(folder / name, SiteSettings(name=name))
        for name in ("north", "south", "west")
    }
    requests = [request_enrolment(site)[0] for site in sites.values()]
    approvals = coordinator.approve(requests)
    for name in ("north", "south"):
        activate(sites[name], approvals[name], code=coordinator.fingerprint)
    return folder, {name: path.relative_to(folder) for name, path in approvals.items()}


@pytest.fixture
def enrolled(folders, tmp_path):
    """The coordinator, the sites and their approvals, for one test alone to change."""
    made, approvals = folders
    folder = shutil.copytree(made, tmp_path / "enrolled")
    return (
        CoordinatorFolder(folder / "coordinator"),
        {name: SiteFolder(folder / name) for name in approvals},
        {name: folder / path for name, path in approvals.items()},
    )


def test_every_private_key_lies_in_one_closed_file_of_its_party(enrolled):
    """Identity keys and TLS keys alike, in every file of folders, kits, requests and approvals."""
    coordinator, sites, _ = enrolled
    count, parties = hospital_checks.check_secrets(coordinator.path.parent)
    assert parties == ["coordinator", *sites]
    assert count >= 3 + sum(len(site.private_keys) for site in sites.values())


def test_a_swapped_certificate_is_refused_at_activation(enrolled, tmp_path):
    """The coordinator, or whoever has its key, hands one site the certificate of another."""
    coordinator, sites, approvals = enrolled
    theirs = read_file(approvals["north"], Approval)
    swapped = approve(
        coordinator.identity(), site="west", signed=theirs.signed, certificate=theirs.certificate
    )
    write_file(tmp_path / "west.approval", swapped)
    with pytest.raises(SignatureError, match="certificate"):
        activate(sites["west"], tmp_path / "west.approval", code=coordinator.fingerprint)
    assert not sites["west"].tls_chain.exists()
    assert not sites["west"].study_path.exists()


def test_another_address_than_the_study_s_is_refused_at_activation(enrolled):
    coordinator, sites, approvals = enrolled
    settings = sites["west"].settings_path
    settings.write_text(settings.read_text().replace('host = ""', 'host = "elsewhere.example"'))
    with pytest.raises(SiteNotReadyError, match="elsewhere"):
        activate(sites["west"], approvals["west"], code=coordinator.fingerprint)


def test_enrolling_and_revoking_change_the_study_and_no_certificate(enrolled):
    coordinator, sites, _ = enrolled
    north = sites["north"]
    key, chain = north.tls_key.read_bytes(), north.tls_chain.read_bytes()
    later = SiteFolder.create(north.path.parent / "later", SiteSettings(name="later"))
    renewed = coordinator.approve([request_enrolment(later)[0]])
    done = activate(north, renewed["north"], code=coordinator.fingerprint)
    assert (done.added, done.removed) == (("later",), ())
    assert (north.tls_key.read_bytes(), north.tls_chain.read_bytes()) == (key, chain)
    renewed = coordinator.revoke("later")
    assert "later" not in renewed
    assert activate(north, renewed["north"], code=coordinator.fingerprint).removed == ("later",)
    assert "later" not in coordinator.study().pinned, "the server admits whom the study pins"


def test_a_certificate_is_renewed_for_the_key_of_a_stopped_site(enrolled):
    coordinator, sites, _ = enrolled
    south = sites["south"]
    study = coordinator.study()

    def days():
        issued = x509.load_pem_x509_certificates(south.tls_chain.read_bytes())[0]
        return round((issued.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86_400)

    key = south.tls_key.read_bytes()
    assert days() == 90
    renewed = coordinator.approve([south.path / "south.request"], valid_days=200)
    assert coordinator.study() == study
    with locked(south.path / START_LOCK), pytest.raises(SiteNotReadyError) as refused:
        activate(south, renewed["south"], code=coordinator.fingerprint)
    assert f"activate {renewed['south']} --dir {south.path}` again, then" in refused.value.remedy
    assert f"`cipherdag site start --dir {south.path}`" in refused.value.remedy
    assert days() == 90
    activate(south, renewed["south"], code=coordinator.fingerprint)
    assert days() == 200
    assert south.tls_key.read_bytes() == key
    shorter = coordinator.approve([south.path / "south.request"], valid_days=9)
    activate(south, shorter["south"], code=coordinator.fingerprint)
    assert days() == 200


def test_certificates_alone_are_renewed_without_a_code(enrolled, tmp_path, capsys, monkeypatch):

    coordinator, sites, _ = enrolled
    at = coordinator.path / "server"
    files = ("server.crt", "server.key", "root.crt")
    before, study = [(at / name).read_bytes() for name in files], coordinator.study()
    words = ("coordinator", "renew", "--dir", coordinator.path, "--valid-days", "300")
    assert call(capsys, monkeypatch, *words)[0] == 0
    after = [(at / name).read_bytes() for name in files]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True, True]
    server, root = (x509.load_pem_x509_certificate(after[k]) for k in (0, 2))
    server.verify_directly_issued_by(root)
    assert coordinator.study() == study
    for name, site in sites.items():
        approval = coordinator.path / "approvals" / f"{name}.approval"
        if site.study_path.exists() and site.study() == study:
            words = ("site", "activate", approval, "--dir", site.path)
            assert call(capsys, monkeypatch, *words)[0] == 0
            issued = certificates_of(site.tls_chain.read_bytes(), name)[0]
            left = issued.not_valid_after_utc - datetime.now(UTC)
            assert round(left.total_seconds() / 86_400) == 300
    changed = coordinator.revoke("west")
    words = ("site", "activate", changed["south"], "--dir", sites["south"].path)
    monkeypatch.setattr("click.prompt", pytest.fail)
    with pytest.raises(pytest.fail.Exception, match="The coordinator's code"):
        call(capsys, monkeypatch, *words)


def test_a_certificate_that_soon_expires_is_said_once_a_day(enrolled):
    _, sites, _ = enrolled
    now = datetime.now(UTC)
    said = expiring(sites["south"].tls_chain, lambda: now)
    assert next(said) == []
    now += timedelta(days=70)
    (line,) = next(said)
    assert "it expires in" in line
    assert "coordinator renew" in line
    assert next(said) == []
    now += timedelta(days=1)
    assert len(next(said)) == 1
    assert next(expiring(None)) == []


def test_a_second_study_of_one_version_is_refused(enrolled, tmp_path):
    """A coordinator that shows two sites different studies must not change one of them later."""
    coordinator, sites, _ = enrolled
    north = sites["north"]
    active = read_file(north.study_path, SignedStudy).study
    split = msgspec.structs.replace(active, sites=active.sites[:-1], issued="2026-01-01")
    forged = approve(
        coordinator.identity(),
        site="north",
        signed=sign_study(coordinator.identity(), split),
        certificate=b"",
    )
    write_file(tmp_path / "north.approval", forged)
    with pytest.raises(SignatureError, match="two different studies"):
        activate(north, tmp_path / "north.approval", code=coordinator.fingerprint)


def test_a_request_with_the_certificate_of_another_site_is_refused(enrolled, tmp_path):
    coordinator, sites, _ = enrolled
    theirs = read_file(next(sites["west"].path.glob("*.request")), Request)
    mixed = request_of(
        SigningIdentity.generate(), name="mixed", certificate_request=theirs.certificate_request
    )
    write_file(tmp_path / "mixed.request", mixed)
    with pytest.raises(CipherdagError):
        coordinator.approve([tmp_path / "mixed.request"])


def test_a_site_corrects_its_study_before_anything_is_approved(enrolled, tmp_path):
    """What it asks a certificate for follows `site.toml`; its key stays."""
    coordinator, sites, _ = enrolled
    other = SiteFolder.create(tmp_path / "other", SiteSettings(name="fresh", study="elsewhere"))
    request_enrolment(other)
    key = other.tls_key.read_bytes()
    text = other.settings_path.read_text()
    other.settings_path.write_text(text.replace('study = "elsewhere"', 'study = "study"'))
    path, request = request_enrolment(other)
    assert coordinator.read_request(path) == request
    assert other.tls_key.read_bytes() == key
    assert request_enrolment(other)[1] == request, "a second call changes nothing"
    kept = sites["north"]
    request_enrolment(kept)
    assert kept.tls_chain.exists()


def test_a_certificate_is_activated_while_it_is_valid_here(enrolled):
    coordinator, sites, approvals = enrolled
    archive = read_file(approvals["north"], Approval).certificate
    certificate, _ = certificates_of(archive, "north")
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    for now in (begins, begins + timedelta(days=1), ends):
        check_validity(certificate, now)
    with pytest.raises(SiteNotReadyError, match=r"this machine's clock says") as caught:
        check_validity(certificate, begins - timedelta(seconds=1))
    assert "the coordinator's is fast" in caught.value.remedy
    with pytest.raises(SiteNotReadyError, match=f"expired on {ends:%Y-%m-%d}") as caught:
        check_validity(certificate, ends + timedelta(seconds=1))
    assert "cipherdag coordinator renew" in caught.value.remedy
    assert coordinator.study().name == sites["north"].study().name


def test_a_clock_that_is_years_behind_activates_nothing(enrolled, monkeypatch):
    coordinator, sites, approvals = enrolled
    before = sites["south"].study_path.read_bytes()

    class Slow(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2001, 1, 1, tzinfo=tz)

    monkeypatch.setattr(enrolment, "datetime", Slow)
    with pytest.raises(SiteNotReadyError, match="clock says 2001-01-01"):
        enrolment.activate(sites["south"], approvals["south"], code=coordinator.fingerprint)
    assert sites["south"].study_path.read_bytes() == before


def test_too_few_sites_make_no_run(flare, tmp_path):
    CoordinatorFolder.create(tmp_path / "c", study="study", host="localhost", port=8002)
    with pytest.raises(CohortError, match="asks for 3"):
        Federation.connect(tmp_path / "c", purpose="a test").run(FedPC(evidence="vote"))
