"""Stops an algorithm whose sums must all cover the same sites once a site leaves."""

from cipherdag.arrays import FloatVector
from cipherdag.errors import SiteUnreachableError
from cipherdag.questions.gather import map_questions
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Asking, Outcome, Question


def over_one_cohort(asking: Asking[Outcome], present: Presence) -> Asking[Outcome]:
    """Pass a search's questions on until a site leaves; then SiteUnreachableError.

    A maximum learnt before need not hold for the sites that remain. To ask again for what was
    disclosed with the site that left would show that site's answer.
    """
    covered = present.n_sites

    def answer(question: Question) -> Asking[FloatVector]:
        sums = yield question
        if present.n_sites != covered:
            raise SiteUnreachableError(
                f"a site left: sums over {present.n_sites} sites do not go together with those "
                f"over {covered}",
                remedy="Bring the site back and start a new run.",
            )
        return sums

    return map_questions(asking, answer)
