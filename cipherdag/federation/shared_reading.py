"""What sites of one process are told alike, read and checked by the first of them for all.

Sites in processes of their own never share it; what is not the same to the last byte is read again.

Leaks:
    Nothing: every site of the process is sent it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache, partial

from cipherdag.arrays import FloatVector
from cipherdag.privacy.aggregation import Declaration
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import read_verdicts
from cipherdag.privacy.sums import SiteAggregation
from cipherdag.privacy.wire import digest
from cipherdag.protocol.engines.engine import Handler
from cipherdag.protocol.messages import Ask, content_digest
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.secure_tests import batch_of
from cipherdag.protocol.set_up_messages import beacon_of
from cipherdag.questions.question import Question
from cipherdag.sites.session.admission import open_message
from cipherdag.sites.session.reading import Reading, read_relayed, read_sum
from cipherdag.sites.session.runtime import SiteRuntime

CACHED_QUESTIONS = 16


class SharedReading:
    """The last message, set-up, sum, batch and questions that a site of this process has read.

    Args:
        coordinator: The coordinator's public key, 32 bytes.
    """

    def __init__(self, coordinator: bytes) -> None:
        self._opened = lru_cache(maxsize=1)(partial(open_message, coordinator=coordinator))
        self._checked: tuple[bytes, Declaration, SiteAggregation] | None = None
        self._sum: tuple[bytes, FloatVector]
        self._held: tuple[tuple[bytes, Sequence[bytes], Sequence[bytes]], bytes] | None = None
        self._batch: tuple[Question, tuple[bytes, Roles, Ask, bytes], Batch] | None = None
        self._contents = deque[tuple["Question", bytes]](maxlen=CACHED_QUESTIONS)
        self.reading = Reading(
            lru_cache(maxsize=1)(read_relayed),
            self._read_sum,
            lru_cache(maxsize=1)(KeyGraph.drawn),
            lru_cache(maxsize=1)(Roles.draw),
            lru_cache(maxsize=1)(digest),
            self._beacon_of,
            self._content_of,
            self._batch_of,
            lru_cache(maxsize=1)(read_verdicts),
        )

    def door(self, runtime: SiteRuntime) -> Handler:
        """The handler of a runtime, which shares messages already opened for other sites."""
        return partial(self._answered, runtime)

    def _answered(self, runtime: SiteRuntime, operation: str, message: bytes) -> bytes:
        return runtime.answer(self._opened(operation, message))

    def _beacon_of(
        self, plan: Plan, commitments: Sequence[bytes], chances: Sequence[bytes]
    ) -> bytes:
        """Compute `beacon_of`, or return the beacon of equal numbers checked before."""
        opened = plan.digest, commitments, chances
        if self._held is None or self._held[0] != opened:
            self._held = opened, beacon_of(plan, commitments, chances)
        return self._held[1]

    def _content_of(self, question: Question) -> bytes:
        """Compute `content_digest`, or return that of the identical question object."""
        for earlier, content in tuple(self._contents):
            if earlier is question:
                return content
        content = content_digest(question)
        self._contents.append((question, content))
        return content

    def _batch_of(
        self, session: bytes, roles: Roles, ask: Ask, question: Question, sums: bytes
    ) -> Batch:
        """Compute `batch_of`, or return the batch of the identical question, asked alike."""
        asked, last = (session, roles, ask, sums), self._batch
        if last is not None and last[0] is question and last[1] == asked:
            return last[2]
        batch = batch_of(session, roles, ask, question, sums)
        self._batch = question, asked, batch
        return batch

    def _read_sum(
        self, previous: bytes, declared: Declaration, aggregation: SiteAggregation
    ) -> tuple[bytes, FloatVector]:
        """Compute `read_sum`, or return the sum that a site with the same key has checked."""
        checked = self._checked
        same = checked is not None and checked[:2] == (previous, declared)
        if checked is None or not same or not aggregation.accepts_as(checked[2]):
            self._sum = read_sum(previous, declared, aggregation)
            self._checked = previous, declared, aggregation
        return self._sum
