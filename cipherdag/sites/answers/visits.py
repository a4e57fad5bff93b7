"""Which questions a site answers where its rows are visits of patients."""

from __future__ import annotations

from cipherdag.errors import PolicyRefusedError
from cipherdag.questions.question import BY_PATIENT, Question

COUNTS_ROWS = "the question counts rows, and this site's rows are visits of patients"
SAY_VISITS = (
    "Plan with --visits SITE, in Python connect(visits=[...]), for each site whose rows are visits."
)


def check_visits(question: Question, visits: int) -> None:
    """Refuse a question that takes for persons the rows of patients with up to so many visits.

    Raises:
        PolicyRefusedError: It does, and a patient may have more than one.
    """
    if visits > 1 and not question.by_patient:
        raise PolicyRefusedError(COUNTS_ROWS, remedy=BY_PATIENT)
    if getattr(question, "visits", visits) < visits:
        what = "the plan takes rows for persons, and this site's are visits of patients"
        raise PolicyRefusedError(what, remedy=SAY_VISITS)
