"""False edges where a common cause acts along a curve, and power on normal data.

    python benchmarks/curved_confounding.py --out benchmarks/results/curved_confounding

Every test is of a pair x, y that is independent given S: both are f(s) of the first number of S,
plus half the second, plus noise of deviation 0.7. Numbers of S are normal, with correlations of
about 0.4. ``product`` is s times the second number; ``counts with zeros`` are Poisson with the mean
exp(0.7 s + 0.3), 0 where a coin with the log odds 1.5 of the last number falls so. ``power`` has
linear causes, and y depends on x so that a test of all rows finds about four of five. ``mixed`` has
a step, and x is whether its noisy cause is above 0. Every rate is that of one threshold for all
sites' scores at level 0.01. ``before`` fits squares alone, from ten rows per coefficient on, as the
package did; it is written down here. The seed is none that the basis was chosen with.
"""

from __future__ import annotations

import zlib

import numpy as np
from markdown_table import table
from measuring import parser, write_report
from scipy.stats import norm

from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.score_sums import RaoSums
from cipherdag.sites.answers.site_view import SiteView

LEVEL, NOISE = 0.01, 0.7
LAYOUTS = {"3 x 200": (200,) * 3, "10 x 50": (50,) * 10, "2,000 and 9 x 50": (2000, *(50,) * 9)}
CURVES = {
    "tanh(3 s)": lambda s: np.tanh(3.0 * s),
    "sin(2 s)": lambda s: np.sin(2.0 * s),
    "exp(0.8 s)": lambda s: np.exp(0.8 * s),
    "absolute": np.abs,
    "square": np.square,
    "step": lambda s: (s > 0.0).astype(float),
}
WORLDS = (*CURVES, "product", "counts with zeros", "mixed", "power")
NEEDED = 3.5
"""Noncentrality of ``power``."""
GIVEN = (1, 2, 3)
AT_ONCE = 50


def main() -> None:
    options = parser(__doc__, seed=6169)
    options.add_argument("--tests", type=int, default=400)
    options.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=[*LAYOUTS])
    arguments = options.parse_args()
    cases = []
    for layout in arguments.layouts:
        for given in GIVEN:
            for world in WORLDS:
                if given > 1 or world not in ("product", "counts with zeros"):
                    tests = arguments.tests * (5 if world == "power" else 1)
                    tests = tests // 4 if world == "mixed" else tests
                    head = {"world": world, "sites": layout, "given": given, "tests": tests}
                    cases.append(head | rates(world, layout, given, tests, arguments.seed))
                    print(cases[-1], flush=True)
    report = {"seed": arguments.seed, "cases": cases}
    write_report(arguments.out, "curved_confounding", report, markdown)


def rates(world: str, layout: str, given: int, tests: int, seed: int) -> dict:
    """The share of tests that say dependent, with today's basis and with squares alone."""
    rng = np.random.default_rng((seed, zlib.crc32(f"{world} {layout} {given}".encode())))
    counts, rejected = LAYOUTS[layout], np.zeros(2)
    line = norm.isf(LEVEL / 2.0) ** 2
    for start in range(0, tests, AT_ONCE):
        size = min(AT_ONCE, tests - start)
        total = np.zeros((2, 2, size))
        for rows in counts:
            drawn = draw(world, rows, sum(counts), (size, given), rng)
            total[0] += now(drawn, sum(counts), mixed=world == "mixed")
            if world != "mixed":
                total[1] += before(drawn)
        score, variance = total[:, 0], total[:, 1]
        rejected += (score**2 > line * np.maximum(variance, 1e-9)).sum(axis=1)
    found = {"now": float(rejected[0]) / tests}
    return found if world == "mixed" else found | {"before": float(rejected[1]) / tests}


