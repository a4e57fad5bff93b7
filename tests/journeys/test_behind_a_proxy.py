"""Sites whose only way out is a forward proxy, over NVIDIA FLARE."""

import contextlib
import os
import signal
import time

import pytest
from forward_proxy import ForwardProxy
from waiting import wait_until

from cipherdag.protocol.engines.flare_engine import FlareEngine

SITES = ("north", "south")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study on the loopback address, in an environment that names no proxy."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from loopback import LoopbackStudy

    for name in [own for own in os.environ if "proxy" in own.lower()]:
        monkeypatch.delenv(name)
    return LoopbackStudy.make(tmp_path, SITES)


def test_mutual_tls_goes_through_a_proxy_that_the_environment_names(study, monkeypatch):
    """Both ways, from end to end, by CONNECT to the study's one port and to nothing else."""
    message = b"what no proxy may read " * 10_000
    with contextlib.ExitStack() as up:
        proxy = up.enter_context(ForwardProxy(allowed={f"localhost:{study.port}"}))
        monkeypatch.setenv("https_proxy", proxy.address)
        up.enter_context(study.relay())
        for name in SITES:
            up.enter_context(study.site(name, lambda _, sent, own=name: own.encode() + sent))
        engine = FlareEngine(study.coordinator, sites=SITES, start_s=90.0)
        replies = engine.call("invite", dict.fromkeys(SITES, message), timeout_s=60.0)
    assert replies == {name: name.encode() + message for name in SITES}
    assert set(proxy.asked) == {f"localhost:{study.port}"}
    assert len(proxy.seen) > 2 * len(SITES) * len(message)
    assert message[:23] not in proxy.seen


@pytest.fixture
def behind(study, monkeypatch):
    """What starts a proxy, the study behind it and one of its sites, and calls that site."""

    @contextlib.contextmanager
    def started(proxy, handler=lambda _, sent: sent, heard=lambda _: None):
        with contextlib.ExitStack() as up:
            up.enter_context(proxy)
            monkeypatch.setenv("https_proxy", proxy.address)
            up.enter_context(study.relay())
            site = up.enter_context(study.site("north", handler, heard))
            engine = FlareEngine(study.coordinator, sites=("north",), start_s=90.0)
            yield (
                site,
                lambda seconds=60.0: engine.call("invite", {"north": b"x"}, timeout_s=seconds)[
                    "north"
                ],
            )

    return started


@pytest.mark.parametrize("how", ["idle_s", "forgets_s"])
def test_what_ends_idle_connections_ends_none_while_a_site_computes(behind, monkeypatch, how):
    """A proxy cuts them, a router forgets them; the times of real ones, a minute, are shortened."""
    from cipherdag.protocol.engines import flare_link

    monkeypatch.setattr(flare_link, "HEARTBEAT_S", 1.0)
    proxy = ForwardProxy(**{how: 8.0})

    def slow(_, sent):
        time.sleep(12.0)
        return sent

    with behind(proxy, slow) as (_, call):
        assert call() == b"x"
    assert len(proxy.asked) == 1, "it connected once"


def test_after_a_proxy_cut_the_connection_the_site_is_reached_again(behind):
    heard = []
    proxy = ForwardProxy(life_s=3.0)
    with behind(proxy, heard=heard.append) as (_, call):
        for times in (1, 2, 3):
            wait_until(lambda times=times: len(proxy.asked) >= times)
            wait_until(lambda: call() == b"x")
    said = [own.what for own in heard if hasattr(own, "what")]
    assert {"connected to the coordinator"} < set(said)


def test_a_machine_that_slept_answers_once_it_is_awake(behind):
    """Stopped by a signal, its process does nothing, as on a laptop whose lid is closed."""
    with behind(ForwardProxy()) as (site, call):
        assert call() == b"x"
        os.kill(site.pid, signal.SIGSTOP)
        assert call(1.0).reason == "timeout"
        os.kill(site.pid, signal.SIGCONT)
        wait_until(lambda: call() == b"x")
