"""The options of an algorithm, made from its fields; one command for each that is registered."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class
from cipherdag.cli.help import EXPERTS, WHOLE, Commands, whole_help, write_section
from cipherdag.cli.knowledge import EDGES, edge_options, text_of, with_edges
from cipherdag.cli.options import FILE, is_source
from cipherdag.errors import DataError
from cipherdag.graphs.identification.answers import MOST_SETS, Identified

if TYPE_CHECKING:
    from cipherdag.algorithms.parameters import Parameter
    from cipherdag.findings.graph import LearntGraph
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.graphs.identification.answers import Answer


SAMPLE = "cipherdag.sample"
AS_PUBLISHED = "--as-published"
SOURCES = ("paper", "code")
KNOWLEDGE = "knowledge"
CHOSEN = "chosen"
"""In place of an algorithm's name: it is chosen once the data are read."""
DEFAULT = "The default: FedBOSS or FedPC, whichever suits the data."
_NEEDED = {
    "effect": " --treatment Smoking --outcome Dyspnoea --graph result",
    "fedcmfs": " --labels angina,vessels",
    "fedcd": " --interventions regime",
    "graphcheck": " --graph edges.csv",
    "survival": " --time days --event died --by arm",
}
"""What the examples of algorithms have to say beside their data."""


