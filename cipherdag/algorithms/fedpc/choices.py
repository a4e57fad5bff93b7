"""Which of FedPC's choices go together, and which of them only votes have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.algorithms.evidence.settings import check_closed, check_test
from cipherdag.algorithms.parameters import require

if TYPE_CHECKING:
    from cipherdag.algorithms.fedpc.algorithm import FedPC

VOTE_SHARE = 0.3
"""The paper's."""


def only_of_votes(own: FedPC) -> bool:
    """Whether a choice is made that only votes have, so that evidence ``auto`` means them."""
    return own.reference != "auto" or own.sepset in ("mean", "vote") or own.vote_share != VOTE_SHARE


def check_choices(own: FedPC) -> None:
    """Refuse choices that do not go together.

    Raises:
        ParameterError: The first two that do not.
    """
    voting = own.decided_by == "vote"
    if own.closed:
        check_closed(own, beside=("vote",))
        require(
            not voting or own.sepset == "max",
            f"reveal bits needs sepset max: for {own.sepset} sums over all candidate sets are "
            "opened",
        )
    choices = ("max", "mean", "vote") if voting else ("max", "search")
    require(
        own.sepset in choices,
        f"sepset must be one of {', '.join(choices)} with evidence {own.decided_by}",
    )
    require(
        not voting or own.colliders in ("auto", "sepset"),
        f"colliders {own.colliders} needs other evidence than vote, of which the coordinator "
        "learns no set but the chosen one",
    )
    require(
        voting or own.reference != "code",
        "reference code is the original program, whose evidence is the vote",
    )
    require(
        own.knowledge is None or own.reference != "code",
        "reference code is the original program, which takes no knowledge",
    )
    check_test(own, beside=("vote",))
