"""No command overwrites a file of its user that it was not asked to overwrite."""

import click
import pytest
from test_help import commands

from cipherdag.cli.main import cli
from cipherdag.cli.options import NewFile


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


@pytest.mark.parametrize(
    "words",
    [
        "graph export RESULT --format dot --out FILE",
        "graph show RESULT --svg FILE",
        "graph compare RESULT RESULT --html FILE",
        "report RESULT --out FILE",
        "audit export RESULT --format csv --out FILE",
        "schema infer RESULT/edges.csv --min-cell-size 0 --out FILE",
    ],
)
def test_a_file_that_exists_is_refused_until_force_says_so(call, saved_asia, tmp_path, words):
    file = tmp_path / "file"
    said = [
        word.replace("RESULT", str(saved_asia)).replace("FILE", str(file)) for word in words.split()
    ]
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


def test_a_device_is_written_as_it_is(call, saved_asia):
    assert call("graph", "export", saved_asia, "--format", "dot", "--out", "/dev/null")[0] == 0
