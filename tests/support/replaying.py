"""Runs whose sites each have a program of their own, and the same program in another process."""

import os
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.registry import program_digest
from cipherdag.federation import in_process
from cipherdag.graphs.relations import NOTHING, Determined, Relation
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import decode, digest, encode
from cipherdag.program.program import installed_program
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.program.versions import computed_with
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.journal import Journal, Summed
from cipherdag.protocol.messages import content_digest
from cipherdag.protocol.plan import Member, Plan, make_plan
from cipherdag.protocol.session import Session
from cipherdag.sites.record.ledger import Ledger


@dataclass
class RunApart:
    """A finished run: what the coordinator has of it, and what every site says."""

    algorithm: Any
    plan: Plan
    facts: Facts
    outcome: Any
    rounds: tuple
    summed: list[Summed]
    told: dict[str, bytes]
    programs: list = field(repr=False)
    engine: Any = field(repr=False)

    def expected(self):
        """The digest of the result, from the coordinator's plan, sums and outcome."""
        sums = b""
        for entry in self.summed:
            sums = digest(b"sums", sums, zlib.decompress(entry.opened))
        decisions = self.algorithm.decisions(self.outcome, self.facts)
        return digest(b"result", self.plan.digest, sums, decisions)


def run_apart(trial, journal, protection, wire=LocalEngine):
    """A trial's run, at sites that take the program from what is installed."""
    federation = trial.federation(protection=protection)
    coordinator = SigningIdentity.generate()
    keys = {site.name: SigningIdentity.generate() for site in federation.sites}
    pinned = {name: key.public for name, key in keys.items()}
    programs = []

    def installed(plan, facts):
        programs.append(installed_program(plan, facts))
        return programs[-1]

    handlers = {
        site.name: in_process._runtime(
            site,
            keys[site.name],
            coordinator.public,
            pinned,
            Ledger(site.name, keys[site.name]),
            federation.device,
            installed,
            in_process.SharedReading(coordinator.public),
        ).handle
        for site in federation.sites
    }
    engine = wire(handlers)
    algorithm = trial.algorithm
    plan = make_plan(
        [
            Member(name=site.name, identity=pinned[site.name], visits=site.table.visits)
            for site in federation.sites
        ],
        algorithm=algorithm.name,
        protection=protection,
        parameters=msgspec.to_builtins(algorithm),
        seed=1,
        program=program_digest(algorithm.name),
        versions=computed_with(),
    )
    session = Session(engine, coordinator, plan, journal=Journal(journal))
    facts = facts_of(plan, session.open(), session.labels, session.determined)
    outcome = run_program(session, Replay(algorithm.ask(facts), facts.present))
    told = {name: last.result for name, last in session.finish().items()}
    assert set(told.values()) == {session.result}
    summed = [entry for entry in Journal(journal).entries if isinstance(entry, Summed)]
    run = [own for own in programs if own.replay.ended]  # each site also made one to see if it can
    return RunApart(algorithm, plan, facts, outcome, session.rounds, summed, told, run, engine)


def facts_of(plan, n_variables, labels, determined=NOTHING):
    """What an algorithm is told of a run without options."""
    return Facts(
        n_variables,
        len(plan.cohort),
        labels=labels,
        seed=plan.seed,
        min_contributors=plan.min_contributors,
        determined=determined,
        visits=plan.visits,
    )


def saved(run, path):
    """Plan, facts and sums of a run, for `replayed_digest`."""
    content = {
        "plan": encode(run.plan),
        "facts": [run.facts.n_variables, run.facts.n_sites, list(run.facts.labels)],
        "relations": run.facts.determined.relations,
        "sums": [(entry.values, entry.report.n_sites) for entry in run.summed],
    }
    path.write_bytes(msgspec.msgpack.encode(content))
    return path


def replayed_digest(path):
    """Digest of all questions and decisions of the installed program, for the sums of a run."""
    content = msgspec.msgpack.decode(path.read_bytes())
    plan = decode(content["plan"], Plan)
    n_variables, _, labels = content["facts"]
    relations = msgspec.convert(content["relations"], tuple[Relation[int], ...])
    facts = facts_of(plan, n_variables, tuple(labels), Determined(relations))
    program = installed_program(plan, facts)
    state, question = sha256(), program.replay.advance(1, None)
    for step, (values, covered) in enumerate(content["sums"], start=2):
        state.update(content_digest(question))
        sums = np.frombuffer(values, dtype="<f8").astype(np.float64)
        question = program.replay.advance(step, sums, covered)
    assert program.replay.ended
    state.update(program.decisions)
    return state.hexdigest()


OLDER = {
    "OPENBLAS_CORETYPE": "Prescott",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX2 FMA3",
}
"""Linear algebra by the kernels of a processor without vectors of 256 bits."""


def in_process_of_its_own(saved, threads, *, older=False):
    """`replayed_digest` by name in another process: so many threads, and an older processor's."""
    counts = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    done = subprocess.run(
        [sys.executable, __file__, str(threads), *map(str, saved.values())],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            **dict.fromkeys(counts, str(threads)),
            **(OLDER if older else {}),
            "PYTHONPATH": os.pathsep.join(folders),
            "PYTHONHASHSEED": str(threads),
        },
    )
    return dict(zip(saved, done.stdout.split(), strict=True))


if __name__ == "__main__":
    import torch

    torch.set_num_threads(int(sys.argv[1]))
    for path in sys.argv[2:]:
        print(replayed_digest(Path(path)))  # noqa: T201
