"""Runs over lines that lose packets, cut connections and forget them, over NVIDIA FLARE.

Server and sites run in threads with short times: a silence lasts 3 seconds there and not 60.
"""

import os
import time

import pytest


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A server and three sites with a proxy between them."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from fault_studies import Threads

    made = Threads(tmp_path_factory.mktemp("bad") / "study")
    yield made
    made.close()


@pytest.fixture
def line(study):
    """The proxy, without a fault before the test and after it."""
    yield study.proxies["all"]
    study.settle()


def test_a_fifth_of_packets_may_be_lost(study, line, monkeypatch):
    """Four losses in a row take three seconds, so that a silence has to be one of real times."""
    from fault_cases import SAME, run_through

    from cipherdag.protocol.engines import flare_driver

    monkeypatch.setattr(flare_driver, "SILENCE_S", 60.0)
    time.sleep(1.0)  # for as long as it takes until every end has heard something and waits anew
    line.loss, line.lost = 0.2, 0
    met = run_through(study, timeout_s=60.0)
    assert (met["end"], met["next"], met["lost"]) == (SAME, SAME, "")
    assert line.lost


def test_a_line_that_loses_too_many_packets_ends_a_run_by_name(study, line):
    from fault_cases import SAME, run_through

    line.loss, line.cut_after = 0.4, 2
    met = run_through(study)
    assert met["end"] in (SAME, "SiteUnreachableError")
    assert met.get("resumed", SAME) == SAME
    assert (met["next"], met["lost"]) == (SAME, "")


def test_heartbeats_keep_the_mapping_of_an_address(study, line):
    """The router forgets after two seconds of silence, and heartbeats come sooner."""
    from fault_cases import SAME, run_through

    asked, line.forgets_s = len(line.asked), 2.0
    time.sleep(4.0)
    assert run_through(study)["end"] == SAME
    assert len(line.asked) == asked, "nobody connected again"


def test_a_forgotten_mapping_is_noticed_and_the_run_goes_on(study, line):
    """No end hears a word of it: its packets are acknowledged, and go nowhere."""
    from fault_cases import SAME, at, run_through

    asked = len(line.asked)
    with at([0.1], line.forget):
        met = run_through(study, timeout_s=60.0)
    assert met["end"] == "SiteUnreachableError"
    assert (met["resumed"], met["next"], met["lost"]) == (SAME, SAME, "")
    assert len(line.asked) == asked + 3
    assert study.federation.study.port not in line.ports
