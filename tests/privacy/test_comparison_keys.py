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
    SECRET_BYTES,
    ComparisonKeys,
    common_bytes,
    deal,
    draw_blinds,
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
    """What travels: the common part, and the secret of each holder."""
    keys = deal(batch, blinds, seeded(seed))
    return keys.common, keys.secrets


def received(parts, holder, batch=BATCH):
    common, secrets = parts
    return ComparisonKeys(secrets[holder], common, batch, holder)


def shares(parts, batch, *asked):
    return [received(parts, holder, batch).contains(*asked) for holder in (0, 1)]


# ------------------------------------------------------------------ the encoding


def test_keys_travel_and_come_to_the_verdicts():
    first, second = shares(dealt(), BATCH, BLINDED, LOW, HIGH)
    assert (first ^ second).tolist() == INSIDE


@given(st.integers(2, 2**64), st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_keys_are_as_long_as_they_say(modulus, count, seed):
    batch = replace(BATCH, modulus=modulus, count=count)
    common, secrets = dealt(batch, draw_blinds(batch, seeded(seed)), seed)
    assert len(common) == common_bytes(batch) == 16 * count * (max(batch.bits - 7, 0) + 1)
    assert {len(own) for own in secrets} == {SECRET_BYTES} == {62 + 32 + 32}


@pytest.mark.parametrize("holder", [0, 1])
def test_no_length_but_the_right_one_is_a_key(holder):
    common, secrets = dealt()
    whole = secrets[holder]
    for parts in (
        *((common, whole[:length]) for length in range(len(whole))),
        *((common[:length], whole) for length in range(len(common))),
        *((common, whole + more) for more in (b"\0", whole)),
        *((common + more, whole) for more in (b"\0", common[-16:], common)),
    ):
        with pytest.raises(ComparisonKeyError, match="cut short"):
            ComparisonKeys(parts[1], parts[0], BATCH, holder)


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
    parts = dealt(other, BLINDS[: other.count])
    with pytest.raises(ComparisonKeyError, match=f"{fault}$"):
        received(parts, holder)


@pytest.mark.parametrize("holder", [0, 1])
def test_the_other_holder_s_key_is_refused_by_name(holder):
    common, secrets = dealt()
    with pytest.raises(ComparisonKeyError, match="that of the other holder"):
        received((common, secrets[::-1]), holder)
    swapped = replace(BATCH, holders=BATCH.holders[::-1])
    with pytest.raises(ComparisonKeyError, match="another first holder"):
        received(dealt(swapped), holder)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_is_refused(version):
    common, (first, second) = dealt()
    with pytest.raises(ComparisonKeyError, match="another version"):
        received((common, (bytes([version]) + first[1:], second)), 0)


def test_a_secret_and_a_common_part_of_different_batches_do_not_fit():
    # the same batch dealt twice, as a dealer that was asked again might
    one, two = dealt(seed=5), dealt(seed=6)
    for holder in (0, 1):
        with pytest.raises(ComparisonKeyError, match="altered on its way"):
            received((one[0], two[1]), holder)


def sealed(header, seed, common):
    """A secret whose digest is right."""
    return header + seed + hashlib.sha256(header + seed + common).digest()


def test_outputs_that_no_point_reads_are_zero():
    batch = replace(BATCH, modulus=11)
    common, secrets = dealt(batch, BLINDS % np.uint64(11))
    seed = secrets[0][HEADER_BYTES:-32]
    for bit in range(16, 128):
        altered = bytearray(common)
        altered[bit // 8] |= 1 << bit % 8
        secret = sealed(batch.header(0), seed, bytes(altered))
        with pytest.raises(ComparisonKeyError, match="no dealer sets"):
            ComparisonKeys(secret, bytes(altered), batch, 0)


@pytest.mark.parametrize(
    "fault", [f for f in OTHERWISE if f not in ("another modulus", "another number of comparisons")]
)
def test_a_key_whose_header_was_exchanged_comes_to_noise(fault):
    # the batch is bound into the hash, so whoever writes another header over it gains nothing
    count = 2000
    batch = replace(BATCH, count=count)
    other = replace(batch, **OTHERWISE[fault])
    sums, low, high = (np.tile(own, count)[:count] for own in (SUMS, LOW, HIGH))
    blinds = draw_blinds(batch, seeded(1))
    blinded = (sums + blinds) % np.uint64(batch.modulus)
    common, secrets = dealt(other, blinds)
    forged = [
        sealed(batch.header(holder), secret[HEADER_BYTES:-32], common)
        for holder, secret in enumerate(secrets)
    ]
    first, second = shares((common, forged), batch, blinded, low, high)
    right = (first ^ second) == ((low <= sums) & (sums <= high))
    assert 0.4 < right.mean() < 0.6


# ------------------------------------------------------------------ altered bits


@pytest.mark.parametrize("modulus", [2, 11, 509])
def test_every_altered_bit_of_a_key_is_refused(modulus):
    batch = replace(BATCH, modulus=modulus)
    common, secrets = dealt(batch, draw_blinds(batch, seeded(8)))
    for holder, secret in enumerate(secrets):
        whole = secret + common
        for bit in range(8 * len(whole)):
            altered = bytearray(whole)
            altered[bit // 8] ^= 1 << bit % 8
            parts = bytes(altered[:SECRET_BYTES]), bytes(altered[SECRET_BYTES:])
            with pytest.raises(ComparisonKeyError):
                ComparisonKeys(*parts, batch, holder)


@pytest.mark.parametrize("modulus", [11, 509])
def test_an_altered_bit_under_a_right_digest_changes_that_verdict_alone(modulus):
    # as a dealer could alter it, which knows the seed
    batch = replace(BATCH, modulus=modulus)
    sums = np.array([0, modulus // 2, modulus - 1], dtype=np.uint64)
    low, high = np.array([[1, 2, 3], [modulus - 1] * 3], dtype=np.uint64)
    blinds = draw_blinds(batch, seeded(8))
    asked = (sums + blinds) % np.uint64(modulus), low, high
    common, secrets = dealt(batch, blinds)
    honest = shares((common, secrets), batch, *asked)
    inside = (low <= sums) & (sums <= high)
    assert ((honest[0] ^ honest[1]) == inside).all()
    wrong = 0
    for holder, secret in enumerate(secrets):
        seed = secret[HEADER_BYTES:-32]
        for bit in range(8 * len(common)):
            altered = bytearray(common)
            altered[bit // 8] ^= 1 << bit % 8
            again = sealed(batch.header(holder), seed, bytes(altered))
            try:
                keys = ComparisonKeys(again, bytes(altered), batch, holder)
            except ComparisonKeyError:
                continue
            changed = np.flatnonzero((keys.contains(*asked) ^ honest[1 - holder]) != inside)
            its_own = bit // 128 % batch.count
            assert set(changed.tolist()) <= {its_own}
            wrong += changed.size
    assert wrong > 0


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
    keys = received(dealt(), 0)
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
    keys = received(dealt(), 0)
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
    keys = received(dealt(), 0)
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
    dealer_s = deal(BATCH, BLINDS, seeded(5))
    with caplog.at_level(logging.DEBUG):
        keys = received((dealer_s.common, dealer_s.secrets), 0)
        keys.contains(BLINDED, LOW, HIGH)
    assert caplog.text == ""
    assert repr(keys) == "<ComparisonKeys, 48 secret bytes>"
    assert repr(dealer_s) == "<DealtKeys, 64 secret bytes>"
    for own in (keys, dealer_s):
        assert not hasattr(own, "__dict__")
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="holds a secret"):
                attempt(own)


def test_no_error_quotes_a_key():
    common, secrets = dealt()
    for secret in (secrets[0][:-1], secrets[0][:-1] + b"x", secrets[1]):
        with pytest.raises(ComparisonKeyError) as refused:
            ComparisonKeys(secret, common, BATCH, 0)
        text = str(refused.value) + refused.value.remedy
        assert not any(character.isdigit() for character in text)


# ------------------------------------------------------------------ what the page says of colluders


def test_both_holders_together_find_the_sums():
    # the page on verdicts says so: with both keys, the function is evaluated everywhere
    batch = replace(BATCH, modulus=2**24 - 3, count=50)
    sums = np.random.default_rng(1).integers(0, batch.modulus, batch.count, dtype=np.uint64)
    blinds = draw_blinds(batch, seeded(2))
    blinded = (sums + blinds) % np.uint64(batch.modulus)
    parts = dealt(batch, blinds)
    low, high = np.zeros_like(sums), np.full_like(sums, batch.modulus - 1)
    while (low < high).any():
        middle = low + (high - low) // np.uint64(2)
        first, second = shares(parts, batch, blinded, np.zeros_like(sums), middle)
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
