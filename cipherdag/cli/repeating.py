"""``repeat``: a result's run once more, perhaps changed; ``effect``: an effect over its data."""

import shlex
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import click

from cipherdag.algorithms.registry import algorithm_class
from cipherdag.cli.in_process import execute
from cipherdag.cli.knowledge import EDGES, with_edges
from cipherdag.cli.options import EXISTING_FOLDER, out_options, run_options
from cipherdag.cli.parameters import (
    KNOWLEDGE,
    AlgorithmCommand,
    as_text,
    effect_parameters,
    learnt_in,
    named_knowledge_options,
    parameter_options,
    said,
    without_effect,
)
from cipherdag.errors import ParameterError

_REPEATED, _OPTIONS = "cipherdag.repeated", "cipherdag.repeated.options"
_SETTINGS = ("protection", "min_cell_size", "device", "seed")
"""What may change beside the algorithm's parameters, named as in ``run.toml``."""


class RepeatCommand(AlgorithmCommand):
    """``repeat``, with the options of the run whose folder is named and its values as defaults."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, once the folder says which algorithm's options there are."""
        from cipherdag.results.folder import read_run_toml

        if (folder := _result_among(args)) is not None:
            source = read_run_toml(folder / "run.toml")
            ctx.meta[_REPEATED] = source
            ctx.meta[_OPTIONS] = _options_of(source)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            repeated = ctx.meta.get(_REPEATED)
            of_what = f"a run of {repeated['algorithm']}" if repeated else "what is no result"
            message = f"{of_what} has no option {error.option_name}"
            raise click.UsageError(message, ctx=ctx) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The folder, where the result goes, and the options of its run."""
        return [*super().get_params(ctx), *ctx.meta.get(_OPTIONS, ())]


def _result_among(words: Sequence[str]) -> Path | None:
    """The folder to repeat: the first that a run wrote and that is not the one of ``--out``."""
    before = ["", *words]
    for option, word in zip(before, words, strict=False):
        if option != "--out" and (Path(word) / "run.toml").is_file():
            return Path(word)
    return None


def _options_of(source: Mapping[str, Any]) -> list[click.Option]:
    """The options of a run, which show its values in place of the usual ones."""
    settings = [copy(each) for each in run_options() if each.name in _SETTINGS]
    if source["command"] == "simulate":
        number = click.IntRange(min=1)
        settings.append(click.Option(["--sites"], type=number, show_default=True, help="Sites."))
    for option in settings:
        option.default = source.get(option.name, option.default)
    name = source["algorithm"]
    options = parameter_options(name, source["parameters"])
    return [*options, *named_knowledge_options(name), *settings]


def changed_source(source: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a run with what the command line says anew.

    Raises:
        ParameterError: A parameter contradicts the publication that the run follows.
    """
    from cipherdag.algorithms.parameters import options_of

    cls = algorithm_class(source["algorithm"])
    declared, before = options_of(cls), source["parameters"]
    changed = {key: options[key] for key in declared if said(key)}
    if any(said(each) for each in EDGES):
        text = changed.get(KNOWLEDGE, before.get(KNOWLEDGE, ""))
        changed[KNOWLEDGE] = with_edges(text, options)
    if publication := source.get("as_published"):
        varied = {key: before[key] for key in cls.published[publication].varied if key in before}
        given = {key: declared[key].read(value) for key, value in {**varied, **changed}.items()}
        cls.as_published(publication, **given)  # refuses what contradicts it
    settings = {key: options[key] for key in (*_SETTINGS, "sites") if key in options and said(key)}
    return {**source, **settings, "parameters": {**before, **changed}}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """One line for every value that differs between two descriptions."""
    old, new = ({**each, **each["parameters"]} for each in (before, after))
    return [
        f"{key.replace('_', '-')}: {value}, was {old.get(key, 'the usual')}"
        for key, value in new.items()
        if key not in ("parameters", KNOWLEDGE) and value != old.get(key)
    ] + (["knowledge: changed"] if new.get(KNOWLEDGE) != old.get(KNOWLEDGE) else [])


