"""Settings of all tests: machines are shared, so no property test fails for being slow."""

from __future__ import annotations

import logging
import os

import commands
import pytest
from hypothesis import settings

FULL = os.environ.get("CIPHERDAG_CASES") == "full"
settings.register_profile("cipherdag", deadline=None)
# random data sets and sets of answers: few as a rule, and with CIPHERDAG_CASES=full as many as
# a release is held against
settings.register_profile("data sets", deadline=None, max_examples=2000 if FULL else 8)
settings.register_profile("answers", deadline=None, max_examples=1000 if FULL else 40)
settings.load_profile("cipherdag")


@pytest.fixture
def call(capsys, monkeypatch):
    """Runs one command in this process: exit code, standard output, standard error."""
    return lambda *arguments: commands.call(capsys, monkeypatch, *arguments)


@pytest.fixture(autouse=True)
def _levels_of_logs():
    """Commands set levels for their process; here the next test is in the same one."""
    before = levels()
    yield
    for logger in levels():
        level, logger.propagate = before.get(logger, (logging.NOTSET, True))
        logger.setLevel(level)  # not `level`: what children have cached must go, too


def levels():
    """Level and propagation of the root logger and of the package's."""
    own = [name for name in logging.root.manager.loggerDict if name.startswith("cipherdag")]
    loggers = [logging.getLogger(name) for name in ["", *own]]
    return {logger: (logger.level, logger.propagate) for logger in loggers}
