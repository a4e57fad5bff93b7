"""The contract of every engine on real Datasites, and what a Datasite must refuse."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import ipaddress
import json
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from syft.client.api import SyftAPICall
from syft.serde.recursive import chunk_bytes, recursive_scheme
from syft.serde.serialize import _serialize
from syft.server.credentials import SyftSigningKey
from syft.types.uid import UID

from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.enrolment import request_enrolment
from cipherdag.deployment.study_engine import open_datasite_engine
from cipherdag.errors import (
    MalformedMessageError,
    OutputError,
    ParameterError,
    PolicyRefusedError,
    SiteNotReadyError,
)
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.engines import syft_wire
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.syft import SyftEngine, SyftLink
from cipherdag.protocol.engines.syft_site import SyftSite
from cipherdag.sites.study.site_folder import DatasiteSettings, SiteFolder, SiteSettings

SITES = ("north", "south")
SECRET = "patient 4711 is 93 years old"
OPERATIONS = frozenset({"ask", "raise-value", "raise-type", "text", "sleep", "long"})
TIMEOUT_S = 60.0
PROXY = Path(__file__).parents[2] / "docs" / "engines" / "syft-proxy.conf"


class Echo:
    """A site's handler: bytes in, bytes out."""

    def __init__(self, name):
        self.name = name
        self.handled = []
        self.wake = threading.Event()

    def __call__(self, operation, message):
        self.handled.append(operation)
        if operation == "raise-value":
            raise ValueError(SECRET)
        if operation == "raise-type":
            raise TypeError(SECRET)  # whose text PySyft would send
        if operation == "text":
            return SECRET
        if operation == "long":
            return bytes(syft_wire.SYFT_MESSAGE_BYTES + 1)
        if operation == "sleep":
            self.wake.wait(60)
        return self.name.encode() + b":" + message


class Deployment:
    def __init__(self, folder):
        self.folder = folder
        self.echoes = {name: Echo(name) for name in SITES}
        self.key = new_key(folder / "coordinator.pem")
        self.public = SigningIdentity.load(self.key).public
        self.sites = {}

    def start(self, name, port=0):
        site = SyftSite(
            self.echoes[name],
            name=name,
            coordinator=self.public,
            log=self.folder / f"{name}.log",
            operations=OPERATIONS,
            python=Path(sys.executable),
            port=port,
        )
        self.sites[name] = site.__enter__()

    def stop(self, name):
        self.sites.pop(name).__exit__(None, None, None)

    def url(self, name):
        return f"http://127.0.0.1:{self.sites[name].port}"

    def engine(self):
        return SyftEngine({name: SyftLink(self.url(name)) for name in SITES}, key=self.key)


def raw_key(path):
    return serialization.load_pem_private_key(path.read_bytes(), password=None).private_bytes_raw()


def new_key(path):
    SigningIdentity.generate().save(path)
    return path


@pytest.fixture(scope="module")
def datasites(tmp_path_factory):
    deployment = Deployment(tmp_path_factory.mktemp("syft"))
    try:
        for name in SITES:
            deployment.start(name)
        yield deployment
    finally:
        for name in list(deployment.sites):
            deployment.stop(name)


@pytest.fixture
def engine(datasites):
    with contextlib.closing(datasites.engine()) as engine:
        yield engine


# the contract of every engine


@pytest.mark.parametrize("message", [b"", b"\x00", bytes(range(256)), os.urandom(3_000_000)])
def test_every_site_gets_and_returns_the_same_bytes(engine, message):
    replies = engine.call("ask", dict.fromkeys(SITES, message), timeout_s=TIMEOUT_S)
    assert replies == {site: site.encode() + b":" + message for site in SITES}


def test_each_site_gets_its_own_message_and_no_other_site_is_asked(datasites, engine):
    before = len(datasites.echoes["south"].handled)
    assert engine.call("ask", {"north": b"one"}, timeout_s=TIMEOUT_S) == {"north": b"north:one"}
    assert len(datasites.echoes["south"].handled) == before


