"""What a site allows, whatever the coordinator asks: the stricter side always wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cipherdag.errors import CohortError, PolicyRefusedError, ProtectionError

if TYPE_CHECKING:
    from cipherdag.algorithms.questions import Question


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A site's own limits; every check raises before anything is computed.

    Attributes:
        algorithms: Algorithms the site takes part in.
        protections: Protections it accepts.
        allow_unprotected: Whether it may answer in the clear; needed on top of ``none``.
        min_sites: Smallest cohort under a protection.
        min_rows: Fewest rows the site must hold.
        max_rounds: Most rounds of a run.
        max_values: Most values released in a run.
    """

    algorithms: frozenset[str] = frozenset({"fedpc"})
    protections: frozenset[str] = frozenset({"masking", "bfv"})
    allow_unprotected: bool = False
    min_sites: int = 3
    min_rows: int = 0
    max_rounds: int = 1_000
    max_values: int = 200_000_000

    def check_run(self, *, algorithm: str, protection: str, n_sites: int, rows: int) -> None:
        """Refuse a run this site does not take part in.

        Raises:
            ProtectionError: The protection is not accepted.
            CohortError: Fewer than ``min_sites`` sites under a protection.
            PolicyRefusedError: The algorithm is not allowed, or the site holds too few rows.
        """
        if protection == "none":
            if not self.allow_unprotected:
                raise ProtectionError(
                    "the site's policy forbids answers in the clear",
                    remedy="Choose masking or bfv; only the site can set allow_unprotected = true.",
                )
        elif protection not in self.protections:
            raise ProtectionError(f"the site's policy does not accept protection '{protection}'")
        elif n_sites < self.min_sites:
            raise CohortError(
                f"the cohort has {n_sites} sites, this site's policy asks for {self.min_sites}"
            )
        if algorithm not in self.algorithms:
            raise PolicyRefusedError(f"the site's policy does not allow '{algorithm}'")
        if rows < self.min_rows:
            raise PolicyRefusedError("the site holds fewer rows than its policy asks for")

    def check_question(self, question: Question, *, round_number: int, values_so_far: int) -> None:
        """Refuse a question beyond the run's limits.

        Raises:
            PolicyRefusedError: Too many rounds, or too many values released.
        """
        if round_number > self.max_rounds:
            raise PolicyRefusedError(f"round {round_number} is beyond max_rounds of the site")
        values = sum(encoding.length for encoding in question.encodings)
        if values_so_far + values > self.max_values:
            raise PolicyRefusedError("the question asks for more values than max_values allows")
