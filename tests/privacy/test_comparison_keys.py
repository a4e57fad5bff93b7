"""Comparison keys as they travel: bound to what they are for, used once, and nothing leaks."""

from __future__ import annotations

import copy
import hashlib
import logging
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import (
    ComparisonKeyError,
    KeyAgreementError,
    ParameterError,
    ReplayError,
    ShareError,
    SpentKeyError,
)
from cipherdag.privacy.comparison.batch import COORDINATOR, HEADER_BYTES, Comparisons
from cipherdag.privacy.comparison.keys import (
    ComparisonKeys,
    deal,
    draw_blinds,
    encoded_bytes,
)
from cipherdag.privacy.comparison.verdicts import opened, pack, unpack

SESSION = hashlib.sha256(b"session").digest()
BATCH = Comparisons(SESSION, 4, 3, (COORDINATOR, 1), 509, 3)
SUMS, LOW, HIGH = (np.array(own, dtype=np.uint64) for own in ([7, 300, 508], [8, 20, 9], [508] * 3))
BLINDS = np.array([0, 444, 101], dtype=np.uint64)
BLINDED = (SUMS + BLINDS) % np.uint64(BATCH.modulus)
INSIDE = [False, True, True]


def seeded(seed):
    return np.random.default_rng(seed).bytes


def dealt(batch=BATCH, blinds=BLINDS, seed=5):
    """Both holders' keys as they travel."""
    return [own.to_bytes() for own in deal(batch, blinds, seeded(seed))]


def received(data, holder, batch=BATCH):
    return ComparisonKeys.from_bytes(data, batch, holder)


def shares(keys, batch=BATCH):
    return [
        received(data, holder, batch).contains(BLINDED, LOW, HIGH)
        for holder, data in enumerate(keys)
    ]


# ------------------------------------------------------------------ the encoding


def test_keys_travel_and_come_to_the_verdicts():
    first, second = shares(dealt())
    assert (first ^ second).tolist() == INSIDE


