"""What Fed-CD reports beside its graph: beliefs, what was left out, and how the sites agreed.

Leaks:
    Nothing new: beliefs and votes per edge are what Fed-CD opened; see `FedCD`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.findings.curves import Curves, Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.algorithms.fedcd.algorithm import FedCDOutcome
    from cipherdag.findings.panel import Panel


def report(outcome: FedCDOutcome, names: Sequence[str]) -> dict[str, Any]:
    """The fields ``details`` and ``panels`` of a `Result`."""
    return {"details": details(outcome, names), "panels": panels(outcome)}


def details(outcome: FedCDOutcome, names: Sequence[str]) -> Mapping[str, Any]:
    """Beliefs by tail and head, entropy per round, whether all agreed, and the edges left out."""
    return {
        "belief": {
            name: dict(zip(names, row, strict=True))
            for name, row in zip(names, outcome.belief.tolist(), strict=True)
        },
        "edge_entropy": list(outcome.entropies),
        "agreed": outcome.agreed,
        "cut": [
            {"from": names[e.source], "to": names[e.target], "belief": e.belief}
            for e in outcome.cut
        ],
    }


def panels(outcome: FedCDOutcome) -> tuple[Panel, ...]:
    """The entropy curve."""
    points = tuple((float(n), entropy) for n, entropy in enumerate(outcome.entropies, start=1))
    return (
        Curves(
            title="Agreement of the sites",
            note="Average entropy over all ordered pairs of the share of sites that believe in "
            "the edge; 0 where all sites have the same graph.",
            x_label="round",
            y_label="bits",
            series=(Series("average edge entropy", points),),
        ),
    )
