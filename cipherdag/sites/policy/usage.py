"""What a site has already given away, today or ever, held against its policy.

Rounds and values of a day are counted from the ledger; tests, which leave no trace there, from a
file of their own, and bits about every two columns from another. All count what was computed,
whether or not the run was of use.

A refusal says which limit was reached and not by how much.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from cipherdag.arrays import IndexArray
from cipherdag.errors import PolicyRefusedError, SiteNotReadyError
from cipherdag.pages.files import from_json, to_json
from cipherdag.pages.language import ENGLISH, Language
from cipherdag.protocol.durable_files import append_entries, read_entries, write_whole
from cipherdag.protocol.messages import content_digest
from cipherdag.questions.question import Question
from cipherdag.questions.scores.bit_names import bits_by_pair
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
    _rounds: Counter[str] = field(default_factory=Counter)
    _values: Counter[str] = field(default_factory=Counter)

    def check(self, question: Question, policy: Policy) -> None:
        """Raise PolicyRefusedError for a question beyond the limits of the day."""
        if not self.counting:
            return
        lines = self.ledger.lines
        for release in read_releases(lines[self._read :]):
            if answers(release.kind):
                day = release.time[:10]
                self._rounds[day] += 1
                self._values[day] += release.values
        self._read = len(lines)
        day = self.clock()
        if self._rounds[day] + 1 > policy.max_rounds_per_day:
            raise PolicyRefusedError("the site has answered its max_rounds_per_day")
        if self._values[day] + question.n_values > policy.max_values_per_day:
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


class SpentBits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bits that a round was asked for: columns, and rows (first, second, bits), packed."""

    session: str
    columns: tuple[str, ...]
    bits: bytes


class BitBudget:
    """How many bits about every two columns this site ever helped to find.

    Columns count by their names, whatever schema or study reads them. A bit that the record answers
    costs nothing; another subset of sites, other rows, other bins or another resample do. The file
    has one JSON object a line.
    """

    def __init__(self, policy: Policy, path: Path, columns: tuple[str, ...] = ()) -> None:
        self.counting = True
        self._most, self._path, self._columns = policy.max_bits_per_pair, path, columns
        self._last: tuple[bytes, bytes, tuple[int, ...]] | None = None
        self._spent: Counter[tuple[str, str]] | None = None

    def spend(self, session: bytes, question: Question, sites: tuple[int, ...]) -> None:
        """Count a question's bits before its answer leaves; the same asked again counts once.

        PolicyRefusedError where more would be found of two columns than the policy allows,
        OutputError where the file cannot be written; then nothing may leave.
        """
        asked = session, content_digest(question), sites
        if not self.counting or asked == self._last:
            return
        counts = bits_by_pair(question, len(self._columns))
        pairs = np.nonzero(counts)
        rows = np.column_stack([*pairs, counts[pairs]])
        new = _by_pair(self._columns, rows)
        for pair, n_bits in new.items():
            if self.spent[pair] + n_bits > self._most:
                raise PolicyRefusedError(
                    f"{self.spent[pair] + n_bits:,} bits about '{pair[0]}' and '{pair[1]}' would "
                    f"be found over all runs; max_bits_per_pair is {self._most:,}"
                )
        packed = zlib.compress(rows.astype("<i4").tobytes(), level=1)
        append_entries(self._path, SpentBits(session.hex(), self._columns, packed))
        self._last = asked
        self.spent.update(new)

    @property
    def spent(self) -> Counter[tuple[str, str]]:
        """Bits by two columns, in the order of names; SiteNotReadyError for an unreadable file."""
        if self._spent is None:
            self._spent = Counter()
            unread = SiteNotReadyError(
                f"{self._path.name} cannot be read, so what was found before is not known",
                remedy="Restore it: it holds how many bits about every two columns were found.",
            )
            try:
                for entry in read_entries(self._path, SpentBits, unread):
                    rows = np.frombuffer(zlib.decompress(entry.bits), dtype="<i4").reshape(-1, 3)
                    self._spent.update(_by_pair(entry.columns, rows))
            except (ValueError, IndexError, zlib.error) as error:
                raise unread from error
        return self._spent

    def sentence(self, say: Language = ENGLISH) -> str:
        """What was found so far of the two columns of which most was, and what may be."""
        most = say("of any two columns at most {n:,} bits over all runs", n=self._most)
        if not self.spent:
            return say("{limit}; none so far", limit=most)
        (first, second), n = self.spent.most_common(1)[0]
        return say(
            "{limit}; so far {n:,} at most, of '{first}' and '{second}'",
            limit=most,
            n=n,
            first=first,
            second=second,
        )


def _by_pair(columns: Sequence[str], rows: IndexArray) -> dict[tuple[str, str], int]:
    """Bits by the names of two columns, from rows (first, second, bits)."""
    by_pair = {}
    for i, j, n_bits in rows.tolist():
        first, second = sorted((columns[i], columns[j]))
        by_pair[first, second] = n_bits
    return by_pair
