"""Every command that takes a folder says so when it is the wrong one."""

import pytest
from documents import call, call_alone

COMMANDS = [
    "coordinator approve {file} --dir {folder}",
    "coordinator revoke north --dir {folder}",
    "coordinator renew --dir {folder}",
    "coordinator plan fedpc --purpose test --dir {folder}",
    "coordinator run --plan {file} --dir {folder}",
    "coordinator run fedpc --purpose test --dir {folder}",
    "coordinator sites --dir {folder}",
    "coordinator start --dir {folder}",
    "site activate {file} --fingerprint 00 --dir {folder}",
    "site approve abcd --dir {folder}",
    "site check --dir {folder}",
    "site check --plan {file} --dir {folder}",
    "site deny abcd --why no --dir {folder}",
    "site releases --dir {folder}",
    "site request --dir {folder}",
    "site result --dir {folder}",
    "site result abcdabcd --dir {folder}",
    "site start --dir {folder}",
    "site status --dir {folder}",
    "audit show {folder}",
    "audit verify {folder}",
    "audit export {folder} --out {out}",
    "audit bundle {folder} --out {out}",
    "graph show {folder}",
    "graph compare {folder} {folder}",
    "repeat {folder}",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_or_missing_folder_is_named_and_left_as_it_was(command, tmp_path):
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_text("{}", "utf-8")
    empty.mkdir()
    for folder in (empty, tmp_path / "missing"):
        words = command.format(file=file, folder=folder, out=tmp_path / "out").split()
        # `start` changes its process: umask and signals
        code, said = (call_alone if "start" in words else call)(words)
        assert code in {1, 2, 3, 4}, said
        assert "Traceback" not in said
        assert "  do  " in said or "does not exist" in said, said
    assert not list(empty.iterdir())
    assert not (tmp_path / "missing").exists()
    assert not (tmp_path / "out").exists()
