"""What all results of runs have in common."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.results.result import Result


def releases_frame(ledgers: Mapping[str, tuple[str, ...]]) -> pd.DataFrame:
    """One row per record of the sites' ledgers."""
    import pandas as pd

    from cipherdag.sites.record.ledger import read_releases

    rows = [
        {name: getattr(record, name) for name in record.__struct_fields__}
        for lines in ledgers.values()
        for record in read_releases(lines)
    ]
    return pd.DataFrame(rows)


def run_report(run: Result | FeatureResult) -> dict[str, Any]:
    """What ``result.json`` says of every run, whatever it found."""
    return {
        "algorithm": run.algorithm,
        "protection": run.protection,
        "sites": list(run.sites),
        "rounds": len(run.rounds),
        "seconds": round(run.seconds, 3),
        "bytes_sent_per_site": dict(run.bytes_sent_per_site),
        "dropouts": [asdict(dropout) for dropout in run.dropouts],
        "seed": run.seed,
        "parameters": dict(run.parameters),
        "variables": dict(run.identifiers),
        "round_reports": [asdict(report) for report in run.rounds],
        "ledgers": {name: asdict(head) for name, head in run.heads.items()},
        "versions": dict(run.versions),
    }
