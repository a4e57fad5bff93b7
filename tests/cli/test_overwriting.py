"""No command overwrites a file of its user that it was not asked to overwrite."""

from __future__ import annotations

import click
import numpy as np
import pytest
from test_help import commands

from cipherdag import Federation, FedPC
from cipherdag.cli.main import cli
from cipherdag.cli.options import NewFile
from cipherdag.graphs.networks import asia


def command_of(words):
    """The command that these words lead to."""
    command = cli
    for word in words:
        command = command.get_command(click.Context(command), word)
    return command


@pytest.mark.parametrize("words", list(commands(cli)), ids=" ".join)
def test_what_may_be_a_new_file_or_folder_comes_with_force(words):
    options = command_of(words).params
    written = [
        option
        for option in options
        if isinstance(option, click.Option)
        and option.name in {"out", "html", "svg", "png", "save"}
        and isinstance(option.type, click.Path)
    ]
    assert all(isinstance(each.type, NewFile) or each.type.dir_okay for each in written)
    assert not written or "--force" in {name for each in options for name in each.opts}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rows = asia().sample(600, np.random.default_rng(1))
    sites = {"north": rows[:200], "south": rows[200:400], "west": rows[400:]}
    folder = tmp_path_factory.mktemp("saved") / "result"
    Federation.simulate(sites, device="cpu").run(FedPC()).save(folder)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "graph export RESULT --format dot --out FILE",
        "graph show RESULT --svg FILE",
        "graph compare RESULT RESULT --html FILE",
        "report RESULT --out FILE",
        "audit export RESULT --format csv --out FILE",
        "schema infer RESULT/edges.csv --out FILE",
    ],
)
def test_a_file_that_exists_is_refused_until_force_says_so(call, saved, tmp_path, words):
    file = tmp_path / "file"
    said = [word.replace("RESULT", str(saved)).replace("FILE", str(file)) for word in words.split()]
    file.write_text("mine", "utf-8")
    code, _, error = call(*said)
    assert code == 1
    assert f"{file} exists" in error
    assert "--force" in error
    assert file.read_text("utf-8") == "mine"
    code, _, error = call(*said, "--force")
    assert code == 0, error
    assert file.read_text("utf-8") != "mine"
    file.unlink()
    assert call(*said)[0] == 0


def test_a_device_is_written_as_it_is(call, saved):
    assert call("graph", "export", saved, "--format", "dot", "--out", "/dev/null")[0] == 0
