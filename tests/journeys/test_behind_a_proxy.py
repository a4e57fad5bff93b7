"""Sites whose only way out is a forward proxy, over NVIDIA FLARE."""

from __future__ import annotations

import contextlib
import os

import pytest
from forward_proxy import ForwardProxy

SITES = ("north", "south")


def test_mutual_tls_goes_through_a_proxy_that_the_environment_names(tmp_path, monkeypatch):
    """Both ways, from end to end, by CONNECT to the study's one port and to nothing else."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from loopback import LoopbackStudy

    from cipherdag.protocol.engines.flare_engine import FlareEngine

    for name in [own for own in os.environ if "proxy" in own.lower()]:
        monkeypatch.delenv(name)
    study = LoopbackStudy.make(tmp_path, SITES)
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
