"""Fixtures of all tests; `costs` has what they cost and which run is which."""

import logging

import commands
import pytest

pytest_plugins = ("advice", "costs")


@pytest.fixture
def call(capsys, monkeypatch):
    """Runs one command in this process: exit code, standard output, standard error."""
    return lambda *arguments: commands.call(capsys, monkeypatch, *arguments)


@pytest.fixture
def hospitals(tmp_path):
    """Three sites' folders; whoever holds their locks lets go of them."""
    import hospital_folders

    made = hospital_folders.hospitals(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def saved_asia(tmp_path_factory):
    """The folder of a result over three sites, to read or to copy."""
    import numpy as np

    from cipherdag import Federation, FedPC
    from cipherdag.graphs.networks import asia

    rows = asia().sample(600, np.random.default_rng(1))
    sites = {"north": rows[:200], "south": rows[200:400], "west": rows[400:]}
    folder = tmp_path_factory.mktemp("saved") / "result"
    Federation.simulate(sites, device="cpu").run(FedPC()).save(folder)
    return folder


@pytest.fixture(autouse=True)
def _logs_as_before():
    """Commands set levels and files for their process; here the next test is in the same one."""
    logger, before = logging.getLogger("cipherdag"), levels()
    handlers = [*logger.handlers]
    yield
    for handler in [each for each in logger.handlers if each not in handlers]:
        logger.removeHandler(handler)
        handler.close()
    for each, found in levels().items():
        if found != (was := before.get(each, (logging.NOTSET, True))):
            level, each.propagate = was
            each.setLevel(level)  # not `level`: what children have cached must go, too


def levels():
    """Level and propagation of the root logger and of the package's."""
    own = [name for name in logging.root.manager.loggerDict if name.startswith("cipherdag")]
    loggers = [logging.getLogger(name) for name in ["", *own]]
    return {logger: (logger.level, logger.propagate) for logger in loggers}
