"""A coordinator that carries a plan out for some rounds; what it says next is the test's."""

import msgspec
from adversary import Ward, refused

from cipherdag import FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.privacy.wire import decode
from cipherdag.program.replay import Replay
from cipherdag.protocol.messages import Ask, Share, content_digest, read_envelope
from cipherdag.sites.record.ledger import read_releases

PLANNED = FedPC(evidence="vote")


class Halfway:
    """A run of the plan, stopped after some rounds; its next messages are the test's."""

    def __init__(self, rounds=2, protection="masking", algorithm=PLANNED, ward=None):
        self.ward = ward or Ward(protection, n_sites=4, algorithm=algorithm)
        self.session = self.ward.session
        self.everyone = tuple(range(len(self.ward.runtimes)))
        plan, n_variables = self.session._plan, self.session.open()
        min_contributors = plan.min_contributors
        facts = Facts(
            n_variables, len(self.everyone), seed=plan.seed, min_contributors=min_contributors
        )
        self.replay = Replay(algorithm.ask(facts))
        self.question = self.replay.advance(1, None)
        self.questions, self.packed = [], []
        for step in range(1, rounds + 1):
            self.questions.append(self.question)
            self.question = self.replay.advance(step + 1, self.session.ask(self.question))
            self.packed.append(self.session._previous)
        self.opened = self.seeds_that_left()

    def ask(self, **changes):
        """The honest request that comes next, but for some changes."""
        honest = Ask(
            number=self.session._number + 1,
            participants=self.everyone,
            step=self.session._step + 1,
            content=content_digest(self.question),
            previous=self.session._previous,
        )
        return msgspec.structs.replace(honest, **changes)

    def reply(self, operation, body, site="hospital-0"):
        return self.ward.runtimes[site].handle(operation, self.ward.message(operation, body))

    def refusals(self, operation, body):
        """What every site says; none of them opens anything."""
        found = {refused(self.reply(operation, body, site)) for site in self.ward.runtimes}
        assert self.seeds_that_left() == self.opened
        return found

    def seeds_that_left(self):
        return {
            site: [
                record.round
                for record in read_releases(ledger.lines)
                if record.kind == "mask-seeds"
            ]
            for site, ledger in self.ward.ledgers.items()
        }

    def answers(self):
        """What the sites say to the honest request after all."""
        asked = {site: self.reply("ask", self.ask(), site) for site in self.ward.runtimes}
        return {site: decode(read_envelope(reply).body, Share) for site, reply in asked.items()}
