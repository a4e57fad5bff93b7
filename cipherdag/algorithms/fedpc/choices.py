"""Which of FedPC's choices go together, and which of them only votes have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.parameters import require
from cipherdag.questions.ci_tests import CI_TESTS
from cipherdag.questions.verdicts import FEWEST_SITES

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
        _check_closed(own)
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
    for name in ("site_effect", "interactions"):
        given = getattr(own, name)
        require(not given or own.evidence == "glm", f"{name} needs evidence glm")
    _check_test(own)


def check_sites(own: FedPC, n_sites: int) -> None:
    """Raise ParameterError where verdicts are to be found by too few sites."""
    require(
        not own.closed or n_sites >= FEWEST_SITES,
        f"reveal verdicts needs {FEWEST_SITES} sites: one blinds a sum, two others compare it",
    )


def _check_closed(own: FedPC) -> None:
    """Refuse what verdicts are not enough for."""
    voting = own.decided_by == "vote"
    takes = ["vote", *(name for name, kind in EVIDENCE.items() if kind.close is not None)]
    require(
        own.decided_by in takes,
        f"reveal verdicts needs evidence {', '.join(takes[:-1])} or {takes[-1]}; of "
        f"{own.decided_by} sums are opened",
    )
    require(
        not voting or own.sepset == "max",
        f"reveal verdicts needs sepset max: for {own.sepset} sums over all candidate sets are "
        "opened",
    )
    require(
        own.colliders != "joining",
        "colliders joining compares p-values, and reveal verdicts opens none; choose majority, "
        "conservative or sepset",
    )


def _check_test(own: FedPC) -> None:
    """Refuse a test that the evidence cannot take."""
    kind = EVIDENCE.get(own.decided_by)
    others = ["vote", *(name for name, other in EVIDENCE.items() if not other.tests)]
    require(
        kind is None or not kind.tests or own.test in kind.tests,
        f"evidence {own.decided_by} has tests of its own, by the types of the columns; for test "
        f"{own.test} choose evidence {', '.join(others[:-1])} or {others[-1]}",
    )
    takes = ["vote", *(name for name, other in EVIDENCE.items() if other.any_test)]
    require(
        CI_TESTS[own.test].adds_up or own.decided_by in takes,
        f"test {own.test} needs evidence {', '.join(takes[:-1])} or {takes[-1]}: its "
        "statistics do not add up over sites",
    )
