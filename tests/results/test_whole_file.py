"""Files that are written whole or not at all."""

import os

import pytest

from cipherdag.errors import OutputError, ResultExistsError
from cipherdag.protocol.durable_files import OPEN, write_whole
from cipherdag.results.folder import new_result_folder, write_folder


def test_links_stay_links_and_pipes_get_what_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "file")
    write_whole(link, b"bytes")
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"bytes"
    reading, writing = os.pipe()
    write_whole(f"/dev/fd/{writing}", "text")
    os.close(writing)
    assert os.read(reading, 100) == b"text"
    os.close(reading)


def test_a_file_whose_name_ends_in_new_stays(tmp_path):
    (tmp_path / "graph.dot.new").write_text("mine", "utf-8")
    write_whole(tmp_path / "graph.dot", "graph")
    assert (tmp_path / "graph.dot.new").read_text("utf-8") == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"graph.dot", "graph.dot.new"}


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OutputError):
        write_whole(tmp_path, "text")


def test_who_may_read_it_is_as_asked(tmp_path):
    path = tmp_path / "secret"
    path.write_text("open")
    write_whole(path, "closed", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_result_is_its_owner_s_alone_under_any_mask(tmp_path, mask):
    before = os.umask(mask)
    try:
        folder = write_folder(tmp_path / "new" / "result", {"report.html": "page"}, {"north": ()})
        write_whole(tmp_path / "given.toml", "schema", mode=OPEN)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o600}
    for made in (folder, folder / "releases", folder.parent):
        assert made.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "given.toml").stat().st_mode & 0o777 == 0o644 & ~mask


@pytest.mark.parametrize("name", ["report.html", "schema.toml", "releases", "edges.csv"])
def test_a_file_of_somebody_else_is_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine", "utf-8")
    with pytest.raises(
        ResultExistsError, match=f"{name} is there and belongs to no result"
    ) as said:
        new_result_folder(tmp_path, force=False)
    assert "--force" in said.value.remedy
    assert (tmp_path / name).read_text("utf-8") == "mine"
    new_result_folder(tmp_path, force=True)
