"""Settings of all tests: machines are shared, so no property test fails for being slow."""

from __future__ import annotations

import commands
import pytest
from hypothesis import settings

settings.register_profile("cipherdag", deadline=None)
settings.load_profile("cipherdag")


@pytest.fixture
def call(capsys, monkeypatch):
    """Runs one command in this process: exit code, standard output, standard error."""
    return lambda *arguments: commands.call(capsys, monkeypatch, *arguments)
