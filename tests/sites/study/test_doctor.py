"""`site check`: every row finds its own fault, says what to do, and never shows a value."""

import contextlib
import hashlib
import ipaddress
import json
import os
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import hospital_folders
import pandas as pd
import pytest
from commands import call
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.deployment.rehearsal import rehearse
from cipherdag.errors import ProtectionError
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.study import checks as connection
from cipherdag.sites.study.doctor import examine, question_of_visits
from cipherdag.sites.study.site_folder import SiteFolder

NEW = ("site", "new", "--algorithm")

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CODE = "ward-9-bed-3-patient-774411"


def no_rehearsal(protection):
    del protection


@pytest.fixture
def site(tmp_path):
    made = hospital_folders.hospitals(tmp_path)
    yield made.folders["hospital-0"]
    made.close()


@pytest.fixture
def unreachable(monkeypatch):
    """No test of the other rows looks anything up."""
    monkeypatch.setattr("cipherdag.sites.study.doctor.connection_checks", lambda *_, **__: iter(()))


def findings(site, **options):
    chosen = {"rehearse": no_rehearsal, "clock": lambda: NOW} | options
    return {finding.check: finding for finding in examine(site, **chosen)}


def shown(found):
    return "\n".join(f"{f.check} {f.finding} {f.fix}" for f in found.values())


# folder, policy and keys


def test_a_sound_site_fails_no_row_but_those_of_flare(site, unreachable):
    found = findings(site)
    bad = {name for name, finding in found.items() if finding.state == "fail"}
    assert bad <= {"versions", "certificate"}
    for row in ("site.toml", "policy.toml", "keys", "study", "clock", "schema", "data", "rows"):
        assert found[row].state == "ok", row
    assert {"smallest cell", "identifiers", "memory", "sum of zeros, masking"} <= set(found)


def test_who_may_read_the_keys_is_said_only_where_modes_tell(site, unreachable, monkeypatch):
    assert "by you alone" in findings(site)["keys"].finding
    monkeypatch.setattr(os, "name", "elsewhere")
    assert "not looked at" in findings(site)["keys"].finding


def test_every_finding_that_is_not_ok_says_what_to_do(site, unreachable):
    site.policy_path.write_text("nonsense = 1")
    (site.path / "data.csv").write_text("x\n1\n")
    site.identity_path.chmod(0o644)
    found = findings(site)
    failed = {name for name, finding in found.items() if finding.state == "fail"}
    assert {"policy.toml", "keys", "data"} <= failed
    assert all(finding.fix for finding in found.values() if finding.state != "ok")


def test_an_unreadable_site_toml_ends_the_check(site):
    site.settings_path.write_text("name = 3")
    found = findings(site)
    assert found["site.toml"].state == "fail"
    assert set(found) == {"versions", "site.toml"}


def test_a_study_that_was_altered_is_found(site, unreachable):
    text = site.study_path.read_text()
    site.study_path.write_text(text.replace('"min_sites": 3', '"min_sites": 2'))
    assert findings(site)["study"].state == "fail"
    site.study_path.unlink()
    assert findings(site)["study"].state == "warn"


def test_answers_in_the_clear_are_warned_of(site, unreachable):
    site.policy_path.write_text(Policy(allow_unprotected=True).dumps())
    assert findings(site)["policy.toml"].state == "warn"


# data


@pytest.mark.parametrize(
    "content",
    [
        f"Cholesterol,Theatre,Theft,Zyrtec-dose,Ängina\n{CODE},{CODE},{CODE},{CODE},{CODE}\n" * 2,
        f"Cholesterol,Theatre\n{CODE},x\nx,{CODE}\n",
        f"{CODE},{CODE}\n1,2\n",
        f"\x00{CODE}",
        f"a,b\n{CODE}\n{CODE},1,2,3\n",
        "",
    ],
)
def test_faulty_data_are_named_without_a_value_of_them(site, unreachable, content):
    (site.path / "data.csv").write_text(content, encoding="utf-8")
    found = findings(site)
    assert found["data"].state == "fail"
    assert found["data"].fix
    text = shown(found)
    assert CODE not in text.replace(f"column '{CODE}'", "")  # a header is a name, not a value


