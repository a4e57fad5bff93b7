"""What a run does not show, and what its sums told the coordinator, in plain sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.privacy.protections import protection_kind
from cipherdag.results.sentences import dropout_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.results.result import Result

FEWEST_SITES = 3

SUMMED_STATISTICS = (
    "For every test, the sums of the sites' statistics and of their degrees of freedom."
)
SUMMED_LOGARITHMS = "For every test, the sum of -2 ln p over the sites, and how many did it."
SUMMED_SCORES = "For every test, the sums of the sites' weighted z and of the squared weights."

# by algorithm, then by the value of a parameter; the empty one always holds
LEARNT = {
    "fedpc": {
        "evidence=vote": "For every layer, how many sites keep each edge.",
        "sepset=max": "For every pair with a common neighbour, the highest p-value at any site, "
        "but not at which, and the separating set that has it.",
        "sepset=mean": "For every candidate separating set, the mean p-value weighted by rows, and "
        "the rows of all sites together.",
        "sepset=vote": "For every candidate separating set, how many sites find the pair "
        "independent.",
    },
    "fedpc over all sites": {
        "evidence=statistic": SUMMED_STATISTICS,
        "evidence=fisher": SUMMED_LOGARITHMS,
        "evidence=stouffer": SUMMED_SCORES,
        "evidence=weighted_p": "For every test, the mean p-value over the sites, weighted by rows, "
        "and the rows of all sites together.",
        "evidence=pooled": "The contingency tables of the tests, or the moments, of all sites "
        "together: as much as the pooled data would show of them.",
    },
    "fedcmfs": {
        "evidence=weighted_p": "For every test, the mean p-value over the sites, weighted by rows, "
        "and the rows of all sites together; for every pair also the weighted mean strength.",
        "evidence=statistic": SUMMED_STATISTICS,
        "evidence=fisher": SUMMED_LOGARITHMS,
        "evidence=stouffer": SUMMED_SCORES,
    },
    "rfcd": {
        "objective=graph": "The largest regret over the sites of the best candidate graphs of "
        "every step, and lower bounds of the others; not at which site.",
        "objective=nodewise": "For every variable and candidate set of parents, the largest regret "
        "over the sites; not at which site.",
        "objective=sum": "For every variable and candidate set of parents, the sum of all sites' "
        "regrets.",
    },
    "fedcd": {
        "": "In every round and for every edge, the aggregated belief, and how many sites believe "
        "in it.",
        "aggregation=proximity": "How many sites intervened near an edge, but not which.",
        "aggregation=naive": "The rows of all sites together.",
    },
}


def learnt_sentences(result: Result | FeatureResult) -> list[str]:
    """What the opened sums told the coordinator."""
    parameters = {"evidence": "vote"} | dict(result.parameters)
    algorithm = result.algorithm
    if algorithm == "fedpc" and parameters["evidence"] != "vote":
        algorithm = "fedpc over all sites"
    chosen = {f"{name}={value}" for name, value in parameters.items()} | {""}
    said = [text for key, text in LEARNT.get(algorithm, {}).items() if key in chosen]
    if said and parameters.get("bootstrap"):
        said.append(
            f"All of this once more for each of {parameters['bootstrap']} replicates over rows "
            "that the sites drew from their own; which rows, only each site knows."
        )
    return said or ["The sums that the algorithm asks for; its documentation lists them."]


def limit_sentences(result: Result | FeatureResult, *, has_truth: bool = False) -> list[str]:
    """What to know before the result is used."""
    return list(_limits(result, has_truth=has_truth))


def _limits(result: Result | FeatureResult, *, has_truth: bool) -> Iterator[str]:
    if not (kind := protection_kind(result.protection)).protects:
        yield kind.disclosure
    yield (
        "An edge stands for a cause only if no unmeasured variable causes both of its ends, and if "
        "all sites have the same causal structure."
    )
    alpha, size = result.parameters.get("alpha"), result.parameters.get("max_cond_size")
    if alpha is not None:
        yield (
            f"Edges are decided by tests at level {alpha:g} on finite data: some will be wrong, "
            "and a missing edge may be a weak effect or too few rows."
        )
    if size is not None:
        yield (
            f"No test conditioned on more than {size} variable{'s' * (size != 1)}, so two "
            "variables that only a larger set separates keep their edge."
        )
    yield from _own_limits(result)
    if not has_truth:
        yield "No truth was given, so nothing here says how accurate the result is."
    for dropout in result.dropouts:
        yield dropout_line(dropout)
    if len(result.sites) < FEWEST_SITES:
        yield "With fewer than three sites, a site can take its own part off a sum."
    yield (
        "A sum is not protected: what all sites have in common is visible in it, and a run "
        "repeated without one site would show that site's part."
    )


def _own_limits(result: Result | FeatureResult) -> Iterator[str]:
    from cipherdag.results.result import Result

    if isinstance(result, Result):
        if result.graph.undirected:
            yield (
                "An edge without an arrow has a direction in reality; these data and tests cannot "
                "tell which."
            )
        if result.dag_note:
            yield result.dag_note
        if "bootstrap" in result.details:
            yield (
                "A strength says how often an edge comes back when the sites draw their rows anew. "
                "Rows drawn twice look like evidence to a test, so a weak edge comes back more "
                "often than it would with new rows."
            )
        return
    yield (
        "Strengths and p-values are those of a feature and a label alone; a feature is selected "
        "because no set of other features explains it away."
    )
    if result.untested:
        yield f"No site could test {', '.join(result.untested)}."
