import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.sites.compute import counter as counts
from cipherdag.sites.compute import processor_counts
from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.statistics.contingency import TableShape


def by_hand(codes, levels, own):
    """One table by indexing, the last variable fastest."""
    table = np.zeros([levels[v] for v in own], dtype=np.int64)
    complete = codes[(codes[:, own] >= 0).all(axis=1)]
    np.add.at(table, tuple(complete[:, v] for v in own), 1)
    return table


@st.composite
def data_and_sets(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.sampled_from([1, 7, 63, 64, 65, 300, 20_000]))
    levels = rng.choice([1, 2, 3, 4, 9, 33], size=7)
    codes = rng.integers(0, levels, (rows, 7))
    if draw(st.booleans()):
        codes[rng.random(codes.shape) < 0.05] = -1
    size = draw(st.integers(1, 4))
    sets = np.array([rng.choice(7, size, replace=False) for _ in range(draw(st.integers(1, 30)))])
    return codes, levels, sets


@given(data_and_sets(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whole_tables_are_those_of_rows_one_by_one(given_, by_bits):
    codes, levels, sets = given_
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counts, "AVAILABLE", by_bits)
        columns = DiscreteColumns(codes, PROCESSOR, memory_bytes=2**24, levels=levels)
    found = np.concatenate([counts for _, counts in columns.whole_tables(sets)])
    expected = [by_hand(codes, levels, own).ravel() for own in sets]
    assert found.dtype == np.int64
    assert np.array_equal(found, np.concatenate(expected))


@given(data_and_sets(), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_padded_tables_have_nothing_in_the_padding(given_, more):
    codes, levels, sets = given_
    columns = DiscreteColumns(codes, PROCESSOR, memory_bytes=2**24, levels=levels)
    sets = sets[:, :4] if sets.shape[1] > 1 else np.column_stack([sets, (sets + 1) % 7])
    x, y, rest = sets[:, 0], sets[:, 1], sets[:, 2:]
    configurations = levels[rest].prod(axis=1)
    shape = TableShape(
        int(configurations.max()), int(levels[x].max()) + more, int(levels[y].max()) + more
    )
    found = columns.tables(x, y, rest, shape)
    assert found.shape == (shape.configurations, shape.rows, shape.columns, len(sets))
    for test, own in enumerate(sets):
        sides = configurations[test], levels[x[test]], levels[y[test]]
        expected = np.zeros(found.shape[:3], dtype=np.int64)
        table = by_hand(codes, levels, [*rest[test], x[test], y[test]])
        expected[tuple(slice(side) for side in sides)] = table.reshape(sides)
        assert np.array_equal(found[..., test], expected), own


def test_bitmaps_count_long_columns_block_by_block(monkeypatch):
    monkeypatch.setattr(processor_counts, "CHUNK_WORDS", 40)
    monkeypatch.setattr(processor_counts, "BLOCK_WORDS", 4)
    rng = np.random.default_rng(0)
    codes, levels = rng.integers(-1, 2, (3000, 5)), np.full(5, 2)
    own = processor_counts.Bitmaps(np.array(codes.T, dtype=np.int32, order="C"), levels)
    sets = np.array([rng.choice(5, 3, replace=False) for _ in range(9)]).T
    assert own.faster(sets, levels[sets]).all()
    expected = [by_hand(codes, levels, column).ravel() for column in sets.T]
    assert np.array_equal(own.counts(sets, levels[sets]), np.concatenate(expected))


def test_tables_with_many_cells_or_levels_are_not_counted_by_bits():
    codes = np.random.default_rng(0).integers(0, 40, (10_000, 4))
    own = processor_counts.Bitmaps(
        np.array(codes.T, dtype=np.int32, order="C"), np.array([2, 8, 16, 40])
    )
    sets = np.array([[0, 1], [1, 2], [0, 3]]).T
    assert own.faster(sets, np.array([[2, 8, 2], [8, 16, 40]])).tolist() == [True, False, False]


@given(data_and_sets(), st.booleans(), st.sampled_from([8, 64, 1000, 2**17]))
@settings(max_examples=60, deadline=None)
def test_tables_of_many_rows_are_counted_block_by_block(given_, held, block):
    codes, levels, sets = given_
    if held:  # as a site's table is: by columns, of a small type, counted as it lies
        codes = np.asfortranarray(codes.astype(np.int8))
        before = codes.copy()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counts, "AVAILABLE", False)
        patched.setattr(counts, "IN_CACHE", 5)
        patched.setattr(processor_counts, "BLOCK_ROWS", block)
        columns = DiscreteColumns(codes, PROCESSOR, memory_bytes=2**24, levels=levels)
        found = [own for _, own in columns.whole_tables(sets)]
    expected = [by_hand(codes, levels, own).ravel() for own in sets]
    assert np.array_equal(np.concatenate(found), np.concatenate(expected))
    if held:
        assert np.array_equal(codes, before)


@pytest.mark.parametrize("cells", [126, 127, 128, 32_766, 32_767, 32_768, 70_000])
@pytest.mark.parametrize("missing", [False, True])
def test_joint_codes_of_every_size_are_told_apart(cells, missing):
    """Around the ends of the types that hold them, each cell has rows, and gaps have none."""
    every = np.repeat(np.arange(cells), 2).astype(np.int32)
    codes = every[:, None]
    if missing:
        codes = np.concatenate([codes, np.full((777, 1), -1)])
    bits = np.packbits(codes[:, 0] >= 0)
    padded = np.zeros(-(-len(bits) // 8) * 8, dtype=np.uint8)
    padded[: len(bits)] = bits
    observed = padded[None] if missing else None
    found = processor_counts.joint_counts(codes.T.astype(np.int32), [0], [cells], cells, observed)
    assert found.tolist() == [2] * cells


def test_codes_that_a_table_holds_are_not_copied():
    codes = np.asfortranarray(np.random.default_rng(0).integers(0, 3, (1000, 4)).astype(np.int8))
    columns = DiscreteColumns(codes, PROCESSOR, memory_bytes=2**24)
    assert np.shares_memory(columns._columns, codes)
