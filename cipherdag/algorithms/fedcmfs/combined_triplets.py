"""FedCMFS's triplets by one test over all sites, in place of the mean of the sites' p-values."""

from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.settings import evidence_settings
from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.federated_test import MAX_VALUES_PER_ROUND, CachedFederatedCITest
from cipherdag.arrays import FloatVector
from cipherdag.questions.combined_evidence import (
    GRID_BITS,
    SMALLEST_P,
    CombinedEvidence,
    WeightedEvidence,
    combined_p,
)
from cipherdag.questions.encodings import by_owner, pack_blocks, segments
from cipherdag.questions.gather import gather, map_questions
from cipherdag.questions.question import Asking, Outcome, Question
from cipherdag.questions.threshold import sum_with_threshold
from cipherdag.statistics.outcome_cache import Keys, OutcomeCache, keys_of_tests, rows_of_keys

SLICE = 2_000_000
N_SUMS = 3  # n p, n r, n


def by_combination(asking: Asking[Outcome], min_contributors: int = 1) -> Asking[Outcome]:
    """A search whose questions, `WeightedEvidence`, are asked as `CombinedEvidence` of ``fisher``.

    It gets for every triplet the p-value over all sites, the strength where S is empty, and 1; or 0
    three times where the sites together cannot test it.
    """

    def answer(question: Question) -> Asking[FloatVector]:
        if not isinstance(question, WeightedEvidence):
            raise TypeError("only weighted evidence of triplets is combined")
        combined = CombinedEvidence.about(question, "fisher")
        sums = yield from sum_with_threshold(combined, min_contributors)
        p_value = combined_p(combined, sums)
        done = ~np.isnan(p_value)
        marginal = question.counts[0] if question.counts else 0
        strength = np.where(done, segments(combined.encodings, sums)[0], 0.0)[:marginal]
        return np.concatenate([np.nan_to_num(p_value), strength, done.astype(np.float64)])

    return map_questions(asking, answer)


def by_source(
    asking: Asking[Outcome], kind: CombinationMethod, facts: Facts, *, closed: bool = False
) -> Asking[Outcome]:
    """A search whose every question is answered by the p-values of a kind of evidence.

    It gets what `by_combination` gives; strengths are normal scores, or 0 where sums stay
    ``closed``. Comparisons of strengths are asked as they are, in as many rounds as keys need.
    """
    opened: list[CachedFederatedCITest] = []

    def answer(question: Question) -> Asking[FloatVector]:
        if question.opens_bits:
            comparisons = [_asked(part) for part in question.parts]
            verdicts = yield from gather(comparisons, most_values=MAX_VALUES_PER_ROUND)
            return np.concatenate(verdicts)
        if not isinstance(question, WeightedEvidence):
            raise TypeError("only weighted evidence of triplets is tested")
        if not opened:
            # the test that fits the columns may be the kind's own choice
            spec = replace(question.test, name="auto") if kind.own_tests else question.test
            settings = evidence_settings(facts, spec, question.max_rows, ranked=True)
            opened.append((yield from kind.source(settings, closed=closed)))
        tests = [rows.astype(np.int64) for rows in question.rows()]
        p_values = yield from opened[0].p_values(tests)
        p_value = np.concatenate([np.zeros(0), *p_values])
        done = ~np.isnan(p_value)
        strength = opened[0].strengths(tests[0]) if tests else np.zeros(0)
        return np.concatenate([np.nan_to_num(p_value), strength, done.astype(np.float64)])

    return map_questions(asking, answer)


def _asked(question: Question) -> Asking[FloatVector]:
    return (yield question)


