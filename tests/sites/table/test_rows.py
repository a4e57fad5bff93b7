"""Where rows are held, whatever their number, and the digest of them."""

import hashlib
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import OutputError, SiteNotReadyError
from cipherdag.sites.compute import noise
from cipherdag.sites.compute.noise import CellKeys, first_met, rows_digest
from cipherdag.sites.table import stored_rows as stored
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table
from cipherdag.sites.table.stored_rows import StoredRows, code_type

SCHEMA = Schema(
    (
        Column("a", "discrete", categories=("0", "1", "2"), missing=("NA",)),
        Column("b", "discrete", categories=("no", "yes")),
        Column("u", "continuous", missing=("NA",)),
    )
)


def plain_digest(purpose, *arrays):
    """As it was from the first: whole arrays in the order of rows, codes as int32."""
    state = hashlib.sha256(purpose)
    for array in arrays:
        own = np.zeros(0) if array is None else np.ascontiguousarray(array)
        state.update(own.nbytes.to_bytes(8, "big"))
        state.update(own.tobytes())
    return state.digest()


def written(folder, rows, rng):
    path = folder / "site.csv"
    cells = [
        f"{rng.choice(['0', '1', '2', 'NA'])},{rng.choice(['no', 'yes'])},"
        f"{rng.choice(['NA', str(rng.normal())])}"
        for _ in range(rows)
    ]
    path.write_text("a,b,u\n" + "\n".join(cells) + "\n")
    return path


@pytest.mark.parametrize("limit", [0, 1000, 2**28])
def test_a_table_is_the_same_in_memory_and_in_a_file(tmp_path, monkeypatch, limit):
    path = written(tmp_path, 9000, np.random.default_rng(1))
    expected = load_table(path, SCHEMA)
    monkeypatch.setattr(stored, "IN_MEMORY_BYTES", limit)
    monkeypatch.setattr(stored, "BLOCK_BYTES", 100)
    (tmp_path / "aside").mkdir()
    found = load_table(path, SCHEMA, folder=tmp_path / "aside")
    assert np.array_equal(found.codes, expected.codes)
    assert np.array_equal(found.values, expected.values, equal_nan=True)
    assert found.codes.dtype == np.int8
    assert found.codes.flags.f_contiguous
    assert found.values.flags.c_contiguous
    assert list((tmp_path / "aside").iterdir()) == []
    rows = np.array([5, 5, 8999, 0])
    assert np.array_equal(found.take(rows).codes, expected.codes[rows])
    assert np.array_equal(found.without([0]).codes, expected.without([0]).codes)


def test_rows_put_aside_are_open_to_their_owner_only(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "IN_MEMORY_BYTES", 0)
    made = []
    nameless = stored._nameless

    def watched(folder):
        made.append(nameless(folder))
        return made[-1]

    monkeypatch.setattr(stored, "_nameless", watched)
    modes = []
    kept = stored.mapped
    monkeypatch.setattr(
        stored, "mapped", lambda file, *rest: (modes.append(_mode(file)), kept(file, *rest))[1]
    )
    load_table(written(tmp_path, 100, np.random.default_rng(0)), SCHEMA, folder=tmp_path)
    assert len(made) == 3  # codes as they are read, codes by columns, values
    assert modes == [(0o600, 0)] * 2
    assert [own.name for own in tmp_path.iterdir()] == ["site.csv"]


def _mode(file):
    status = os.fstat(file.fileno())
    return status.st_mode & 0o777, status.st_nlink


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "IN_MEMORY_BYTES", 0)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored.os, "posix_fallocate", full, raising=False)
    with pytest.raises(OutputError, match="No space left") as caught:
        load_table(written(tmp_path, 100, np.random.default_rng(0)), SCHEMA, folder=tmp_path)
    assert "TMPDIR" in caught.value.remedy


@pytest.mark.parametrize(("categories", "kind"), [(2, "int8"), (127, "int8"), (128, "int16")])
def test_codes_have_the_smallest_type(categories, kind):
    assert code_type(categories) == np.dtype(kind)
    assert np.iinfo(code_type(categories)).max >= categories  # one more than the highest code


@pytest.mark.parametrize("categories", [32_767, 32_768, 10**6])
def test_codes_of_many_categories(categories):
    assert np.iinfo(code_type(categories)).max >= categories


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 7, 100]), st.sampled_from([1, 3, 64]))
@settings(max_examples=40, deadline=None)
def test_a_digest_is_that_of_whole_arrays_of_int32(seed, rows, block):
    rng = np.random.default_rng(seed)
    codes, values = rng.integers(-1, 3, (rows, 4)), rng.normal(size=(rows, 4))
    marks = rng.random((rows, 4)) < 0.5
    expected = plain_digest(b"rows", codes.astype(np.int32), values, None, marks)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(noise, "BLOCK_ROWS", block)
        for kind in (np.int8, np.int16, np.int32):
            for held in (np.ascontiguousarray(codes), np.asfortranarray(codes)):
                assert rows_digest(b"rows", held.astype(kind), values, None, marks) == expected


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 9, 200]), st.sampled_from([1, 8, 2**16]))
@settings(max_examples=40, deadline=None)
def test_what_blurs_follows_from_where_categories_are_first_met(seed, rows, block):
    rng = np.random.default_rng(seed)
    codes = rng.choice([-1, 0, 2, 5], (rows, 3), p=[0.2, 0.5, 0.2, 0.1])
    columns, met = [], []
    for own in codes.T:
        levels, first, place = np.unique(own, return_index=True, return_inverse=True)
        columns.append(plain_digest(b"cipherdag column", first[place.ravel()]))
        met.append(levels[np.argsort(first)][levels[np.argsort(first)] >= 0].tolist())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(noise, "BLOCK_ROWS", block)
        blur = CellKeys(np.asfortranarray(codes.astype(np.int8)), None)
    for variable, column in enumerate(columns):
        assert blur.column(variable) == column
        assert blur.met(variable) == len(met[variable])
        order = np.argsort(blur.ranks(variable, 6))[: len(met[variable])]
        assert order.tolist() == met[variable]


def test_first_met_of_nothing_and_of_gaps():
    assert first_met(np.zeros(0, dtype=np.int8))[1].tolist() == []
    least, first = first_met(np.array([-1, 2, -1, 0], dtype=np.int8))
    assert (least, first.tolist()) == (-1, [0, 3, 4, 1])


def test_blocks_are_added_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "IN_MEMORY_BYTES", 40)
    rows = np.arange(60.0).reshape(20, 3)
    for take in ("by_rows", "by_columns"):
        store = StoredRows(3, np.dtype(np.float64), np.nan, tmp_path)
        for start in range(0, 20, 3):
            store.append(rows[start : start + 3])
        assert np.array_equal(getattr(store, take)(), rows)
        store.close()


def test_tables_too_large_for_memory_are_refused_before_reading(tmp_path, monkeypatch):
    table = load_table(written(tmp_path, 100, np.random.default_rng(0)), SCHEMA)
    assert table.numbers().shape == (100, 3)
    monkeypatch.setattr(stored, "_memory_bytes", lambda: 2 * 100 * 3 * 8 - 1)
    with pytest.raises(SiteNotReadyError, match=r"0\.0 GB of the 0\.0 GB") as caught:
        table.numbers()
    assert "large-data.md" in caught.value.remedy
