"""Hospitals that are processes of their own, connected over NVIDIA FLARE with mutual TLS."""

import contextlib
import os

import pytest
from documents import NETWORKED, call
from hospitals import Hospitals
from loopback import free_port


class Near(Hospitals):
    """Hospitals of which only what talks to others is a process; people's commands run here."""

    def command(self, *words, code=0):
        words = [str(word) for word in words]
        if " ".join(words[:2]) in NETWORKED:
            return super().command(*words, code=code)
        found, said = call(words)
        assert found == code, said
        return said


@contextlib.contextmanager
def connected_hospitals(work, tables, schema, **enrolling):
    """A coordinator and a hospital for every table, enrolled, started and connected.

    Without the extra the test is skipped, unless CIPHERDAG_REQUIRE_FLARE is set.
    """
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    address = ("--host", "localhost", "--port", str(free_port()))
    made = Near(work, address, dict.fromkeys(tables, address))
    made.enrol(tables, schema, **enrolling)
    with contextlib.ExitStack() as up:
        up.enter_context(made.started("coordinator", "start", "--dir", made.coordinator))
        for name in made.sites:
            up.enter_context(made.started("site", "start", "--dir", work / name))
        made.wait_for_sites()
        yield made
