"""Site computations on a processor and on a card: the same answers, and the time of each.

    python benchmarks/devices.py --out benchmarks/results/devices
    python benchmarks/devices.py --devices cpu cpu --scale 0.01

First whole runs of FedPC, FedFCI, FedBOSS, FedCMFS and Effect over three small sites, on each
device: conclusions must be the same, but for numbers that differ by `TOLERANCE` at most, and so
must all sums. Then single questions about many rows and columns: medians of the time from the
columns to the answer (a card's copies are in it), and of the same question asked again. Sums are
added up here, without a protection. It imports numpy, scipy, torch and msgspec alone.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from markdown_table import table as markdown_table
from measuring import parser, write_report

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.algorithm import Effect
from cipherdag.algorithms.fedboss.algorithm import FedBOSS
from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.fedfci.algorithm import FedFCI
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.pooled_data import Moments
from cipherdag.questions.question import Resampled
from cipherdag.questions.regression_steps import RegressionSteps, pack_models
from cipherdag.questions.scores.likelihoods import LogLikelihoods
from cipherdag.questions.scores.score_sums import RaoSums
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.ci_tests.kci import KernelTest
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable
from cipherdag.statistics.regression_models import Regression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOLERANCE = 1e-8
"""Of a number, as a share of 1 and its magnitude."""
KERNEL_TOLERANCE = 1e-5
"""A processor factors kernels, a card multiplies them whole."""
REPEATS, SECONDS = 3, 6.0
"""Repetitions of a case on a device, and seconds from which on there is no other one."""
CATEGORIES, NUMBERS, MIXED = (2, 3, 2, 2, 4, 3, 2, 3), (0,) * 8, (0, 2, 3, 0, 2, 4, 0, 3)
SMALL_ROWS = 3000
FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


# data

TIMES = ("from columns", "again")
"""With the copies to the device, and with what is there already."""


def table(kinds: tuple[int, ...], rows: int, rng: np.random.Generator, *, width: int = 2):
    """A site's rows: each column depends on the two before it."""
    values = np.zeros((rows, len(kinds)))
    for v, count in enumerate(kinds):
        pull = 0.5 * values[:, max(v - width, 0) : v].sum(axis=1)
        if count:
            noise = rng.standard_normal((rows, count), dtype=np.float32)
            codes = (noise + pull[:, None] * np.linspace(-1.0, 1.0, count)).argmax(axis=1)
            values[:, v] = codes - (count - 1) / 2.0
        else:
            values[:, v] = pull + rng.standard_normal(rows)
    return of_values(values, kinds)


def of_values(values: np.ndarray, kinds: tuple[int, ...]) -> SiteTable:
    discrete = np.array(kinds) > 0
    codes = None
    if discrete.any():
        codes = np.full(values.shape, -1, dtype=np.int8, order="F")
        for v in np.flatnonzero(discrete):
            codes[:, v] = np.rint(values[:, v] + (kinds[v] - 1) / 2.0)
    names = tuple(f"v{v:03d}" for v in range(len(kinds)))
    columns = tuple(
        Column(name, "discrete", categories=tuple(f"c{k}" for k in range(count)))
        if count
        else Column(name, "continuous")
        for name, count in zip(names, kinds, strict=True)
    )
    numbers = None if discrete.all() else np.where(discrete, np.nan, values)
    return SiteTable(names, Schema(columns), len(values), codes, numbers)


# whole runs


@dataclass
class Driven:
    """A run without cryptography: its conclusion, its sums, and the seconds of the sites."""

    conclusion: str
    sums: list[np.ndarray]
    seconds: dict[str, float] = field(default_factory=dict)


def verdicts(question: Any, words: np.ndarray) -> np.ndarray:
    """What is opened of words: of every test whether one of its forms is above 0."""
    predicates = question.predicates(len(words))
    total = words.sum(axis=0)
    forms = predicates.constants.astype(object)
    x = total.astype(object)
    for at, i, j, item in predicates.quadratic.tolist():
        forms[at] += item * x[i] * x[j]
    for at, j, item in predicates.linear.tolist():
        forms[at] += item * x[j]
    starts = predicates.starts.tolist()
    ends = np.cumsum(predicates.sizes).tolist()
    return np.array([max(forms[a:b]) > 0 for a, b in zip(starts, ends, strict=True)], dtype=float)


