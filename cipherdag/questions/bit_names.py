"""What each bit of a question says, so that no bit is found a second time from other answers.

A bit of a threshold test is named by its two variables, S and its level, in whatever question it
stands: a later plan may ask it among others. A bit of another question is named by the whole
question and its place there. How many rows all sites have is no part of a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, IndexArray
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.question import Bundle, Question, Resampled, tag_of
from cipherdag.questions.scores.score_bits import ScoreBits
from cipherdag.questions.scores.score_sums import ScoreSums

NAME_BYTES: Final = 16
ABLE: Final = b"able"


def bit_names(question: Question) -> bytes:
    """The names of all bits that a question opens, `NAME_BYTES` each, in their order."""
    return b"".join(_names(question))


def pairs_of(question: Question) -> list[tuple[int, int]]:
    """The tested pair of variables, ascending, of every bit of a threshold test; else none."""
    if isinstance(question, Bundle):
        return [pair for part in question.parts for pair in pairs_of(part)]
    if isinstance(question, Resampled):
        return pairs_of(question.question)
    if not isinstance(question, ScoreBits):
        return []
    tests = [(min(x, y), max(x, y)) for x, y in _pairs(question.question)]
    return [*tests * len(question.levels), *tests[: question.able]]


def remaining(question: Question, known: BoolVector) -> tuple[Question | None, IndexArray]:
    """The question that asks for the bits which are not known, and their places in the whole one.

    Args:
        question: It opens bits.
        known: Which of them are known, shape (bits,).

    Returns:
        None, and no place, where all are known. A question that is no threshold test is asked as a
        whole unless all of it is known.
    """
    parts, places, first = [], [np.zeros(0, dtype=np.int64)], 0
    for part in question.parts:
        there = known[first : first + part.n_values]
        for rest, at in _remaining(part, there):
            parts.append(rest)
            places.append(first + at)
        first += part.n_values
    if not parts:
        return None, places[0]
    whole = parts[0] if len(parts) == 1 else Bundle(tuple(parts))
    return (question if not known.any() else whole), np.concatenate(places)


def _remaining(part: Question, known: BoolVector) -> list[tuple[Question, IndexArray]]:
    if known.all():
        return []
    if not known.any():
        return [(part, np.arange(len(known)))]
    if isinstance(part, Resampled):
        inner = _remaining(part.question, known)
        return [(msgspec.structs.replace(part, question=rest), at) for rest, at in inner]
    if not isinstance(part, ScoreBits):
        return [(part, np.arange(len(known)))]
    n_tests, levels = part.question.n_tests, len(part.levels)
    asked = ~known[: levels * n_tests].reshape(levels, n_tests)
    able = np.zeros(n_tests, dtype=bool)
    able[: part.able] = ~known[levels * n_tests :]
    # tests whose bits are unknown at the same levels are asked together
    patterns, group = np.unique(np.vstack([asked, able]), axis=1, return_inverse=True)
    return [
        found
        for number, pattern in enumerate(patterns.T)
        if (found := _group(part, np.flatnonzero(group.ravel() == number), pattern)) is not None
    ]


def _group(
    part: ScoreBits, tests: IndexArray, pattern: BoolVector
) -> tuple[Question, IndexArray] | None:
    """Some tests of a question at the levels of a pattern, whose last is whether they are able."""
    if not pattern.any():
        return None
    n_tests, at, able = part.question.n_tests, np.flatnonzero(pattern[:-1]), pattern[-1]
    rest = msgspec.structs.replace(
        part,
        question=_subset(part.question, tests),
        levels=tuple(part.levels[each] for each in at),
        able=len(tests) if able else 0,
    )
    places = [level * n_tests + tests for level in at]
    places += [len(part.levels) * n_tests + tests] * bool(able)
    return rest, np.concatenate(places)


def _subset(question: ScoreSums, tests: IndexArray) -> ScoreSums:
    """The question about some of its tests, in their order."""
    ends = np.cumsum(question.counts)
    blocks = [
        rows[tests[(tests >= end - len(rows)) & (tests < end)] - (end - len(rows))]
        for rows, end in zip(question.rows(), ends, strict=True)
    ]
    counts, members = pack_blocks(blocks)
    return msgspec.structs.replace(question, counts=counts, members=members)


def _names(question: Question) -> list[bytes]:
    if isinstance(question, Bundle):
        return [name for part in question.parts for name in _names(part)]
    if isinstance(question, Resampled):
        drawn = b"resampled %d %d" % (question.replicate, question.seed)
        return [_name(drawn, name) for name in _names(question.question)]
    if not isinstance(question, ScoreBits):
        content = msgspec.msgpack.encode(question, order="deterministic")
        whole = blake2b(content, digest_size=NAME_BYTES).digest()
        return [_name(whole, b"%d" % place) for place in range(question.n_values)]
    tests = _tests(question.question)
    about = b"%b %b" % (tag_of(ScoreBits).encode(), repr(question.question.ordered).encode())
    at_levels = [_name(about, b"%a" % level) for level in question.levels]
    named = [_name(level, test) for level in at_levels for test in tests]
    return named + [_name(_name(about, ABLE), test) for test in tests[: question.able]]


def _name(about: bytes, part: bytes) -> bytes:
    return blake2b(part, digest_size=NAME_BYTES, key=about[:64]).digest()


def _pairs(question: ScoreSums) -> Sequence[tuple[int, int]]:
    return [(x, y) for rows in question.rows() for x, y in rows[:, :2].tolist()]


def _tests(question: ScoreSums) -> list[bytes]:
    """The variables of every test, whichever of the two comes first, and in whatever order S."""
    tests = []
    for rows in question.rows():
        in_order = np.sort(rows[:, :2], axis=1), np.sort(rows[:, 2:], axis=1)
        packed = np.concatenate(in_order, axis=1).astype("<i4")
        tests += [row.tobytes() for row in packed]
    return tests
