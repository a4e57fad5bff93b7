"""What a site sends beside answers: what a ledger calls it, and what it is in words."""

from __future__ import annotations

from dataclasses import dataclass

REFUSAL = "refusal"
REPEAT = "repeat"
REPAIRED = "repaired-line"
ENGINE_START = "engine-start"


@dataclass(frozen=True, slots=True)
class ReleaseKind:
    """One kind of release that answers no question.

    Attributes:
        name: What the ledger calls it.
        phrase: What it is.
        seen: What follows its size in a sentence; ``{sites}`` is how many a sum covers.
        operations: What it replies to, if always the same.
    """

    name: str
    phrase: str
    seen: str = ""
    operations: tuple[str, ...] = ()


_KINDS = (
    ReleaseKind("offer", "fresh public keys", operations=("invite",)),
    ReleaseKind("seals", "key agreement with the other sites", operations=("offers", "chances")),
    ReleaseKind(
        "chance",
        "a random number that it had committed to",
        ", one of those by which keys are dealt out",
        operations=("commitments",),
    ),
    ReleaseKind(
        "schema-digest",
        "a keyed digest of the schema",
        ", from which no name can be read without the sites' common key",
        operations=("sealed", "linked"),
    ),
    ReleaseKind(
        "label-positions",
        "positions of the labels among the identifiers",
        ", the same at every site, seen by the coordinator",
    ),
    ReleaseKind(
        "relations",
        "which variables the schema says to follow from others, by position",
        ", the same at every site, seen by the coordinator",
    ),
    ReleaseKind(
        "mask-seeds",
        "the seed of this round's own mask, which the sum needs",
        operations=("unmask",),
    ),
    ReleaseKind("mask-piece", "a piece of the mask of a site that left", operations=("recover",)),
    ReleaseKind(
        "opened-sum",
        "the opened sum over all sites",
        ", the sum over {sites} sites, seen by the coordinator and the opening site",
        operations=("open",),
    ),
    ReleaseKind(
        "secure-step",
        "a step of secure tests",
        ", sealed, or keys that say nothing without a seed; the last one the bits, seen by "
        "everybody",
        operations=("secure",),
    ),
    ReleaseKind("blinded-sum", "the opened sum over all sites, blinded, in an earlier revision"),
    ReleaseKind("verdict-shares", "shares of the verdicts, in an earlier revision"),
    ReleaseKind(
        "closed", "a digest of the result, and the head of the ledger", operations=("finish",)
    ),
    ReleaseKind(REFUSAL, "a refusal"),
    ReleaseKind(REPEAT, "a reply that was sent before, once more"),
    ReleaseKind(REPAIRED, "a record that a crash cut short was taken off the ledger"),
    ReleaseKind(ENGINE_START, "a start of the process that carries messages; nothing left"),
)
RELEASE_KINDS = {kind.name: kind for kind in _KINDS}
REPLY_KINDS = {operation: kind.name for kind in _KINDS for operation in kind.operations}
"""What a reply is called, by operation; a share is called after its questions."""


def answers(kind: str) -> bool:
    """Whether a release of this kind answers a question."""
    return kind.split("+", maxsplit=1)[0] not in RELEASE_KINDS
