"""What a feature selection gives back: features by label, what left each site, what it cost."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cipherdag.results.folder import run_toml, write_folder
from cipherdag.results.run import releases_frame, run_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFSOutcome
    from cipherdag.protocol.progress import DropOut, RoundReport
    from cipherdag.sites.record.ledger import LedgerHead

COLUMNS = ("label", "rank", "feature", "strength", "p_value", "retrieved")


@dataclass(frozen=True, slots=True)
class SelectedFeature:
    """A feature that is a cause or an effect of a label.

    Attributes:
        feature: Its name.
        strength: Weighted strength of its dependence on the label given nothing (Eq. 2): the
            absolute correlation, or G2 or twice a log likelihood ratio. With other evidence than
            ``weighted_p``: the summed statistic or -2 ln p, or the absolute joint score.
        p_value: Weighted p-value of the two given nothing (Eq. 1), or that over all sites.
        retrieved: Whether FedCFR brought it back from behind a correlated label.
    """

    feature: str
    strength: float
    p_value: float
    retrieved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureResult:
    """The result of one run.

    Attributes:
        algorithm: Name of the algorithm.
        parameters: Its parameters.
        protection: How answers were protected.
        features: For every label its selected features, the strongest first.
        related_labels: For every label the other labels that are its parents or children.
        untested: Variables that no site could test against any label.
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
    """

    algorithm: str
    parameters: Mapping[str, Any]
    protection: str
    features: Mapping[str, tuple[SelectedFeature, ...]]
    related_labels: Mapping[str, tuple[str, ...]]
    untested: tuple[str, ...]
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

    @classmethod
    def of(cls, outcome: FedCMFSOutcome, names: Sequence[str], **facts: Any) -> FeatureResult:
        """The result of an outcome by position, with the names of the positions.

        Args:
            outcome: What the algorithm concluded.
            names: The variables in the order of their positions.
            facts: Every other field.
        """
        return cls(
            features={
                names[label]: tuple(
                    SelectedFeature(
                        feature=names[v],
                        strength=float(own.marginals.strength[v]),
                        p_value=float(own.marginals.p_value[v]),
                        retrieved=v in own.retrieved,
                    )
                    for v in own.features
                )
                for label, own in outcome.by_label.items()
            },
            related_labels={
                names[label]: tuple(names[v] for v in own.labels)
                for label, own in outcome.by_label.items()
            },
            untested=tuple(names[v] for v in outcome.untested),
            **facts,
        )

    @property
    def union(self) -> tuple[str, ...]:
        """The features selected for any label, in alphabetical order."""
        return tuple(sorted({f.feature for chosen in self.features.values() for f in chosen}))

    @property
    def releases(self) -> pd.DataFrame:
        """What left each site: one row per record of the ledgers."""
        return releases_frame(self.ledgers)

    def to_frame(self) -> pd.DataFrame:
        """One row per label and feature: label, rank from 1, feature, strength, p_value, retrieved.

        Strengths and p-values are those of the pair given nothing.
        """
        import pandas as pd

        return pd.DataFrame(self._rows(), columns=list(COLUMNS))

    def to_csv(self) -> str:
        """The rows of `to_frame` as CSV text."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *self._rows()])
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """All of `result.json`."""
        return run_report(self) | {
            "features": {
                label: [asdict(feature) for feature in chosen]
                for label, chosen in self.features.items()
            },
            "union": list(self.union),
            "related_labels": {label: list(names) for label, names in self.related_labels.items()},
            "untested": list(self.untested),
        }

    def save(self, folder: str | Path) -> Path:
        """Write the result folder.

        Args:
            folder: Where; made if it is not there. A result already in it is replaced.

        Returns:
            The folder: ``report.html``, ``result.json``, ``features.csv``,
            ``releases/<site>.jsonl``, ``schema.toml``, ``run.toml``.

        Raises:
            OutputError: The folder cannot be written.
        """
        from cipherdag.results.run_page import run_page

        texts = {
            "report.html": run_page(self, written=datetime.now(UTC)),
            "result.json": json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n",
            "features.csv": self.to_csv(),
            "run.toml": run_toml(self.source),
            "schema.toml": self.schema,
        }
        return write_folder(folder, texts, self.ledgers)

    def _rows(self) -> list[tuple[str, int, str, float, float, bool]]:
        return [
            (label, rank, own.feature, own.strength, own.p_value, own.retrieved)
            for label, chosen in self.features.items()
            for rank, own in enumerate(chosen, start=1)
        ]
