"""The account of a run: what was run, what left each site, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import ALGORITHMS, make_algorithm
from cipherdag.graphs.relations import Relation
from cipherdag.protocol.progress import DropOut, LedgerHead, RoundReport
from cipherdag.questions.disclosure import Audience, Disclosure, joined, sentences
from cipherdag.results.folder import SavedFiles
from cipherdag.results.sentences import disclosed_by, phrase
from cipherdag.sites.record.ledger import read_releases

if TYPE_CHECKING:
    import pandas as pd

ENTRIES: Mapping[str, tuple[str, Any]] = {
    "algorithm": ("algorithm", str),
    "protection": ("protection", str),
    "sites": ("sites", tuple[str, ...]),
    "seconds": ("seconds", float),
    "bytes_sent_per_site": ("bytes_sent_per_site", dict[str, int]),
    "dropouts": ("dropouts", tuple[DropOut, ...]),
    "seed": ("seed", int),
    "parameters": ("parameters", dict[str, Any]),
    "variables": ("identifiers", dict[str, str]),
    "round_reports": ("rounds", tuple[RoundReport, ...]),
    "ledgers": ("heads", dict[str, LedgerHead]),
    "versions": ("versions", dict[str, str]),
}
"""The entries of ``result.json`` that stand before the finding, each with its field and type."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RunAccount:
    """The account of a run: all of a result but the finding.

    Attributes:
        identifiers: The identifier that travelled for each name, "1" for the first in the
            alphabet.
        versions: Versions of Python and the packages that computed it.
        ledgers: Every site's ledger, line by line.
        heads: Where each ledger ended, as the site itself reported.
        source: What `run.toml` needs to repeat the run.
        keys: What is said of who shared keys with whom; empty where every two sites did.
        relations: Variables that follow from others, as the schema says.
    """

    algorithm: str
    parameters: Mapping[str, Any]
    protection: str
    identifiers: Mapping[str, str]
    sites: tuple[str, ...]
    rounds: tuple[RoundReport, ...]
    seconds: float
    bytes_sent_per_site: Mapping[str, int]
    dropouts: tuple[DropOut, ...]
    seed: int
    versions: Mapping[str, str]
    ledgers: Mapping[str, tuple[str, ...]] = field(repr=False)
    heads: Mapping[str, LedgerHead] = field(repr=False)
    source: Mapping[str, Any] = field(repr=False, default_factory=dict)
    schema: str = field(repr=False, default="")
    keys: str = field(repr=False, default="")
    relations: tuple[Relation[str], ...] = field(repr=False, default=())
    made_by: Algorithm[Any, Any] | None = field(repr=False, compare=False, default=None)

    @property
    def releases(self) -> pd.DataFrame:
        """The releases of every site, one row per record, and the ``meaning`` of its kind."""
        import pandas as pd

        return pd.DataFrame(
            msgspec.structs.asdict(record) | {"meaning": phrase(record.kind, self.declared)}
            for lines in self.ledgers.values()
            for record in read_releases(lines)
        )

    @property
    def disclosures(self) -> tuple[str, ...]:
        """The sentences on what this run disclosed."""
        return sentences(self.opened)

    @property
    def opened(self) -> tuple[Disclosure, ...]:
        """What this run disclosed: of what was declared what was asked for."""
        asked = (disclosed_by(report.kind, self.declared) for report in self.rounds)
        aside = [each for each in self.declared if each.audience == Audience.COORDINATOR]
        # an earlier revision called its questions otherwise
        return joined(*asked, aside) or joined(self.declared)

    @cached_property
    def declared(self) -> frozenset[Disclosure]:
        """What its algorithm declared; nothing is known of one that is not installed here."""
        return frozenset(self._algorithm.disclosures() if self._algorithm else ())

    @property
    def _algorithm(self) -> Algorithm[Any, Any] | None:
        if self.made_by is None and self.algorithm in ALGORITHMS:
            return make_algorithm(self.algorithm, self.parameters)
        return self.made_by

    def _entries(self) -> dict[str, Any]:
        """The entries of ``result.json`` that stand before the finding."""
        saved = {entry: getattr(self, name) for entry, (name, _) in ENTRIES.items()}
        entries = msgspec.json.decode(msgspec.json.encode(saved, enc_hook=dict))
        first = {entry: entries.pop(entry) for entry in ("algorithm", "protection", "sites")}
        return {**first, "rounds": len(self.rounds), **entries}


def saved_account(
    report: Mapping[str, Any], rest: SavedFiles, made_by: Algorithm[Any, Any] | None
) -> dict[str, Any]:
    """The fields of `RunAccount` as a result folder has them."""
    return {
        **{name: msgspec.convert(report[entry], kind) for entry, (name, kind) in ENTRIES.items()},
        "ledgers": rest.ledgers,
        "source": rest.source,
        "schema": rest.schema,
        "keys": report.get("keys", ""),
        "relations": msgspec.convert(report.get("relations", ()), tuple[Relation[str], ...]),
        "made_by": made_by,
    }
