"""What a site has already given away today, held against its policy.

Rounds and values of a day are counted from the ledger; tests, which leave no trace there, from a
file of their own. Both count what was computed, whether or not the run was of use.

Leaks:
    Nothing; a refusal says which limit was reached and not by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cipherdag.errors import PolicyRefusedError, SiteNotReadyError
from cipherdag.pages.files import from_json, to_json
from cipherdag.protocol.durable_files import write_whole
from cipherdag.questions.question import Question
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import Ledger, answers, read_releases


def today() -> str:
    """The date in UTC, as the ledger writes it."""
    return datetime.now(UTC).date().isoformat()


@dataclass(slots=True)
class DailyReleases:
    """Rounds and values that left on the current day, read from the ledger as it grows.

    Nothing is limited while ``counting`` is off: what is computed once more left before.
    """

    ledger: Ledger
    clock: Callable[[], str] = today
    counting: bool = True
    _read: int = 0
    _rounds: dict[str, int] = field(default_factory=dict)
    _values: dict[str, int] = field(default_factory=dict)

    def check(self, question: Question, policy: Policy) -> None:
        """Raise PolicyRefusedError for a question beyond the limits of the day."""
        if not self.counting:
            return
        lines = self.ledger.lines
        for release in read_releases(lines[self._read :]):
            if answers(release.kind):
                day = release.time[:10]
                self._rounds[day] = self._rounds.get(day, 0) + 1
                self._values[day] = self._values.get(day, 0) + release.values
        self._read = len(lines)
        day = self.clock()
        values = question.n_values
        if self._rounds.get(day, 0) + 1 > policy.max_rounds_per_day:
            raise PolicyRefusedError("the site has answered its max_rounds_per_day")
        if self._values.get(day, 0) + values > policy.max_values_per_day:
            raise PolicyRefusedError("the question asks for more than max_values_per_day allows")


@dataclass(slots=True)
class TestBudget:
    """The number of conditional-independence tests that a run and a day may still cost.

    Nothing counts for the day while what was counted is computed once more.
    """

    __test__ = False  # no test of pytest's

    policy: Policy
    path: Path
    clock: Callable[[], str] = today
    counting: bool = True
    _run: int = 0
    _day: str = ""
    _count: int = 0

    def start_run(self) -> None:
        """Count a new run from zero."""
        self._run = 0

    def spend(self, tests: int) -> None:
        """Count tests about to be computed; PolicyRefusedError beyond the run's or day's limit."""
        day = self.clock()
        if day != self._day:
            self._day, self._count = day, self._stored(day)
        if self._run + tests > self.policy.max_tests:
            raise PolicyRefusedError("the run needs more tests than max_tests of the site allows")
        if self.counting and self._count + tests > self.policy.max_tests_per_day:
            raise PolicyRefusedError("the site has computed its max_tests_per_day")
        self._run += tests
        self._count += tests if self.counting else 0

    def save(self) -> None:
        """Write the day's count down."""
        if self._day:
            write_whole(self.path, to_json({"day": self._day, "tests": self._count}) + "\n")

    def _stored(self, day: str) -> int:
        if not self.path.exists():
            return 0
        try:
            stored = from_json(self.path.read_bytes())
            stored_day, count = str(stored["day"]), int(stored["tests"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SiteNotReadyError(
                f"{self.path.name} cannot be read, so today's tests are not known",
                remedy="Find out who altered it; without the file the day counts from zero.",
            ) from error
        return count if stored_day == day else 0