@click.command(cls=RepeatCommand)
@click.argument("folder", type=EXISTING_FOLDER)
@click.pass_context
def repeat(
    ctx: click.Context,
    /,
    folder: Path,
    out: Path | None,
    *,
    as_json: bool,
    force: bool,
    **options: Any,
) -> None:
    """Repeat the run whose result FOLDER holds, as it was or with options that differ.

    `cipherdag repeat FOLDER --help` lists the options of its algorithm with the values of that run.
    """
    from cipherdag.results.folder import read_run_toml

    before = ctx.meta.get(_REPEATED) or read_run_toml(folder / "run.toml")
    source = changed_source(before, options)
    if not as_json:
        click.echo("\n".join(_changes(before, source) or ["As it was."]))
    execute(source, schema=folder / "schema.toml", out=out, as_json=as_json, force=force)


def same_data(source: Path) -> str:
    """The command that estimates an effect over the data of a result, without what it estimates."""
    from cipherdag.results.folder import read_rest

    run = read_rest(source).source if source.is_dir() else {}
    schema = ["--schema", str(source / "schema.toml")]
    match run.get("command"):
        case "run":
            return shlex.join(["run", "effect", *run["files"], *schema])
        case "simulate":
            sites = ["--sites", str(run["sites"])]
            return shlex.join(["simulate", "effect", *run["files"], *sites, *schema])
        case "coordinator run":
            asked = shlex.join(["coordinator", "run", "effect", "--dir", run["folder"]])
            return f"{asked} --purpose WHY"
    return "run effect FILES"


def _refuse_zero(folder: Path, treatment: str, outcome: str) -> None:
    """Where the graph says that the effect is 0, say what may be run; else pass.

    Raises:
        ParameterError: No graph has the effect, or hardly any of those that fit.
    """
    from cipherdag.graphs.identification.query import parent_sets

    finding = learnt_in(folder)
    if not (without := without_effect(finding, treatment, outcome)):
        return
    said = f"{without}; so the effect is 0, and nothing is to be estimated"
    free = [each for each in parent_sets(finding.graph, treatment) if outcome not in each]
    if not free:
        turned = shlex.join(["--of", outcome, "--on", treatment])
        raise ParameterError(
            said, remedy=f"It is the other way round: `cipherdag effect {folder} {turned}`."
        )
    words = ["--treatment", treatment, "--outcome", outcome]
    words += ["--adjust", as_text(free[0])] if free[0] else []
    asked = f"cipherdag {same_data(folder)} {shlex.join(words)}"
    raise ParameterError(
        said, remedy=f"No command is needed. To see whether the rows agree: `{asked}`."
    )


@click.command()
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--of", "treatment", required=True, help="The cause.")
@click.option("--on", "outcome", required=True, help="What it may act on.")
def effect(
    folder: Path, treatment: str, outcome: str, out: Path | None, *, as_json: bool, force: bool
) -> None:
    """Estimate an effect over the data of the result in FOLDER, by what its graph says.

    Where FedBOSS drew graphs that fit, over all of them. `cipherdag run effect` has more options.
    """
    from cipherdag.results.folder import read_run_toml

    pair = shlex.join(["--treatment", treatment, "--outcome", outcome])
    before = read_run_toml(folder / "run.toml", f"effect --graph {folder} {pair}")
    _refuse_zero(folder, treatment, outcome)
    source = {
        **{key: value for key, value in before.items() if key != "as_published"},
        "algorithm": "effect",
        "parameters": effect_parameters(folder, treatment, outcome),
        "truth": "",
    }
    execute(source, schema=folder / "schema.toml", out=out, as_json=as_json, force=force)


for command in (repeat, effect):
    command.params += out_options()
