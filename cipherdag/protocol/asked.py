"""Bits of earlier runs, signed by both computing parties (`holders`), answer a question again.

Each site records a `Line` per batch: its bits, with all that both signatures cover. So whoever
knows the cohort's keys can check it, in any later run of the same sites over the same rows. A bit
is looked up by its name (`cipherdag.questions.scores.bit_names`) and by the sites that were asked.

With a question the coordinator sends the lines that it has (`Answers.lines_for`). A site that has
recorded others sends those in place of an answer (`Recall.unsent`), and the question comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import ForgedSumError, MalformedMessageError
from cipherdag.privacy.mpc.batch import Batch, Roles, batch_digest
from cipherdag.privacy.mpc.messages import Signed, Verdicts, check_signatures
from cipherdag.privacy.wire import Body, decode, digest, encode
from cipherdag.questions.question import Question
from cipherdag.questions.scores.bit_names import NAME_BYTES, bit_names, remaining

UNKNOWN: Final = -1
Origin: TypeAlias = tuple[bytes, int, int]


class Line(Body, frozen=True):
    """The bits of one batch, with what it was bound to.

    ``run`` is the digest of the run's plan and keys, ``content`` that of the question that the plan
    asked at this ``step``, ``sums`` that of all that was opened before it, ``predicates`` that of
    what was compared, and ``dealt`` that of what was dealt. ``attempt`` is the round, and ``sites``
    the positions of those that were asked. ``signatures`` are of both computing parties; empty for
    one that did not sign.
    """

    run: bytes
    content: bytes
    sums: bytes
    step: int
    attempt: int
    sites: tuple[int, ...]
    predicates: bytes
    names: bytes
    bits: bytes
    dealt: bytes
    signatures: tuple[bytes, bytes]

    @property
    def origin(self) -> Origin:
        """The run, the step and the round that found it."""
        return self.run, self.step, self.attempt

    @property
    def is_whole(self) -> bool:
        """Whether both holders signed it."""
        return all(self.signatures)


def secure_question(content: bytes, sums: bytes, names: bytes) -> bytes:
    """The digest of a question by which its batch is bound, 32 bytes."""
    return digest(b"secure question", content, sums, *([sha256(names).digest()] if names else []))


@dataclass(frozen=True, slots=True)
class Context:
    """The cohort's rows that bits are about, and keys to check bits.

    ``digest`` is over the cohort and all sites' digests of their rows, and ``run`` over this run's
    plan and keys, 32 bytes each. ``roles`` are the same in every run of the cohort, whose sites
    have these pinned ``identities``.
    """

    digest: bytes
    run: bytes
    roles: Roles
    identities: Sequence[bytes] = field(repr=False)
    names: Sequence[str]

    @property
    def session(self) -> bytes:
        """The digest that this run's batches are bound to."""
        return self.session_of(self.run)

    def session_of(self, run: bytes) -> bytes:
        """The digest that the batches of any run over these rows are bound to."""
        return digest(b"secure tests", run, self.digest)

    def line(
        self,
        batch: Batch,
        content: bytes,
        sums: bytes,
        names: bytes,
        said: Signed | Verdicts,
        holder: int,
    ) -> Line:
        """The line of a batch of this run, signed by both computing parties or ``holder`` alone."""
        first, _ = self.roles.holders
        if isinstance(said, Verdicts):
            signatures = said.signatures
        else:
            signatures = (said.signature, b"") if holder == first else (b"", said.signature)
        at = batch.number, batch.attempt, batch.sites, batch.compared
        return Line(self.run, content, sums, *at, names, said.bits, said.dealt, signatures)

    def check(self, line: Line) -> None:
        """Raise ForgedSumError unless signed for these rows; MalformedMessageError if cut short."""
        count, rest = divmod(len(line.names), NAME_BYTES)
        if rest or not count or len(line.bits) != -(-count // 8):
            raise MalformedMessageError("the names or bits of an earlier answer are cut short")
        question = secure_question(line.content, line.sums, line.names)
        of_batch = batch_digest(
            self.session_of(line.run), question, line.step, line.attempt, line.sites, self.roles,
            line.predicates,
        )  # fmt: skip
        holders = [self.identities[each] for each in self.roles.holders]
        signed = [pair for pair in zip(holders, line.signatures, strict=True) if pair[1]]
        if not signed:
            raise ForgedSumError("no computing party signed an earlier answer")
        check_signatures(of_batch, line.bits, line.dealt, signed)

    @property
    def holders(self) -> str:
        """The names of both holders, for errors."""
        return " and ".join(f"'{self.names[each]}'" for each in self.roles.holders)


class Answers:
    """Bits found before, by name and sites; added lines are checked against ``context``."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: dict[Origin, Line] = {}
        self._bits: dict[tuple[tuple[int, ...], bytes], tuple[bool, Line]] = {}

    def add(self, encoded: Iterable[bytes]) -> None:
        """Take lines over that another party sent, each checked; raises as `check`."""
        for each in encoded:
            line = decode(each, Line)
            self._context.check(line)
            self.hold(line)

    def hold(self, line: Line) -> None:
        """Keep a line, joined to its other half; raises ForgedSumError where it contradicts one."""
        before = self._lines.get(line.origin)
        if before is not None:
            if replace(before, signatures=line.signatures) != line:
                raise self.contradiction()
            both = zip(before.signatures, line.signatures, strict=True)
            first, second = (one or other for one, other in both)
            line = replace(line, signatures=(first, second))
        self._lines[line.origin] = line
        count = len(line.names) // NAME_BYTES
        packed = np.frombuffer(line.bits, dtype=np.uint8)
        bits = np.unpackbits(packed, count=count).astype(bool).tolist()
        for name, bit in zip(_split(line.names), bits, strict=True):
            said, earlier = self._bits.setdefault((line.sites, name), (bit, line))
            if said != bit:
                raise self.contradiction()
            if line.is_whole and not earlier.is_whole:
                self._bits[line.sites, name] = bit, line

    @property
    def lines(self) -> list[Line]:
        """All lines, in the order in which they came first."""
        return [*self._lines.values()]

    def of(
        self, names: bytes, sites: tuple[int, ...]
    ) -> tuple[NDArray[np.int8], BoolVector, list[Line]]:
        """Bits by name, `UNKNOWN` without a line; which both holders signed; and their lines."""
        each = [self._bits.get((sites, name), (UNKNOWN, None)) for name in _split(names)]
        bits = np.array([bit for bit, _ in each], dtype=np.int8)
        known = np.array([line is not None and line.is_whole for _, line in each], dtype=bool)
        by_origin = {line.origin: line for _, line in each if line is not None}
        return bits, known, [*by_origin.values()]

    def lines_for(self, question: Question, sites: tuple[int, ...]) -> tuple[bytes, ...]:
        """The lines that have bits of a question, encoded to be sent."""
        return encoded(self.of(bit_names(question), sites)[2]) if self._lines else ()

    def contradiction(self) -> ForgedSumError:
        """Two answers to one question were signed."""
        return ForgedSumError(
            f"{self._context.holders}, which find the bits, found two answers to one question",
            remedy="Find out with all sites whose answer changed: these rows are asked no more.",
        )


def _split(names: bytes) -> list[bytes]:
    return [names[start : start + NAME_BYTES] for start in range(0, len(names), NAME_BYTES)]


@dataclass(frozen=True, slots=True)
class Recall:
    """What all parties know of a question's bits, from the lines that came with it.

    A bit that only one computing party signed, since its run stopped too early, is computed again
    and must come out the same.

    Attributes:
        said: The bits in the lines that every site was sent, `UNKNOWN` where there is none.
        known: Which bits both computing parties signed.
        rest: The question that asks for all other bits; None where there are none.
        positions: Which bits of the whole question ``rest`` asks for.
        rest_names, all_names: The bits' names, of ``rest`` and of all; empty if none is recorded.
    """

    said: NDArray[np.int8]
    known: BoolVector
    rest: Question | None
    positions: IndexArray
    rest_names: bytes = field(repr=False)
    all_names: bytes = field(repr=False)

    @classmethod
    def of(
        cls, question: Question, context: Context, lines: tuple[bytes, ...], sites: tuple[int, ...]
    ) -> Recall:
        """What the lines sent with a question say, and what is left to be asked.

        MalformedMessageError where a line is none, ForgedSumError where it is not signed for these
        rows, or where sites keep no record.
        """
        if not context.digest:
            if lines:
                raise ForgedSumError("an earlier answer came to sites that keep no record")
            every = np.arange(question.n_values)
            nothing = np.full(len(every), UNKNOWN, np.int8)
            return cls(nothing, nothing != UNKNOWN, question, every, b"", b"")
        names, answers = bit_names(question), Answers(context)
        answers.add(lines)
        said, known, _ = answers.of(names, sites)
        rest, positions = remaining(question, known)
        each = _split(names)
        rest_names = b"".join(each[position] for position in positions)
        return cls(said, known, rest, positions, rest_names, names)

    def unsent(self, record: Answers, sites: tuple[int, ...]) -> list[Line]:
        """Lines that a site sends because its record has bits that did not come with the question.

        ForgedSumError where the record has another value of a bit that was sent.
        """
        bits, whole, lines = record.of(self.all_names, sites)
        both = (bits != UNKNOWN) & (self.said != UNKNOWN)
        if (bits[both] != self.said[both]).any():
            raise record.contradiction()
        new = (bits != UNKNOWN) & (self.said == UNKNOWN)
        if not (new | (whole & ~self.known)).any():
            return []
        # whoever asks one question of a run again will ask the next ones too
        runs = {line.run for line in lines}
        return [line for line in record.lines if line.run in runs]

    def values(self, found: FloatVector) -> FloatVector:
        """All bits of the question, 0 or 1, from those found for ``rest``; or a ForgedSumError."""
        bits = self.said.astype(np.float64)
        bits[self.positions] = found
        said = self.said != UNKNOWN
        if (bits[said] != self.said[said]).any():
            raise ForgedSumError(
                "a bit is not what a computing party signed before of the same rows: that party, "
                "or a site that answered, lied then or now"
            )
        return bits


def answer_bytes(lines: Sequence[bytes], content: bytes) -> bytes:
    """What the digest of all sums takes in of an answer: it, bound to any lines sent with it."""
    return digest(b"recalled", *lines, content) if lines else content


def encoded(lines: Iterable[Line]) -> tuple[bytes, ...]:
    """Lines, encoded to be sent."""
    return tuple(encode(line) for line in lines)
