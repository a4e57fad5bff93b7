"""Selected features: the causes and effects of every label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from cipherdag.findings.finding import Cells, Column, Finding, Report, Table, plain
from cipherdag.pages.numerals import counted, first_of

MOST_NAMED = 12
CLOSED = "Only which of two features is stronger was disclosed, and no strength or p-value."
ALONE = (
    "Strengths and p-values are those of a feature and a label alone; a feature is selected "
    "because no set of other features explains it away."
)


@dataclass(frozen=True, slots=True)
class SelectedFeature:
    """A feature that is a cause or an effect of a label.

    Attributes:
        strength: Weighted strength of its dependence on the label given nothing (Eq. 2): the
            absolute correlation, or G2 or twice a log likelihood ratio. With other evidence than
            ``weighted_p``: the summed statistic or -2 ln p, or the absolute joint score. None where
            it stayed closed.
        p_value: Weighted p-value of the two given nothing (Eq. 1), or that over all sites; None
            likewise.
        retrieved: Whether FedCFR brought it back from behind a correlated label.
    """

    feature: str
    strength: float | None
    p_value: float | None
    retrieved: bool


@dataclass(frozen=True, kw_only=True)
class SelectedFeatures(Finding):
    """The causes and effects of every label.

    Attributes:
        features: For every label its selected features, the strongest first.
        related_labels: For every label the other labels that are its parents or children.
        untested: Variables that no site could test against any label.
        measure: What a strength is, as a phrase with its unit; empty if nothing is known of it.
        least_p: A p-value of 0 stands for one below this.
    """

    kind: ClassVar[str] = "features"
    template: ClassVar[str] = "feature_run.html.j2"
    promise: ClassVar[str] = (
        "for every variable that the schema marks as a label, its probable causes and effects."
    )

    features: Mapping[str, tuple[SelectedFeature, ...]]
    related_labels: Mapping[str, tuple[str, ...]]
    untested: tuple[str, ...]
    measure: str = ""
    least_p: float = 0.0

    @property
    def decisions(self) -> bytes:
        chosen = {
            label: [sorted(each.feature for each in features), sorted(self.related_labels[label])]
            for label, features in self.features.items()
        }
        return msgspec.json.encode(chosen, order="deterministic")

    @property
    def union(self) -> tuple[str, ...]:
        """The features selected for any label, in alphabetical order."""
        return tuple(sorted({each.feature for chosen in self.features.values() for each in chosen}))

    @property
    def opens_bits(self) -> bool:
        return not self.measure

    @property
    def headline(self) -> str:
        return f"{counted(len(self.union), 'feature')} for {counted(len(self.features), 'label')}"

    def lines(self, n_sites: int) -> list[str]:
        del n_sites
        lines = ["", "Causes and effects of each label, the strongest first:"]
        for label, chosen in self.features.items():
            names = [each.feature + (" (retrieved)" if each.retrieved else "") for each in chosen]
            lines.append(f"  {label}: {first_of(names, MOST_NAMED) or '(no feature)'}")
            if self.related_labels[label]:
                lines.append(f"    next to the label(s) {', '.join(self.related_labels[label])}")
        lines.append(self.headline)
        if self.untested:
            lines.append(f"No site could test: {', '.join(self.untested)}")
        return lines

    def report(self) -> Report:
        untested = f"No site could test {', '.join(self.untested)}."
        said = CLOSED if self.opens_bits else ALONE
        return Report(limits=(said, untested) if self.untested else (said,))

    def to_json(self, identifiers: Mapping[str, str]) -> dict[str, Any]:
        del identifiers
        return {
            "features": plain(self.features),
            "union": list(self.union),
            **{
                name: plain(getattr(self, name))
                for name in ("related_labels", "untested", "measure", "least_p")
            },
        }

    def _rows(self) -> Cells:
        return [
            (label, rank, each.feature, each.strength, each.p_value, each.retrieved)
            for label, chosen in self.features.items()
            for rank, each in enumerate(chosen, start=1)
        ]

    tables = (
        Table(
            name="features",
            doc="One row per label and feature, the strongest first.",
            columns=(
                Column("label", str, "The label."),
                Column("rank", int, "The place of the feature among those of the label, from 1."),
                Column("feature", str, "The feature."),
                Column("strength", float, "The strength of the pair alone; None if it is closed."),
                Column("p_value", float, "The p-value of the pair alone; None if it is closed."),
                Column("retrieved", bool, "Whether FedCFR brought it back from behind a label."),
            ),
            rows=_rows,
        ),
    )