def test_a_missing_data_file_or_schema_is_named(site, unreachable):
    (site.path / "data.csv").unlink()
    assert findings(site)["data"].state == "fail"
    (site.path / "schema.toml").write_text("nonsense")
    assert findings(site)["schema"].state == "fail"


def test_no_value_and_no_count_of_sound_data_is_shown(site, unreachable):
    table = pd.read_csv(site.path / "data.csv", dtype=str)
    text = shown(findings(site))
    assert str(len(table)) not in text
    for value in set(table.to_numpy().ravel()):
        assert value not in text


def test_rows_and_smallest_cell_are_held_against_the_policy(site, unreachable):
    site.policy_path.write_text(Policy(min_rows=10**6, min_cell_size=10**6).dumps())
    found = findings(site)
    assert found["rows"].state == "fail"
    assert found["smallest cell"].state == "warn"
    assert "Cholesterol" in found["smallest cell"].finding


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (lambda n: f"patient {n:06d}", "warn"),
        (lambda n: f"{n:08d}", "warn"),
        (lambda n: hashlib.sha256(str(n).encode()).hexdigest(), "ok"),
        (lambda n: hashlib.md5(str(n).encode()).hexdigest().upper(), "ok"),
        (lambda n: "ward A" if n % 2 else "ward B", "ok"),
    ],
)
def test_identifiers_in_the_clear_are_found_and_hashed_ones_pass(site, unreachable, make, state):
    table = pd.read_csv(site.path / "data.csv", dtype=str)
    table["person"] = [make(number) for number in range(len(table))]
    table.to_csv(site.path / "data.csv", index=False)
    with (site.path / "schema.toml").open("a") as schema:
        schema.write('\n[columns."person"]\nkind = "ignore"\n')
    found = findings(site)
    assert found["data"].state == "ok"
    assert found["identifiers"].state == state
    assert make(7) not in shown(found)


def test_copies_of_rows_are_counted_where_chance_makes_none(site, unreachable):
    table = pd.read_csv(site.path / "data.csv", dtype=str)
    with (site.path / "schema.toml").open("a") as schema:
        for name, step in (("dose", 1.37), ("weight", 0.81)):
            table[name] = [f"{20 + step * number % 60:.2f}" for number in range(len(table))]
            schema.write(f'\n[columns.{name}]\nkind = "continuous"\n')
    table.to_csv(site.path / "data.csv", index=False)
    assert findings(site)["repeated rows"].finding == "no row repeats another"
    pd.concat([table, table[:5]]).to_csv(site.path / "data.csv", index=False)
    found = findings(site)["repeated rows"]
    assert found.state == "warn"
    assert found.finding.startswith(f"5 of {len(table) + 5:,} rows repeat another in all columns")
    assert "several times" not in findings(site)["odd values"].finding


def test_rows_of_few_categories_repeat_by_chance(site, unreachable):
    found = findings(site)["repeated rows"]
    assert found.state == "ok"
    assert "rows repeat another" in found.finding