@given(st.integers(2, 2**64), st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_the_encoding_is_canonical_and_as_long_as_it_says(modulus, count, seed):
    batch = replace(BATCH, modulus=modulus, count=count)
    blinds = draw_blinds(batch, seeded(seed))
    for holder, data in enumerate(dealt(batch, blinds, seed)):
        assert len(data) == encoded_bytes(batch)
        assert len(data) == 62 + 16 * count * (max(batch.bits - 7, 0) + 2)
        assert received(data, holder, batch).to_bytes() == data


@pytest.mark.parametrize("holder", [0, 1])
def test_no_length_but_the_right_one_is_a_key(holder):
    data = dealt()[holder]
    for length in range(len(data)):
        with pytest.raises(ComparisonKeyError, match="cut short"):
            received(data[:length], holder)
    for more in (b"\0", data[-16:], data):
        with pytest.raises(ComparisonKeyError, match="too long"):
            received(data + more, holder)


OTHERWISE = {
    "another session": {"session": hashlib.sha256(b"another").digest()},
    "another round": {"number": 5},
    "another dealer": {"dealer": 2},
    "another first holder": {"holders": (0, 1)},
    "another second holder": {"holders": (COORDINATOR, 2)},
    "another modulus": {"modulus": 511},
    "another number of comparisons": {"count": 2},
}


@pytest.mark.parametrize("fault", OTHERWISE)
@pytest.mark.parametrize("holder", [0, 1])
def test_a_key_for_anything_else_is_refused_by_name(fault, holder):
    other = replace(BATCH, **OTHERWISE[fault])
    data = dealt(other, BLINDS[: other.count])[holder]
    with pytest.raises(ComparisonKeyError, match=f"{fault}$"):
        received(data, holder)


@pytest.mark.parametrize("holder", [0, 1])
def test_the_other_holder_s_key_is_refused_by_name(holder):
    with pytest.raises(ComparisonKeyError, match="that of the other holder"):
        received(dealt()[1 - holder], holder)
    swapped = replace(BATCH, holders=BATCH.holders[::-1])
    with pytest.raises(ComparisonKeyError, match="another first holder"):
        received(dealt(swapped)[holder], holder)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_is_refused(version):
    data = dealt()[0]
    with pytest.raises(ComparisonKeyError, match="another version"):
        received(bytes([version]) + data[1:], 0)


@pytest.mark.parametrize(
    "fault", [f for f in OTHERWISE if "number" not in f and f != "another modulus"]
)
def test_a_key_whose_header_was_exchanged_comes_to_noise(fault):
    # the batch is bound into the hash, so whoever writes another header over it gains nothing
    count = 2000
    batch = replace(BATCH, count=count)
    other = replace(batch, **OTHERWISE[fault])
    sums = np.tile(SUMS, count)[:count]
    low, high = np.tile(LOW, count)[:count], np.tile(HIGH, count)[:count]
    blinds = draw_blinds(batch, seeded(1))
    blinded = (sums + blinds) % np.uint64(batch.modulus)
    forged = [
        batch.header(holder) + data[HEADER_BYTES:]
        for holder, data in enumerate(dealt(other, blinds))
    ]
    first, second = (
        received(data, k, batch).contains(blinded, low, high) for k, data in enumerate(forged)
    )
    right = (first ^ second) == ((low <= sums) & (sums <= high))
    assert 0.4 < right.mean() < 0.6


# ------------------------------------------------------------------ altered bits


@pytest.mark.parametrize("modulus", [2, 11, 509])
def test_every_altered_bit_of_a_key_is_refused_or_changes_that_verdict_alone(modulus):
    batch = replace(BATCH, modulus=modulus)
    sums = np.array([0, modulus // 2, modulus - 1], dtype=np.uint64)
    low, high = np.array([[1, 0, 1], [modulus - 1] * 3], dtype=np.uint64)
    blinds = draw_blinds(batch, seeded(8))
    blinded = (sums + blinds) % np.uint64(modulus)
    keys = dealt(batch, blinds)
    honest = [received(data, k, batch).contains(blinded, low, high) for k, data in enumerate(keys)]
    inside = (low <= sums) & (sums <= high)
    assert ((honest[0] ^ honest[1]) == inside).all()
    length = (len(keys[0]) - HEADER_BYTES) // batch.count
    outcomes = {"refused": 0, "right": 0, "wrong": 0}
    for holder, data in enumerate(keys):
        for bit in range(8 * len(data)):
            altered = bytearray(data)
            altered[bit // 8] ^= 1 << bit % 8
            try:
                share = received(bytes(altered), holder, batch).contains(blinded, low, high)
            except ComparisonKeyError:
                outcomes["refused"] += 1
                continue
            assert bit // 8 >= HEADER_BYTES
            changed = np.flatnonzero((share ^ honest[1 - holder]) != inside)
            its_own = (bit // 8 - HEADER_BYTES) // length
            assert set(changed.tolist()) <= {its_own}
            outcomes["wrong" if changed.size else "right"] += 1
    assert sum(outcomes.values()) == 16 * len(keys[0])
    assert outcomes["refused"] >= 16 * HEADER_BYTES + 2 * 3 * batch.count
    assert outcomes["wrong"] > 0


def test_every_altered_bit_of_a_share_is_refused_or_changes_that_verdict_alone():
    rng = np.random.default_rng(0)
    for count in (1, 3, 8, 13, 16):
        first, second = rng.integers(0, 2, (2, count)).astype(bool)
        right = first ^ second
        packed = pack(first)
        for bit in range(8 * len(packed)):
            altered = bytearray(packed)
            altered[bit // 8] ^= 128 >> bit % 8
            if bit >= count:
                with pytest.raises(ShareError, match="beyond the last"):
                    opened(bytes(altered), pack(second), count)
            else:
                found = opened(bytes(altered), pack(second), count)
                assert np.flatnonzero(found != right).tolist() == [bit]


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_a_share_has_one_length(count):
    packed = pack(np.ones(count, dtype=bool))
    assert unpack(packed, count).all()
    for other in (b"", packed[:-1], packed + b"\0"):
        with pytest.raises(ShareError, match="cut short or too long"):
            unpack(other, count)


# ------------------------------------------------------------------ used once


def test_a_key_is_not_evaluated_at_a_second_point_or_interval():
    keys = received(dealt()[0], 0)
    share = keys.contains(BLINDED, LOW, HIGH)
    assert (keys.contains(BLINDED, LOW, HIGH) == share).all()  # a message that is repeated
    moved = BLINDED.copy()
    moved[2] ^= np.uint64(1)
    for again in (
        (moved, LOW, HIGH),
        (BLINDED, LOW + np.uint64(1), HIGH),
        (BLINDED, LOW, HIGH - LOW),
    ):
        with pytest.raises(SpentKeyError, match="were used"):
            keys.contains(*again)
    assert (keys.contains(BLINDED, LOW, HIGH) == share).all()


def test_what_is_refused_for_its_form_does_not_spend_a_key():
    keys = received(dealt()[0], 0)
    with pytest.raises(ParameterError):
        keys.contains(BLINDED[:2], LOW, HIGH)
    keys.contains(BLINDED, LOW, HIGH)


def test_the_errors_are_what_a_caller_of_the_older_ones_expects():
    assert issubclass(ComparisonKeyError, KeyAgreementError)
    assert issubclass(SpentKeyError, ReplayError)


# ------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": b"short"},
        {"number": -1},
        {"number": 2**32},
        {"dealer": -1},
        {"dealer": 1},
        {"holders": (1, 1)},
        {"holders": (3, 1)},
        {"holders": (2**32, 1)},
        {"modulus": 1},
        {"modulus": 2**64 + 1},
        {"count": 0},
        {"count": 2**32},
    ],
    ids=str,
)
def test_a_batch_that_cannot_be_is_refused(wrong):
    with pytest.raises(ParameterError):
        replace(BATCH, **wrong)


def test_sums_and_intervals_out_of_range_are_refused():
    keys = received(dealt()[0], 0)
    for wrong in (
        (np.full(3, 509, dtype=np.uint64), LOW, HIGH),
        (BLINDED, LOW, np.full(3, 509, dtype=np.uint64)),
        (BLINDED, HIGH, LOW),
        (BLINDED.astype(np.int64), LOW, HIGH),
        (BLINDED.astype(float), LOW, HIGH),
        (BLINDED[None], LOW, HIGH),
    ):
        with pytest.raises(ParameterError):
            keys.contains(*wrong)
    for blinds in (BLINDS[:2], np.full(3, 509, dtype=np.uint64)):
        with pytest.raises(ParameterError):
            deal(BATCH, blinds)


# ------------------------------------------------------------------ secrecy


def test_keys_are_neither_shown_copied_pickled_nor_logged(caplog):
    keys = deal(BATCH, BLINDS, seeded(5))[0]
    assert repr(keys) == f"<ComparisonKeys, {16 * 4 * 3} secret bytes>"
    assert not hasattr(keys, "__dict__")
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a secret"):
            attempt(keys)
    with caplog.at_level(logging.DEBUG):
        received(keys.to_bytes(), 0).contains(BLINDED, LOW, HIGH)
    assert caplog.text == ""


def test_no_error_quotes_a_key():
    data = dealt()[0]
    for altered in (data[:-1], data + b"\0", data[:62] + b"\xff" * (len(data) - 62)):
        with pytest.raises(ComparisonKeyError) as refused:
            received(altered, 0)
        text = str(refused.value) + refused.value.remedy
        assert not any(character.isdigit() for character in text)


# ------------------------------------------------------------------ what the page says of colluders


def test_both_holders_together_find_the_sums():
    # the page on verdicts says so: with both keys, the function is evaluated everywhere
    batch = replace(BATCH, modulus=2**24 - 3, count=50)
    sums = np.random.default_rng(1).integers(0, batch.modulus, batch.count, dtype=np.uint64)
    blinds = draw_blinds(batch, seeded(2))
    blinded = (sums + blinds) % np.uint64(batch.modulus)
    keys = dealt(batch, blinds)
    low, high = np.zeros_like(sums), np.full_like(sums, batch.modulus - 1)
    while (low < high).any():
        middle = low + (high - low) // np.uint64(2)
        first, second = (
            received(data, k, batch).contains(blinded, np.zeros_like(sums), middle)
            for k, data in enumerate(keys)
        )
        below = first ^ second
        low, high = np.where(below, low, middle + np.uint64(1)), np.where(below, middle, high)
        low = np.minimum(low, high)
    assert (low == sums).all()


def test_the_same_blind_twice_shows_how_far_two_sums_lie_apart():
    # which is why keys are spent: the blinded sums alone tell it
    again = (SUMS[::-1] + BLINDS) % np.uint64(BATCH.modulus)
    apart = (again.astype(int) - BLINDED.astype(int)) % BATCH.modulus
    assert apart.tolist() == [
        (int(b) - int(a)) % 509 for a, b in zip(SUMS, SUMS[::-1], strict=True)
    ]
