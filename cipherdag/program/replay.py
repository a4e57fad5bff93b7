"""The run of a plan's program, which every party repeats step by step.

An algorithm is a generator: it yields questions and receives sums. Given the same sums it asks the
same questions, so that a site derives what it is asked.
"""

from collections.abc import Callable, Generator, Sequence
from hashlib import sha256
from threading import Lock
from typing import Generic, TypeVar
from weakref import ref

from cipherdag.arrays import FloatVector
from cipherdag.errors import InconsistentQuestionError, ReplayError, UnreadableRunError
from cipherdag.protocol.messages import content_digest
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Question

Outcome = TypeVar("Outcome")
OpenedSum = tuple[Question, FloatVector, int]
"""A question, the sum of the answers to it, and how many sites that covers."""
EarlierSum = tuple[bytes, FloatVector, int]
"""The digest of a question, the sum of the answers, and how many sites that covers."""


class Replay(Generic[Outcome]):
    """One run of a generator, which yields questions, receives sums and returns an outcome.

    Parties of one process may share it: the first that comes to a step runs the generator. The
    others get the same question if they bring the same sum, and else an error. ``present`` tells
    the generator how many sites the last sum covers, if it asks.
    """

    def __init__(
        self, asking: Generator[Question, FloatVector, Outcome], present: Presence | None = None
    ) -> None:
        self._asking = asking
        self._present = present
        self._step = 0
        self._begun = False  # whether the first question is there already
        self._led_here: tuple[int, bytes] | None = None
        self._latest: Callable[[], FloatVector | None] = lambda: None
        self._latest_digest = b""
        self._question: Question | None = None
        self._outcome: Outcome
        self._failure: Exception | None = None
        self._lock = Lock()

    def advance(self, step: int, sums: FloatVector | None, n_sites: int = 0) -> Question | None:
        """The question of a step, 1 for the first, or None where the program has ended.

        ``sums`` is the sum of the answers to the question before, over ``n_sites`` sites; None for
        the first. ReplayError where the step is neither the next one nor the last,
        InconsistentQuestionError where another party came to it with another sum; and what the
        program raised, now or earlier.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            seen = None if sums is None else (n_sites, self._digest(sums))
            if step == self._step + 1 and (step == 1) == (sums is None) and not self.ended:
                if self._present is not None and sums is not None:
                    self._present.n_sites = n_sites
                if step > 1 or not self._begun:
                    self._run(sums)
                self._step, self._led_here = step, seen
            if step != self._step or step < 1:
                raise ReplayError("the step is not the next one of the plan")
            if seen != self._led_here:
                raise InconsistentQuestionError("another sum led to this step of the plan")
            return self._question

    def go_past(self, earlier: Sequence[EarlierSum]) -> tuple[OpenedSum, ...]:
        """Feed earlier sums, oldest first, before step 1; OutputError for other questions."""
        opened: list[OpenedSum] = []
        question = self.advance(1, None) if earlier else None
        for step, (content, sums, n_sites) in enumerate(earlier, start=2):
            if question is None or content != content_digest(question):
                raise UnreadableRunError("the rounds kept are of a run that asked other questions")
            opened.append((question, sums, n_sites))
            question = self.advance(step, sums, n_sites)
        self._step, self._led_here, self._begun = 0, None, bool(earlier)
        return tuple(opened)

    @property
    def shown(self) -> Presence | None:
        """What the program shows of itself, if anything."""
        return self._present

    @property
    def ended(self) -> bool:
        """Whether the program has returned its outcome."""
        return self._step > 0 and self._question is None

    @property
    def outcome(self) -> Outcome:
        """The program's outcome, once it has ended."""
        return self._outcome

    def _digest(self, sums: FloatVector) -> bytes:
        """SHA-256 of a sum, computed once for an array that several parties pass in turn."""
        if self._latest() is not sums:
            sums.setflags(write=False)  # else the digest could outlive a change of the array
            self._latest, self._latest_digest = ref(sums), sha256(sums.tobytes()).digest()
        return self._latest_digest

    def _run(self, sums: FloatVector | None) -> None:
        try:
            self._question = next(self._asking) if sums is None else self._asking.send(sums)
        except StopIteration as finished:
            self._question, self._outcome = None, finished.value
        except Exception as error:
            self._failure = error  # a generator that raised would seem to have ended
            raise