def test_a_missing_site_fails_alone(engine):
    replies = engine.call("ask", {"north": b"x", "nowhere": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"north": b"north:x", "nowhere": SiteFailure("unreachable")}


@pytest.mark.parametrize("operation", ["shell", "", "ask ", "ASK"])
def test_a_wrong_operation_is_refused_at_the_site_unread(datasites, engine, operation):
    before = len(datasites.echoes["north"].handled)
    replies = engine.call(operation, {"north": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"north": SiteFailure("failed")}
    assert len(datasites.echoes["north"].handled) == before


@pytest.mark.parametrize("operation", ["raise-value", "raise-type", "text"])
def test_the_text_of_an_exception_never_leaves_the_site(
    datasites, engine, monkeypatch, caplog, operation
):
    received = []
    request = requests.Session.request

    def watched(*args, **kwargs):
        response = request(*args, **kwargs)
        received.append(response.content)
        return response

    monkeypatch.setattr(requests.Session, "request", watched)
    with caplog.at_level(logging.ERROR, logger="cipherdag.site"):
        replies = engine.call(operation, {"north": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"north": SiteFailure("failed")}
    assert received
    assert not any(SECRET.encode() in body for body in received)
    assert SECRET.encode() not in (datasites.folder / "north.log").read_bytes()
    if operation != "text":
        assert SECRET in caplog.text  # the site's own log names the cause


def test_a_hundred_megabytes_go_there_and_back(engine):
    message = os.urandom(1_000_000) * 100
    replies = engine.call("ask", {"south": message}, timeout_s=300.0)
    assert replies == {"south": b"south:" + message}


def test_a_message_over_the_limit_is_refused_by_name_and_nothing_is_sent(datasites, engine):
    before = len(datasites.echoes["north"].handled)
    too_long = bytes(syft_wire.SYFT_MESSAGE_BYTES + 1)
    with pytest.raises(ParameterError, match="PySyft engine carries") as caught:
        engine.call("ask", {"north": b"x", "south": too_long}, timeout_s=TIMEOUT_S)
    assert caught.value.site == "south"
    with pytest.raises(ParameterError, match="64 bytes"):
        engine.call("a" * 65, {"north": b"x"}, timeout_s=TIMEOUT_S)
    assert len(datasites.echoes["north"].handled) == before
    assert engine.call("long", {"north": b"x"}, timeout_s=TIMEOUT_S) == {
        "north": SiteFailure("failed")
    }


def test_a_slow_site_fails_alone_and_answers_again(datasites, engine):
    replies = engine.call("sleep", {"south": b""}, timeout_s=1.0)
    assert replies == {"south": SiteFailure("timeout")}
    replies = engine.call("ask", dict.fromkeys(SITES, b"x"), timeout_s=2.0)
    assert replies == {"north": b"north:x", "south": SiteFailure("timeout")}
    datasites.echoes["south"].wake.set()
    replies = engine.call("ask", {"south": b"y"}, timeout_s=TIMEOUT_S)
    assert replies == {"south": b"south:y"}


def test_a_killed_site_fails_alone_and_is_reached_again_after_its_restart(datasites, engine):
    everyone = dict.fromkeys(SITES, b"x")
    assert isinstance(engine.call("ask", everyone, timeout_s=TIMEOUT_S)["south"], bytes)
    port = datasites.sites["south"].port
    os.kill(datasites.sites["south"].pid, signal.SIGKILL)
    for _ in range(2):
        replies = engine.call("ask", everyone, timeout_s=TIMEOUT_S)
        assert replies == {"north": b"north:x", "south": SiteFailure("unreachable")}
    datasites.stop("south")
    datasites.start("south", port)
    replies = engine.call("ask", everyone, timeout_s=TIMEOUT_S)
    assert replies == {site: site.encode() + b":x" for site in SITES}
    datasites.stop("south")  # a clean stop frees the port too
    datasites.start("south", port)
    assert engine.call("ask", everyone, timeout_s=TIMEOUT_S) == replies


# what a Datasite refuses


@pytest.fixture
def account(datasites):
    """The Datasite's identifier and the coordinator's own signing key, as a thief would use."""
    metadata = requests.get(f"{datasites.url('north')}/api/v2/metadata", timeout=20).json()
    assert metadata["site"] == "north"
    return metadata["id"], SigningIdentity.load(datasites.key)


def call(server, key, *, site="north", operation="ask", message=b"x"):
    parts = syft_wire.call_parts(server, site, operation, message)
    return syft_wire.write_call(key.sign(syft_wire.CALL_DOMAIN, *parts), operation, message)


def send(datasites, body):
    return requests.post(
        f"{datasites.url('north')}/api/v2/api_call", data=body, timeout=TIMEOUT_S
    ).status_code


def test_nobody_can_log_in(datasites):
    """PySyft's default administrator is info@openmined.org, with the password changethis."""
    for email in ("info@openmined.org", "admin@cipherdag.example", "coordinator@cipherdag.example"):
        for password in ("changethis", "", None):
            reply = requests.post(
                f"{datasites.url('north')}/api/v2/login",
                json={"email": email, "password": password},
                timeout=20,
            )
            assert reply.status_code == 404


def test_a_stranger_s_signature_is_refused(datasites, account):
    server, _ = account
    before = len(datasites.echoes["north"].handled)
    assert send(datasites, call(server, SigningIdentity.generate())) == 401
    for body in (b"", b"x", os.urandom(1000), bytes(64) + b"\xff\xff", bytes(64) + b"\x00\x01\xff"):
        assert send(datasites, body) == 401
    assert len(datasites.echoes["north"].handled) == before


def runs(command):
    """Bytes at which PySyft's decoder runs a command."""
    message = recursive_scheme.new_message()
    message.canonicalName, message.version = "_GenericAlias", 1
    named = {"path": "subprocess.Popen", "args": command}
    chunk_bytes(named, lambda own: _serialize(own, to_bytes=True), "nonrecursiveBlob", message)
    return message.to_bytes()


def test_pysyft_decodes_nothing_of_a_stranger_nor_of_the_coordinator(datasites, account, tmp_path):
    """Its decoder calls what the bytes name: so a site's table went to whoever reached the port."""
    server, key = account
    taken = tmp_path / "taken"
    body = runs(["touch", str(taken)])
    assert send(datasites, body) == 401
    assert send(datasites, call(server, key, message=body)) == 200
    signed = SyftAPICall(
        server_uid=UID.from_string(server), path="api.call", args=[], kwargs={}, blocking=True
    ).sign(SyftSigningKey.from_string(raw_key(datasites.key).hex()))
    signed.serialized_message = body
    assert send(datasites, _serialize(signed, to_bytes=True)) == 401
    time.sleep(1.0)
    assert not taken.exists()


class Forging(BaseHTTPRequestHandler):
    """What a site may answer: its metadata, and bytes of its own."""

    body = b""

    def do_GET(self):
        self.answer(b'{"site": "north", "id": "1"}')

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(self.body)

    def answer(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_pysyft_decodes_no_site_s_reply_at_the_coordinator(tmp_path, monkeypatch):
    taken = tmp_path / "taken"
    monkeypatch.setattr(Forging, "body", runs(["touch", str(taken)]))
    with HTTPServer(("127.0.0.1", 0), Forging) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        links = {"north": SyftLink(f"http://127.0.0.1:{server.server_port}")}
        with contextlib.closing(SyftEngine(links, key=new_key(tmp_path / "own.pem"))) as engine:
            replies = engine.call("ask", {"north": b"x"}, timeout_s=TIMEOUT_S)
        server.shutdown()
    time.sleep(1.0)
    assert not taken.exists()
    # the first byte of what PySyft would have read says ANSWERED; no envelope is in the rest
    assert replies == {"north": Forging.body[1:]}


@pytest.mark.parametrize("metadata", [b"[" * 100_000, b'{"site": 1, "id": 2}', b"[]", b""])
def test_metadata_of_a_wrong_form_is_a_site_that_failed(tmp_path, monkeypatch, metadata):
    monkeypatch.setattr(Forging, "do_GET", lambda own: own.answer(metadata))
    with HTTPServer(("127.0.0.1", 0), Forging) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        links = {"north": SyftLink(f"http://127.0.0.1:{server.server_port}")}
        with contextlib.closing(SyftEngine(links, key=new_key(tmp_path / "own.pem"))) as engine:
            assert engine.present(timeout_s=TIMEOUT_S) == set()
            replies = engine.call("ask", {"north": b"x"}, timeout_s=TIMEOUT_S)
        server.shutdown()
    assert replies == {"north": SiteFailure("failed")}


def test_an_altered_call_or_one_of_before_the_start_is_not_acted_on(datasites, account):
    server, key = account
    before = len(datasites.echoes["north"].handled)
    body = call(server, key)
    for altered in (body[:-1], body + b"x", body[:-1] + b"y", body[:64] + b"\x00\x02" + body[66:]):
        assert send(datasites, altered) == 401
    assert send(datasites, call(str(UID()), key)) == 401
    assert len(datasites.echoes["north"].handled) == before
    assert send(datasites, body) == 200
    assert len(datasites.echoes["north"].handled) == before + 1


def test_a_body_over_the_limit_is_refused_before_it_is_decoded(datasites):
    limit = syft_wire.SYFT_MESSAGE_BYTES + syft_wire.ENVELOPE_BYTES

    def endless():
        for _ in range(limit // 2**20 + 2):
            yield bytes(2**20)

    reply = requests.post(f"{datasites.url('north')}/api/v2/api_call", data=endless(), timeout=60)
    assert reply.status_code == 413


@pytest.mark.parametrize(
    "path",
    ["", "docs", "openapi.json", "api/v2/", "api/v2/login", "api/v2/register", "api/v2/stream"],
)
def test_pysyft_s_other_paths_do_not_exist(datasites, path):
    for method in ("GET", "POST"):
        reply = requests.request(method, f"{datasites.url('north')}/{path}", timeout=20)
        assert reply.status_code == 404


# keys, ports and processes


def test_no_secret_is_at_a_site_and_the_key_is_in_no_repr(datasites, engine):
    engine.call("ask", dict.fromkeys(SITES, b"x"), timeout_s=TIMEOUT_S)
    raw = raw_key(datasites.key)
    secrets = (raw, raw.hex().encode(), base64.b64encode(raw), datasites.key.read_bytes())
    for name in SITES:
        process = datasites.sites[name].pid
        seen = b"".join(
            Path(f"/proc/{process}/{kind}").read_bytes() for kind in ("cmdline", "environ")
        )
        log = datasites.folder / f"{name}.log"
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        seen += log.read_bytes()
        for own in (
            engine,
            *engine._datasites.values(),
            *vars(engine).values(),
            *vars(engine._datasites[name]).values(),
        ):
            seen += repr(own).encode()
        assert not any(secret in seen for secret in secrets)


def test_a_readable_or_missing_key_is_refused(tmp_path, datasites):
    key = new_key(tmp_path / "coordinator.pem")
    links = {"north": SyftLink(datasites.url("north"))}
    key.chmod(0o640)
    with pytest.raises(PolicyRefusedError, match="open to other users"):
        SyftEngine(links, key=key)
    key.unlink()
    with pytest.raises(OutputError, match="cannot read the private key"):
        SyftEngine(links, key=key)


def test_a_key_that_the_site_does_not_pin_is_named(tmp_path, datasites):
    links = {"north": SyftLink(datasites.url("north"))}
    before = len(datasites.echoes["north"].handled)
    with (
        contextlib.closing(SyftEngine(links, key=new_key(tmp_path / "stale.pem"))) as engine,
        pytest.raises(SiteNotReadyError, match="does not accept this coordinator's key") as caught,
    ):
        engine.call("ask", {"north": b"x"}, timeout_s=TIMEOUT_S)
    assert caught.value.site == "north"
    assert "newest approval" in caught.value.remedy
    assert len(datasites.echoes["north"].handled) == before


def test_swapped_datasites_are_named_before_anything_is_sent(datasites):
    before = {name: len(echo.handled) for name, echo in datasites.echoes.items()}
    links = {"north": SyftLink(datasites.url("south")), "south": SyftLink(datasites.url("north"))}
    with contextlib.closing(SyftEngine(links, key=datasites.key)) as engine:
        assert engine.present(timeout_s=TIMEOUT_S) == set()
        for site, other in (("north", "south"), ("south", "north")):
            with pytest.raises(
                SiteNotReadyError, match=f"leads to the Datasite of '{other}'"
            ) as caught:
                engine.call("ask", {site: b"x"}, timeout_s=TIMEOUT_S)
            assert caught.value.site == site
            assert "send a new request" in caught.value.remedy
    assert before == {name: len(echo.handled) for name, echo in datasites.echoes.items()}


def test_the_sites_that_are_there_are_seen(datasites, engine):
    assert engine.present(timeout_s=TIMEOUT_S) == set(SITES)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = SyftLink(f"http://127.0.0.1:{unused.getsockname()[1]}")
        links = {"north": SyftLink(datasites.url("north")), "west": away}
        with contextlib.closing(SyftEngine(links, key=datasites.key)) as other:
            assert other.present(timeout_s=TIMEOUT_S) == {"north"}


def test_a_call_for_one_site_is_refused_at_another(datasites, account):
    """A site that claims another Datasite's identifier gets calls that it cannot pass on."""
    server, key = account
    before = len(datasites.echoes["north"].handled)
    assert send(datasites, call(server, key, site="south")) == 401
    assert len(datasites.echoes["north"].handled) == before


def test_one_loopback_port_is_open_and_no_reply_reaches_a_disk(datasites, engine):
    marker = os.urandom(16).hex().encode()
    for _ in range(3):
        engine.call("ask", {"north": marker * 100_000}, timeout_s=TIMEOUT_S)
    site = datasites.sites["north"]
    process = psutil.Process(site.pid)
    assert process.children() == []
    listening = [c.laddr for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    assert [(a.ip, a.port) for a in listening] == [("127.0.0.1", site.port)]
    for folder in (site._private, datasites.folder):
        for file in folder.rglob("*"):
            assert not file.is_file() or marker not in file.read_bytes()
    assert not [f for f in process.open_files() if f.path.endswith((".db", ".db-wal"))]


def test_memory_does_not_grow_with_the_rounds(datasites, engine):
    process = psutil.Process(datasites.sites["north"].pid)
    message, growth = os.urandom(1_000_000), []
    for _ in range(4):
        before = process.memory_info().rss
        for _ in range(20):
            engine.call("ask", {"north": message}, timeout_s=TIMEOUT_S)
        growth.append(process.memory_info().rss - before)
    assert min(growth) < 10_000_000  # half of what was sent: what is kept is kept every time


def site_of(tmp_path, **options):
    chosen = {"python": Path(sys.executable), "coordinator": bytes(32)} | options
    return SyftSite(
        Echo("a"), name="a", log=tmp_path / "datasite.log", operations=OPERATIONS, **chosen
    )


def test_a_busy_port_is_named_and_nothing_is_left_behind(tmp_path):
    before = {child.pid for child in psutil.Process().children()}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        key = SigningIdentity.generate().public
        site = site_of(tmp_path, coordinator=key, port=taken.getsockname()[1])
        with pytest.raises(SiteNotReadyError, match="did not start"), site:
            pass
    assert {child.pid for child in psutil.Process().children()} == before
    assert site._private is None


@pytest.mark.parametrize(
    ("python", "said"),
    [("/bin/false", "did not start"), ("/nowhere/python", "'/nowhere/python' cannot be run")],
)
def test_an_interpreter_without_pysyft_is_named(tmp_path, python, said):
    site = site_of(tmp_path, python=Path(python))
    with pytest.raises(SiteNotReadyError, match=said), site:
        pass
    assert site._private is None


CHILD = """
import sys, time
from pathlib import Path
from cipherdag.protocol.engines.syft_site import SyftSite
site = SyftSite(lambda o, m: m, name="a", coordinator=bytes.fromhex(sys.argv[2]),
                log=Path(sys.argv[1]), operations=frozenset(), python=Path(sys.executable))
with site:
    print(site.pid, site._private, flush=True)
    time.sleep(600)
"""


def test_the_datasite_ends_when_the_site_is_killed(tmp_path):
    key = SigningIdentity.generate().public.hex()
    command = [sys.executable, "-c", CHILD, str(tmp_path / "log"), key]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as site:
        pid, private = site.stdout.readline().split()
        datasite = psutil.Process(int(pid))
        site.send_signal(signal.SIGKILL)
        datasite.wait(30)
    assert not datasite.is_running()
    assert not Path(private.decode()).exists()


# frames


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x00\x03" + bytes(7) + b"\x05" + b"askab",  # two bytes lack
        b"\x00\x41" + bytes(8) + b"a" * 65,  # the name is too long
        b"\x00\x01" + b"\x00\x00\x00\x01" + bytes(4) + b"a",  # 4 GiB are announced
        b"\x00\x01" + bytes(8) + b"\xff",  # not text
    ],
)
def test_a_broken_frame_is_refused(sent):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(MalformedMessageError):
            syft_wire.receive_request(ours)


def test_the_site_survives_a_broken_frame(datasites, engine):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(datasites.sites["north"]._private / "site.sock"))
        connection.sendall(b"\xff" * 10)
    assert engine.call("ask", {"north": b"x"}, timeout_s=TIMEOUT_S) == {"north": b"north:x"}


# addresses and the TLS proxy


@pytest.mark.parametrize(
    "url",
    [
        "http://site.example",
        "http://10.0.0.1:80",
        "127.0.0.1:80",
        "ftp://127.0.0.1",
        "https://",
        "https://site.example:99999",
        "https://user:word@site.example",
        "https://site.example/elsewhere",
        "https://[::1",
        "https://" + "a" * 200,
    ],
)
def test_an_address_in_the_clear_is_refused(url):
    with pytest.raises(ParameterError, match="neither https nor loopback"):
        SyftLink(url)


def certificate(folder, name, issuer=None):
    """A key and a certificate of 127.0.0.1, signed by itself or by an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signing_key, signed_by = (key, subject) if issuer is None else (issuer[0], issuer[1].subject)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(signing_key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return key, signed


@pytest.fixture
def proxy(datasites, tmp_path):
    """The shipped configuration with this machine's names, in a real nginx."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert nginx, "this test needs nginx: apt-get install nginx-light"
    tmp_path.chmod(0o755)
    authority = certificate(tmp_path, "authority")
    certificate(tmp_path, "site", authority)
    certificate(tmp_path, "coordinator", authority)
    certificate(tmp_path, "stranger")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = PROXY.read_text()
    for shipped, here, count in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl", 1),
        ("/etc/cipherdag/tls/site.pem", f"{tmp_path}/site.pem", 1),
        ("/etc/cipherdag/tls/site.key", f"{tmp_path}/site.key", 1),
        ("/etc/cipherdag/tls/coordinator-authority.pem", f"{tmp_path}/authority.pem", 1),
        ("127.0.0.1:8101", f"127.0.0.1:{datasites.sites['north'].port}", 2),
    ):
        assert server.count(shipped) == count
        server = server.replace(shipped, here)
    (tmp_path / "site.conf").write_text(server)
    temporary = "".join(
        f"{kind}_temp_path {tmp_path}/temp;\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off;\npid {tmp_path}/nginx.pid;\nerror_log {tmp_path}/error.log;\n"
        f"events {{}}\nhttp {{\n{temporary}include {tmp_path}/site.conf;\n}}\n"
    )
    process = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")])
    try:
        wait_for_port(port)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def wait_for_port(port):
    deadline = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def proxied(url, key, folder, *, authority="authority", own="coordinator"):
    link = SyftLink(
        url,
        authority=folder / f"{authority}.pem",
        certificate=(folder / f"{own}.pem", folder / f"{own}.key") if own else None,
    )
    with contextlib.closing(SyftEngine({"north": link}, key=key)) as engine:
        return engine.call("ask", {"north": b"x" * 5_000_000}, timeout_s=TIMEOUT_S)["north"]


def test_the_shipped_proxy_carries_rounds_over_mutual_tls(proxy, datasites, tmp_path):
    assert proxied(proxy, datasites.key, tmp_path) == b"north:" + b"x" * 5_000_000
    assert list((tmp_path / "temp").rglob("*")) == []  # nothing was buffered on a disk


def test_a_coordinator_s_folder_gives_its_links_certificates(proxy, datasites, tmp_path):
    """The address from the site's request, the rest from ``tls/``; see docs/engines/pysyft.md."""
    folder = CoordinatorFolder.create(tmp_path / "own", study="study", engine="syft")
    settings = DatasiteSettings(url=proxy, port=8101, python=sys.executable)
    site = SiteFolder.create(tmp_path / "north", SiteSettings(name="north", datasite=settings))
    folder.approve([request_enrolment(site)[0]])
    shutil.copy(datasites.key, folder.path / "keys" / "datasites.pem")
    with contextlib.closing(open_datasite_engine(folder.path, folder.study())) as engine:
        assert engine.present(timeout_s=TIMEOUT_S) == set()  # no authority is known yet
    for name in ("coordinator.pem", "coordinator.key"):
        shutil.copy(tmp_path / name, folder.path / "tls" / name)
    shutil.copy(tmp_path / "authority.pem", folder.path / "tls" / "north.pem")
    with contextlib.closing(open_datasite_engine(folder.path, folder.study())) as engine:
        assert engine.present(timeout_s=TIMEOUT_S) == {"north"}
        reply = engine.call("ask", {"north": b"x"}, timeout_s=TIMEOUT_S)
    assert reply == {"north": b"north:x"}


def test_the_shipped_proxy_refuses_a_coordinator_without_its_certificate(
    proxy, datasites, tmp_path
):
    before = len(datasites.echoes["north"].handled)
    for own in (None, "stranger"):
        assert isinstance(proxied(proxy, datasites.key, tmp_path, own=own), SiteFailure)
    assert len(datasites.echoes["north"].handled) == before


def test_a_proxy_with_a_foreign_certificate_is_not_trusted(proxy, datasites, tmp_path):
    reply = proxied(proxy, datasites.key, tmp_path, authority="stranger")
    assert reply == SiteFailure("unreachable")


def test_a_proxy_without_its_datasite_is_a_site_that_is_not_there(proxy, datasites, tmp_path):
    port = datasites.sites["north"].port
    datasites.stop("north")
    try:
        reply = proxied(proxy, datasites.key, tmp_path)
    finally:
        datasites.start("north", port)
    assert reply == SiteFailure("unreachable")


def test_the_shipped_proxy_shows_two_paths_and_no_plain_http(proxy, tmp_path):
    session = requests.Session()
    session.trust_env = False
    session.verify = str(tmp_path / "authority.pem")
    session.cert = (str(tmp_path / "coordinator.pem"), str(tmp_path / "coordinator.key"))
    with session:
        metadata = session.get(f"{proxy}/api/v2/metadata", timeout=20)
        assert json.loads(metadata.content)["syft_version"] == "0.9.5"
        for path in ("", "api/v2/login", "api/v2/register", "docs", "api/v2/metadata/"):
            assert session.get(f"{proxy}/{path}", timeout=20).status_code == 404
        plain = session.get(proxy.replace("https", "http") + "/api/v2/metadata", timeout=20)
        assert plain.status_code == 400
