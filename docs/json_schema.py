"""The JSON schema of what commands print with ``--json``; ``docs/reference/json.md`` shows it.

Every command prints one value, but those of runs and `audit show` and `site releases`: these print
one a line. Fields are added in later versions, and none is renamed or taken away within one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from msgspec.json import schema_components

from cipherdag.audit.register import RegisteredRun
from cipherdag.cli.programs.printed import (
    Activated,
    Approved,
    Bundled,
    Coded,
    Decided,
    Drafted,
    Exported,
    Failure,
    Made,
    Planned,
    Previewed,
    ShownGraph,
    Written,
)
from cipherdag.graphs.metrics import GraphMetrics, PAGMetrics
from cipherdag.protocol.progress import LedgerHead, RoundReport
from cipherdag.sites.drafts.differences import Difference
from cipherdag.sites.record.ledger import Release
from cipherdag.sites.study.checks import CheckResult

LIVE_ON = frozenset(
    ("coordinator carry", "coordinator start", "site carry", "site engine", "site start", "mcp")
)
"""Commands that serve until they are stopped, and come to no result."""
FOR_PEOPLE = frozenset(("demo",))
"""Commands whose output is for people alone."""


class BundleReport(TypedDict):
    """What a bundle shows; `coordinator` is the fingerprint to compare by telephone."""

    files: int
    plan: str | None
    approved: list[str]
    ledgers: dict[str, LedgerHead]
    signed_by: str | None
    coordinator: str | None


class EffectAnswer(TypedDict):
    """What identifies an effect; more fields depend on the method and on whether one does."""

    treatment: str
    outcome: str


class RoundLine(TypedDict):
    """A line of a run: a finished round."""

    round: RoundReport


@dataclass(frozen=True, slots=True)
class EdgeDifference:
    """A pair of which two graphs differ: each one's mark from source to target, empty for none."""

    source: str
    target: str
    here: str
    there: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGraphs(GraphMetrics):  # noqa: D101
    __doc__ = f"{GraphMetrics.__doc__}    differences: The pairs of which they differ.\n    "
    differences: tuple[EdgeDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPAGs(PAGMetrics):  # noqa: D101
    __doc__ = f"{PAGMetrics.__doc__}    differences: The pairs of which they differ.\n    "
    differences: tuple[EdgeDifference, ...]


class Report(TypedDict):
    """A result; more fields depend on the kind of finding."""

    kind: str
    algorithm: str
    warnings: list[str]


class ResultLine(TypedDict):
    """The last line of a run: the content of ``result.json``."""

    result: Report


class EnrolledSite(TypedDict):
    """A site of a study; code and fingerprint are empty once it is revoked."""

    site: str
    state: str
    code: str
    fingerprint: str


class EnrolledSites(TypedDict):
    """The coordinator's code, and the sites of its study."""

    code: str
    coordinator: str
    sites: list[EnrolledSite]


class AskedPlan(TypedDict):
    """A plan that asked at a site, in sentences; the state of one to be decided is WAITS."""

    session: str
    asked: str
    state: str
    algorithm: str
    protection: str
    sites: list[str]
    summary: list[str]
    account: list[str]


class SiteState(TypedDict):
    """The state of a site; of an active one also its study, engine and sites."""

    site: str
    code: str
    fingerprint: str
    started: bool
    study: str
    runs: list[AskedPlan]


def kinds() -> dict[str, tuple[Any, ...]]:
    """The types of what every command prints, one of them at a time.

    The commands of single algorithms have those of their group.
    """
    lines = (RoundLine, ResultLine)
    return {
        "audit bundle": (Bundled,),
        "audit export": (Exported,),
        "audit show": (Release,),
        "audit verify": (dict[str, LedgerHead], BundleReport),
        "coordinator approve": (Approved,),
        "coordinator new": (Coded,),
        "coordinator plan": (Planned,),
        "coordinator renew": (Approved,),
        "coordinator revoke": (Approved,),
        "coordinator run": lines,
        "coordinator sites": (EnrolledSites,),
        "effect": lines,
        "graph compare": (
            ComparedGraphs,
            ComparedPAGs,
        ),
        "graph export": (Written,),
        "graph identify": (EffectAnswer,),
        "graph show": (ShownGraph,),
        "repeat": lines,
        "report": (Written,),
        "run": lines,
        "schema diff": (list[Difference],),
        "schema infer": (Drafted,),
        "schema merge": (Drafted,),
        "schema overlap": (Drafted,),
        "schema preview": (Previewed,),
        "simulate": lines,
        "site activate": (Activated,),
        "site approve": (Decided,),
        "site check": (list[CheckResult],),
        "site deny": (Decided,),
        "site knowledge": (Written,),
        "site new": (Made,),
        "site register": (list[RegisteredRun], Exported),
        "site releases": (Release,),
        "site request": (Coded,),
        "site result": (ResultLine,),
        "site status": (
            SiteState,
            AskedPlan,
        ),
    }


def schema() -> dict[str, Any]:
    """The JSON schema of what every command prints, by command; `$defs` has the types."""
    by_command = kinds()
    every = [Failure, *(kind for each in by_command.values() for kind in each)]
    schemas, types = schema_components(every, ref_template="#/$defs/{name}")
    rest = iter(schemas[1:])
    commands = {
        command: {"anyOf": [next(rest) for _ in each]} if len(each) > 1 else next(rest)
        for command, each in by_command.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "commands": commands,
        "failure": schemas[0],
        "$defs": {name: _in_order(each) for name, each in types.items()},
    }


def _in_order(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type with its required fields in alphabetical order."""
    required = {"required": sorted(schema["required"])} if "required" in schema else {}
    return {**schema, **required}
