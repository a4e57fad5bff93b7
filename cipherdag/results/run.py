"""The result of a run: what was found, what left each site, and what it cost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import algorithm_class
from cipherdag.errors import OutputError, ParameterError, UnreadableRunError
from cipherdag.findings.finding import Accuracy, DataDictionary, Finding, Report, shortened
from cipherdag.findings.graph_finding import Graph_co, GraphFinding
from cipherdag.findings.panels import Panel
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.relations import relation_warnings
from cipherdag.pages.numerals import counted, size
from cipherdag.program.replay import Outcome
from cipherdag.program.run import FinishedRun
from cipherdag.program.versions import BEHIND_A_RESULT, package_versions
from cipherdag.questions.ci_tests import ColumnTypes
from cipherdag.results import folder as saved
from cipherdag.results.account import RunAccount, saved_account
from cipherdag.results.run_page import run_page
from cipherdag.results.sentences import dropout_line
from cipherdag.sites.policy.plan_account import worded
from cipherdag.sites.table.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

COUNTED = (
    "rounds", "seconds", "bytes_sent_per_site", "dropouts", "ledgers", "heads", "keys",
)  # fmt: skip
"""The fields that a result has from the run that it is of."""

log = logging.getLogger("cipherdag.result")

F_co = TypeVar("F_co", bound=Finding, covariant=True)
Expected = TypeVar("Expected", bound=Finding)


@dataclass(frozen=True, kw_only=True, repr=False)
class Run(RunAccount, Generic[F_co]):
    """The result of one run; its other fields are those of `RunAccount`.

    Attributes:
        finding: What was found, by name: a `LearntGraph`, `LearntPAG`, `SelectedFeatures`,
            `Description`, `SurvivalAnalysis`, `EstimatedEffect` or `CheckedGraph`.
    """

    finding: F_co

    def __post_init__(self) -> None:
        # a schema names what the finding has numbers for
        named = replace(self.finding, dictionary=data_dictionary(self.schema))
        object.__setattr__(self, "finding", named)

    def __repr__(self) -> str:
        return f"Run[{type(self.finding).__name__}]({self._headline})"

    def __str__(self) -> str:
        return "\n".join(self.lines()).strip("\n")

    @property
    def graph(self: Run[GraphFinding[Graph_co]]) -> Graph_co:
        """The graph that was learnt, a `CausalGraph` or a `PartialMixedGraph`."""
        return self.finding.graph

    def _repr_html_(self) -> str:
        """The finding in a notebook, under a line that says what ran."""
        return f"<p>{escape(self._headline)}</p>{self.finding._repr_html_()}"

    @property
    def _headline(self) -> str:
        return (
            f"{self.algorithm} over {counted(len(self.sites), 'site')}, {self.protection}: "
            f"{counted(len(self.identifiers), 'variable')}, "
            f"{each + ', ' if (each := self.finding.of_patients) else ''}{self.finding.headline}, "
            f"{counted(len(self.rounds), 'round')}"
        )

    def table(self, name: str) -> pd.DataFrame:
        """A table of the finding, such as ``edges``; docs/reference/tables.md lists them.

        Raises:
            ParameterError: The finding has no table of this name.
        """
        return self.finding.table(name)

    @property
    def report(self) -> Report:
        """What the finding and its algorithm add to the account of this run."""
        algorithm = self._algorithm
        warnings = relation_warnings(self.relations) if self.finding.causal else ()
        report = Report(warnings=warnings) + self.finding.report()
        return report if algorithm is None else report + algorithm.report(self.finding)

    @property
    def settings(self) -> dict[str, str]:
        """The parameters that had a part in this run, with the values that were used, in words."""
        algorithm, categories = self._algorithm, self.finding.dictionary.categories
        if algorithm is None:
            used = dict(self.parameters)
        else:
            coded = [name in categories for name in self.identifiers]
            kinds: ColumnTypes = "mixed" if any(coded) else "continuous"
            kinds = "discrete" if all(coded) else kinds
            used = algorithm.used(self.finding, kinds if self.schema else None)
        plain = msgspec.to_builtins(used)
        return {name: worded(value) for name, value in plain.items()}

    def to_dict(self, truth: CausalGraph | None = None) -> dict[str, Any]:
        """All of `result.json`, with metrics where a true DAG is given."""
        return {
            "kind": self.finding.kind,
            **self._entries(),
            "warnings": list(self.report.warnings),
            **self.finding.to_json(self.identifiers),
            **({"keys": self.keys} if self.keys else {}),
            **({"relations": msgspec.to_builtins(self.relations)} if self.relations else {}),
            **({} if truth is None else self._accuracy(truth).entries),
        }

    def lines(self, truth: CausalGraph | None = None) -> list[str]:
        """The terminal's lines: `warning_lines`, the finding, and then `account_lines`."""
        concluded = self.finding.lines(len(self.sites))
        return [*self.warning_lines(), *concluded, *self.account_lines(truth)]

    def warning_lines(self) -> list[str]:
        """The terminal's lines on whose rows they are, and on what makes the result doubtful."""
        whose, warnings = self.finding.of_patients, self.report.warnings
        lines = ["", f"{whose}, which are counted as such."] if whose else []
        return [*lines, *([""] if warnings else []), *(f"WARNING: {text}" for text in warnings)]

    def account_lines(self, truth: CausalGraph | None = None) -> list[str]:
        """The terminal's lines below the finding: notes, with a true DAG accuracy, cost."""
        lines: list[str] = []
        for note in self.report.notes:
            lines += ["", note.title, *shortened(note.lines)]
        if truth is not None:
            lines += self._accuracy(truth).lines
        most = max(self.bytes_sent_per_site.values(), default=0)
        rounds = counted(len(self.rounds), "round")
        return [
            *lines,
            *(dropout_line(dropout) for dropout in self.dropouts),
            "",
            f"{rounds}, {self.seconds:.1f} s, at most {size(most)} from a site",
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
        if truth is not None:
            self._accuracy(truth)
        report = self.report + Report(panels=tuple(panels))
        return run_page(self, self.finding, report, truth=truth, written=written)

    def save(
        self, folder: str | Path, *, truth: CausalGraph | None = None, force: bool = False
    ) -> Path:
        """Write the result folder.

        Args:
            folder: Where; made if it is not there.
            truth: A true DAG, to write metrics.
            force: Whether a result already in it is replaced, ledgers and all, and files of others.

        Returns:
            The folder: ``report.html``, ``result.json``, ``releases/<site>.jsonl``,
            ``schema.toml``, ``run.toml``, the tables of the finding as CSV files, and of a graph
            ``graph.graphml``, ``graph.dot`` and ``graph.svg``.

        Raises:
            ResultExistsError: The folder holds a result, or files that it would overwrite.
            OutputError: The folder cannot be written.
        """
        texts = {
            "report.html": self.page(truth=truth, written=datetime.now(UTC)),
            saved.REPORT_FILE: saved.json_text(self.to_dict(truth)),
            "run.toml": saved.run_toml(self.source),
            "schema.toml": self.schema,
            **self.finding.files(),
        }
        if not force:
            saved.refuse_result(Path(folder), (*texts, "releases"))
        path = saved.write_folder(folder, texts, self.ledgers)
        self.finding.draw(path)
        return path

    @overload
    @classmethod
    def load(
        cls, folder: str | Path, *, made_by: Algorithm[Any, Any] | None = None
    ) -> Run[Any]: ...
    @overload
    @classmethod
    def load(
        cls,
        folder: str | Path,
        expected: type[Expected],
        *,
        made_by: Algorithm[Any, Any] | None = None,
    ) -> Run[Expected]: ...
    @classmethod
    def load(
        cls,
        folder: str | Path,
        expected: type[Finding] = Finding,
        *,
        made_by: Algorithm[Any, Any] | None = None,
    ) -> Run[Any]:
        """A saved result, read back with its ledgers; `cipherdag audit verify` checks those.

        Args:
            folder: The folder that `save` wrote.
            expected: The kind of finding that it has to hold, such as `LearntGraph`.
            made_by: The algorithm, where it is not one of the registered.

        Raises:
            OutputError: The folder holds no readable result, or one of another kind.
            LedgerError: A ledger cannot be read as text.
        """
        report = saved.read_report(folder)
        kind = _kind_of(report)
        if kind is None or not issubclass(kind, expected):
            tables = ", ".join(sorted(path.name for path in Path(folder).glob("*.csv")))
            wanted = getattr(expected, "kind", "one that is installed here")
            raise OutputError(
                f"the result in {folder} is of the kind {saved.kind_of(report)}, not {wanted}",
                remedy=f"Read its {tables}." if tables else "Name the folder of another run.",
            )
        try:
            account = saved_account(report, saved.read_rest(folder), made_by)
            return Run(finding=kind.from_json(report), **account)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise UnreadableRunError(f"the result in {folder} is not complete: {error}") from error

    def _accuracy(self, truth: CausalGraph) -> Accuracy:
        """The accuracy of the finding against the truth; only graphs have one."""
        accuracy = self.finding.accuracy(truth)
        if accuracy is None:
            raise ParameterError(
                f"a result of {self.algorithm} is not compared with a true graph of "
                f"{len(truth.nodes)} variables",
                remedy="Leave the true graph out.",
            )
        return accuracy


def finding_of(report: Mapping[str, Any], schema: str) -> Finding:
    """The finding of a saved result, from the texts of its files alone.

    The report, of `result.json`, is from anybody; it may raise what a wrong one raises. The schema
    is in TOML, or empty. Raises OutputError where the package that defines this kind of finding is
    not installed.
    """
    kind = _kind_of(report)
    if kind is None:
        raise OutputError(
            f"a result of the kind {saved.kind_of(report)} is not installed here",
            remedy="Install the package that defines it, or name the folder of another run.",
        )
    return replace(kind.from_json(report), dictionary=data_dictionary(schema))


def result_of(
    done: FinishedRun[Outcome], algorithm: Algorithm[Outcome, Expected], **more: Any
) -> Run[Expected]:
    """The result by name of an algorithm that came to an outcome; ``more`` are further fields."""
    coded = _coded(more.get("schema", ""))
    fields = {
        "finding": algorithm.conclude(done.outcome, replace(done.facts, coded=coded)),
        "algorithm": algorithm.name,
        "parameters": msgspec.to_builtins(algorithm),
        "made_by": algorithm,
        "seed": done.facts.seed,
        "sites": tuple(done.bytes_sent_per_site),
        "versions": package_versions(BEHIND_A_RESULT),
        "relations": done.facts.determined.named(done.names),
        **{name: getattr(done, name) for name in COUNTED},
    }
    return Run(**(fields | more))


def warned(run: Run[Expected]) -> Run[Expected]:
    """A new result, once the log ``cipherdag.result`` has its warnings."""
    for warning in run.report.warnings:
        log.warning("%s", warning)
    return run


def data_dictionary(schema: str) -> DataDictionary:
    """Names of categories and units of a schema in TOML; none where only the sites know it."""
    variables = Schema.loads(schema).variables if schema else ()
    return DataDictionary(
        {
            column.name: tuple(column.category_name(k) for k in range(column.cardinality))
            for column in variables
            if column.cardinality
        },
        {column.name: column.unit for column in variables if column.unit},
    )


def _coded(schema: str) -> tuple[tuple[str, str] | None, ...]:
    """The two categories or bins of every binary variable of a schema, in order, else None."""
    return tuple(
        (variable.category_name(0), variable.category_name(1))
        if variable.cardinality == len(("0", "1"))
        else None
        for variable in (Schema.loads(schema).variables if schema else ())
    )


def _kind_of(report: Mapping[str, Any]) -> type[Finding] | None:
    """The kind of a saved finding; None where the package that defines it is not installed."""
    name = saved.kind_of(report)
    if name not in (kinds := Finding.kinds()):
        try:
            algorithm_class(str(report.get("algorithm")))  # its package defines the kind
        except ParameterError:
            return None
        kinds = Finding.kinds()
    return kinds.get(name)
