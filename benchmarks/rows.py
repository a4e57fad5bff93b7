"""What rows cost a site: processor seconds and memory of FedPC on alarm, from Parquet files.

    python benchmarks/rows.py alarm.bif.gz --out benchmarks/results/rows

Rows are drawn and written block by block, a file for each of three sites. Every site is a process
of its own that reads its file, answers with masking, and checks every sum; messages go through
pipes. Told of the site that needed most: processor seconds for reading and for the run, and the
highest memory beyond that before it read and beyond its codes, a byte for each value. The
coordinator holds no rows. With --others the first site alone has its third of the rows: what is
told of a site takes a third of the time to find.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import torch
from bif import read_bif
from markdown_table import table
from measuring import parser, peak_mb, write_report

from cipherdag import FedPC, Policy, Schema
from cipherdag.algorithms.registry import program_digest
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.program.program import installed_program
from cipherdag.program.run import carry_out
from cipherdag.program.versions import computed_with
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.protocol.session import Session
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.site_table import load_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.protocol.engines.engine import SiteFailure

ROWS = (100_000, 1_000_000, 10_000_000)
SITES = 3
BLOCK = 200_000
OPEN = Policy(min_cell_size=0, max_values=2**53)
KINDS = {
    "auto": (FedPC(), Policy(questions=QUESTION_KINDS)),
    "pooled": (FedPC(evidence="pooled"), OPEN),
    "fisher": (FedPC(evidence="fisher"), OPEN),
}


def main() -> None:
    arguments = parse()
    cases = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for rows in arguments.rows:
            files = [Path(folder) / f"{rows}-{k}.parquet" for k in range(SITES)]
            for k, file in enumerate(files):
                own = [rows // SITES, arguments.others or rows // SITES][k > 0]
                write_parquet(arguments.network, file, own, arguments.seed + k)
            for kind in arguments.kinds:
                case = {"rows": rows // SITES, "evidence": kind}
                cases.append(case | measured(arguments.network, files, kind))
                print(cases[-1], flush=True)
            for file in files:
                file.unlink()
    figures = {"seed": arguments.seed, "sites": SITES, "cases": cases}
    if arguments.others:
        figures["others"] = arguments.others
    write_report(arguments.out, "rows", figures, markdown)
    print(markdown(figures))


def alarm_schema(network: Path) -> Schema:
    """Every variable with its categories, whichever of them the rows have."""
    known = read_bif(network).categories
    return Schema(
        tuple(
            Column(name, "discrete", categories=own, allow_constant=True)
            for name, own in known.items()
        )
    )


def write_parquet(network: Path, file: Path, rows: int, seed: int) -> None:
    """Rows drawn from a network, some at a time."""
    import pyarrow as pa

    known, rng = read_bif(network), np.random.default_rng(seed)
    schema = pa.schema([(name, pa.string()) for name in known.names])
    with pq.ParquetWriter(file, schema) as writer:
        for start in range(0, rows, BLOCK):
            drawn = known.sample(min(BLOCK, rows - start), rng)[list(known.names)]
            writer.write_table(pa.Table.from_pandas(drawn, schema, preserve_index=False))


def measured(network: Path, files: list[Path], kind: str) -> dict:
    """One run, and the figures of the site with the most of each."""
    algorithm, policy = KINDS[kind]
    most = max(pq.read_metadata(file).num_rows for file in files)
    algorithm = replace(algorithm, max_rows=max(algorithm.max_rows, 1 << (most - 1).bit_length()))
    coordinator = SigningIdentity.generate()
    engine = Pipes(files, network, coordinator.public, policy)
    plan = make_plan(
        [Member(name=site, identity=public) for site, public in engine.pinned.items()],
        algorithm=algorithm.name,
        protection="masking",
        parameters=msgspec.to_builtins(algorithm),
        program=program_digest(algorithm.name),
        versions=computed_with(),
        colluders=1,
        min_contributors=policy.min_sites,
        purpose="a benchmark",
    )
    try:
        session = Session(engine, coordinator, plan)
        done: Any = carry_out(session, plan, installed_program)
    finally:
        sites = engine.close()
    most = {key: max(own[key] for own in sites) for key in sites[0]}
    found = algorithm.conclude(done.outcome, done.facts)
    return most | {"rounds": len(done.rounds), "edges": len(found.graph.edges)}


class Pipes:
    """An engine whose sites are processes of this machine, at work one after the other."""

    def __init__(
        self, files: list[Path], network: Path, coordinator: bytes, policy: Policy
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._sites: dict[str, tuple[Any, Any]] = {}
        self.pinned: dict[str, bytes] = {}
        for k, file in enumerate(files):
            ours, theirs = context.Pipe()
            arguments = theirs, f"site-{k + 1}", file, network, coordinator, policy
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            self._sites[f"site-{k + 1}"] = ours, process
            self.pinned[f"site-{k + 1}"] = ours.recv()
        for pipe, _ in self._sites.values():
            pipe.send(self.pinned)
            pipe.recv()  # one after the other: none waits for a processor while it is timed

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """See `Engine.call`."""
        del timeout_s
        replies: dict[str, bytes | SiteFailure] = {}
        for site, message in messages.items():
            pipe, _ = self._sites[site]
            pipe.send((operation, message))
            replies[site] = pipe.recv()
        return replies

    def close(self) -> list[dict]:
        """End the processes and tell what each needed."""
        found = []
        for pipe, process in self._sites.values():
            pipe.send(None)
            found.append(pipe.recv())
            process.join()
        return found


def serve(pipe, site: str, file: Path, network: Path, coordinator: bytes, policy: Policy) -> None:
    """One site: read, answer until there is nothing left to answer, and tell what it took."""
    torch.set_num_threads(1)
    identity, schema = SigningIdentity.generate(), alarm_schema(network)
    pipe.send(identity.public)
    pinned = pipe.recv()
    before, started = peak_mb(), time.process_time()
    table = load_table(file, schema, site=site, folder=file.parent)
    read, read_peak = time.process_time(), peak_mb()
    codes = table.codes.nbytes / 1e6
    profile = SiteProfile(
        name=site,
        identity=identity,
        coordinator=coordinator,
        pinned=pinned,
        schema=schema.canonical(),
        rows=table.rows,
    )
    respondent = SiteView.of_table(table, min_cell_size=policy.min_cell_size, device="cpu")
    runtime = SiteRuntime(profile, respondent, policy, Ledger(site, identity))
    pipe.send(None)
    while (asked := pipe.recv()) is not None:
        pipe.send(runtime.handle(*asked))
    pipe.send(
        {
            "read_seconds": read - started,
            "run_seconds": time.process_time() - read,
            "codes_mb": codes,
            "read_beyond_mb": read_peak - before - codes,
            "beyond_mb": peak_mb() - before - codes,
        }
    )


def markdown(report: dict) -> str:
    """One row per case, and the slopes from one number of rows to the next."""
    rows, before = [], {}
    for case in report["cases"]:
        seconds = case["read_seconds"] + case["run_seconds"]
        slope = ""
        if case["evidence"] in before:
            less, fewer = before[case["evidence"]]
            slope = f"{np.log(seconds / less) / np.log(case['rows'] / fewer):.2f}"
        before[case["evidence"]] = seconds, case["rows"]
        rows.append(
            [f"{case['rows']:,}", case["evidence"], f"{case['read_seconds']:.1f} s",
             f"{case['run_seconds']:.1f} s", slope, f"{case['codes_mb']:.0f} MB",
             f"{case['beyond_mb']:.0f} MB"]
        )  # fmt: skip
    head = ("rows of the site", "evidence", "reading", "run", "slope", "codes", "beyond codes")
    others = f", two of them with {report['others']:,} rows" if "others" in report else ""
    intro = (
        f"FedPC on alarm, {report['sites']} sites{others}, each a process of its own on one "
        "thread; of the site that needed most:"
    )
    return "\n".join([intro, "", *table(head, rows)]) + "\n"


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("network", type=Path, help="ALARM's .bif or .bif.gz")
    options.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="of all sites")
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=["auto", "pooled"])
    options.add_argument("--others", type=int, help="rows of the others, if not as many")
    options.add_argument("--folder", type=Path, help="where the files lie meanwhile")
    return options.parse_args()


if __name__ == "__main__":
    main()
