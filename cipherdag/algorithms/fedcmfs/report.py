"""What FedCMFS's numbers mean: units of a strength, and the least p-value told apart from 0."""

from __future__ import annotations

from cipherdag.questions.combined_evidence import SMALLEST_P
from cipherdag.questions.weighted_evidence import GRID_BITS

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
