"""What a run does not show, and what its sums told the coordinator, in plain sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.terminal import dropout_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cipherdag.feature_result import FeatureResult
    from cipherdag.result import Result

FEWEST_SITES = 3

# by algorithm, then by the parameter `sepset` where the algorithm has it
LEARNT = {
    "fedpc": {
        "": "For every layer, how many sites keep each edge.",
        "max": "For every pair with a common neighbour, the highest p-value at any site, but not "
        "at which, and the separating set that has it.",
        "mean": "For every candidate separating set, the mean p-value weighted by rows, and the "
        "rows of all sites together.",
        "vote": "For every candidate separating set, how many sites find the pair independent.",
    },
    "fedcmfs": {
        "": "For every test, the mean p-value over the sites, weighted by rows, and the rows of "
        "all sites together; for every pair also the weighted mean strength.",
    },
}
PROTECTIONS = {
    "masking": "Every answer was masked before it left. To the coordinator, and to whoever reads "
    "the network, a masked answer is noise; the masks cancel only in the sum over all sites.",
    "bfv": "Every answer was encrypted (BFV) before it left. The coordinator has no key; one of "
    "the sites opens the sum over all sites, and nothing else can be opened.",
    "none": "Answers left the sites in the clear: the coordinator saw every site's own answers. "
    "This is for debugging on made-up data.",
}


def learnt_sentences(result: Result | FeatureResult) -> list[str]:
    """What the opened sums told the coordinator."""
    known = LEARNT.get(result.algorithm, {})
    wanted = ("", str(result.parameters.get("sepset", "")))
    said = [known[key] for key in wanted if key in known]
    return said or ["The sums that the algorithm asks for; its documentation lists them."]


def limit_sentences(result: Result | FeatureResult, *, has_truth: bool = False) -> list[str]:
    """What to know before the result is used."""
    return list(_limits(result, has_truth=has_truth))


def _limits(result: Result | FeatureResult, *, has_truth: bool) -> Iterator[str]:
    if result.protection == "none":
        yield PROTECTIONS["none"]
    yield (
        "An arrow is a cause only if no unmeasured variable causes both of its ends, and if all "
        "sites have the same causal structure."
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
        yield "No true graph was given, so nothing here says how accurate the result is."
    for dropout in result.dropouts:
        yield dropout_line(dropout)
    if len(result.sites) < FEWEST_SITES:
        yield "With fewer than three sites, a site can take its own part off a sum."
    yield (
        "A sum is not protected: what all sites have in common is visible in it, and a run "
        "repeated without one site would show that site's part."
    )


def _own_limits(result: Result | FeatureResult) -> Iterator[str]:
    from cipherdag.result import Result

    if isinstance(result, Result):
        if result.graph.undirected:
            yield (
                "An edge without an arrow has a direction in reality; these data and tests cannot "
                "tell which."
            )
        if result.dag_note:
            yield result.dag_note
        return
    yield (
        "Strengths and p-values are those of a feature and a label alone; a feature is selected "
        "because no set of other features explains it away."
    )
    if result.untested:
        yield f"No site could test {', '.join(result.untested)}."
