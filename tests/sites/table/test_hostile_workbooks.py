"""Workbooks that somebody made to hurt: named, at once, before they unpack."""

import io
import tracemalloc
import zipfile

import pytest

from cipherdag import errors
from cipherdag.sites.table import excel_file
from cipherdag.sites.table.reading import open_table

openpyxl = pytest.importorskip("openpyxl", reason="needs the extra 'excel'")

SHEET = "xl/worksheets/sheet1.xml"
ROW = b'<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>%s</t></is></c></row></sheetData>'
SPACE = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def changed(path, part, content):
    """A workbook of which one part is another one."""
    book = openpyxl.Workbook()
    book.active.append(["age"])
    book.active.append([3])
    whole = io.BytesIO()
    book.save(whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
        new.writestr(part, content)
    return path


def read(path):
    with open_table(path) as table:
        return sum(len(chunk[0]) for chunk in table.chunks)


def sheet(text, before=b""):
    return before + b"<worksheet " + SPACE + b">" + ROW % text + b"</worksheet>"


@pytest.mark.parametrize("part", [SHEET, "xl/sharedStrings.xml", "xl/styles.xml"])
def test_a_small_workbook_that_unpacks_to_much_is_refused_unread(tmp_path, part):
    path = changed(tmp_path / "site.xlsx", part, bytes(64_000_000))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    with pytest.raises(errors.UnreadableDataError, match="unpack to 64 MB") as caught:
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    assert "CSV" in caught.value.remedy


def test_an_entry_that_claims_to_be_short_is_read_no_further(tmp_path):
    path = changed(tmp_path / "site.xlsx", SHEET, sheet(b"a" * 1_000_000))
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo(SHEET).file_size.to_bytes(4, "little")
    path.write_bytes(content.replace(size, (100).to_bytes(4, "little")))
    with pytest.raises(errors.UnreadableDataError, match="cannot be read|cut short"):
        read(path)


def test_entities_that_grow_without_end_are_named(tmp_path):
    grown = b"".join(
        b'<!ENTITY %c "%s">' % (letter + 1, b"&%c;" % letter * 10) for letter in range(97, 106)
    )
    before = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + grown + b"]>"
    path = changed(tmp_path / "site.xlsx", SHEET, sheet(b"&j;", before))
    with pytest.raises(errors.UnreadableDataError, match="a part of the workbook cannot be read"):
        read(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 50, b"<worksheet", b"<x/>", sheet(b"a").replace(b"A1", b"ZZZZ9"), b"\xff\xfe<"],
)
def test_a_part_that_is_no_sheet_ends_in_a_named_error(tmp_path, content):
    with pytest.raises(errors.DataError) as caught:
        read(changed(tmp_path / "site.xlsx", SHEET, content))
    assert caught.value.remedy


def test_a_large_table_is_not_mistaken_for_a_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(excel_file, "SMALL_BYTES", 0)
    book = openpyxl.Workbook()
    for row in range(2000):
        book.active.append(["age", "ill"] if not row else [row % 90, "yes"])
    book.save(tmp_path / "site.xlsx")
    assert read(tmp_path / "site.xlsx") == 1999