def total_of(question: Any, answers: np.ndarray) -> np.ndarray:
    if question.opens_bits:
        return verdicts(question, answers)
    total, start = answers.sum(axis=0), 0
    for encoding in question.encodings:
        part = slice(start, start := start + encoding.length)
        if encoding.comparison:
            total[part] = total[part] > 0
    return total


def driven(algorithm: Any, tables: list[SiteTable], device: str, labels: tuple[int, ...]) -> Driven:
    views = [SiteView.of_table(one, min_cell_size=0, device=device) for one in tables]
    facts = Facts(len(tables[0].names), len(tables), tables[0].names, labels)
    run = Driven("", [])
    asking = algorithm.ask(facts)
    try:
        question = next(asking)
        while True:
            start = time.perf_counter()
            answers = np.array([view.answer(question) for view in views])
            kind = type(getattr(question, "question", question)).__name__
            run.seconds[kind] = run.seconds.get(kind, 0.0) + time.perf_counter() - start
            run.sums.append(total_of(question, answers))
            question = asking.send(run.sums[-1])
    except StopIteration as finished:
        run.conclusion = repr(algorithm.conclude(finished.value, facts))
    return run


def agree(one: Driven, other: Driven) -> dict[str, Any]:
    """Whether two runs conclude the same, and by how much their sums differ."""
    numbers = [np.array([float(x) for x in FLOAT.findall(run.conclusion)]) for run in (one, other)]
    texts = [FLOAT.sub("", run.conclusion) for run in (one, other)]
    sums = [run.sums for run in (one, other)]
    asked = [[len(each) for each in part] for part in sums]
    same = texts[0] == texts[1] and asked[0] == asked[1]
    differ = max((apart(*pair) for pair in zip(*sums, strict=True)), default=0.0) if same else None
    concluded = apart(*numbers) if same else None
    return {"same": same and max(differ, concluded) <= TOLERANCE, "largest difference": differ}


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, as a share of 1 and the magnitude; NaN equals NaN."""
    if one.shape != other.shape or (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    finite = ~np.isnan(one)
    gap = np.abs(one[finite] - other[finite]) / (1.0 + np.abs(one[finite]))
    return float(gap.max(initial=0.0))


def runs() -> Iterator[tuple[str, Any, tuple[int, ...], tuple[int, ...]]]:
    kinds = {"categories": CATEGORIES, "numbers": NUMBERS, "mixed": MIXED}
    for algorithm in (FedPC(), FedFCI(), FedBOSS()):
        for name, each in kinds.items():
            yield f"{algorithm.title}, {name}", algorithm, each, ()
    yield "FedPC, votes of categories", FedPC(evidence="vote"), CATEGORIES, ()
    yield "FedPC, votes of numbers", FedPC(evidence="vote"), NUMBERS, ()
    yield "FedPC, glm of mixed", FedPC(evidence="glm"), MIXED, ()
    yield "FedCMFS", FedCMFS(), (2, 2, 3, 2, 2, 2, 3, 2), (6, 7)
    names = {"treatment": "v001", "outcome": "v006", "adjust": "v000,v002,v004"}
    yield "Effect, aipw", Effect(**names), MIXED, ()
    yield "Effect, linear", Effect(**names | {"treatment": "v003"}), MIXED, ()
    strata = Effect(treatment="v000", outcome="v006", adjust="v002", estimator="standardise")
    yield "Effect, standardise", strata, CATEGORIES, ()


# single questions


@dataclass
class Case:
    """A question about one site's rows.

    Attributes:
        make: Of a device what answers, as a site does when it is asked first.
        again: Whether it computes as much when it is asked once more.
        tolerance: Of its answers.
    """

    name: str
    make: Callable[[str], Callable[[], np.ndarray]]
    again: bool = True
    tolerance: float = TOLERANCE


def asked(rows: SiteTable, question: Any) -> Callable[[str], Callable[[], np.ndarray]]:
    def make(device: str) -> Callable[[], np.ndarray]:
        view = SiteView.of_table(rows, min_cell_size=0, device=device)
        return lambda: view.answer(question)

    return make


def tested(test: type, data: np.ndarray, tests: np.ndarray, **options: Any) -> Any:
    x, y, given = tests[:, 0], tests[:, 1], tests[:, 2:]

    def make(device: str) -> Callable[[], np.ndarray]:
        def answer() -> np.ndarray:
            outcomes = test(data, device=device, **options).evaluate(x, y, given)
            return np.concatenate([outcomes.p_value, outcomes.statistic])

        return answer

    return make


def sets_of(rng: np.random.Generator, p: int, count: int, size: int) -> np.ndarray:
    """Distinct positions, shape (count, size)."""
    return np.argsort(rng.random((count, p)), axis=1)[:, :size].astype(np.int64)


def score_sums(kinds: tuple[int, ...], tests: np.ndarray, n_rows: int = 10_000) -> RaoSums:
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(tests.shape[1] - 2)]
    counts, members = pack_blocks([*empty, tests])
    return RaoSums(categories=kinds, counts=counts, members=members, n_rows=n_rows)


def likelihoods(p: int, sets: np.ndarray) -> LogLikelihoods:
    empty = [np.zeros((0, 1 + k), dtype=np.int64) for k in range(sets.shape[1] - 1)]
    counts, members = pack_blocks([*empty, np.sort(sets, axis=1)])
    return LogLikelihoods(p, counts, members)


def scales(p: int) -> dict[str, bytes]:
    return {"origins": np.zeros(p).tobytes(), "units": pack_integers(np.full(p, 2))}


def of_categories(scale: float, rng: np.random.Generator) -> Iterator[Case]:
    kinds = tuple(rng.integers(2, 5, 100).tolist())
    rows = table(kinds, size(200_000, scale), rng)
    p = len(kinds)
    question = score_sums(kinds, sets_of(rng, p, size(2000, scale), 3))
    yield Case("scores of categories, |S| = 1", asked(rows, question))
    pairs = np.argwhere(np.triu(np.ones((p, p), dtype=bool), 1))
    yield Case("scores of categories, all pairs", asked(rows, score_sums(kinds, pairs)))
    yield Case(
        "a bootstrap replicate of these", asked(rows, Resampled(score_sums(kinds, pairs), 1))
    )
    sets = sets_of(rng, p, size(2000, scale), 3)
    yield Case("likelihoods of categories, sets of 3", asked(rows, likelihoods(p, sets)))
    tests = sets_of(rng, p, size(2000, scale), 4)
    yield Case("G2, |S| = 2", tested(DiscreteTest, rows.codes, tests), again=False)


def of_numbers(scale: float, rng: np.random.Generator) -> Iterator[Case]:
    kinds, n = (0,) * 100, size(200_000, scale)
    rows, p = table(kinds, n, rng), len(kinds)
    question = score_sums(kinds, sets_of(rng, p, size(50, scale), 4))
    yield Case("scores of numbers, |S| = 2", asked(rows, question))
    positions = np.arange(p, dtype="<i8").tobytes()
    moments = Moments(p, positions, centred=True, **scales(p))
    yield Case("moments", asked(rows, moments))
    counts, members = pack_blocks([np.arange(p)[:, None]])
    shares = SiteDifferences(categories=kinds, counts=counts, members=members, **scales(p))
    yield Case("shares of numbers between marks", asked(rows, shares))
    tests = sets_of(rng, p, size(100_000, scale), 5)
    yield Case("Fisher's z, |S| = 3", tested(FisherZTest, rows.values, tests), again=False)
    for kernel_rows in (size(2000, scale), size(5000, scale)):
        data, few = rows.values[:kernel_rows, :4].copy(), np.array([[0, 1, 2], [1, 2, 3]])
        make = tested(KernelTest, data, few, max_rows=max(kernel_rows, 10))
        yield Case(f"KCI, {kernel_rows} rows", make, again=False, tolerance=KERNEL_TOLERANCE)


def of_both(scale: float, rng: np.random.Generator) -> Iterator[Case]:
    kinds = MIXED * 5
    rows, p = table(kinds, size(200_000, scale), rng), len(MIXED) * 5
    question = score_sums(kinds, sets_of(rng, p, size(20, scale), 4))
    yield Case("scores of mixed columns, |S| = 2", asked(rows, question), again=False)
    sets = sets_of(rng, p, size(2000, scale), 4)
    yield Case("likelihoods of mixed columns, sets of 4", asked(rows, likelihoods(p, sets)))
    models = (Regression(1, (0, 2, 3, 4, 5)), Regression(5, (0, 1, 3, 6)), Regression(0, (1, 2, 3)))
    for site_effect in (False, True):
        yield Case(
            f"Newton steps of regressions, constants per site {site_effect}",
            asked(rows, steps_of(kinds, models, site_effect=site_effect)),
        )
    yield Case("Effect, aipw, all of a run over one site", effect_run(rows), again=False)


def steps_of(
    kinds: tuple[int, ...], models: tuple[Regression, ...], *, site_effect: bool
) -> RegressionSteps:
    widths = [1 + sum(max(kinds[v] - 1, 1) for v in model.predictors) for model in models]
    outputs = [max(kinds[model.response] - 1, 1) for model in models]
    lengths = [a * b for a, b in zip(widths, outputs, strict=True)]
    coefficients = np.concatenate([np.linspace(-0.1, 0.1, length) for length in lengths])
    lengths, members = pack_models(models)
    return RegressionSteps(
        categories=kinds,
        lengths=lengths,
        members=members,
        coefficients=np.ascontiguousarray(coefficients, dtype="<f8").tobytes(),
        site_effect=site_effect,
        **scales(len(kinds)),
    )


def effect_run(rows: SiteTable) -> Callable[[str], Callable[[], np.ndarray]]:
    third = np.array_split(np.arange(rows.rows), 3)
    parts = [rows.take(part) for part in third]
    algorithm = Effect(treatment="v001", outcome="v006", adjust="v000,v002,v003,v004,v005")

    def make(device: str) -> Callable[[], np.ndarray]:
        def answer() -> np.ndarray:
            concluded = driven(algorithm, parts, device, ()).conclusion
            return np.array([float(x) for x in FLOAT.findall(concluded)])

        return answer

    return make


def size(full: int, scale: float) -> int:
    """A part of a number, 20 at least."""
    return max(int(full * scale), min(full, 20))


def measured(case: Case, device: str) -> tuple[np.ndarray, dict[str, Any]]:
    """The answer, and medians of the milliseconds from the columns, and once more."""
    first: list[float] = []
    again: list[float] = []
    begun = time.perf_counter()
    while len(first) < REPEATS and (not first or time.perf_counter() - begun < SECONDS):
        start = time.perf_counter()
        ask = case.make(device)
        answer = ask()
        first.append(time.perf_counter() - start)
        if case.again and first[-1] < SECONDS:
            start = time.perf_counter()
            ask()
            again.append(time.perf_counter() - start)
    times: dict[str, Any] = {"from columns": round(1e3 * statistics.median(first), 2)}
    if again:
        times["again"] = round(1e3 * statistics.median(again), 2)
    return answer, times | {"runs": len(first)}


def compared(case: Case, devices: list[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {"case": case.name}
    answers = []
    for number, device in enumerate(devices):
        answer, times = measured(case, device)
        answers.append(answer)
        figures[f"{device} {number + 1}"] = times
    differ = apart(*answers)
    return figures | {"largest difference": differ, "same": differ <= case.tolerance}


def environment(devices: list[str]) -> dict[str, Any]:
    cards = [torch.cuda.get_device_name(d) for d in devices if d.startswith("cuda")]
    return {"cards": cards, "threads": torch.get_num_threads(), "cuda": torch.version.cuda}


def run_on_both(name: str, algorithm: Any, parts: list[SiteTable], labels, devices) -> dict:
    both = [driven(algorithm, parts, device, labels) for device in devices]
    seconds = [{kind: round(s, 3) for kind, s in run.seconds.items()} for run in both]
    return {"case": name} | agree(*both) | {"site seconds": seconds}


def work(arguments: Any, rng: np.random.Generator) -> Iterator[tuple[str, str, Callable]]:
    """Part of the figures, name, and what measures it, in the order in which data are drawn."""
    devices = arguments.devices
    for name, algorithm, kinds, labels in runs():
        whole = table(kinds, SMALL_ROWS, rng)
        parts = [whole.take(part) for part in np.array_split(np.arange(SMALL_ROWS), 3)]
        yield "runs", name, partial(run_on_both, name, algorithm, parts, labels, devices)
    for family in (of_numbers, of_both, of_categories):
        for case in family(arguments.scale, rng):
            yield "questions", case.name, partial(compared, case, devices)


def markdown(figures: dict) -> str:
    """Milliseconds of the large questions, and seconds of a site in whole runs."""
    first, second = figures["questions"][0] if figures["questions"] else {}, figures["devices"]
    devices = [name for name in first if name.startswith(("cpu", "cuda"))]
    card = ", ".join(second["cards"]) or "no card"
    lines = [
        f"A site's milliseconds (cpu: {second['threads']} threads; cuda: {card})",
        "",
        *markdown_table(
            ["question", *(f"{each}, {when}" for each in devices for when in TIMES)],
            [
                [
                    own["case"].replace("|S| = ", "S of "),
                    *(_timed(own, each, when) for each in devices for when in TIMES),
                ]
                for own in figures["questions"]
            ],
        ),
        "",
        "All sites' seconds in whole runs of 3 sites with few rows",
        "",
        *markdown_table(
            ["run", "cpu", "cuda", "largest difference of a sum"],
            [
                [
                    own["case"],
                    *(f"{sum(each.values()):.2f}" for each in own["site seconds"]),
                    f"{own['largest difference']:.1g}",
                ]
                for own in figures["runs"]
                if "error" not in own
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def _timed(line: dict, device: str, when: str) -> str:
    milliseconds = line.get(device, {}).get(when)
    return "" if milliseconds is None else f"{milliseconds:.0f}"


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("--devices", nargs=2, default=["cpu", "cuda"])
    options.add_argument("--scale", type=float, default=1.0, help="of the large questions")
    options.add_argument("--limit", type=float, default=240.0, help="seconds of all")
    arguments, begun = options.parse_args(), time.perf_counter()
    figures: dict[str, Any] = {
        "seed": arguments.seed, "tolerance": TOLERANCE, "kernel tolerance": KERNEL_TOLERANCE,
        "devices": environment(arguments.devices), "runs": [], "questions": [], "not run": [],
    }  # fmt: skip
    print(json.dumps(figures["devices"]), flush=True)
    for part, name, measure in work(arguments, np.random.default_rng(arguments.seed)):
        if time.perf_counter() - begun > arguments.limit:
            figures["not run"].append(name)
            continue
        try:
            line = measure()
        except Exception as error:  # noqa: BLE001 - the other cases are measured all the same
            line = {"case": name, "same": False, "error": f"{type(error).__name__}: {error}"[:500]}
        figures[part].append(line)
        print(json.dumps(line), flush=True)
        write_report(arguments.out, "devices", figures, markdown)
    print(f"{time.perf_counter() - begun:.0f} s; not run: {figures['not run']}", flush=True)
    lines = [*figures["runs"], *figures["questions"]]
    if wrong := [line["case"] for line in lines if not line["same"]]:
        sys.exit(f"different on {arguments.devices[1]}: {wrong}")


if __name__ == "__main__":
    main()
