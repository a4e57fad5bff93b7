"""A result that is damaged, or made to do harm, ends in an error that names its file."""

import shutil

import pytest
from click.testing import CliRunner

from cipherdag.cli.main import cli
from cipherdag.errors import OutputError
from cipherdag.results.folder import read_report


@pytest.mark.parametrize("command", ["graph show", "audit verify", "report"])
def test_deep_nesting_ends_in_an_error_that_names_the_file(saved_asia, tmp_path, command):
    folder = shutil.copytree(saved_asia, tmp_path / "result")
    (folder / "result.json").write_text("[" * 200_000, "utf-8")
    done = CliRunner().invoke(cli, [*command.split(), str(folder)])
    assert isinstance(done.exception, OutputError)
    assert "result.json cannot be read" in str(done.exception)


def test_a_key_that_is_named_twice_is_refused(saved_asia, tmp_path):
    folder = shutil.copytree(saved_asia, tmp_path / "result")
    text = (folder / "result.json").read_text("utf-8")
    (folder / "result.json").write_text(text.rstrip()[:-1] + ', "edges": []}', "utf-8")
    with pytest.raises(OutputError, match=r"result\.json cannot be read"):
        read_report(folder)
