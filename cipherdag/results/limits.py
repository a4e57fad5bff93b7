"""What to know before a result is used, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cipherdag.privacy.protections import protection_kind
from cipherdag.results.sentences import dropout_line

if TYPE_CHECKING:
    from cipherdag.results.run import Run

FEWEST_SITES = 3


def limit_sentences(run: Run, own: Iterable[str], *, has_truth: bool) -> Iterator[str]:
    """The limits of a result.

    Args:
        run: The result.
        own: Limits of what was found, and of the algorithm.
        has_truth: Whether the report says how accurate it is.
    """
    if not (kind := protection_kind(run.protection)).protects:
        yield kind.disclosure
    if run.keys:
        yield run.keys
    if run.of_causes:
        yield from _of_causes(run)
    yield from own
    if run.of_causes and not has_truth:
        yield "No truth was given, so nothing here says how accurate the result is."
    for dropout in run.dropouts:
        yield dropout_line(dropout)
    if len(run.sites) < FEWEST_SITES:
        yield "With fewer than three sites, a site can take its own part off a sum."
    if run.opens_bits:
        yield (
            "A bit is not protected: whether each test says dependent over all sites together is "
            "open. Two of the parties that compute the bits could open the sums together."
        )
        return
    yield (
        "A sum is not protected: what all sites have in common is visible in it, and a run "
        "repeated without one site would show that site's part."
    )


def _of_causes(run: Run) -> Iterator[str]:
    yield (
        "An edge stands for a cause only if no unmeasured variable causes both of its ends, and if "
        "all sites have the same causal structure."
    )
    alpha, size = run.parameters.get("alpha"), run.parameters.get("max_cond_size")
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
