"""A coordinator and three hospitals as processes of their own, from empty folders.

What `three_hospitals.py` (NVIDIA FLARE) and the tests over files have in common: each
gives the commands that differ, and here is what happens with them. An algorithm runs masked and
then encrypted and must find what a run in one process finds, every ledger must agree with what
the coordinator received, and then one hospital is revoked.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import measuring
import numpy as np
import pandas as pd
from hospital_checks import check_every_byte

from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class, make_algorithm
from cipherdag.federation.simulated import Federation
from cipherdag.federation.site import split_rows
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import OPT_IN_KINDS, QUESTION_KINDS, Policy
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.table.schema import Schema

SITES = ("north", "south", "west")
FOUR = (*SITES, "east")
FINGERPRINT = re.compile(r"fingerprint\s+([0-9A-F:]{95})")
ALSO_ANSWERED = "".join(f'"{kind}", ' for kind in sorted(OPT_IN_KINDS))
ANY_ALGORITHM = tuple(word for name in ALGORITHMS for word in ("--algorithm", name))
PURPOSE = "to compare with a run in one process"
START_S = 60.0
ALARM = Path(__file__).parent / "data" / "alarm_5000.csv.gz"


@dataclass
class Hospitals:
    """One study on this machine.

    Attributes:
        work: An empty folder.
        coordinator_words: What `coordinator new` gets beside folder and study.
        site_words: What `site new` gets beside them, by site.
        python: The coordinator's interpreter; the sites use this process's own.
        seconds: What took how long.
        running: The processes that were started and not yet stopped.
    """

    work: Path
    coordinator_words: tuple[str, ...]
    site_words: dict[str, tuple[str, ...]]
    python: Path = Path(sys.executable)
    seconds: dict[str, float] = field(default_factory=dict)
    running: list[subprocess.Popen] = field(default_factory=list)

    def __post_init__(self):
        share_cores()

    @property
    def sites(self):
        return tuple(self.site_words)

    @property
    def coordinator(self):
        return self.work / "coordinator"

    def command(self, *words, code=0):
        """Run one cipherdag command; its exit code must be ``code``."""
        done = subprocess.run(
            self._line(words), capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode != code:
            raise SystemExit(
                f"cipherdag {' '.join(map(str, words))} gave {done.returncode}, "
                f"not {code}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def started(self, *words):
        """A cipherdag command that runs until it is told to stop."""
        process = subprocess.Popen(
            self._line(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.running.append(process)
        try:
            yield process
        finally:
            self.running.remove(process)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def _line(self, words):
        python = self.python if words[0] == "coordinator" else sys.executable
        return [str(python), "-m", "cipherdag", *map(str, words)]

    def enrol(self, tables, schema, *, approve_runs="automatic"):
        """Make and enrol everybody by the commands that people use; the coordinator's fingerprint.

        The two kinds of files that travel are read where they were written. A site's policy says
        whether a person approves each run.
        """
        begun = time.perf_counter()
        in_study = ("--study", "study")
        said = self.command(
            "coordinator", "new", "--dir", self.coordinator, *in_study, *self.coordinator_words
        )
        own = FINGERPRINT.search(said).group(1)
        requests, fingerprints = [], []
        for name, table in tables.items():
            site = self.work / name
            words = (*in_study, *ANY_ALGORITHM, "--device", "cpu", *self.site_words[name])
            self.command("site", "new", name, "--dir", site, *words)
            policy = site / "policy.toml"
            text = policy.read_text("utf-8")
            assert 'approve_runs = "manual"' in text, text
            text = text.replace('approve_runs = "manual"', f'approve_runs = "{approve_runs}"')
            policy.write_text(text.replace("questions = [", f"questions = [{ALSO_ANSWERED}"))
            table.to_csv(site / "data.csv", index=False)
            (site / "schema.toml").write_text(schema.dumps(), encoding="utf-8")
            said = self.command("site", "request", "--dir", site)
            requests.append(site / f"{name}.request")
            fingerprints += ["--fingerprint", FINGERPRINT.search(said).group(1)]
        self.command("coordinator", "approve", *requests, *fingerprints, "--dir", self.coordinator)
        for name in tables:
            self.activate(name, own)
        self.seconds["onboarding"] = round(time.perf_counter() - begun, 2)
        return own

    def activate(self, name, fingerprint, *, approval=None, code=0):
        """`site activate` with a site's own approval, or with another one's."""
        path = self.coordinator / "approvals" / f"{approval or name}.approval"
        known = ("--fingerprint", fingerprint)
        return self.command("site", "activate", path, *known, "--dir", self.work / name, code=code)

    def states(self):
        """What `coordinator sites --live` says of every site; nothing where it fails."""
        words = ("coordinator", "sites", "--live", "--json", "--dir", self.coordinator)
        said = subprocess.run(
            self._line(words), capture_output=True, text=True, check=False, timeout=60
        )
        if said.returncode:
            return {}
        return {row["site"]: row["state"] for row in json.loads(said.stdout)["sites"]}

    def wait_for_sites(self):
        """Wait until every site is connected, and have each check itself."""
        wait_for(self._all_connected, "the sites")
        for name in self.sites:
            checked = self.command("site", "check", "--dir", self.work / name)
            assert "fail" not in checked, checked

    def _all_connected(self):
        for process in self.running:
            if process.poll():
                raise SystemExit(f"{' '.join(process.args)} ended:\n{process.stdout.read()}")
        return list(self.states().values()) == ["connected"] * len(self.sites)

    def compare_runs(self, expected, study):
        """Masked and encrypted runs, against what the run in one process found."""
        for protection in ("masking", "bfv"):
            check_same(self._learn(protection, study), expected, protection)
            print(f"{protection}: the same {found_words(expected)} as in one process")

    def _learn(self, protection, study):
        out = self.work / f"result-{protection}"
        begun = time.perf_counter()
        chosen = ("--protection", protection, "--out", out)
        self.command("coordinator", *study.run_words, "--dir", self.coordinator, *chosen)
        self.seconds[protection] = round(time.perf_counter() - begun, 2)
        report = json.loads((out / "result.json").read_text("utf-8"))
        self.seconds[f"{protection}_rounds"] = report["rounds"]
        self.seconds[f"{protection}_in_run"] = report["seconds"]
        run = max((self.coordinator / "runs").iterdir())
        for name in self.sites:
            check_every_byte(run, self.work / name, report["bytes_sent_per_site"][name])
        return report

    def check_audits(self):
        """Every site's exported ledger agrees with what the coordinator received last."""
        run = max((self.coordinator / "runs").iterdir())
        for name in self.sites:
            exported = self.work / f"{name}-{run.name}.jsonl"
            self.command("audit", "export", self.work / name, "--out", exported)
            self.command("audit", "verify", run, "--ledger", exported)
        assert "Run " in self.command("site", "releases", "--dir", self.work / self.sites[0])
        print("every ledger agrees with the coordinator's transcript")

    def check_own_results(self, expected):
        """Every site comes to the same result by its own names, and has a whole report of it."""
        for name in self.sites:
            out = self.work / "own" / name
            words = ("site", "result", "--dir", self.work / name, "--out", out)
            self.command(*words, "--force")
            found = json.loads((out / "result.json").read_text("utf-8"))
            if sorted_edges(found) != sorted_edges(expected):
                raise SystemExit(f"'{name}' reads another result than a run in one process gives")
            check_same(found, expected, name)
            assert (out / "report.html").stat().st_size > 0
        print("every site has the same result by its own names")

    def revoke_last(self, fingerprint):
        """Revoke the last site; the others activate their new approval. Returns its name."""
        gone, rest = self.sites[-1], self.sites[:-1]
        self.command("coordinator", "revoke", gone, "--dir", self.coordinator)
        for name in rest:
            self.activate(name, fingerprint)
        wait_for(lambda: self.states().get(gone) == "revoked", "the site to be dropped")
        return gone

    def check_shut_out(self, gone, fingerprint):
        """What holds with every engine: no run with too few sites, and no way back."""
        now = self.states()
        assert now[gone] == "revoked", now
        assert all(now[name] == "connected" for name in self.sites if name != gone), now
        run = ("coordinator", "run", "fedpc", "--purpose", PURPOSE, "--dir", self.coordinator)
        said = self.command(*run, code=3)
        assert "asks for 3" in said, said
        said = self.command(
            "coordinator",
            "approve",
            self.work / gone / f"{gone}.request",
            "--dir",
            self.coordinator,
            "--fingerprint",
            fingerprint,
            code=3,
        )
        assert "was revoked" in said, said
        self.activate(gone, fingerprint, approval=self.sites[0], code=3)
        print(f"'{gone}' was revoked and is refused")


