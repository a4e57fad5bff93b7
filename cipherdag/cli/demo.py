"""``demo``: three simulated hospitals learn a graph by bits, and by sums under two protections."""

from __future__ import annotations

import logging
from collections import defaultdict
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from cipherdag.cli.in_process import learn
from cipherdag.cli.options import EXISTING_FOLDER, show_account
from cipherdag.cli.stopped_runs import saying_how_to_resume
from cipherdag.errors import AggregateRangeError

if TYPE_CHECKING:
    from cipherdag.algorithms.parameters import Reveal
    from cipherdag.federation.simulated import Federation
    from cipherdag.findings.graph import LearntGraph
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.graphs.networks import DiscreteNetwork
    from cipherdag.results.run import Run

DEFAULT_FOLDER = "cipherdag-demo"
VARIANTS: tuple[tuple[str, Reveal, str, str], ...] = (
    ("bits", "bits", "masking", "masking"),
    ("masking", "sums", "masking", "masking"),
    ("bfv", "sums", "bfv", "homomorphic encryption"),
)
"""Folder of each part of the demo, what it opens of tests, and the protection of its sums,
by name and in words."""
_OPENED = {
    "bits": "Everybody learns a bit or two of each test, and not the sums behind them.",
    "sums": "Everybody learns the sums behind each test; {} protects every site's part.",
}


@click.command()
@click.option(
    "--rows",
    type=click.IntRange(min=200),
    default=6000,
    show_default=True,
    help="Number of patients.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the run."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help=f"Folder for the results; default: {DEFAULT_FOLDER}, numbered where there is one.",
)
@click.option("--resume", type=EXISTING_FOLDER, help="Go on with the demo stopped in this folder.")
@click.option("--force", is_flag=True, help="Overwrite what --out holds.")
def demo(rows: int, seed: int, out: Path | None, resume: Path | None, *, force: bool) -> None:
    """Three simulated hospitals learn the ASIA network by bits, then by sums."""
    from cipherdag.results.folder import new_result_folder

    folder = resume or out or _unused(Path(DEFAULT_FOLDER))
    if resume is None:
        for name, *_ in VARIANTS:
            new_result_folder(folder / name, force=force)
    log = logging.getLogger("cipherdag.data")  # of mistakes in data, as the result's warning says
    click.get_current_context().call_on_close(partial(log.setLevel, log.level))
    log.setLevel(logging.ERROR)
    click.echo(f"{rows} patients, 8 variables, three hospitals that share none.")
    from cipherdag.graphs.networks import asia

    network = asia()
    again = f"cipherdag demo --rows {rows} --seed {seed} --resume"
    with saying_how_to_resume(folder, command=again, parts=tuple(name for name, *_ in VARIANTS)):
        resumed = resume is not None
        results = [_learnt(network, each, rows, seed, folder, resumed=resumed) for each in VARIANTS]
    _compare(*(result.finding.graph for result in results))
    _ask_off_plan(_hospitals(network, "bfv", rows, seed))
    click.echo("\n".join(results[0].finding.lines(len(results[0].sites))))
    click.echo(
        f"\nOpen {folder / 'bits' / 'report.html'} in a browser; {folder} holds all results."
    )


def _compare(by_bits: CausalGraph, masked: CausalGraph, encrypted: CausalGraph) -> None:
    """Say how the three graphs differ; AggregateRangeError where the protections disagree."""
    if masked != encrypted:
        raise AggregateRangeError("the two protections disagree")
    bits, sums = (_pairs(graph) for graph in (by_bits, masked))
    click.echo(
        "\nMasking and homomorphic encryption of the same sums gave the same graph. "
        f"The run by bits learnt {len(bits & sums)} of that graph's {len(sums)} edges, and "
        f"{len(bits - sums)} others."
    )


def _pairs(graph: CausalGraph) -> set[frozenset[str]]:
    return {frozenset((edge.source, edge.target)) for edge in graph.edges}


def _learnt(
    network: DiscreteNetwork,
    variant: tuple[str, Reveal, str, str],
    rows: int,
    seed: int,
    folder: Path,
    *,
    resumed: bool,
) -> Run[LearntGraph]:
    """The result of one variant: learnt and saved now, or loaded where the demo was resumed."""
    from cipherdag.algorithms.fedpc.algorithm import FedPC
    from cipherdag.findings.graph import LearntGraph
    from cipherdag.results.folder import REPORT_FILE
    from cipherdag.results.run import Run

    name, reveal, protection, in_words = variant
    result_folder = folder / name
    first = variant == VARIANTS[0]
    opened = _OPENED[reveal].format(in_words)
    click.echo(f"\n{opened}" if variant in VARIANTS[:2] else opened)
    result: Run[LearntGraph]
    if resumed and (result_folder / REPORT_FILE).exists():
        result = Run.load(result_folder, LearntGraph)
    else:
        federation = _hospitals(network, protection, rows, seed)
        result = learn(
            federation,
            FedPC(reveal=reveal),
            seed,
            as_json=False,
            source={},
            keep=result_folder,
            lines=first,
        )
        result.save(result_folder, truth=network.graph, force=True)
    if first:
        show_account(result, network.graph, f"cipherdag audit show {result_folder}")
    else:
        click.echo(f"  {result.account_lines()[-1]}")
    return result


def _hospitals(network: DiscreteNetwork, protection: str, rows: int, seed: int) -> Federation:
    import numpy as np

    from cipherdag.federation.simulated import Federation

    columns = network.columns(rows, np.random.default_rng(seed))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "patients.csv"
        lines = [network.names, *zip(*columns.values(), strict=True)]
        file.write_text("\n".join(map(",".join, lines)), "utf-8")
        return Federation.split(file, 3, seed=seed, protection=protection)


def _ask_off_plan(federation: Federation) -> None:
    """Show how every hospital refuses a question that is not the plan's."""
    from cipherdag.algorithms.fedpc.algorithm import FedPC
    from cipherdag.federation.in_process import refusals_off_plan

    click.echo("\nNow the coordinator asks for alpha 0.5, where the plan that it signed says 0.01:")
    sites: dict[str, list[str]] = defaultdict(list)
    for name, said in refusals_off_plan(federation, FedPC(alpha=0.01), FedPC(alpha=0.5)).items():
        sites[said].append(name)
    for said, names in sites.items():
        click.echo(f"  {', '.join(names)} {f'refused: {said}' if said else 'ANSWERED'}")


def _unused(folder: Path) -> Path:
    """The folder, or the first of its numbered successors that is not there."""
    if not folder.exists():
        return folder
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(candidate for candidate in numbered if not candidate.exists())
