"""What a site allows, whatever the coordinator asks: the stricter side always wins."""

from __future__ import annotations

import json
import os
import re
import stat
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from cipherdag.algorithms.parameters import said_of_fields
from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.errors import CohortError, PolicyRefusedError, ProtectionError, SiteNotReadyError
from cipherdag.pages.language import LANGUAGES
from cipherdag.privacy.protections import PROTECTING, PROTECTIONS, protection_kind
from cipherdag.protocol.plan import COLLUDERS, Plan, fewest_survivors, min_group_size
from cipherdag.questions.question import Question, question_kinds
from cipherdag.sites.policy.parameter_rules import (
    allows,
    check_steps,
    fault_of_rule,
    opened_of_tests,
    parameters_used,
)
from cipherdag.sites.strict_toml import check_keys, parse

MAX_POLICY_BYTES = 64 * 1024
QUESTION_KINDS = frozenset(question_kinds())
OPT_IN_KINDS = frozenset(tag for tag, kind in question_kinds().items() if kind.opt_in)
"""Kinds that a site answers only if its policy names them.

Each site derives the coefficients of regressions from sums that it checked. A coordinator that
colludes with a site can forge such sums, and so aim the next ones at a few rows.
"""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
# the sum over one site is that site's own answer
_SMALLEST = {"min_sites": 2, "min_sites_bits": 2, "approvers": 1}
_LARGEST = 2**53
_ONE_OF = {"reveal": ("bits", "sums"), "language": LANGUAGES}


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A site's own limits; every check raises before anything is computed.

    `dumps` writes what is said here of a field above it, for the people of the site.

    Raises:
        SiteNotReadyError: A limit is not a whole number in its range.

    Attributes:
        algorithms: Algorithms this site takes part in.
        questions: Kinds of questions it answers; remove one to refuse it. regression-steps (mixed
            columns), hazard-steps and hazard-sums (Cox models) and effect-sums need a coordinator
            that colludes with no site: together they could aim these sums at a few rows.
        protections: How its answers may be protected.
        allow_unprotected: true lets answers leave in the clear: only for made-up data.
        min_sites: Smallest number of sites in a run that discloses sums, and of those a sum is of.
        min_sites_bits: Smallest number of sites in a run that discloses bits of tests alone.
        tolerated_colluders: Sites that may side with the coordinator and still see sums only.
        allow_dropouts: Whether a run may go on without a site that left it.
        approve_cohorts: "manual": a run of other sites, or of rows that changed, waits.
        min_cohort_difference: Fewest sites by which it may differ: subtracting the two runs' sums
            shows a sum over these sites alone. A run that differs by fewer always waits for
            approval.
        reveal: "bits": of a test a bit or two are disclosed, at most ten; "sums": also the sums
            behind them, from which small counts may follow, or with votes one site's p-values.
        min_rows: Fewest rows this site must hold to take part.
        min_cell_size: Smallest count that a pooled count may come from.
        max_rounds: Per run: rounds, tests computed and values released.
        max_rounds_per_day: Per day (UTC), over all runs; counted from the ledger and usage.json.
        approve_runs: "manual": each run waits for `cipherdag site approve`; or "automatic".
        approvers: How many persons must approve a run, each by name.
        language: Of the plans that a person reads here: en, de, es or fr.
        parameters: Rules on parameters, such as "alpha 0.001..0.1" or "evidence vote|pooled".
        purposes: Purposes it takes part for, word by word; all, if none is named.
        max_runs: Most runs over the same schema: ten plans with ten alphas show what one does not.
        max_bits_per_pair: Most bits about two columns that secure tests find, over all runs.
    """

    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    questions: frozenset[str] = field(default=QUESTION_KINDS - OPT_IN_KINDS)
    protections: frozenset[str] = frozenset(PROTECTING)
    allow_unprotected: bool = False
    min_sites: int = 3
    min_sites_bits: int = 2
    tolerated_colluders: int = COLLUDERS
    allow_dropouts: bool = True
    approve_cohorts: Literal["automatic", "manual"] = "manual"
    min_cohort_difference: int = 3
    reveal: Literal["bits", "sums"] = "bits"
    min_rows: int = 0
    min_cell_size: int = 11
    max_rounds: int = 1_000
    max_tests: int = 1_000_000_000
    max_values: int = 200_000_000
    max_rounds_per_day: int = 10_000
    max_tests_per_day: int = 10_000_000_000
    max_values_per_day: int = 2_000_000_000
    approve_runs: Literal["automatic", "manual"] = "manual"
    approvers: int = 1
    language: str = "en"
    parameters: frozenset[str] = frozenset()
    purposes: frozenset[str] = frozenset()
    max_runs: int = 50
    max_bits_per_pair: int = 200_000

    def __post_init__(self) -> None:
        for item in fields(self):
            if type(item.default) is int:
                may_be_one = self.allow_unprotected and item.name == "min_sites"
                _whole_number(item.name, getattr(self, item.name), may_be_one=may_be_one)

    @classmethod
    def as_published(cls) -> Policy:
        """A policy without disclosure control, as in the papers: for data that are no secret.

        No count is small, tests of one site alone are opened, and answers may leave in the clear.
        """
        return cls(
            questions=QUESTION_KINDS,
            allow_unprotected=True,
            min_sites=1,
            tolerated_colluders=0,
            reveal="sums",
            min_cell_size=0,
        )

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read a ``policy.toml``; whatever is wrong with it stops the site (SiteNotReadyError).

        A key that is absent has its default; a key that is unknown is an error, and so is a file
        that others may change.
        """
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(MAX_POLICY_BYTES + 1)
        except OSError as error:
            raise SiteNotReadyError(
                f"{path.name} cannot be read: {error.strerror}",
                remedy="Restore the policy; without one a site answers nothing.",
            ) from error
        if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SiteNotReadyError(
                f"{path.name} can be changed by other users (mode {mode:03o})",
                remedy=f"Read it through, then run `chmod 600 {path}`.",
            )
        if len(content) > MAX_POLICY_BYTES:
            raise SiteNotReadyError(
                f"{path.name} is larger than {MAX_POLICY_BYTES} bytes", remedy=f"Correct {path}."
            )
        return cls.loads(content)

    @classmethod
    def loads(cls, text: str | bytes) -> Policy:
        """Read a policy from TOML text; raises SiteNotReadyError where it is not valid."""
        try:
            table = parse(text)
            check_keys(table, [item.name for item in fields(cls)])
        except ValueError as error:
            raise _invalid(str(error)) from error
        defaults = cls()
        return cls(**{key: _value(key, getattr(defaults, key), table[key]) for key in table})

    def dumps(self) -> str:
        """The policy as commented TOML, which `loads` reads back as an equal policy."""
        lines = ["# What this site allows, whatever a coordinator asks. It belongs to the site."]
        wrapped = textwrap.TextWrapper(98, break_on_hyphens=False)
        said = {name: wrapped.wrap(text) for name, text in said_of_fields(Policy).items()}
        for item in fields(self):
            if item.name in said:
                lines += ["", *(f"# {line}" for line in said[item.name])]
            value = getattr(self, item.name)
            shown = sorted(value) if isinstance(value, frozenset) else value
            # TOML knows neither JSON's pairs of surrogates nor a bare DEL
            written = json.dumps(shown, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{item.name} = {written}")
        return "\n".join(lines) + "\n"

    def stricter(self, *, min_sites: int, protections: Iterable[str], colluders: int = 0) -> Policy:
        """This policy where a study asks for more: the stricter side of each wins."""
        allowed = frozenset(protections)
        return replace(
            self,
            min_sites=max(self.min_sites, min_sites),
            tolerated_colluders=max(self.tolerated_colluders, colluders),
            protections=self.protections & allowed,
            allow_unprotected=self.allow_unprotected
            and bool(allowed & (PROTECTIONS.keys() - set(PROTECTING))),
        )

    def check_run(self, plan: Plan, *, rows: int) -> None:
        """Refuse a run this site does not take part in.

        Raises:
            ProtectionError: The protection is not accepted.
            CohortError: Too few sites under a protection.
            PolicyRefusedError: The algorithm is not allowed, or the site holds too few rows.
        """
        algorithm, protection, n_sites = plan.algorithm, plan.protection, len(plan.cohort)
        bits = opened_of_tests(plan) == "bits"
        fewest = self.min_sites_bits if bits else self.min_sites
        if not protection_kind(protection).protects:
            if not self.allow_unprotected:
                raise ProtectionError(
                    "the site's policy forbids answers in the clear",
                    remedy=f"Choose {' or '.join(PROTECTING)}; only the site can set "
                    "allow_unprotected = true.",
                )
        elif protection not in self.protections:
            raise ProtectionError(
                f"the site's policy does not accept protection '{protection}'",
                remedy=f'If the site agrees, add "{protection}" to protections in its policy.toml.',
            )
        elif n_sites < fewest:
            raise CohortError(
                f"the cohort has {n_sites} sites, this site's policy asks for {fewest}",
                remedy=f"Run with at least {fewest} distinct sites, each pinned by every other.",
            )
        if algorithm not in self.algorithms:
            raise PolicyRefusedError(
                f"the site's policy does not allow '{algorithm}'",
                remedy=f'If the site agrees, add "{algorithm}" to algorithms in its policy.toml.',
            )
        if rows < self.min_rows:
            raise PolicyRefusedError("the site holds fewer rows than its policy asks for")

    def fewest_survivors(self, n_sites: int) -> int:
        """Fewest sites that a sum may cover, of ``n_sites`` asked; all without drop-outs."""
        if not self.allow_dropouts:
            return n_sites
        fewest = fewest_survivors(n_sites, self.tolerated_colluders)
        return min(n_sites, max(fewest, self.min_sites))

    def min_group_size(self, plan: Plan) -> int:
        """The least number of sites that have to lack the same variables, where sites lack some."""
        return max(self.fewest_contributors(plan), min(plan.min_contributors, len(plan.cohort)))

    def fewest_contributors(self, plan: Plan) -> int:
        """The least number of sites that contribute to a test whose sums this site opens.

        As many as ``min_sites``, and two more than collude by the plan or by this policy.
        """
        colluders = max(self.tolerated_colluders, plan.colluders)
        return min_group_size(len(plan.cohort), colluders, self.min_sites)

    def check_colluders(self, colluders: int, *, n_sites: int) -> None:
        """Refuse (CohortError) a session safe against fewer colluding sites than this site asks."""
        if not 0 <= colluders < max(n_sites, 2):
            raise CohortError("the plan tolerates as many colluders as there are sites")
        if colluders < min(self.tolerated_colluders, n_sites - 1):
            raise CohortError(
                f"the plan tolerates {colluders} colluding sites, this site's policy asks for "
                f"{self.tolerated_colluders}"
            )

    def check_plan(self, plan: Plan, *, runs: int) -> None:
        """Raise PolicyRefusedError for purposes or parameters not allowed, or one run too many."""
        if not plan.purpose.strip():
            raise PolicyRefusedError("the plan does not say what its result is for")
        if self.purposes and plan.purpose not in self.purposes:
            raise PolicyRefusedError("the plan's purpose is none that the site's policy names")
        used = parameters_used(plan)
        if self.reveal == "bits" and opened_of_tests(plan) == "sums":
            raise PolicyRefusedError(
                "the plan discloses sums of tests, or one site's p-values, and the site's policy "
                "lets bits of them leave",
                remedy='Plan with --reveal bits (Python: reveal="bits") and no votes; or write '
                'reveal = "sums" in policy.toml, if small counts may follow from what leaves.',
            )
        check_steps(plan)
        for rule in sorted(self.parameters):
            name, allowed = rule.split(" ", 1)
            if name in used and not allows(allowed, used[name]):
                raise PolicyRefusedError(
                    f"the site's policy asks for {rule}, and the plan has {used[name]}"
                )
        if runs >= self.max_runs:
            raise PolicyRefusedError("the site has taken part in its max_runs over these data")

    def check_question(self, question: Question, *, round_number: int, values_so_far: int) -> None:
        """Raise PolicyRefusedError for a kind not allowed, or too many rounds or values."""
        for kind in sorted(question.tags):
            if kind not in self.questions:
                agrees = "trusts the coordinator" if kind in OPT_IN_KINDS else "agrees"
                raise PolicyRefusedError(
                    f"the site's policy does not allow questions of '{kind}'",
                    remedy=f'If the site {agrees}, add "{kind}" to questions in its policy.toml.',
                )
        if round_number > self.max_rounds:
            raise PolicyRefusedError(f"round {round_number} is beyond max_rounds of the site")
        values = question.n_values
        if values_so_far + values > self.max_values:
            raise PolicyRefusedError("the question asks for more values than max_values allows")


def _invalid(reason: str) -> SiteNotReadyError:
    return SiteNotReadyError(
        f"the site's policy is not valid: {reason}",
        remedy="Correct policy.toml; `cipherdag site check` says when it can be read.",
    )


def _whole_number(key: str, value: Any, *, may_be_one: bool = False) -> int:
    smallest = 1 if may_be_one else _SMALLEST.get(key, 0)
    if type(value) is not int or not smallest <= value <= _LARGEST:
        raise _invalid(f"{key} is not a whole number from {smallest}")
    return value


def _value(key: str, default: Any, value: Any) -> Any:
    """One value of the file, of the type of its default and within its range."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise _invalid(f"{key} is neither true nor false")
        return value
    if isinstance(default, int):
        return _whole_number(key, value)
    if key in ("parameters", "purposes"):
        return _texts(key, value)
    if isinstance(default, frozenset):
        return _names(key, value)
    choices = _ONE_OF.get(key, ("automatic", "manual"))
    if value not in choices:
        named = " nor ".join(f'"{choice}"' for choice in choices)
        raise _invalid(f"{key} is neither {named}")
    return value


def _listed(key: str, value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _invalid(f"{key} is not a list of {what}")
    return value


def _texts(key: str, value: Any) -> frozenset[str]:
    texts = _listed(key, value, "texts")
    faults = (fault for text in texts if key == "parameters" and (fault := fault_of_rule(text)))
    if fault := next(faults, ""):
        raise _invalid(fault)
    return frozenset(texts)


def _names(key: str, value: Any) -> frozenset[str]:
    names = _listed(key, value, "names")
    allowed = {"questions": QUESTION_KINDS, "protections": PROTECTING}.get(key)
    for name in names:
        if not _NAME.fullmatch(name) or (allowed is not None and name not in allowed):
            raise _invalid(f"{key} names {name!r}, which is not known")
    return frozenset(names)