@dataclass(frozen=True)
class Study:
    """What the sites hold, and what is learnt from it.

    Attributes:
        tables: A table for every site.
        schema: The schema of all of them.
        algorithm: Such as "fedpc".
        parameters: Those of its parameters that differ from the defaults.
    """

    tables: dict[str, pd.DataFrame]
    schema: Schema
    algorithm: str
    parameters: dict[str, int | float | str | tuple[str, ...]]

    @property
    def run_words(self):
        """What stands behind `cipherdag coordinator`, without folders; columns by their numbers."""
        given = (
            (f"--{name.replace('_', '-')}", self._numbered(str(value)))
            for name, own in self.parameters.items()
            for value in (own if isinstance(own, tuple) else (own,))
        )
        return ("run", self.algorithm, "--purpose", PURPOSE, *(w for pair in given for w in pair))

    def _numbered(self, text):
        """Names of columns, with commas between them, as the coordinator knows these."""
        names = [column.name for column in self.schema.variables]
        if not set(text.split(",")) <= set(names):
            return text
        return ",".join(str(names.index(own) + 1) for own in text.split(","))

    def in_process(self, work):
        """The report of the same run in this process, by the keys of the sites' folders."""
        policy = Policy(questions=QUESTION_KINDS)
        federation = Federation.simulate(
            dict(self.tables), schema=self.schema, policy=policy, device="cpu"
        )
        sites = (
            replace(own, keyed=SiteFolder(work / own.name).identity().draw_key())
            for own in federation.sites
        )
        federation = replace(federation, sites=tuple(sites))
        return federation.run(make_algorithm(self.algorithm, self.parameters)).to_dict()


