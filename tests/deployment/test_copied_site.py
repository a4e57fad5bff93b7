"""A site's folder that runs twice: both processes and the server say so by name."""

import os

import pytest
from waiting import wait_until

from cipherdag.protocol.engines.flare_link import TIMES, WITHIN_S, Again
from cipherdag.protocol.engines.flare_site import AGAIN


def test_two_processes_of_one_certificate_are_named_everywhere(tmp_path):
    """They displace each other; without a word each says that it is connected, over and over."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from loopback import LoopbackStudy

    made = LoopbackStudy.make(tmp_path / "study", ("north", "south"))
    heard = [], [], []
    named = set()
    with made.relay() as relay:
        up = [
            made.site(name, lambda *_: b"", own.append)
            for name, own in zip(("north", "north", "south"), heard, strict=True)
        ]
        with up[0], up[1], up[2]:
            for own in heard[:2]:
                wait_until(lambda own=own: any(getattr(e, "what", "") == AGAIN for e in own))
            wait_until(lambda: named.update(relay.doubled()) or named)
    assert named == {"north"}
    assert not any(getattr(each, "what", "") == AGAIN for each in heard[2])


def test_a_connection_that_is_lost_now_and_then_is_no_copy():
    now = 0.0
    often, seldom = Again(lambda: now), Again(lambda: now)
    assert [often.again() for _ in range(TIMES + 1)] == [False] * (TIMES - 1) + [True, True]
    for _ in range(10):
        assert not seldom.again()
        now += WITHIN_S / (TIMES - 1) + 1.0
