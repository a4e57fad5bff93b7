"""One port, several servers: the holder is named, the second refused, the wrong one noticed."""

import contextlib
import os
import socket
import threading

import pytest

from cipherdag.deployment import processes
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.errors import SiteUnreachableError
from cipherdag.protocol import answering
from cipherdag.sites.study.checks import connection_checks


@pytest.fixture
def port():
    """A free port; without the extra the test is skipped."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from loopback import free_port

    return free_port()


def coordinator(folder, study, port):
    return CoordinatorFolder.create(folder, study=study, host="localhost", port=port)


@contextlib.contextmanager
def served(folder):
    """A server in a thread of this process, and what it announced until it was up."""
    said, up, ended = [], threading.Event(), threading.Event()

    def stopped(seconds):
        up.set()
        return ended.wait(seconds)

    thread = threading.Thread(
        target=processes.serve, args=(folder,), kwargs={"stopped": stopped, "announce": said.append}
    )
    thread.start()
    try:
        assert up.wait(60)
        yield said
    finally:
        ended.set()
        thread.join()


def never(_seconds):
    raise AssertionError("it was started")


def test_a_second_study_on_a_port_is_refused_and_names_the_first(tmp_path, port):
    first, second = (coordinator(tmp_path / name, name, port) for name in ("lungs", "hearts"))
    with served(first) as said:
        assert said == []
        with pytest.raises(SiteUnreachableError, match="the study 'lungs'") as caught:
            processes.serve(second, stopped=never)
    assert f"process {os.getpid()}" in caught.value.message
    assert "--port" in caught.value.remedy


def test_another_program_on_the_port_is_named_by_its_process(tmp_path, port, monkeypatch):
    monkeypatch.setattr(answering, "HANDSHAKE_S", 0.2)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(SiteUnreachableError) as caught:
        processes.serve(coordinator(tmp_path / "c", "lungs", port), stopped=never)
    assert caught.value.message.startswith(f"port {port} is taken: process {os.getpid()}, ")


def test_a_server_at_another_address_does_not_start(tmp_path, port, monkeypatch):
    """As where a name has two addresses, one of which another server holds."""
    first, second = (coordinator(tmp_path / name, name, port) for name in ("lungs", "hearts"))
    looked_up = socket.getaddrinfo

    def leads_elsewhere(host, asked, *arguments, **options):
        return looked_up(host, asked, *arguments, **options) if host != "localhost" else []

    with served(first):
        here = tmp_path / "hearts" / "server" / "server.crt"
        with pytest.raises(
            SiteUnreachableError, match="in place of this server the server of the study 'lungs'"
        ):
            processes.reached("localhost", port, here)
        # a server elsewhere may be seen by other names at the sites: that is only said
        monkeypatch.setattr(socket.socket, "getsockname", lambda _: ("192.0.2.1", 1))
        (said,) = processes.reached("localhost", port, here)
        assert "the study 'lungs' answers" in said
        monkeypatch.setattr(socket, "getaddrinfo", leads_elsewhere)
        (said,) = processes.reached("localhost", port, here)
        assert "cannot reach" in said
    assert second.study().name == "hearts"


def test_check_says_whose_server_answers_before_and_after_activation(tmp_path, port, monkeypatch):
    from loopback import LoopbackStudy

    monkeypatch.setattr(answering, "HANDSHAKE_S", 0.2)
    made = LoopbackStudy.make(tmp_path / "own", ("north",), port=port)
    key, chain = (made.folder / "north" / name for name in ("site.key", "site.crt"))

    def tls(chain, study="study"):
        found = {
            each.check: each
            for each in connection_checks("localhost", port, key, chain, study=study)
        }
        return found["TLS"]

    missing = tmp_path / "missing"
    with made.relay():
        assert tls(chain).state == "ok"
        assert "calls itself one of 'study'" in tls(missing).finding
        assert tls(missing, "lungs").state == "fail"
    other = coordinator(tmp_path / "other", "hearts", port)
    with served(other):
        for found in (tls(chain), tls(missing)):
            assert found.state == "fail"
            assert "the server of the study 'hearts' answers" in found.finding
    with socket.create_server(("127.0.0.1", port)):
        assert "does not speak TLS" in tls(missing).finding


def test_a_certificate_that_names_no_study_names_none():
    assert answering.study_of(b"none") == ""
