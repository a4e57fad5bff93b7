"""Plans that are whatever a test asks: coordinator and sites read on in the same script.

And, with the same methods, plans of the algorithms that the sites have installed.
"""

import msgspec
from site_logs import REASONS, reason_since

from cipherdag.algorithms.registry import program_digest
from cipherdag.errors import SiteUnreachableError
from cipherdag.program.program import Program, installed_program
from cipherdag.program.replay import Replay
from cipherdag.program.versions import computed_with
from cipherdag.protocol.messages import Ask, content_digest
from cipherdag.protocol.session import Session


class ScriptedSession(Session):
    """A session whose plan grows by every question that the test asks.

    Where sites refuse and too few are left, it raises what the first of them wrote into its log.
    """

    def __init__(self, *arguments, script, **options):
        super().__init__(*arguments, **options)
        self.script = script

    def ask(self, question, skeleton=None):
        if self._step == len(self.script):
            self.script.append(question)
        known = len(REASONS)
        try:
            return super().ask(question, skeleton)
        except SiteUnreachableError as error:
            if len(REASONS) > known:
                raise reason_since(known) from error
            raise


class Scripts:
    """What every plan asks, as far as the test has come."""

    def __init__(self):
        self._scripts = {}

    def of(self, plan):
        """The script of a plan; it may be added to."""
        return self._scripts.setdefault(plan.session, [])

    def program(self, plan, facts):
        """What a site runs in the place of an algorithm."""
        return Program(Replay(_read_out(self.of(plan))), facts)

    def session(self, engine, identity, plan, **options):
        """A session over sites that run `program`."""
        return ScriptedSession(engine, identity, plan, script=self.of(plan), **options)

    def asking(self, plan, question, *, number=1, participants=None, step=1, previous=b""):
        """The request that a coordinator sends for a question which the plan asks in a step."""
        script = self.of(plan)
        del script[step - 1 :]
        script.append(question)
        everyone = tuple(range(len(plan.cohort)))
        return Ask(
            number=number,
            participants=everyone if participants is None else participants,
            step=step,
            content=content_digest(question),
            previous=previous,
        )


class Installed:
    """What the sites have installed; each of them runs its own."""

    def program(self, plan, facts):
        """What a site runs."""
        return installed_program(plan, facts)

    def session(self, engine, identity, plan, **options):
        """A session over sites that run `program`."""
        return Session(engine, identity, plan, **options)


def about(algorithm):
    """What a plan says of an algorithm with its parameters."""
    return {
        "algorithm": algorithm.name,
        "parameters": msgspec.to_builtins(algorithm),
        "program": program_digest(algorithm.name),
        "versions": computed_with(),
    }


def _read_out(script):
    step = 0
    while step < len(script):
        yield script[step]
        step += 1
