"""Waiting for something that another process or thread brings about."""

import time


def wait_until(holds, seconds=120.0):
    """Wait until a condition holds; a test that waits for longer has failed."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
