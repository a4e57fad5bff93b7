"""What all results of runs have in common: what was run, what left each site, what it cost.

Run                 fields of every result; saves and loads the folder
Result              a `LearntGraph`
FeatureResult       `SelectedFeatures`
DescriptionResult   a `Description`
SurvivalResult      a `SurvivalAnalysis`
EffectResult        an `EstimatedEffect`
GraphCheckResult    a `CheckedGraph`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import ALGORITHMS, make_algorithm
from cipherdag.errors import OutputError, ParameterError
from cipherdag.findings.conclusion import Report
from cipherdag.findings.panel import Panel
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.relations import Relation, relation_warnings
from cipherdag.pages.numerals import counted, size
from cipherdag.protocol.progress import DropOut, RoundReport
from cipherdag.results import folder as saved
from cipherdag.results.run_page import run_page
from cipherdag.results.sentences import dropout_line
from cipherdag.sites.record.ledger import LedgerHead, read_releases
from cipherdag.sites.table.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 60
AS_SAVED = (
    "algorithm", "protection", "parameters", "seconds", "seed", "bytes_sent_per_site", "versions",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class Run(ABC):
    """The result of one run.

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

    kind: ClassVar[str]
    template: ClassVar[str]
    of_causes: ClassVar[bool] = True
    """Whether it says what causes what."""

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._headline})"

    @property
    def opens_bits(self) -> bool:
        """Whether one bit of each test was opened, and no sum of any."""
        return getattr(self, "details", {}).get("reveal") == "bits"

    @property
    def _headline(self) -> str:
        """What ran, in one line: it stands in ``repr`` and above the result in a notebook."""
        return (
            f"{self.algorithm} over {counted(len(self.sites), 'site')}, {self.protection}: "
            f"{counted(len(self.identifiers), 'variable')}, {self._counted}, "
            f"{counted(len(self.rounds), 'round')}"
        )

    @property
    @abstractmethod
    def _counted(self) -> str:
        """How much was found, in words."""

    @property
    def releases(self) -> pd.DataFrame:
        """What left each site: one row per record of the ledgers."""
        import pandas as pd

        return pd.DataFrame(
            msgspec.structs.asdict(record)
            for lines in self.ledgers.values()
            for record in read_releases(lines)
        )

    @property
    def disclosures(self) -> tuple[str, ...]:
        """What the opened sums told the coordinator, in sentences."""
        known = self._algorithm
        told = ("The sums that the algorithm asks for; its documentation lists them.",)
        return told if known is None else known.disclosures()

    @property
    def report(self) -> Report:
        """What the algorithm adds to the account of this run."""
        known = self._algorithm
        report = Report() if known is None else known.report(self)
        said = relation_warnings(self.relations) if self.of_causes else ()
        return replace(report, warnings=(*said, *report.warnings)) if said else report

    @property
    def _algorithm(self) -> Algorithm[Any, Any] | None:
        if self.made_by is None and self.algorithm in ALGORITHMS:
            return make_algorithm(self.algorithm, self.parameters)
        return self.made_by

    def to_dict(self, truth: CausalGraph | None = None) -> dict[str, Any]:
        """All of `result.json`, with metrics where a true DAG is given."""
        return {
            "kind": self.kind,
            "algorithm": self.algorithm,
            "protection": self.protection,
            "sites": list(self.sites),
            "rounds": len(self.rounds),
            "seconds": round(self.seconds, 3),
            "bytes_sent_per_site": dict(self.bytes_sent_per_site),
            "dropouts": [asdict(dropout) for dropout in self.dropouts],
            "seed": self.seed,
            "parameters": msgspec.json.decode(msgspec.json.encode(self.parameters)),
            "variables": dict(self.identifiers),
            "round_reports": [asdict(report) for report in self.rounds],
            "ledgers": {name: asdict(head) for name, head in self.heads.items()},
            "versions": dict(self.versions),
            "warnings": list(self.report.warnings),
            **self._found(),
            **({"keys": self.keys} if self.keys else {}),
            **({"relations": msgspec.to_builtins(self.relations)} if self.relations else {}),
            **({} if truth is None else self._metrics(truth)),
        }

    def lines(self, truth: CausalGraph | None = None) -> list[str]:
        """What was found and what it cost, for a terminal; accuracy where a true DAG is given.

        What makes the result doubtful comes first.
        """
        own = self.report
        lines = [line for said in own.warnings for line in ("", f"WARNING: {said}")]
        lines += self._summary()
        for note in own.notes:
            lines += ["", note.title, *shortened(note.lines)]
        if truth is not None:
            lines += self._accuracy(truth)
        most = max(self.bytes_sent_per_site.values(), default=0)
        return [
            *lines,
            *(dropout_line(dropout) for dropout in self.dropouts),
            "",
            f"{counted(len(self.rounds), 'round')}, {self.seconds:.1f} s, {size(most)} per site",
        ]

    def page(
        self,
        *,
        truth: CausalGraph | None = None,
        written: datetime | None = None,
        panels: Sequence[Panel] = (),
    ) -> str:
        """The report as one HTML page that needs no other file and asks no other machine.

        Args:
            truth: A true DAG, to say how accurate a graph is.
            written: When the page is written, in UTC; not shown if None.
            panels: What to show beside the algorithm's own panels.
        """
        sections = self._sections() if truth is None else self._sections_beside(truth)
        return run_page(self, sections, has_truth=truth is not None, written=written, panels=panels)

    def save(
        self, folder: str | Path, *, truth: CausalGraph | None = None, force: bool = False
    ) -> Path:
        """Write the result folder.

        Args:
            folder: Where; made if it is not there.
            truth: A true DAG, to write metrics.
            force: Whether a result already in it is replaced, ledgers and all.

        Returns:
            The folder: ``report.html``, ``result.json``, ``releases/<site>.jsonl``,
            ``schema.toml``, ``run.toml``; of a graph ``edges.csv``,
            ``separations.csv``, ``graph.graphml``, ``graph.dot`` and ``graph.svg``, of features
            ``features.csv``, of a description ``columns.csv`` and ``categories.csv``, of
            survival ``curves.csv`` and ``hazard_ratios.csv``, of an effect ``effects.csv`` and,
            where it was doubted, ``refutations.csv``, of a graph that was tested
            ``independences.csv``.

        Raises:
            ResultExistsError: The folder holds a result.
            OutputError: The folder cannot be written.
        """
        if not force:
            saved.refuse_result(Path(folder))
        texts = {
            "report.html": self.page(truth=truth, written=datetime.now(UTC)),
            saved.REPORT_FILE: saved.json_text(self.to_dict(truth)),
            "run.toml": saved.run_toml(self.source),
            "schema.toml": self.schema,
            **self._tables(),
        }
        return saved.write_folder(folder, texts, self.ledgers)

    @classmethod
    def load(cls, folder: str | Path, *, made_by: Algorithm[Any, Any] | None = None) -> Self:
        """A saved result, read back with its ledgers; `cipherdag audit verify` checks those.

        Args:
            folder: The folder that `save` wrote.
            made_by: The algorithm, where it is not one of the registered.

        Raises:
            OutputError: The folder holds no readable result, or one of another kind.
            LedgerError: A ledger cannot be read as text.
        """
        report = saved.read_report(folder)
        if saved.kind_of(report) != cls.kind:
            tables = ", ".join(sorted(path.name for path in Path(folder).glob("*.csv")))
            raise OutputError(
                f"the result in {folder} is of the kind {saved.kind_of(report)}, not {cls.kind}",
                remedy=f"Read its {tables}." if tables else "Name the folder of another run.",
            )
        try:
            return cls(**cls._read(report), **_shared(report, saved.read_rest(folder), made_by))
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise OutputError(f"the result in {folder} is not complete: {error}") from error

    @abstractmethod
    def _found(self) -> dict[str, Any]:
        """The part of `to_dict` that only this kind of result has."""

    @classmethod
    @abstractmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that only this kind of result has, from `result.json`."""

    @abstractmethod
    def _summary(self) -> list[str]:
        """What was found, in lines."""

    @abstractmethod
    def _sections(self) -> dict[str, Any]:
        """What `template` shows of this kind of result."""

    def _metrics(self, truth: CausalGraph) -> dict[str, Any]:
        """How near what was found is to the truth, for `to_dict`; only graphs can say it."""
        raise self._not_compared(truth)

    def _accuracy(self, truth: CausalGraph) -> list[str]:
        """The same in lines."""
        raise self._not_compared(truth)

    def _sections_beside(self, truth: CausalGraph) -> dict[str, Any]:
        """The sections, with the truth beside them."""
        raise self._not_compared(truth)

    def _not_compared(self, truth: CausalGraph) -> ParameterError:
        told = f"a true graph of {len(truth.nodes)} variables"
        return ParameterError(
            f"a result of {self.algorithm} is not compared with {told}",
            remedy="Leave the true graph out.",
        )

    @abstractmethod
    def _tables(self) -> dict[str, str]:
        """Further files of the folder, by name."""


def shortened(lines: Sequence[str]) -> list[str]:
    """The lines indented, cut after `MOST_LINES` of them."""
    shown = [f"  {line}" for line in lines[:MOST_LINES]]
    left = len(lines) - len(shown)
    return [*shown, f"  ... and {left} more"] if left else shown


def category_names(schema: str, column: str, count: int) -> tuple[str, ...]:
    """Names of a column's categories; numbers from 1 where only the sites know them."""
    if not schema:
        return tuple(str(code + 1) for code in range(count))
    own = next(own for own in Schema.loads(schema).variables if own.name == column)
    return tuple(own.category_name(code) for code in range(count))


def _shared(
    report: Mapping[str, Any], rest: saved.SavedFiles, made_by: Algorithm[Any, Any] | None
) -> dict[str, Any]:
    """The fields of every result."""
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
