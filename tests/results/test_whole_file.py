"""Files that are written whole or not at all."""

import os
import resource

import pytest

from cipherdag.errors import OutputError
from cipherdag.pages.whole_file import write_whole


def test_a_full_disk_leaves_what_was(tmp_path):
    path = tmp_path / "graph.dot"
    write_whole(path, "before")
    # the largest file that this process may write stands for a disk that is full
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            write_whole(path, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "before"
    assert [own.name for own in tmp_path.iterdir()] == ["graph.dot"]


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


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OutputError):
        write_whole(tmp_path, "text")


def test_who_may_read_it_is_as_asked(tmp_path):
    path = tmp_path / "secret"
    path.write_text("open")
    write_whole(path, "closed", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
