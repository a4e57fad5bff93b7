"""``run``, ``simulate`` and ``repeat``: runs over sites in this process.

All three make the same description, that of ``run.toml``, and carry it out in one way.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cipherdag.algorithms.choice import FEWEST_FOR_SUMS
from cipherdag.algorithms.registry import algorithm_class
from cipherdag.cli.help import example
from cipherdag.cli.knowledge import edge_options, knowledge_option, with_edges
from cipherdag.cli.options import (
    FILE,
    TWO_SITES,
    following,
    run_options,
    show,
    site_names,
    source_files,
)
from cipherdag.cli.parameters import (
    CHOSEN,
    KNOWLEDGE,
    AlgorithmCommand,
    named_knowledge_options,
    naming_other_sets,
    needed,
    parameter_options,
    said,
    taken,
    use_of,
    usual_options,
    usual_parameters,
)
from cipherdag.cli.stopped_runs import forget, rounds_folder, saying_how_to_resume
from cipherdag.errors import OutputError, ParameterError
from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.questions.disclosure import sentences

if TYPE_CHECKING:
    from cipherdag.algorithms.algorithm import Algorithm
    from cipherdag.federation.simulated import Federation
    from cipherdag.graphs.graph import CausalGraph

log = logging.getLogger("cipherdag.data")

CHOICE = "Learn a causal graph by the algorithm that suits the data."
_SOURCES = {"run": "north.csv south.csv west.csv", "simulate": "data.csv --sites 5"}
DEALS = ("vertical", "horizontal", "uneven")
READINGS = {
    "labels": click.Option(
        ["--labels"], default="", help="Labels, separated by commas; default: schema."
    ),
    "interventions": click.Option(
        ["--interventions"], default="", help="Column that names interventions."
    ),
    "patient": click.Option(
        ["--patient"], default="", help="Column that says whose row it is; it is no variable."
    ),
}


def run_command(name: str) -> click.Command:
    """``run NAME``."""
    from cipherdag.sites.table.reading import READABLE

    # a schema says by itself who lacks what; without one, a name that is misspelt looks the same
    overlap_help = "Without a schema: files may lack columns, which those sites did not measure."
    takes = name == CHOSEN or algorithm_class(name).takes_overlap
    overlapping = (
        [click.Option(["--overlapping"], is_flag=True, help=overlap_help)] if takes else []
    )
    return _command(
        name,
        "run",
        [source_files(), *overlapping],
        f"FILES are one source per site, or a folder of them: {READABLE}.",
    )


def simulate_command(name: str) -> click.Command:
    """``simulate NAME``."""
    parameters: list[click.Parameter] = [
        click.Argument(["files"], metavar="DATA", nargs=1, type=FILE),
        click.Option(
            ["--sites"], type=click.IntRange(min=1), default=3, show_default=True, help="Sites."
        ),
    ]
    if name != CHOSEN and "interventions" in algorithm_class(name).reads:
        deal_help = "Divide every regime of interventions over the sites, or deal out whole ones."
        parameters.append(
            click.Option(
                ["--deal"],
                type=click.Choice(DEALS),
                default=DEALS[0],
                show_default=True,
                help=deal_help,
            )
        )
    return _command(name, "simulate", parameters, "DATA is one file, which is split over sites.")


def _command(
    name: str, command: str, first: Sequence[click.Parameter], summary: str
) -> click.Command:
    from cipherdag.findings.graph_finding import GraphFinding

    parameters = [*first]
    if name == CHOSEN:
        parameters += [*edge_options(), knowledge_option()]
    else:
        reads = algorithm_class(name).reads & {*READINGS}
        parameters += [*parameter_options(name), *named_knowledge_options(name)]
        parameters += [READINGS[each] for each in sorted(reads)]
    parameters.append(READINGS["patient"])
    if name == CHOSEN or issubclass(algorithm_class(name).concludes, GraphFinding):
        truth_help = "True edges (CSV) to measure the graph against."
        parameters.append(click.Option(["--truth"], type=FILE, help=truth_help))

    def invoked(**options: Any) -> None:
        execute(
            _described(name, command, options),
            schema=options["schema"],
            labels=tuple(label for label in options.get("labels", "").split(",") if label.strip()),
            interventions=options.get("interventions") or None,
            patient=options["patient"] or None,
            out=options["out"],
            as_json=options["as_json"],
            force=options["force"],
        )

    parameters += run_options()
    use = CHOICE if name == CHOSEN else use_of(name)
    return AlgorithmCommand(
        name,
        usual=None if name == CHOSEN else usual_options(name, parameters),
        params=parameters,
        callback=invoked,
        help=f"{use}\n\n{summary}",
        short_help=use,
        epilog=example(f"cipherdag {command} {name} {_SOURCES[command]}{needed(name)}"),
    )


def _described(name: str, command: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``run.toml`` for a run."""
    files = options["files"] if command == "run" else [options["files"]]
    more = {key: options.get(key) for key in ("sites", "deal", "min_cell_size")}
    more["overlapping"] = options.get("overlapping") or None
    truth = options.get("truth")
    if name == CHOSEN:
        parameters = {KNOWLEDGE: with_edges(options[KNOWLEDGE], options)}
    else:
        parameters = taken(name, options)
    if source := options.get("as_published"):
        more["as_published"] = source
        _say_what_is_not_protected(name, source)
    return {
        "command": command,
        "files": [str(file.resolve()) for file in files],
        **{key: value for key, value in more.items() if value is not None},
        "algorithm": name,
        **{key: options[key] for key in ("protection", "seed", "device")},
        "truth": str(truth.resolve()) if truth else "",
        "parameters": parameters,
    }


