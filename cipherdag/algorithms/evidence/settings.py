"""The settings of evidence from an algorithm's parameters, and what of them goes together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.parameters import require
from cipherdag.questions.ci_tests import CI_TESTS, CITestSpec
from cipherdag.questions.presence import Measured
from cipherdag.questions.scores.score_bits import LEAST_LEVEL
from cipherdag.questions.verdicts import FEWEST_SITES

if TYPE_CHECKING:
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
    from cipherdag.algorithms.fedfci.algorithm import FedFCI
    from cipherdag.algorithms.fedpc.algorithm import FedPC


def test_of(own: FedPC | FedFCI) -> CITestSpec:
    """The test that the parameters name."""
    return CITestSpec(alpha=own.alpha, name=own.test, dof=own.dof, kernel_rows=own.kernel_rows)


def settings_of(own: FedPC | FedFCI, facts: Facts) -> EvidenceSettings:
    """How the tests of a run are done."""
    return EvidenceSettings(
        spec=test_of(own),
        n_variables=facts.n_variables,
        max_cells=own.max_cells,
        max_rows=own.max_rows,
        site_effect=own.site_effect,
        interactions=own.interactions,
        present=facts.present,
        fewest=facts.fewest,
        measured=facts.measured,
        determined=facts.determined,
    )


def check_sites(own: FedPC | FedFCI | FedCMFS, n_sites: int) -> None:
    """Raise ParameterError where verdicts are to be found by too few sites."""
    require(
        not own.closed or n_sites >= FEWEST_SITES,
        f"reveal bits needs {FEWEST_SITES} sites, which hold shares of the sums",
    )


def check_closed(own: FedPC | FedFCI, *, beside: tuple[str, ...] = ()) -> None:
    """Refuse what verdicts are not enough for; ``beside``: what else decides than evidence."""
    takes = _alternatives(beside, (n for n, kind in EVIDENCE.items() if kind.close is not None))
    require(
        own.decided_by in beside or EVIDENCE[own.decided_by].close is not None,
        f"reveal bits needs evidence {takes}; of {own.decided_by} sums are opened",
    )
    if own.decided_by == "stratified":
        check_level(own.alpha)


def check_level(alpha: float) -> None:
    """Raise ParameterError where bits of scores are not found at so low a level."""
    require(
        alpha >= LEAST_LEVEL,
        f"reveal bits needs alpha {LEAST_LEVEL:g} or more, not {alpha:g}; reveal sums takes any",
    )


def check_measured(own: FedPC | FedFCI, measured: Measured) -> None:
    """Raise ParameterError where sites lack variables, and the evidence needs all of every site."""
    if measured.everywhere:
        return
    kind = EVIDENCE.get(own.decided_by)
    takes = _alternatives((), (name for name, other in EVIDENCE.items() if other.overlapping))
    require(
        kind is not None and kind.overlapping,
        f"sites lack variables, which evidence {takes} can do without; {own.decided_by} cannot",
    )
    require(
        own.colliders in ("auto", "p_value_drop") and getattr(own, "sepset", "max") == "max",
        "sites lack variables; then colliders p_value_drop alone tells of a middle that it was "
        "measured beside the ends",
    )


def check_test(own: FedPC | FedFCI, *, beside: tuple[str, ...] = ()) -> None:
    """Refuse a test that the evidence cannot take, and what only one kind of it has.

    ``beside``: what else than evidence decides, and takes any test.
    """
    for name in ("site_effect", "interactions"):
        given = getattr(own, name)
        require(not given or own.evidence == "glm", f"{name} needs evidence glm")
    kind = EVIDENCE.get(own.decided_by)
    others = _alternatives(beside, (name for name, other in EVIDENCE.items() if not other.tests))
    require(
        kind is None or not kind.tests or own.test in kind.tests,
        f"evidence {own.decided_by} has tests of its own, by the types of the columns; for test "
        f"{own.test} choose evidence {others}",
    )
    takes = _alternatives(beside, (name for name, other in EVIDENCE.items() if other.any_test))
    require(
        CI_TESTS[own.test].adds_up or kind is None or kind.any_test,
        f"test {own.test} needs evidence {takes}: its statistics do not add up over sites",
    )


def _alternatives(first: tuple[str, ...], rest: Iterable[str]) -> str:
    names = [*first, *rest]
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
