"""Names of the bits that questions open, so that no bit is found twice from different answers.

A test's bit is named by its two variables, S and its level; a bit of a comparison of scores by what
is compared. Such a name is the same in every question, so that a later plan may ask for the bit
among others. The number of rows of all sites is no part of a score test's name, since a site could
change it. Any other bit is named by its whole question and its position there: a question that
differs in anything finds all of its bits again.
"""

from hashlib import blake2b
from itertools import combinations
from typing import Final

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, IndexArray
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.encodings import by_block, pack_blocks, position_sets, unpack_integers
from cipherdag.questions.question import Bundle, Question, Resampled, tag_of
from cipherdag.questions.scores.likelihoods import ScoreComparisons
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.questions.scores.score_sums import Misfits, RaoSums
from cipherdag.questions.verdicts import EvidenceVerdicts

NAME_BYTES: Final = 16
ABLE: Final = b"able"


def bit_names(question: Question) -> bytes:
    """The names of all bits that a question opens, `NAME_BYTES` each, in their order."""
    return b"".join(_names(question))


def bits_by_pair(question: Question, n_variables: int) -> IndexArray:
    """How many bits of a question are about each two variables, at most, shape (p, p), i < j.

    A bit of a test is about all pairs of its variables, those of S too; one of a question that
    names no variables, about all pairs of the study.
    """
    counts = np.zeros((n_variables, n_variables), dtype=np.int64)
    for part in question.parts:
        inner = part.question if isinstance(part, Resampled) else part
        blocks = _variables(inner)
        if blocks is None:
            counts += inner.n_values
            continue
        for rows, n_bits in blocks:
            for first, second in combinations(range(rows.shape[1]), 2):
                pairs = np.sort(rows[:, [first, second]], axis=1)
                np.add.at(counts, tuple(pairs.T), n_bits)
    return np.triu(counts, 1)


def _variables(question: Question) -> list[tuple[IndexArray, int]] | None:
    """Rows of variables, and how many bits are about each row; None where it names none."""
    if isinstance(question, RaoBits):
        asked = len(question.levels)
        tests = [(rows, asked) for rows in question.question.rows()]
        able = np.arange(question.question.n_tests) < question.able
        return [*tests, *((rows, 1) for rows in _chosen(question.question, able))]
    if isinstance(question, EvidenceVerdicts):
        inner = question.question
        return [(rows, 2) for rows in position_sets(inner.counts, inner.members, narrowest=2)]
    if isinstance(question, ScoreComparisons):
        return [(rows, 1) for rows in question.variables()]
    return None


def remaining(question: Question, answered: BoolVector) -> tuple[Question | None, IndexArray]:
    """The question that asks for the bits which are not known, and their positions in the whole.

    None, and no position, where all are known. A part that is no `RaoBits` is asked as a whole
    unless all of its bits are known; the known ones must then come out the same.
    """
    parts, positions, first = [], [np.zeros(0, dtype=np.int64)], 0
    for part in question.parts:
        there = answered[first : first + part.n_values]
        for rest, at in _remaining(part, there):
            parts.append(rest)
            positions.append(first + at)
        first += part.n_values
    if not parts:
        return None, positions[0]
    whole = parts[0] if len(parts) == 1 else Bundle(tuple(parts))
    return (question if not answered.any() else whole), np.concatenate(positions)


def _remaining(part: Question, answered: BoolVector) -> list[tuple[Question, IndexArray]]:
    if answered.all():
        return []
    if not answered.any():
        return [(part, np.arange(len(answered)))]
    if isinstance(part, Resampled):
        inner = _remaining(part.question, answered)
        return [(msgspec.structs.replace(part, question=rest), at) for rest, at in inner]
    if not isinstance(part, RaoBits):
        return [(part, np.arange(len(answered)))]
    n_tests, levels = part.question.n_tests, len(part.levels)
    asked = ~answered[: levels * n_tests].reshape(levels, n_tests)
    able = np.zeros(n_tests, dtype=bool)
    able[: part.able] = ~answered[levels * n_tests :]
    # tests whose bits are unknown at the same levels are asked together
    patterns, group = np.unique(np.vstack([asked, able]), axis=1, return_inverse=True)
    each = enumerate(patterns.T)
    return [_group(part, group.ravel() == n, pattern) for n, pattern in each if pattern.any()]