def _say_what_is_not_protected(name: str, source: str) -> None:
    """Say in one line what a run as published gives away, on standard error."""
    from cipherdag.algorithms.parameters import grouped

    if said("min_cell_size"):
        raise ParameterError(
            "--min-cell-size contradicts --as-published: no count is small there",
            remedy="Leave out --min-cell-size, or --as-published.",
        )
    cls = algorithm_class(name)
    opened = sentences(cls(**grouped(cls, cls.published[source].parameters)).disclosures())
    click.echo(
        f"As published ({source}): small counts are not protected, nor what one site alone can "
        f"test. Disclosed: {' '.join(opened)}",
        err=True,
    )


def execute(
    source: Mapping[str, Any],
    *,
    schema: Path | None,
    labels: Sequence[str] = (),
    interventions: str | None = None,
    patient: str | None = None,
    out: Path | None,
    as_json: bool,
    force: bool = False,
) -> None:
    """Carry out a described run, save its result where ``out`` says, and show it.

    The description is as ``run.toml`` has it. Labels, interventions and patients stand in place
    of those of the schema, which is inferred if it is None.
    """
    from cipherdag.results.folder import new_result_folder

    if out is not None:
        new_result_folder(out, force=force)
    marks = {"interventions": interventions, "patient": patient}
    reading = {"schema": schema, "labels": labels, **marks}
    with rounds_folder(out) as keep:
        _carry_out(source, reading, keep=keep, out=out, as_json=as_json)


def resume_run(folder: Path, out: Path | None, *, as_json: bool, force: bool) -> None:
    """Go on with the run that a folder keeps, and save it there or in ``out``; or OutputError."""
    from cipherdag.federation.checkpoint import read_rounds
    from cipherdag.results.folder import UNFINISHED, new_result_folder, read_run_toml

    unfinished = folder / UNFINISHED
    if not unfinished.exists():
        raise OutputError(
            f"{folder} keeps no run that was stopped",
            remedy="Name the folder that the stopped run named; a result lies in --out already.",
        )
    if out is not None:
        new_result_folder(out, force=force)
    source = read_run_toml(unfinished / "run.toml")
    ended = sum(round_.summed is not None for round_ in read_rounds(folder))
    if not as_json:
        click.echo(f"Going on after round {ended}.")
    reading = {"schema": unfinished / "schema.toml", "labels": (), "interventions": None}
    with saying_how_to_resume(folder):
        _carry_out(source, reading, keep=folder, out=out or folder, as_json=as_json)
    if out is not None and out != folder:
        forget(folder, whole=False)


