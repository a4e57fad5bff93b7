"""The way out through a hospital's proxy: which one, what it is asked, what its refusal says."""

import socket
import threading

import pytest
from forward_proxy import ForwardProxy as RealProxy

from cipherdag.protocol.forward_proxy import NAMED_IN, ProxyRefusedError, proxy_to
from cipherdag.sites.study.checks import connection_checks

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        ({"https_proxy": PROXY}, ("proxy.example", 3128, "https_proxy")),
        ({"http_proxy": "http://p", "https_proxy": ""}, ("p", 80, "http_proxy")),
        ({"grpc_proxy": "http://g:1", "https_proxy": PROXY}, ("g", 1, "grpc_proxy")),
        ({"https_proxy": PROXY, "no_proxy": "other"}, ("proxy.example", 3128, "https_proxy")),
        ({"https_proxy": PROXY, "no_proxy": "a.example, .HOSPITAL.example"}, None),
        ({"https_proxy": PROXY, "no_grpc_proxy": "a", "no_proxy": "study.hospital.example"},
         ("proxy.example", 3128, "https_proxy")),
        ({"https_proxy": "https://proxy.example"}, None),
        ({"https_proxy": "socks5://proxy.example"}, None),
        ({"HTTPS_PROXY": PROXY}, None),
    ],
)  # fmt: skip
def test_the_proxy_is_the_one_that_grpc_takes(environment, found):
    proxy = proxy_to("study.hospital.example", environment)
    assert (proxy and (proxy.host, proxy.port, proxy.variable)) == found


def test_a_password_is_sent_and_shown_nowhere():
    address = "http://an%40a:pass%3Aword@proxy.example:3128"
    proxy = proxy_to("h", {"https_proxy": address})
    assert proxy.authorization == "Basic YW5AYTpwYXNzOndvcmQ="
    assert "YW5A" not in repr(proxy)
    assert "pass" not in repr(proxy)


@pytest.fixture
def server():
    """A port that says one word to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    connected, _ = listening.accept()
                except OSError:
                    return
                with connected:
                    connected.sendall(b"hello")

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def rows(port, tmp_path):
    found = connection_checks("localhost", port, tmp_path / "key", tmp_path / "none")
    return {finding.check: finding for finding in found}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in (*NAMED_IN, "no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_what_follows_the_proxy_s_answer_is_the_server_s(server):
    with RealProxy() as real:
        proxy = proxy_to("localhost", {"https_proxy": real.address})
        with proxy.connect("localhost", server, timeout_s=60) as way:
            assert way.recv(5, socket.MSG_WAITALL) == b"hello"
        assert real.asked == [f"localhost:{server}"]


def test_the_check_goes_the_way_that_a_run_goes(server, tmp_path, monkeypatch):
    assert {"DNS", "port", "TLS"} == rows(server, tmp_path).keys()
    with RealProxy() as real:
        monkeypatch.setenv("https_proxy", real.address)
        found = rows(server, tmp_path)
        assert [own.state for own in found.values()] == ["ok", "ok", "fail"]
        assert "https_proxy" in found["proxy"].finding
        assert "does not speak TLS" in found["TLS"].finding
        assert real.asked == [f"localhost:{server}"] * 2
        monkeypatch.setenv("no_proxy", "localhost")
        assert {"DNS", "port", "TLS"} == rows(server, tmp_path).keys()


def test_a_proxy_that_refuses_is_named_with_its_answer(server, tmp_path, monkeypatch):
    with RealProxy(allowed=set()) as real:
        monkeypatch.setenv("https_proxy", real.address)
        refused = rows(server, tmp_path)["port"]
    assert refused.state == "fail"
    assert "403 Forbidden" in refused.finding
    assert "CONNECT" in refused.fix


def test_a_proxy_that_is_not_there_is_named(server, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    (finding,) = rows(server, tmp_path).values()
    assert (finding.check, finding.state) == ("proxy", "fail")
    assert f"127.0.0.1:{port}" in finding.finding


@pytest.mark.parametrize("said", [b"", b"hello\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"x" * 70_000])
def test_what_is_no_proxy_is_refused_and_let_go(said):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connected, _ = listening.accept()
            with connected:
                connected.recv(65536)
                connected.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ProxyRefusedError):
            proxy_to("h", {"https_proxy": address}).connect("h", 443, timeout_s=60)
        thread.join()
