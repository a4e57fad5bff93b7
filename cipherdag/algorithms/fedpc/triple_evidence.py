"""What tests say of an unshielded triple, in words, and which triples a graph has otherwise.

Leaks:
    Nothing new: separating sets and their p-values were opened by the run; see `FedPC`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.algorithms.fedpc.untested import support_told
from cipherdag.findings.unresolved import Saying, UnresolvedTriple
from cipherdag.graphs.orientation import Triple
from cipherdag.graphs.resolution import unshielded_colliders


def unresolved_triples(
    outcome: FedPCOutcome, names: Sequence[str], rule: str, *, closed: bool
) -> tuple[UnresolvedTriple, ...]:
    """The triples that the graph has otherwise than tests say, or of which they do not clearly say.

    Args:
        outcome: The run's; one by the reference ``code`` has none of these.
        names: Of the variables.
        rule: What judged triples, of FedPC's `colliders`.
        closed: Whether nothing but verdicts was opened.
    """
    if (found := outcome.in_class) is None:
        return ()
    stands, open_triples = set(unshielded_colliders(found.dag)), set(outcome.ambiguous)
    against = {*found.set_aside, *found.forced, *open_triples}
    rows = []
    for x, y, z in sorted(against):
        says: Saying = "collider" if (x, y, z) in found.set_aside else "no collider"
        rows.append(
            UnresolvedTriple(
                first=names[x],
                middle=names[y],
                last=names[z],
                tests_say="open" if (x, y, z) in open_triples else says,
                evidence=_evidence(outcome, names, (x, y, z), rule, closed=closed),
                stands_as="collider" if (x, y, z) in stands else "no collider",
            )
        )
    return tuple(rows)


def _evidence(
    outcome: FedPCOutcome, names: Sequence[str], triple: Triple, rule: str, *, closed: bool
) -> str:
    """What tests say of a triple, in words; "" where they say nothing."""
    x, y, z = triple
    if outcome.colliders is not None:
        clear = outcome.clarity.get(triple)
        return "" if clear is None else _clarity(clear, names[y], rule, closed=closed)
    given = outcome.separators.get((x, z))
    if given is None:
        return ""
    told = support_told(outcome.support[x, z], (x, z), given, outcome.fallen)
    side = "with" if y in given else "without"
    return f"the two are independent given {_set(given, names)}, {side} {names[y]} ({told})"


def _clarity(clear: float, middle: str, rule: str, *, closed: bool) -> str:
    """What all sets of the ends say of a middle."""
    if rule != "p_value_drop":
        return f"{clear:.0%} of the sets that separate the two are without {middle}"
    if clear == 1.0:
        return f"no set tells what {middle} does as it joins"
    turn, way = ("dependent", "falls") if clear > 1.0 else ("independent", "rises")
    if closed:
        return f"on balance the two turn {turn} as {middle} joins"
    fold = max(clear, 1.0 / clear)
    return f"p of the two {way} {fold:.3g}-fold, on average, as {middle} joins"


def _set(given: Collection[int], names: Sequence[str]) -> str:
    return ", ".join(sorted(names[v] for v in given)) or "nothing"