class AlgorithmCommand(click.Command):
    """An algorithm's command; ``--as-published`` may stand without saying of what source.

    ``usual`` are the parameters of the algorithm that its short help shows; None: all.
    """

    def __init__(
        self, name: str | None, *, usual: frozenset[str] | None = None, **settings: Any
    ) -> None:
        super().__init__(name, **settings)
        self._usual = usual
        if usual is not None:
            self.epilog = f"{self.epilog or ''}\n\nEvery option: --help-all."

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the paper as the source where none is said."""
        for n, (option, value) in enumerate(itertools.pairwise([*args, "-"])):
            if option == AS_PUBLISHED and value not in SOURCES:
                args = [*args[:n], f"{AS_PUBLISHED}={SOURCES[0]}", *args[n + 1 :]]
        return super().parse_args(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **more: Any
    ) -> click.Context:
        """A context that names no algorithm where none is typed, so that its lines can be typed."""
        return super().make_context(None if info_name == CHOSEN else info_name, args, *rest, **more)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The options; one shows the help whole where the short one leaves some out."""
        parameters = super().get_params(ctx)
        return parameters if self._usual is None else [*parameters, whole_help()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections: usual ones, background knowledge, those for experts."""
        used, knowledge, experts = [], [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or not isinstance(parameter, click.Option):
                continue
            if parameter.name in (KNOWLEDGE, *EDGES):
                knowledge.append(record)
            elif self._usual is None or parameter.name in self._usual:
                used.append(record)
            else:
                experts.append(record)
        write_section(formatter, "What you will use", used)
        write_section(formatter, "Background knowledge", knowledge)
        if self._usual is None or WHOLE in ctx.meta:
            write_section(formatter, "For experts", experts)


class AlgorithmGroup(Commands):
    """A group with a command for every algorithm, each made when it is asked for.

    ``make`` makes the command of an algorithm's name. With ``takes_files`` files may stand in place
    of an algorithm, which is then `CHOSEN`.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[str], click.Command],
        *,
        takes_files: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(name, **settings)
        self._make = make
        self._takes_files = takes_files

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The algorithms, and what else the group has."""
        return [*ALGORITHMS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of an algorithm, or one of the group's own."""
        return (
            self._make(cmd_name) if cmd_name in ALGORITHMS else super().get_command(ctx, cmd_name)
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the algorithms first, then the options of a run that is there already."""
        self.format_commands(ctx, formatter)
        records = [each.get_help_record(ctx) for each in self.get_params(ctx)]
        shown = [record for record in records if record is not None]
        started = len(shown) > 1  # else there is --help alone
        heading = "To carry out a saved plan, or go on with a run" if started else "Options"
        write_section(formatter, heading, shown)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each algorithm is for."""
        del ctx
        write_section(formatter, "Algorithms", self.choices())

    def choices(self) -> list[tuple[str, str]]:
        """Every algorithm with what it is for; first the default, where files may stand."""
        named = [(name, use_of(name)) for name in ALGORITHMS]
        return [("FILES" if self.name == "run" else "DATA", DEFAULT), *named][
            not self._takes_files :
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named, or that of a chosen algorithm where a file is named."""
        first = args[0]
        if self._takes_files and self.get_command(ctx, first) is None and is_source(first):
            return CHOSEN, self._make(CHOSEN), args
        return super().resolve_command(ctx, args)


def parameter_options(name: str, values: Mapping[str, Any] | None = None) -> list[click.Option]:
    """One option for every parameter; of presets only for those that publications vary.

    With the values of a run, as TOML has them, these are the defaults, and there is no option for
    all parameters as published.
    """
    from cipherdag.algorithms.parameters import options_of

    cls = algorithm_class(name)
    varied = set[str]().union(*(each.varied for each in cls.published.values()))
    offered = varied if values is None else values
    declared = {k: each for k, each in options_of(cls).items() if not each.preset or k in offered}
    if values is None:
        published = [_as_published([*cls.published])] if varied else []
        return [*map(_option, declared.values()), *published]
    return [
        _option(replace(each, default=each.read(values[key])) if key in values else each)
        for key, each in declared.items()
    ]


def use_of(name: str) -> str:
    """What an algorithm is for, in one sentence."""
    return algorithm_class(name).use or f"Run {algorithm_class(name).title}."


def needed(name: str) -> str:
    """What an example of an algorithm's command line has beside its data."""
    return _NEEDED.get(name, "")


def nothing_named(context: click.Context) -> click.UsageError:
    """The error of a group to which no algorithm was named, and no files: it names the choices."""
    group = context.command
    choices = group.choices() if isinstance(group, AlgorithmGroup) else []
    width = max((len(name) for name, _ in choices), default=0) + 2
    listed = "\n".join(f"  {name:<{width}}{use}" for name, use in choices)
    return click.UsageError(f"name what to run:\n{listed}", context)


def usual_options(name: str, options: Sequence[click.Parameter]) -> frozenset[str] | None:
    """The names of the options that the short help of an algorithm's command shows; None: all."""
    from cipherdag.algorithms.parameters import options_of

    usual = algorithm_class(name).usual
    if usual is None:
        return None
    hidden = options_of(algorithm_class(name)).keys() - {*usual}
    shown = {str(each.name) for each in options} - hidden - EXPERTS
    return frozenset(shown)


def named_knowledge_options(name: str) -> list[click.Option]:
    """The options of edges and tiers by name, for an algorithm that takes knowledge."""
    from cipherdag.algorithms.parameters import parameters_of

    return edge_options() if KNOWLEDGE in parameters_of(algorithm_class(name)) else []


def taken(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """An algorithm's parameters among the values of options, as TOML can have them.

    Raises:
        ParameterError: One that is said contradicts ``--as-published``, or needs it.
    """
    from cipherdag.algorithms.parameters import flattened, options_of, require

    cls = algorithm_class(name)
    parameters = options_of(cls)
    source = options.get("as_published")
    if KNOWLEDGE in parameters:
        options = {**options, KNOWLEDGE: with_edges(options[KNOWLEDGE], options)}
    if {"graph", "adjust"} <= {*parameters}:
        options = _over_sample(options)
    if source is None:
        wrong = [key for key, each in parameters.items() if each.preset and said(key)]
        require(not wrong, f"{', '.join(wrong)} goes with {AS_PUBLISHED} only")
        return {key: options[key] for key, each in parameters.items() if not each.preset}
    given = {key: parameters[key].read(options[key]) for key in parameters if said(key)}
    made = flattened(cls, cls.as_published(source, **given).get_params())
    return {key: parameter.written(made[key]) for key, parameter in parameters.items()}


def said(option: str) -> bool:
    """Whether an option of the command that runs was said, and is no default."""
    source = click.get_current_context().get_parameter_source(option)
    return source not in (None, ParameterSource.DEFAULT)


def _as_published(sources: Sequence[str]) -> click.Option:
    """The option for the parameters of an algorithm's paper, or of its program."""
    program = " or (code) the authors' program" if "code" in sources else ""
    return click.Option(
        [AS_PUBLISHED],
        type=click.Choice(sources),
        help=f"Take every parameter from the paper{program}, and in a run over files or parts of "
        "one no disclosure control.",
    )


def _option(parameter: Parameter) -> click.Option:
    flag = f"--{parameter.name.replace('_', '-')}"
    sentences = [parameter.help]
    if parameter.range is not None:
        sentences.append(f"{str(parameter.range).capitalize()}.")
    if parameter.optional and parameter.kind is int:
        sentences.append("-1 for no limit.")
    if parameter.preset:
        sentences.append(f"With {AS_PUBLISHED} only.")
    default = parameter.written(parameter.default)
    settings: dict[str, Any] = {"default": default, "show_default": default != []}
    if parameter.kind is bool:
        settings["is_flag"] = True
        flag += f"/--no-{flag[2:]}" if parameter.default else ""
    elif parameter.choices:
        settings["type"] = click.Choice(parameter.choices)
    elif parameter.graph:
        sentences.append("A result folder, or a CSV of edges.")
        kind = click.Path(exists=True, path_type=Path)
        settings = {"type": kind, "callback": lambda context, _option, path: _graph(context, path)}
    elif parameter.kind is str:  # repeated, it is a list: the last alone would drop columns
        given = (parameter.default,) if parameter.default else ()
        settings = {"multiple": True, "default": given, "show_default": bool(given)}
        settings["callback"] = lambda _context, _option, said: ",".join(said)
    elif parameter.kind in (int, float):
        settings["type"] = parameter.kind
    elif parameter.kind is tuple:
        sentences.append("Say the option once for each.")
        settings |= {"type": parameter.member, "multiple": True}
    else:
        settings = {"type": FILE, "callback": lambda _context, _option, path: text_of(path)}
    return click.Option([flag], help=" ".join(sentences), **settings)


def graph_of(source: Path) -> CausalGraph:
    """The graph of a result folder or a CSV of edges; GraphError or OutputError without one."""
    from cipherdag.graphs.graph import CausalGraph

    if source.is_dir():
        return learnt_in(source).graph
    return CausalGraph.from_csv(source.read_text("utf-8"))


def _graph(context: click.Context, source: Path | None) -> str:
    """The text of a graph, so that a saved run holds it; else empty.

    Other graphs that fit, which a result folder may have, are noted in the context.
    """
    if source is None:
        return ""
    if not source.is_dir():
        return graph_of(source).dumps()
    finding = learnt_in(source)
    context.meta[SAMPLE] = finding.sample
    return finding.graph.dumps()


def learnt_in(folder: Path) -> LearntGraph:
    """The finding of a result folder, which has to be a learnt graph; or an OutputError."""
    from cipherdag.findings.graph import LearntGraph
    from cipherdag.results.run import Run

    return Run.load(folder, LearntGraph).finding


def effect_parameters(folder: Path, treatment: str, outcome: str) -> dict[str, Any]:
    """Parameters of ``effect`` from a result folder: by its sample of graphs, else its graph."""
    from cipherdag.algorithms.effect.sets import sampled_sets

    finding = learnt_in(folder)
    asked = usual_parameters("effect") | {"treatment": treatment, "outcome": outcome}
    if finding.sample is None:
        return asked | {"graph": finding.graph.dumps()}
    return asked | {"adjust": sampled_sets(finding.sample, treatment, outcome)}


def without_effect(finding: LearntGraph, treatment: str, outcome: str) -> str:
    """A sentence if the graph has no effect of this pair, or few that fit have one; else empty."""
    from cipherdag.algorithms.effect.sets import LEAST_CAUSED
    from cipherdag.findings.effect import NO_EFFECT

    if (sample := finding.sample) is None:
        answer = finding.graph.identify(treatment, outcome)
        no_effect = isinstance(answer, Identified) and answer.method == NO_EFFECT
        return str(answer) if no_effect else ""
    caused = sum(sample.parents_with_path(treatment, outcome).values())
    few = caused < LEAST_CAUSED * len(sample)
    graphs = f"{caused} of {len(sample)} graphs that fit the data"
    return f"'{treatment}' causes '{outcome}' in {graphs}" if few else ""


def usual_parameters(name: str) -> dict[str, Any]:
    """An algorithm's parameters with their defaults, as ``run.toml`` has them."""
    from cipherdag.algorithms.parameters import options_of

    fields = options_of(algorithm_class(name)).items()
    return {key: each.written(each.default) for key, each in fields if not each.preset}


def _over_sample(options: Mapping[str, Any]) -> dict[str, Any]:
    """The adjustment sets of a sample of graphs in place of the one graph, where there is one."""
    from cipherdag.algorithms.effect.sets import sampled_sets

    context = click.get_current_context(silent=True)
    sample = None if context is None else context.meta.get(SAMPLE)
    if sample is None or options["adjust"]:
        return {**options}
    sets = sampled_sets(sample, options["treatment"], options["outcome"])
    return {**options, "graph": "", "adjust": sets}


def other_sets(answer: Answer) -> list[str]:
    """Options of ``effect`` for sets that suffice and that it does not choose, at most five."""
    if not isinstance(answer, Identified) or answer.method != "adjustment":
        return []
    others = [each for each in answer.sets if each != answer.chosen][:MOST_SETS]
    pair = ["--treatment", answer.treatment, "--outcome", answer.outcome]
    return [shlex.join([*pair, "--adjust", as_text(each)]) for each in others]


@contextmanager
def naming_other_sets(algorithm: str, parameters: Mapping[str, Any]) -> Iterator[None]:
    """Add other sets that suffice by the graph to the remedy of an effect's DataError."""
    try:
        yield
    except DataError as error:
        if graph := parameters.get("graph") if algorithm == "effect" else "":
            from cipherdag.graphs.graph import CausalGraph

            pair = parameters["treatment"], parameters["outcome"]
            if others := other_sets(CausalGraph.loads(graph).identify(*pair)):
                error.remedy += (
                    f" Or adjust for another set that suffices by the graph: in place of --graph, "
                    f"--treatment and --outcome give {'; or '.join(others)}."
                )
        raise


def as_text(names: tuple[str, ...]) -> str:
    """Names as ``--adjust`` takes them."""
    plain = all("," not in name and not name.startswith("[") for name in names)
    return ",".join(names) if plain else json.dumps(names, ensure_ascii=False)
