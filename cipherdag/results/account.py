"""The account of a run: what was run, what left each site, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import ALGORITHMS, make_algorithm
from cipherdag.graphs.relations import Relation
from cipherdag.protocol.progress import DropOut, LedgerHead, RoundReport
from cipherdag.results.folder import SavedFiles
from cipherdag.sites.record.ledger import read_releases

if TYPE_CHECKING:
    import pandas as pd

AS_SAVED = (
    "algorithm", "protection", "parameters", "seconds", "seed", "bytes_sent_per_site", "versions",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class RunAccount:
    """The account of a run: all of a result but the finding.

    Attributes:
        algorithm: Name of the algorithm.
        parameters: Its parameters.
        protection: How answers were protected.
        identifiers: The identifier that travelled for each name, "1" for the first in the
            alphabet.
        sites: Names of the sites.
        rounds: One report per round.
        seconds: Wall time of the run.
        bytes_sent_per_site: Bytes that left each site.
        dropouts: Sites that left during the run.
        seed: Seed of the run.
        versions: Versions of Python and the packages that computed it.
        ledgers: Every site's ledger, line by line.
        heads: Where each ledger ended, as the site itself reported.
        source: What `run.toml` needs to repeat the run.
        schema: The schema in TOML.
        keys: What is said of who shared keys with whom; empty where every two sites did.
        relations: Variables that follow from others, as the schema says.
        made_by: The algorithm itself; a loaded result takes it from the registry.
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
        """The releases of every site, one row per record of the ledgers."""
        import pandas as pd

        return pd.DataFrame(
            msgspec.structs.asdict(record)
            for lines in self.ledgers.values()
            for record in read_releases(lines)
        )

    @property
    def _algorithm(self) -> Algorithm[Any, Any] | None:
        if self.made_by is None and self.algorithm in ALGORITHMS:
            return make_algorithm(self.algorithm, self.parameters)
        return self.made_by

    def _entries(self) -> dict[str, Any]:
        """The entries of ``result.json`` that stand before the finding."""
        return {
            "algorithm": self.algorithm,
            "protection": self.protection,
            "sites": list(self.sites),
            "rounds": len(self.rounds),
            "seconds": self.seconds,
            "bytes_sent_per_site": dict(self.bytes_sent_per_site),
            "dropouts": [asdict(dropout) for dropout in self.dropouts],
            "seed": self.seed,
            "parameters": msgspec.json.decode(msgspec.json.encode(self.parameters)),
            "variables": dict(self.identifiers),
            "round_reports": [asdict(report) for report in self.rounds],
            "ledgers": {name: asdict(head) for name, head in self.heads.items()},
            "versions": dict(self.versions),
        }


def saved_account(
    report: Mapping[str, Any], rest: SavedFiles, made_by: Algorithm[Any, Any] | None
) -> dict[str, Any]:
    """The fields of `RunAccount` as a result folder has them."""
    return {
        **{name: report[name] for name in AS_SAVED},
        "identifiers": report["variables"],
        "sites": tuple(report["sites"]),
        "rounds": msgspec.convert(report["round_reports"], tuple[RoundReport, ...]),
        "dropouts": msgspec.convert(report["dropouts"], tuple[DropOut, ...]),
        "heads": msgspec.convert(report["ledgers"], dict[str, LedgerHead]),
        "ledgers": rest.ledgers,
        "source": rest.source,
        "schema": rest.schema,
        "keys": report.get("keys", ""),
        "relations": msgspec.convert(report.get("relations", ()), tuple[Relation[str], ...]),
        "made_by": made_by,
    }