def _group(part: RaoBits, chosen: BoolVector, pattern: BoolVector) -> tuple[Question, IndexArray]:
    """The chosen tests at the levels of a pattern; its last entry asks if they can be done."""
    tests, n_tests = np.flatnonzero(chosen), part.question.n_tests
    at, able = np.flatnonzero(pattern[:-1]), pattern[-1]
    counts, members = pack_blocks(_chosen(part.question, chosen))
    rest = msgspec.structs.replace(
        part,
        question=msgspec.structs.replace(part.question, counts=counts, members=members),
        levels=tuple(part.levels[each] for each in at),
        able=len(tests) if able else 0,
    )
    positions = [level * n_tests + tests for level in at]
    positions += [len(part.levels) * n_tests + tests] * bool(able)
    return rest, np.concatenate(positions)


def _chosen(question: RaoSums, tests: BoolVector) -> list[IndexArray]:
    """The rows of some of its tests, in their order."""
    blocks = question.rows()
    return [rows[chosen] for rows, chosen in zip(blocks, by_block(blocks, tests), strict=True)]


def _names(question: Question) -> list[bytes]:
    if isinstance(question, Bundle):
        return [name for part in question.parts for name in _names(part)]
    if isinstance(question, Resampled):
        drawn = b"resampled %d %d" % (question.replicate, question.seed)
        return [_name(drawn, name) for name in _names(question.question)]
    if isinstance(question, EvidenceVerdicts):
        alone = msgspec.structs.replace(question.question, counts=(), members=b"")
        about = _digest(msgspec.structs.replace(question, question=alone, both=False))
        tests = _tests(question.question)
        second = question.n_values - len(tests)
        return [_name(about, t) for t in tests] + [_name(about, t + ABLE) for t in tests[:second]]
    if isinstance(question, ScoreComparisons):
        fields = question.question.n_variables, question.question.discount
        about = _digest((tag_of(ScoreComparisons), *fields, question.grid_bits, question.largest))
        return [_name(about, each) for each in _compared(question)]
    if not isinstance(question, RaoBits):
        whole = _digest(question)
        return [_name(whole, b"%d" % position) for position in range(question.n_values)]
    misfits = isinstance(question.question, Misfits)
    tests = _tests(question.question, in_order=misfits)
    about = _name(tag_of(RaoBits).encode(), repr(question.question.ordered).encode())
    about = _name(about, tag_of(Misfits).encode()) if misfits else about
    at_levels = [_name(about, b"%a" % float(level)) for level in question.levels]
    named = [_name(level, test) for level in at_levels for test in tests]
    return named + [_name(_name(about, ABLE), test) for test in tests[: question.able]]


def _digest(content: object) -> bytes:
    encoded = msgspec.msgpack.encode(content, order="deterministic")
    return blake2b(encoded, digest_size=NAME_BYTES).digest()


def _compared(question: ScoreComparisons) -> list[bytes]:
    """The encoding of every comparison, which does not depend on the order of its sets."""
    sets = [row.astype("<i4").tobytes() for rows in question.question.sets() for row in rows]
    terms: list[list[tuple[bytes, int]]] = [[] for _ in range(question.n_verdicts)]
    for comparison, of_set, coefficient in question.term_array().tolist():
        terms[comparison].append((sets[of_set], coefficient))
    constants = unpack_integers(question.constants, (question.n_verdicts,)).tolist()
    each = zip(map(sorted, terms), constants, strict=True)
    return [msgspec.msgpack.encode(compared) for compared in each]


def _name(about: bytes, part: bytes) -> bytes:
    return blake2b(part, digest_size=NAME_BYTES, key=about).digest()


def _tests(question: RaoSums | CombinedEvidence, *, in_order: bool = False) -> list[bytes]:
    """The encoding of every test, which does not depend on the order within S, or of x and y.

    With ``in_order`` it depends on that of x and y.
    """
    tests = []
    for rows in position_sets(question.counts, question.members, narrowest=2):
        pair = rows[:, :2] if in_order else np.sort(rows[:, :2], axis=1)
        packed = np.concatenate([pair, np.sort(rows[:, 2:], axis=1)], axis=1).astype("<i4")
        tests += [row.tobytes() for row in packed]
    return tests