def draw(world: str, rows: int, all_rows: int, shape: tuple[int, int], rng) -> np.ndarray:
    """Tests' rows, (tests, rows, 2 + given): x, y, and S."""
    tests, given = shape
    s = rng.standard_normal((tests, rows, given))
    for k in range(1, given):
        s[:, :, k] = 0.4 * s[:, :, k - 1] + 0.9 * s[:, :, k]
    noise = rng.standard_normal((2, tests, rows))
    x, y = NOISE * noise
    if world == "counts with zeros":
        mean = np.exp(0.7 * s[:, :, 0] + 0.3)
        there = 1.0 / (1.0 + np.exp(-1.5 * s[:, :, -1]))
        x, y = (rng.poisson(mean) * (rng.random(mean.shape) < there) for _ in range(2))
    elif world == "product":
        x, y = (own + s[:, :, 0] * s[:, :, 1] for own in (x, y))
    elif world == "power":
        y = y + NEEDED / np.sqrt(all_rows) * x
        x, y = (own + 0.4 * s.sum(axis=2) for own in (x, y))
    else:
        curve = CURVES["step" if world == "mixed" else world](s[:, :, 0])
        curve = curve + (0.5 * s[:, :, 1] if given > 1 else 0.0)
        x, y = x + curve, y + curve
        if world == "mixed":
            x = x > 0.5
    return np.concatenate([np.stack([x, y], axis=2), s], axis=2).astype(float)


def now(drawn: np.ndarray, all_rows: int, *, mixed: bool) -> np.ndarray:
    """U and V of every test, (2, tests), as a site answers."""
    tests, rows, width = drawn.shape
    categories = (2, *(0,) * (width - 1)) * tests if mixed else (0,) * (width * tests)
    values = drawn.transpose(1, 0, 2).reshape(rows, -1)
    numbers = np.array(categories) == 0
    codes = np.where(numbers, -1, values).astype(np.int64)
    view = SiteView(
        codes if mixed else None, np.where(numbers, values, np.nan), categories, ordered=()
    )
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(width - 2)]
    asked = np.arange(width * tests).reshape(tests, width)
    counts, members = pack_blocks([*empty, asked])
    question = RaoSums(categories, counts, members, all_rows, max_rows=1 << 15)
    found = question.read(view.answer(question))
    return np.array([found.scores, found.means])


def before(drawn: np.ndarray) -> np.ndarray:
    """U and V of every test, (2, tests), with squares of S alone."""
    tests, rows, width = drawn.shape
    s = drawn[:, :, 2:]
    s = (s - s.mean(axis=1, keepdims=True)) / s.std(axis=1, keepdims=True)
    parts = [np.ones((tests, rows, 1)), s]
    if rows >= 10 * (2 * (width - 2) + 2):
        parts.append(s**2)
    design = np.concatenate(parts, axis=2)
    spanned = np.linalg.qr(design)[0]
    left = drawn[:, :, :2] - spanned @ (spanned.swapaxes(1, 2) @ drawn[:, :, :2])
    rest = rows - design.shape[2]

    def standard(values):
        return values / np.sqrt((values**2).sum(axis=1, keepdims=True) / rest)

    left = np.clip(standard(left), -2.5, 2.5)
    left = np.clip(standard(left - left.mean(axis=1, keepdims=True)), -4.0, 4.0)
    product = left.prod(axis=2)
    variance = np.maximum((product**2).sum(axis=1) * rows / rest, 2.0 / 3.0 * rest)
    return np.array([product.sum(axis=1), variance])


def markdown(report: dict) -> str:
    """Shares that say dependent at level 0.01, now and with squares alone in brackets."""
    places = list(dict.fromkeys((case["sites"], case["given"]) for case in report["cases"]))
    by_cell = {(case["world"], case["sites"], case["given"]): case for case in report["cases"]}
    rows = []
    for world in WORLDS:
        cells = []
        for place in places:
            case = by_cell.get((world, *place))
            earlier = f" ({case['before']:.3f})" if case and "before" in case else ""
            cells.append(f"{case['now']:.3f}{earlier}" if case else "")
        rows.append([world, *cells])
    head = [f"{sites}, given {given}" for sites, given in places]
    return "\n".join(table(["common cause acts by", *head], rows)) + "\n"


if __name__ == "__main__":
    main()
