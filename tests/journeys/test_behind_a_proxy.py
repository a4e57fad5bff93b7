"""Sites whose only way out is a forward proxy, over NVIDIA FLARE."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from forward_proxy import ForwardProxy
from loopback import free_port, loopback_kits

from cipherdag.protocol.engines.nvflare_process import KitProcess

SITES = ("north", "south")
EXECUTOR = "echo_site.EchoExecutor"
SUPPORT = str(Path(__file__).parents[1] / "support")


def environment(**more):
    """This process's own without its proxies, and with the sites' executor."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    found = [SUPPORT, *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(found), **more}


def test_mutual_tls_goes_through_a_proxy_that_the_environment_names(tmp_path):
    """Both ways, from end to end, by CONNECT to the study's one port and to nothing else."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from cipherdag.protocol.engines.nvflare import FlareEngine

    folders = {name: tmp_path / "private" / name for name in SITES}
    for folder in folders.values():
        folder.mkdir(parents=True)
    port = free_port()
    kits = loopback_kits(tmp_path / "kits", folders, port=port, executor=EXECUTOR)
    message = b"what no proxy may read " * 10_000
    with contextlib.ExitStack() as up:
        proxy = up.enter_context(ForwardProxy(allowed={f"localhost:{port}"}))
        behind = environment(https_proxy=proxy.address)
        up.enter_context(KitProcess(kits["server"], environment=environment()))
        for name in SITES:
            up.enter_context(KitProcess(kits[name], environment=behind))
        engine = up.enter_context(
            FlareEngine(kits["coordinator"], sites=SITES, executor=EXECUTOR, start_s=90.0)
        )
        replies = engine.call("echo", dict.fromkeys(SITES, message), timeout_s=60.0)
    assert replies == {name: name.encode() + b":" + message for name in SITES}
    assert set(proxy.asked) == {f"localhost:{port}"}
    assert len(proxy.seen) > 2 * len(SITES) * len(message)
    assert message[:23] not in proxy.seen
