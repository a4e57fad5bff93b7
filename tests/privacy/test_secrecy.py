"""What a process does so that its memory reaches no disk."""

import subprocess
import sys

import pytest
from commands import call

from cipherdag.deployment import processes
from cipherdag.errors import CipherdagError
from cipherdag.privacy import secrecy
from cipherdag.sites.study.site_folder import SiteFolder

resource = pytest.importorskip("resource")


def test_a_process_that_asked_for_it_writes_no_core():
    program = (
        "import resource; from cipherdag.privacy.secrecy import leave_no_core; leave_no_core(); "
        "print(resource.getrlimit(resource.RLIMIT_CORE))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.split() == [b"(0,", b"0)"]


def test_where_the_platform_has_no_such_limit_nothing_happens(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    secrecy.leave_no_core()


def test_a_site_s_process_and_a_coordinator_s_ask_for_it(tmp_path, monkeypatch, capsys):
    limits = []
    monkeypatch.setattr(resource, "setrlimit", lambda *given: limits.append(given))
    with pytest.raises(CipherdagError):
        processes.start(SiteFolder(tmp_path), stopped=lambda _: True)
    assert limits == [(resource.RLIMIT_CORE, (0, 0))]
    call(capsys, monkeypatch, "coordinator", "sites", "--dir", tmp_path)
    assert limits == [(resource.RLIMIT_CORE, (0, 0))] * 2
