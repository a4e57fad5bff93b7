"""The result of a run that selected features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cipherdag.findings.conclusion import SelectedFeature, SelectedFeatures
from cipherdag.pages.numerals import counted, first_of
from cipherdag.pages.sheets import csv_text
from cipherdag.results.run import Run

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = ("label", "rank", "feature", "strength", "p_value", "retrieved")
MOST_NAMED = 12
CLOSED = "Strengths and p-values stayed closed; of features it is known which of two is stronger."
ALONE = (
    "Strengths and p-values are those of a feature and a label alone; a feature is selected "
    "because no set of other features explains it away."
)


@dataclass(frozen=True, kw_only=True, repr=False)
class FeatureResult(SelectedFeatures, Run):
    """Features by label and name, what left each site, and what it cost.

    Its fields are those of `SelectedFeatures` and `Run`.
    """

    kind: ClassVar[str] = "features"
    template: ClassVar[str] = "feature_run.html.j2"

    __repr__ = Run.__repr__

    def _repr_html_(self) -> str:
        """The table of `to_frame` in a notebook."""
        return f"<p>{escape(self._headline)}</p>{self.to_frame().to_html(index=False)}"

    @property
    def _counted(self) -> str:
        return f"{counted(len(self.union), 'feature')} for {counted(len(self.features), 'label')}"

    @property
    def union(self) -> tuple[str, ...]:
        """The features selected for any label, in alphabetical order."""
        return tuple(sorted({f.feature for chosen in self.features.values() for f in chosen}))

    def to_frame(self) -> pd.DataFrame:
        """One row per label and feature: label, rank from 1, feature, strength, p_value, retrieved.

        Strengths and p-values are those of the pair given nothing, and none where they stayed
        closed.
        """
        import pandas as pd

        return pd.DataFrame(self._rows(), columns=list(COLUMNS))

    def to_csv(self) -> str:
        """The rows of `to_frame` as CSV text."""
        return csv_text([COLUMNS, *self._rows()])

    def _found(self) -> dict[str, Any]:
        return {
            "features": {
                label: [asdict(feature) for feature in chosen]
                for label, chosen in self.features.items()
            },
            "union": list(self.union),
            "related_labels": {label: list(names) for label, names in self.related_labels.items()},
            "untested": list(self.untested),
            "measure": self.measure,
            "least_p": self.least_p,
        }

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "features": msgspec.convert(report["features"], dict[str, tuple[SelectedFeature, ...]]),
            "related_labels": msgspec.convert(report["related_labels"], dict[str, tuple[str, ...]]),
            "untested": tuple(report["untested"]),
            "measure": report.get("measure", ""),
            "least_p": report.get("least_p", 0.0),
        }

    def _summary(self) -> list[str]:
        lines = ["", "Causes and effects of each label, the strongest first:"]
        for label, chosen in self.features.items():
            names = [own.feature + (" (retrieved)" if own.retrieved else "") for own in chosen]
            lines.append(f"  {label}: {first_of(names, MOST_NAMED) or '(no feature)'}")
            if self.related_labels[label]:
                lines.append(f"    next to the label(s) {', '.join(self.related_labels[label])}")
        lines.append(
            f"{counted(len(self.union), 'feature')} for {counted(len(self.features), 'label')}"
        )
        if self.untested:
            lines.append(f"No site could test: {', '.join(self.untested)}")
        return lines

    @property
    def opens_bits(self) -> bool:
        """See `Run.opens_bits`."""
        return not self.measure

    def _sections(self) -> dict[str, Any]:
        told = [own for _, _, own in self._chosen if own.p_value is not None]
        strengths = [own.strength for own in told if own.strength is not None]
        closed = self.opens_bits
        limits = [CLOSED if closed else ALONE]
        if self.untested:
            limits.append(f"No site could test {', '.join(self.untested)}.")
        return {
            "closed": closed,
            "strongest": max(strengths, default=0.0),
            "zero": any(own.p_value < self.least_p for own in told if own.p_value is not None),
            "n_features": len(self.identifiers) - len(self.features),
            "remarks": (),
            "own_limits": limits,
        }

    def _tables(self) -> dict[str, str]:
        return {"features.csv": self.to_csv()}

    @property
    def _chosen(self) -> list[tuple[str, int, SelectedFeature]]:
        """Label, rank and feature, in order."""
        return [
            (label, rank, own)
            for label, chosen in self.features.items()
            for rank, own in enumerate(chosen, start=1)
        ]

    def _rows(self) -> list[tuple[str, int, str, float | None, float | None, bool]]:
        return [
            (label, rank, own.feature, own.strength, own.p_value, own.retrieved)
            for label, rank, own in self._chosen
        ]
