"""Plain text for people: progress lines, results, what left each site, and failures."""

from __future__ import annotations

from cipherdag.errors import CipherdagError
from cipherdag.pages.numerals import counted, size
from cipherdag.protocol.progress import RoundReport
from cipherdag.results.sentences import dropout_lines


def heading(algorithm: str, n_sites: int, protection: str) -> str:
    """The line above the rounds."""
    return f"{algorithm} · {counted(n_sites, 'site')} · {protection}"


def round_line(report: RoundReport) -> str:
    """One line per finished round."""
    out = max(report.bytes_sent_per_site.values(), default=0)
    return (
        f"round {report.number:<3} {report.label:<44} {report.values:>8} values   "
        f"{report.n_sites}/{report.n_cohort} sites   {report.seconds:5.1f} s   "
        f"{size(out)} out per site"
    )


def report_lines(report: RoundReport) -> list[str]:
    """One line for a finished round, and four for every site that left since the one before."""
    return [round_line(report), *(line for left in report.left for line in dropout_lines(left))]


def ahead(number: int, most: int | None, seconds_per_round: float) -> str:
    """The share of a run that is done and the time left, where the most rounds are known.

    Args:
        number: The last round that ended.
        most: Most rounds of the run, or None.
        seconds_per_round: How long a round took on average.
    """
    if most is None or not number:
        return ""
    left = max(most - number, 0)
    share = f"{min(number / most, 1.0):.0%} of at most {most} rounds"
    return f"{share}, {clock(left * seconds_per_round)} left at most" if left else share


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def failure_lines(error: CipherdagError) -> list[str]:
    """What, cause, effect, do: always in this order."""
    where = f" at site '{error.site}'" if error.site else ""
    return [
        f"{type(error).__name__}{where}.",
        f"  cause   {_cause(error)}",
        f"  effect  {error.effect}",
        f"  do      {error.remedy}    (exit {error.exit_code}, docs: errors#{error.anchor()})",
    ]


def _cause(error: CipherdagError) -> str:
    text = str(error)
    prefix = f"site '{error.site}': "
    return text.replace(prefix, "", 1) if error.site else text