def test_a_likely_mistake_is_named_by_column_without_its_value(site, unreachable):
    assert findings(site)["odd values"].state == "ok"
    table = pd.read_csv(site.path / "data.csv", dtype=str)
    table["dose"] = [f"{20 + number % 40}.5" for number in range(len(table))]
    table.loc[7, "dose"] = "-9999"
    table["ward"] = ["Upper", "upper"] * (len(table) // 2) + ["upper"] * (len(table) % 2)
    table["race"] = ["n/a", *["f", "m"] * len(table)][: len(table)]
    table.to_csv(site.path / "data.csv", index=False)
    with (site.path / "schema.toml").open("a") as schema:
        schema.write('\n[columns.dose]\nkind = "continuous"\n[columns.ward]\nkind = "discrete"\n')
        schema.write('categories = ["Upper", "upper"]\n[columns.race]\nkind = "discrete"\n')
        schema.write('categories = ["f", "m", "n/a"]\n')
    found = findings(site)
    assert found["data"].state == "ok"
    assert found["odd values"].state == "warn"
    assert "'dose': a number that often marks a missing value" in found["odd values"].finding
    assert "'ward': two spellings of a category" in found["odd values"].finding
    assert "'race': a category that often marks a missing value" in found["odd values"].finding
    assert "9999" not in shown(found)
    assert "n/a" not in shown(found)


@pytest.mark.parametrize("key", ["P-{:03d}", "{:d}"], ids=["texts", "numbers"])
def test_a_key_is_asked_about_until_the_schema_answers(site, unreachable, key):
    assert findings(site)["whose rows"].state == "ok"
    assert question_of_visits(site) == []
    table = pd.read_csv(site.path / "data.csv", dtype=str)
    patients = [number // 4 for number in range(len(table))]
    table["pid"] = [key.format(101 + number) for number in patients]
    table["height"] = [150 + number * 37 % 41 for number in patients]
    table.to_csv(site.path / "data.csv", index=False)
    schema = site.path / "schema.toml"
    kind = "ignore" if "P" in key else "continuous"
    drafted = f'\n[columns.pid]\nkind = "{kind}"\n[columns.height]\nkind = "continuous"\n'
    schema.write_text(schema.read_text() + drafted)
    found = findings(site)["whose rows"]
    assert (found.state, found.finding) == ("warn", "values repeat: 'pid'")
    (question,) = question_of_visits(site)
    assert question.startswith("LOOK: 'pid' may say whose visit a row is")
    schema.write_text('rows = "persons"\n' + schema.read_text())
    assert findings(site)["whose rows"].state == "ok"
    assert question_of_visits(site) == []


# clock


def test_a_clock_behind_what_was_signed_is_found(site, unreachable):
    past = datetime(2020, 1, 1, tzinfo=UTC)
    assert findings(site, clock=lambda: past)["clock"].state == "fail"
    site.study_path.unlink()
    assert findings(site, clock=lambda: past)["clock"].state == "ok"


def test_a_clock_that_ran_backwards_fails_nothing(site, unreachable, capsys, monkeypatch):
    times = iter(NOW - timedelta(minutes=minutes) for minutes in (9, 8, 20))
    made = Ledger("hospital-0", site.identity(), path=site.ledger_path, clock=lambda: next(times))
    about = {"algorithm": "fedpc", "kind": "edge-votes", "protection": "masking", "sites": 3}
    for number in range(3):
        made.append(
            session=bytes(16), round_number=number, values=1, content=b"x", digest=b"", **about
        )
    found = findings(site)["clock"]
    assert found.state == "warn"
    assert "ran backwards before line 3 of the ledger" in found.finding
    code, text, remark = call(capsys, monkeypatch, "audit", "verify", site.path)
    assert code == 0
    assert "3 records, unbroken" in text
    assert remark == "hospital-0: the site's clock ran backwards before line 3\n"


# the rehearsal


@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_the_rehearsal_sums_zeros(protection):
    if protection == "bfv":
        pytest.importorskip("tenseal")
    rehearse(protection)


def test_a_failed_rehearsal_is_a_finding(site, unreachable):
    def fail(protection):
        raise ProtectionError(f"{protection} is not installed")

    found = findings(site, rehearse=fail)
    assert found["sum of zeros, masking"].state == "fail"
    site.policy_path.write_text(Policy(protections=frozenset({"masking"})).dumps())
    assert "sum of zeros, bfv" not in findings(site, rehearse=fail)


# name, port and TLS


class Authority:
    """A root certificate, and certificates for a server and a site."""

    def __init__(self):
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.root = self.issue("root", self.key.public_key(), ca=True)

    def issue(self, name, public, *, ca=False, days=(-1, 30), host="localhost"):
        now = datetime.now(UTC)
        names = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.2"))]
        identifier = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
                critical=False,
            )
        )
        if ca:
            builder = builder.add_extension(identifier, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def write(self, folder, stem, certificate, key=None):
        path = folder / f"{stem}.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        if key is not None:
            content = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            (folder / f"{stem}.key").write_bytes(content)
        return path


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def server_key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def startup(authority, server_key, tmp_path):
    folder = tmp_path / "startup"
    folder.mkdir()
    own = authority.issue("site", server_key.public_key())
    chain = authority.write(folder, "site", own, server_key)
    chain.write_bytes(chain.read_bytes() + authority.root.public_bytes(serialization.Encoding.PEM))
    return folder


@contextlib.contextmanager
def listening(answer):
    """A port of the loopback whose every connection ``answer`` deals with."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connected, _ = server.accept()
                    with connected, contextlib.suppress(OSError):
                        connected.settimeout(60)
                        answer(connected)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=60)


def tls_answer(authority, key, tmp_path, *, waits=True, **issued):
    authority.write(tmp_path, "server", authority.issue("s", key.public_key(), **issued), key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    context.set_alpn_protocols(["h2"])

    def answer(connected):
        with (
            contextlib.suppress(ssl.SSLError),
            context.wrap_socket(connected, server_side=True) as tls,
        ):
            if waits:
                tls.recv(1)  # until the site has seen enough

    return answer


def rows(port, startup, host="localhost"):
    found = connection.connection_checks(host, port, startup / "site.key", startup / "site.crt")
    return {finding.check: finding for finding in found}


def test_a_site_reaches_the_coordinator(authority, server_key, startup, tmp_path):
    with listening(tls_answer(authority, server_key, tmp_path)) as port:
        found = rows(port, startup)
    assert [finding.state for finding in found.values()] == ["ok", "ok", "ok"]
    assert "TLSv1.3" in found["TLS"].finding


def test_each_bad_certificate_has_its_own_cause(authority, server_key, startup, tmp_path):
    cases = [
        ({"days": (-9, -2)}, authority, "expired"),
        ({"days": (2, 9)}, authority, "not valid yet"),
        ({"host": "elsewhere.example"}, authority, "another host name"),
        ({}, Authority(), "not of the study's root"),
    ]
    for issued, issuer, said in cases:
        with listening(tls_answer(issuer, server_key, tmp_path, **issued)) as port:
            found = rows(port, startup)
        assert found["port"].state == "ok"
        assert found["TLS"].state == "fail"
        assert said in found["TLS"].finding
        assert found["TLS"].fix


def test_a_proxy_that_answers_in_plain_text_is_named(startup):
    with listening(lambda c: c.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")) as p:
        found = rows(p, startup)
    assert "does not speak TLS" in found["TLS"].finding
    assert "proxy" in found["TLS"].fix


def test_a_certificate_not_accepted_is_named(authority, server_key, startup, tmp_path):
    """TLS 1.3 says so after the handshake only."""
    with listening(tls_answer(authority, server_key, tmp_path, waits=False)) as port:
        found = rows(port, startup)
    assert (found["TLS"].state, "cuts" in found["TLS"].finding) == ("fail", True)
    assert "revoked" in found["TLS"].fix


def test_a_connection_that_is_cut_is_named(startup):
    with listening(lambda connected: None) as port:
        found = rows(port, startup)
    assert "cut" in found["TLS"].finding


def test_a_closed_port_and_an_unknown_name_are_told_apart(startup, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = rows(port, startup)
    assert "refuses" in found["port"].finding
    assert "TLS" not in found

    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = rows(port, startup, host="nowhere.invalid")
    assert found["DNS"].state == "fail"
    assert set(found) == {"DNS"}


def test_a_silent_port_is_named(startup, monkeypatch):
    def silent(*_, **__):
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    found = rows(1, startup, host="127.0.0.1")
    assert "does not answer" in found["port"].finding
    assert "firewall" in found["port"].fix.lower()


@pytest.mark.parametrize(
    ("days", "state", "said"),
    [
        ((-1, 90), "ok", "days left"),
        ((-1, 5), "warn", "expires in"),
        ((-9, -2), "fail", "expired on"),
        ((2, 9), "fail", "not valid yet"),
    ],
)
def test_the_days_of_a_certificate_are_counted(authority, server_key, tmp_path, days, state, said):
    issued = authority.issue("site", server_key.public_key(), days=days)
    path = authority.write(tmp_path, "c", issued)
    (finding,) = connection.certificate_checks(path, datetime.now(UTC))
    assert (finding.state, said in finding.finding) == (state, True)
    path.write_bytes(b"no certificate")
    (finding,) = connection.certificate_checks(path, datetime.now(UTC))
    assert finding.state == "fail"


# the command


def test_the_command_prints_its_checks_and_exits_with_4(site, unreachable, capsys, monkeypatch):
    monkeypatch.setattr("cipherdag.deployment.rehearsal.rehearse", no_rehearsal)
    site.policy_path.write_text("nonsense = 1")
    code, out, err = call(capsys, monkeypatch, "site", "check", "--dir", site.path)
    assert code == 4
    assert "fail  policy.toml" in out
    assert "-> Correct policy.toml" in out
    assert "checks failed" in err
    code, out, _ = call(capsys, monkeypatch, "site", "check", "--json", "--dir", site.path)
    assert code == 4
    assert {"check", "state", "finding", "fix"} == set(json.loads(out)[0])


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_other_commands_of_a_site(site, capsys, monkeypatch, tmp_path):
    code, out, _ = call(capsys, monkeypatch, "site", "status", "--json", "--dir", site.path)
    assert code == 0
    assert json.loads(out)["study"] == "study"
    code, out, _ = call(capsys, monkeypatch, "site", "releases", "--dir", site.path)
    assert (code, out.strip()) == (0, "Nothing has left this site.")
    code, _, err = call(capsys, monkeypatch, "site", "approve", "ffffffff", "--dir", site.path)
    assert code == 2
    assert "no runs that asked start with ffffffff" in err
    code, _, err = call(capsys, monkeypatch, *NEW, "fedpc", "../up", "--dir", tmp_path / "new")
    assert (code, "cannot name a site" in err) == (2, True)
    assert not (tmp_path / "new").exists()
    code, out, _ = call(capsys, monkeypatch, "audit", "verify", site.path)
    assert code == 0
    code, _, err = call(capsys, monkeypatch, "coordinator", "sites", "--dir", tmp_path)
    assert code == 4
    assert "no coordinator's folder" in err


def test_a_new_site_allows_the_study_s_algorithm_and_asks_a_person(capsys, monkeypatch, tmp_path):
    made = tmp_path / "north"
    code, _, err = call(capsys, monkeypatch, "site", "new", "north", "--dir", made)
    assert (code, "Missing option '--algorithm'" in err) == (2, True)
    code, _, err = call(capsys, monkeypatch, *NEW, "fedpcc", "north", "--dir", made)
    assert code == 2
    assert "there is no algorithm named 'fedpcc'" in err
    assert f"Installed here are {', '.join(ALGORITHMS)}" in err
    assert not made.exists()
    code, out, _ = call(capsys, monkeypatch, *NEW, "fedpc", "north", "--dir", made)
    assert code == 0
    assert "It will take part in runs of fedpc that a person here approves." in out
    policy = SiteFolder(made).policy()
    assert policy == Policy(algorithms=frozenset({"fedpc"}))
    assert (policy.approve_runs, policy.approve_cohorts) == ("manual", "manual")