def _carry_out(
    source: Mapping[str, Any],
    reading: Mapping[str, Any],
    *,
    keep: Path,
    out: Path | None,
    as_json: bool,
) -> None:
    """Read the data, learn, save and show."""
    from cipherdag.algorithms.registry import make_algorithm
    from cipherdag.findings.graph import LearntPAG

    if not as_json:
        click.echo(f"Reading {', '.join(Path(file).name for file in source['files'])}")
    federation = _federation(source, **reading)
    if len(federation.sites) == FEWEST_FOR_SUMS - 1:
        click.echo(TWO_SITES, err=True)
    names = federation.sites[0].table.names
    if source["algorithm"] == CHOSEN:
        source = {**source, **_chosen(federation, source)}
    algorithm = make_algorithm(source["algorithm"], source["parameters"])
    hidden = algorithm.concludes is LearntPAG
    truth_file = source.get("truth")
    ignored = federation.sites[0].table.schema.ignored
    truth = edges(Path(truth_file), names, ignored, unmeasured=hidden) if truth_file else None
    seed = source["seed"]
    with naming_other_sets(source["algorithm"], source["parameters"]):
        result = learn(federation, algorithm, seed, as_json=as_json, source=source, keep=keep)
    if out is not None:
        result.save(out, truth=truth, force=True)
    left = shlex.join(["cipherdag", "audit", "show", str(out)]) if out is not None else ""
    show(result, truth, as_json=as_json, all_that_left=left)
    if out is not None and not as_json:
        click.echo(f"Saved in {out}")


def _chosen(federation: Federation, source: Mapping[str, Any]) -> dict[str, Any]:
    """The algorithm for these sites as ``run.toml`` has it; says which and why."""
    from cipherdag.algorithms.choice import Circumstances, choose

    tables = [site.table for site in federation.sites]
    rule = choose(
        Circumstances(
            kind=tables[0].kind,
            n_sites=len(tables),
            incomplete=max(table.incomplete for table in tables),
            overlapping=bool(tables[0].schema.lacking),
            visits=any(table.patients is not None for table in tables),
        )
    )
    title = algorithm_class(rule.algorithm).title
    click.echo(f"{title} is taken. {rule.reason}", err=True)
    parameters = {**usual_parameters(rule.algorithm), **source["parameters"]}
    return {"algorithm": rule.algorithm, "parameters": parameters}


def _federation(source: Mapping[str, Any], **reading: Any) -> Federation:
    """The sites of a description."""
    from cipherdag.federation.simulated import Federation
    from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy

    protection = source["protection"]
    policy = Policy(
        # who runs all sites is the coordinator that they trust
        questions=QUESTION_KINDS,
        allow_unprotected=not PROTECTIONS[protection].protects,
        min_cell_size=source.get("min_cell_size", Policy().min_cell_size),
    )
    shared = {"protection": protection, "device": source["device"], "policy": policy, **reading}
    if source.get("as_published"):
        shared |= {"policy": Policy.as_published(), "relations": False}
    files = [Path(file) for file in source["files"]]
    if source["command"] == "run":
        sources = dict(zip(site_names(files), files, strict=True))
        overlapping = bool(source.get("overlapping"))
        return Federation.simulate(sources, overlapping=overlapping, **shared)
    deal = source.get("deal", "uneven")
    return Federation.split(files[0], source["sites"], seed=source["seed"], deal=deal, **shared)


def learn(
    federation: Federation,
    algorithm: Algorithm[Any, Any],
    seed: int,
    *,
    as_json: bool,
    source: Mapping[str, Any],
    keep: Path,
    lines: bool = True,
) -> Any:
    """The result of an algorithm; ``keep`` holds finished rounds, which have lines if wanted."""
    from cipherdag.cli.terminal import heading

    n_sites, names = len(federation.sites), federation.sites[0].table.names
    if lines and not as_json:
        click.echo("\n" + heading(algorithm, n_sites, federation.protection))
    with following(
        as_json=as_json,
        lines=lines,
        n_sites=n_sites,
        names=names,
        most_rounds=algorithm.most_rounds,
    ) as progress:
        return federation.run(algorithm, seed=seed, progress=progress, source=source, keep=keep)


def edges(
    path: Path, nodes: Sequence[str], ignored: Sequence[str], *, unmeasured: bool = False
) -> CausalGraph:
    """The graph of a CSV of edges over these variables, if wanted over unmeasured ones, too.

    Without unmeasured variables, edges of ignored columns are left out with a warning.
    """
    from cipherdag.graphs.edges import edges_from_csv
    from cipherdag.graphs.graph import CausalGraph

    marked_edges = edges_from_csv(path.read_text("utf-8"), nodes=(*nodes, *ignored))
    named = {end for edge in marked_edges for end in edge[:2]}
    if unmeasured:
        return CausalGraph.from_marked((*nodes, *sorted(named - set(nodes))), marked_edges)
    if gone := sorted(named.intersection(ignored)):
        listed = ", ".join(map(repr, gone))
        log.warning("the truth is compared without %s, which the run leaves out", listed)
    measured_edges = [edge for edge in marked_edges if not {*edge[:2]}.intersection(gone)]
    return CausalGraph.from_marked(nodes, measured_edges)