def check_same(found, expected, what):
    """Both reports have the same edges by identifier, or scores, beliefs and estimates."""
    if edges_of(found) != edges_of(expected):
        raise SystemExit(f"{what}: {edges_of(found) ^ edges_of(expected)} differs")
    for kind, told in NUMBERS.items():
        if told(found) != told(expected):
            raise SystemExit(f"{what}: the edges are the same, the {kind} are not")


def graph_edges(report):
    """The edges of a graph; none where there is no graph."""
    return [edge for edge in report.get("edges", ()) if isinstance(edge, dict)]


def edges_of(report):
    """The marked edges between identifiers; one whose ends are alike has no first end."""
    return {
        (edge["mark"], (frozenset if edge["mark"] in ALIKE else tuple)(_ends(edge)))
        for edge in graph_edges(report)
    }


def _ends(edge):
    return edge["from_id"], edge["to_id"]


def sorted_edges(report):
    """The edges by name."""
    return sorted((edge["from"], edge["mark"], edge["to"]) for edge in graph_edges(report))


def beliefs_of(report):
    """The belief in every pair, row by row; nothing where the algorithm has none."""
    return [list(row.values()) for row in report.get("details", {}).get("belief", {}).values()]


def estimates_of(report):
    """Every number of an effect, or of curves, tests and a model; nothing of a graph."""
    return list(numbers_in([report.get(name) for name in ESTIMATED]))


def numbers_in(told):
    """The numbers within dictionaries, lists and tuples, in order, but for what sites blur."""
    if isinstance(told, dict | list | tuple):
        named = told.items() if isinstance(told, dict) else enumerate(told)
        for name, own in named:
            yield from () if name == BLURRED else numbers_in(own)
    elif isinstance(told, int | float):
        yield told


ALIKE = ("---", "<->", "o-o")
BLURRED = "between"
"""Each site moves what its own rows tell alone by a random part of its error."""
ESTIMATED = ("sets", "curves", "test", "together", "model")
NUMBERS = {"beliefs": beliefs_of, "estimates": estimates_of}


def found_words(report):
    """What was compared, in words."""
    edges, estimates = graph_edges(report), estimates_of(report)
    if estimates:
        return f"{len(estimates)} numbers"
    beliefs = " and beliefs" if beliefs_of(report) else ""
    return f"{len(edges)} edges{beliefs}"


def wait_for(condition, what):
    deadline = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"timed out waiting for {what}")
        time.sleep(0.5)


def share_cores():
    """All parties share this machine: left alone, each would start a thread for every core."""
    share = max(1, (os.cpu_count() or 1) // (len(SITES) + 1))
    os.environ.setdefault("OMP_NUM_THREADS", str(share))


def parser(doc):
    """The options that both scripts take."""
    made = measuring.parser(doc)
    made.add_argument("table", nargs="?", type=Path, default=ALARM, help="CSV; ALARM if absent")
    made.add_argument("--schema", type=Path)
    made.add_argument("--algorithm", choices=list(ALGORITHMS), default="fedpc")
    made.add_argument(
        "--parameters", nargs="*", default=[], metavar="NAME=VALUE", help="of the algorithm"
    )
    made.add_argument("--interventions", help="column that names what was intervened on")
    made.add_argument("--rows", type=int, default=5000)
    made.add_argument("--sites", type=int, choices=(len(SITES), len(FOUR)), default=len(SITES))
    return made


def study_of(options):
    """Every site's part of the table, split unevenly with seed 0, and the algorithm."""
    data = pd.read_csv(options.table, dtype=str).head(options.rows)
    schema = Schema.load(options.schema) if options.schema else infer_schema(data)
    schema = schema.with_interventions(options.interventions)
    sites = FOUR[: options.sites]
    parts = split_rows(len(data), len(sites), rng=np.random.default_rng(0))
    tables = {name: data.iloc[part] for name, part in zip(sites, parts, strict=True)}
    usual = {own.name: own.default for own in fields(algorithm_class(options.algorithm))}
    given = dict(own.split("=", 1) for own in options.parameters)
    parameters = {
        name: tuple(own.split(",")) if isinstance(usual[name], tuple) else typed(own)
        for name, own in given.items()
    }
    return Study(tables, schema, options.algorithm, parameters)


def typed(text):
    """A parameter's value as a number where it is one."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def report(options, seconds, edges):
    """Print the figures, and write them where --out says."""
    figures = {
        "table": options.table.name,
        "algorithm": options.algorithm,
        "parameters": options.parameters,
        "rows": options.rows,
        "edges": edges,
        "seconds": seconds,
    }
    print(json.dumps(figures))
    measuring.write_report(options.out, "hospitals", figures)


@contextlib.contextmanager
def work_folder():
    """An empty folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="hospitals-") as folder:
        yield Path(folder)
