"""Runs one cipherdag command in this process."""

import sys

from cipherdag.cli.main import main


def call(capsys, monkeypatch, *arguments):
    """Exit code, standard output and standard error of one command."""
    monkeypatch.setattr(sys, "argv", ["cipherdag", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stopped:
        code = stopped.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err