def remember(asking: Asking[Outcome], min_contributors: int = 1) -> Asking[Outcome]:
    """Merge each round's questions into one about the distinct triplets not asked before.

    The questions are `WeightedEvidence`, or bundles of it, about one test; those that disclose bits
    are asked as they are. A round whose triplets are all known is not held; one with more than
    2,000,000 new triplets is held in slices. What too few sites contribute to is unreliable.
    """
    caches: dict[int, OutcomeCache] = {}

    def answer(question: Question) -> Asking[FloatVector]:
        if question.opens_bits:
            return (yield question)
        parts = question.parts
        triplets = [part for part in parts if isinstance(part, WeightedEvidence)]
        if len(triplets) != len(parts):
            raise TypeError("only weighted evidence of triplets is remembered")
        return (yield from _complete(triplets, caches, min_contributors))

    return map_questions(asking, answer)


def _complete(
    parts: list[WeightedEvidence], caches: dict[int, OutcomeCache], min_contributors: int
) -> Asking[FloatVector]:
    """The sums of all parts, laid out as each part's encodings say."""
    largest = max(len(part.counts) for part in parts)
    rows = [part.rows() for part in parts]
    keys = [
        keys_of_tests(np.concatenate([own[size] for own in rows if size < len(own)]))
        for size in range(largest)
    ]
    yield from _learn(parts[0], keys, caches, min_contributors)
    found = [caches[size].find(own)[0] for size, own in enumerate(keys)]
    answers: list[FloatVector] = []
    for part, own_sums in zip(parts, by_owner([p.counts for p in parts], found), strict=True):
        sums = np.concatenate([np.zeros((0, N_SUMS)), *own_sums])
        marginal = part.counts[0] if part.counts else 0
        answers += [sums[:, 0], sums[:marginal, 1], sums[:, 2]]
    return np.concatenate(answers)


def _learn(
    template: WeightedEvidence, keys: list[Keys], caches: dict[int, OutcomeCache], needed: int
) -> Asking[None]:
    """Ask for the distinct triplets that are not known yet."""
    unknown = []
    for size, own in enumerate(keys):
        cache = caches.setdefault(size, OutcomeCache(N_SUMS))
        distinct = np.unique(own)
        unknown.append(distinct[~cache.find(distinct)[1]])
    ends = np.cumsum([0, *(len(own) for own in unknown)])
    for start in range(0, int(ends[-1]), SLICE):
        stop = start + SLICE
        part = [
            own[max(start - first, 0) : max(min(stop, last) - first, 0)]
            for own, (first, last) in zip(unknown, pairwise(ends.tolist()), strict=True)
        ]
        counts, members = pack_blocks([rows_of_keys(own, size) for size, own in enumerate(part)])
        question = replace(template, counts=counts, members=members)
        sums = yield from sum_with_threshold(question, needed)
        total, marginal = sum(counts), counts[0]
        strengths = np.zeros(total)
        strengths[:marginal] = sums[total : total + marginal]
        table = np.column_stack([sums[:total], strengths, sums[total + marginal :]])
        done = 0
        for size, own in enumerate(part):
            caches[size].add(own, table[done : done + len(own)])
            done += len(own)


CORRELATION = "the absolute correlation, 0 to 1"
LIKELIHOOD = "twice the gain in log likelihood, in units of chi-square"
OF_TESTS = {
    "fisherz": CORRELATION,
    "g2": "G2, in units of chi-square",
    "pearson": "chi-square",
    "regression": LIKELIHOOD,
}
ANY = f"G2, in units of chi-square, where both are categories, and else of {CORRELATION}"
OF_EVIDENCE = {
    "fisher": "-2 ln p of the sites' tests, added up",
    "stratified": "the score of the test over all sites, in standard deviations from independence",
}


def measure(evidence: str, test: str) -> str:
    """What an opened strength is, as a phrase with its unit."""
    if evidence != "weighted_p":
        return OF_EVIDENCE[evidence]
    return f"mean over the sites, weighted by rows, of {OF_TESTS.get(test, ANY)}"


def least_p(evidence: str) -> float:
    """A p-value that is shown as 0 is below this: half a step of the grid, or the smallest."""
    return 0.5 / (1 << GRID_BITS) if evidence == "weighted_p" else SMALLEST_P
