"""The live view: it shows the run as it is, to nobody else, and nothing can be done through it."""

import contextlib
import http.client
import re
import socket
import threading
import time
from dataclasses import replace
from urllib.parse import urlsplit

import adversary
import numpy as np
import pytest
from commands import call as cipherdag
from pages import Page

from cipherdag import FedPC
from cipherdag.cli import live
from cipherdag.cli.live import LiveRun, LiveServer, asked_skeleton, live_page, live_part
from cipherdag.graphs.networks import asia
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.question import Bundle
from cipherdag.questions.skeleton import EdgeVotes, Skeleton


def get(address, path="", *, method="GET", host=None):
    """Status, headers and text of one request."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    headers = {} if host is None else {"Host": host}
    connection.request(method, parts.path + path, headers=headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, reply.headers, text


@pytest.fixture
def server():
    with LiveServer(LiveRun()) as running:
        yield running


@pytest.mark.parametrize("algorithm", [FedPC(evidence="vote"), FedPC(), FedPC(evidence="pooled")])
def test_the_view_follows_a_real_run(algorithm):
    federation, live, seen = adversary.hospitals(), LiveRun(), []

    def progress(report):
        seen.append((report, live.state))

    names = federation.sites[0].table.names
    result = federation.run(algorithm, progress=live.watching(progress, names))
    for count, (report, state) in enumerate(seen, start=1):
        assert (state.rounds, state.round, state.label) == (count, report.number, report.label)
        assert state.values == sum(own.values for own, _ in seen[:count])
        assert state.sent == {
            site: sum(own.bytes_sent_per_site[site] for own, _ in seen[:count])
            for site in result.sites
        }
        assert state.present == result.sites
    assert (live.state.skeleton.matrix() == result.finding.graph.skeleton()).all()
    page = Page(live_part(live.state))
    assert {own["data-node"] for _, own in page.elements if "data-node" in own} == set(names)
    assert page.column("live-sites", "In the last round") == ["answered"] * 3
    sent = page.column("live-sites", "Sent in rounds", values=True)
    assert sent == [[str(live.state.sent[site])] for site in result.sites]


def test_a_site_that_left_is_seen_to_be_gone():
    live = LiveRun()
    state = replace(live.state, sent={"a": 5, "b": 7}, present=("b",), n_cohort=2, rounds=2)
    page = Page(live_part(state))
    assert page.column("live-sites", "In the last round") == ["did not answer", "answered"]
    assert "1 of 2" in page.texts["dl"]


def test_names_are_text_and_a_crowd_is_not_drawn():
    skeleton = Skeleton.from_matrix(np.array([[0, 1], [1, 0]], dtype=bool))
    names = ("<script>alert(1)</script>", '" onload="alert(1)')
    state = replace(LiveRun().state, skeleton=skeleton, names=names, label=names[0], round=1)
    page = Page(live_part(state))
    assert "script" not in {tag for tag, _ in page.elements}
    assert not [1 for _, own in page.elements if "onload" in own]
    unnamed = Page(live_part(replace(state, names=())))
    assert [own["data-node"] for _, own in unnamed.elements if "data-node" in own] == ["1", "2"]
    crowd = Skeleton.from_matrix(~np.eye(40, dtype=bool))
    text = live_part(replace(state, skeleton=crowd))
    assert "svg" not in text
    assert "780" in text


def test_the_skeleton_of_a_bundle_is_found():
    skeleton = Skeleton.from_matrix(np.array([[0, 1], [1, 0]], dtype=bool))
    votes = EdgeVotes(skeleton=skeleton, layer=0, test=CITestSpec(alpha=0.05))
    assert asked_skeleton(Bundle(parts=(votes, votes))) == skeleton
    assert asked_skeleton(Bundle(parts=())) is None


def test_only_the_address_gets_an_answer(server):
    assert get(server.address)[0] == 200
    assert get(server.address, "part")[0] == 200
    root = server.address.rsplit("/", 2)[0]
    token = server.address.rsplit("/", 2)[1]
    wrong = ("/", "/x/", f"/{token[:-1]}/", f"/{token}", f"/{token}/../", f"/x/{token}/")
    for path in (*wrong, "/%C3%A9/", f"/{token}/part/", f"/{token}/etc"):
        assert get(root, path)[0] == 404
    for method in ("POST", "PUT", "DELETE", "HEAD"):
        assert get(server.address, method=method)[0] == 501


def test_a_path_without_a_stroke_gets_no_answer_and_no_traceback(server, capfd):
    root, token = server.address.rsplit("/", 2)[:2]
    host = urlsplit(server.address).netloc
    for path in ("*", "x", token, f"{token}/", f"{token}/part", "?", "x:y"):
        with socket.create_connection(host.split(":"), timeout=60) as raw:
            raw.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            assert b" 404 " in raw.recv(64), path
    assert get(root, f"/{token}/")[0] == 200
    assert not "".join(capfd.readouterr())


def test_a_connection_that_says_nothing_is_closed(monkeypatch):
    monkeypatch.setattr(live, "IDLE_S", 0.2)
    with LiveServer(LiveRun()) as server:
        with socket.create_connection(urlsplit(server.address).netloc.split(":")) as raw:
            raw.settimeout(60)
            assert raw.recv(1) == b""
        assert get(server.address)[0] == 200


def test_connections_beyond_the_most_are_turned_away_until_one_ends(server, capfd):
    before = threading.active_count()
    place = urlsplit(server.address).netloc.split(":")
    idle = [socket.create_connection(place, timeout=60) for _ in range(live.MOST_CONNECTIONS)]
    for _ in range(3):
        with socket.create_connection(place, timeout=60) as raw:
            assert raw.recv(1) == b""
    assert threading.active_count() <= before + live.MOST_CONNECTIONS
    for raw in idle:
        raw.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert get(server.address)[0] == 200
            break
        time.sleep(0.05)
    else:
        pytest.fail("no connection was let in again")
    assert not "".join(capfd.readouterr())


def test_a_name_that_leads_here_from_elsewhere_gets_no_answer(server):
    port = urlsplit(server.address).port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", ""):
        assert get(server.address, host=host)[0] == 421


def test_it_listens_locally_and_every_run_has_another_address(server):
    assert urlsplit(server.address).hostname == "127.0.0.1"
    with LiveServer(LiveRun()) as other:
        assert other.address.rsplit("/", 2)[1] != server.address.rsplit("/", 2)[1]
        assert len(other.address.rsplit("/", 2)[1]) >= 32


def test_replies_are_not_kept_and_allow_no_other_source(server):
    _, headers, text = get(server.address)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in text
    assert "connect-src 'self'" in text
    page = Page(text)
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert Page(live_page()).texts["title"] == "cipherdag live"


def test_nothing_is_served_after_the_run():
    with LiveServer(LiveRun()) as server:
        address = server.address
    with pytest.raises(OSError):
        get(address)


def test_an_open_page_hears_of_the_end():
    live, heard = LiveRun(), []
    with LiveServer(live) as server:
        get(server.address, "part")
        stop = threading.Event()

        def follow():
            while not stop.is_set() and not heard:
                heard.extend(re.findall("data-ended", get(server.address, "part")[2]))
                time.sleep(0.05)

        reader = threading.Thread(target=follow)
        reader.start()
    reader.join(60)
    stop.set()
    assert heard == ["data-ended"]


@pytest.mark.parametrize("command", ["fedpc", "fedcmfs"])
def test_the_command_prints_the_address_beside_its_output(capsys, monkeypatch, tmp_path, command):
    data = tmp_path / "all.csv"
    asia().sample(900, np.random.default_rng(0)).to_csv(data, index=False)
    labels = () if command == "fedpc" else ("--labels", "Dyspnoea")
    code, text, error = cipherdag(
        capsys, monkeypatch, "simulate", command, data, "--sites", 3, "--live", "--json", *labels
    )
    assert code == 0
    assert re.fullmatch(r"Live view: http://127\.0\.0\.1:\d+/[\w-]{32}/\n", error)
    assert all(line.startswith("{") for line in text.splitlines())
    with pytest.raises(OSError):
        get(error.split()[-1])
