"""What parties see of secure tests, whether alone or together, and whether it is noise.

A `Coalition` puts together what it was sent and what its members know beside that. Of a simulated
run the sums are others wherever the trust table says that the coalition learns verdicts only
(``docs/explanation/bits.md``).
"""

import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import stats
from simulated_view import BODIES, outline

from cipherdag.privacy.mpc.holding import Holding
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.privacy.mpc.words import low_bits
from cipherdag.privacy.wire import decode
from cipherdag.protocol.messages import read_envelope

COORDINATOR = -1
ONCE_IN = 1e-9
"""How rarely noise is taken for something else, test by test."""


@dataclass
class Compared:
    """All that is found in one round of secure tests, whoever it is that knows it.

    Attributes:
        roles: Who has which role.
        sums: Of the sites' words.
        masked: The opened forms, as parts of their rings.
        labels: The opened labels, as parts of 2**64; the one of the range is last.
        verdicts: What everybody is told.
    """

    roles: Any
    sums: np.ndarray
    masked: np.ndarray = field(default_factory=lambda: np.zeros(0))
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    verdicts: np.ndarray = field(default_factory=lambda: np.zeros(0))


@contextmanager
def overheard():
    """Rounds of secure tests by number, with what the sites answer and the holders open."""
    rounds: dict[int, Compared] = {}
    share, compare, open_ = Seat.share, Holding.compare, Holding.open

    def sharing(seat, values):
        batch = seat.batch
        own = rounds.setdefault(batch.attempt, Compared(batch.roles, np.zeros_like(values)))
        own.sums = own.sums + values
        return share(seat, values)

    def comparing(holding, other):
        batch = holding._batch
        opened = holding._forms + batch.forms.unpack(other)
        parts_of_rings = (opened & low_bits(batch.widths)) / 2.0**batch.widths
        rounds[batch.attempt].masked = parts_of_rings
        return compare(holding, other)

    def opening(holding, other):
        own = rounds[holding._batch.attempt]
        own.labels = (holding._labels + np.frombuffer(other, dtype="<u8")) / 2.0**64
        own.verdicts = open_(holding, other)
        return own.verdicts

    with (
        patch.object(Seat, "share", sharing),
        patch.object(Holding, "compare", comparing),
        patch.object(Holding, "open", opening),
    ):
        yield rounds


@dataclass(frozen=True)
class Coalition:
    """Sites by position, with or without the coordinator, that put together what they see."""

    members: frozenset[int]

    def __str__(self):
        own = ("coordinator" if site == COORDINATOR else str(site) for site in sorted(self.members))
        return " and ".join(own)

    def learns_sums(self, roles):
        """Whether the trust table says that it learns sums: two roles but dealer and twin."""
        held = self.members & set(roles.sites)
        return len(held) > 1 and held != {roles.dealer, roles.twin}

    def noise(self, own):
        """What it sees of a round beside verdicts, as parts of 1; noise if all is well."""
        if not self.members & set(own.roles.holders):
            return {}
        return {"masked forms": own.masked, "labels": own.labels}

    def told(self, engine, names):
        """Every message to its sites: who says what, every number in it, how long the rest is."""
        own = {names[site] for site in self.members if site != COORDINATOR}
        return [(step, site, _outline(m)) for step, site, m in engine.sent if site in own]


def told_apart(coalition, real, made, *, once_in=ONCE_IN):
    """By what the view of a real run is told from a simulated one; by nothing if all is well.

    Noise is taken for something else ``once_in`` so many samples; a larger share finds more.
    """
    names = [member.name for member in real.plan.cohort]
    found = set()
    if coalition.told(real.engine, names) != coalition.told(made.engine, names):
        found.add("messages")
    samples: tuple[dict, dict] = ({}, {})
    for number, own in real.compared.items():
        other = made.compared[number]
        if (own.verdicts != other.verdicts).any():
            found.add("verdicts")
        if coalition.learns_sums(own.roles):
            if (own.sums != other.sums).any():
                found.add("sums")
            continue
        for place, run in enumerate((own, other)):
            for name, noise in coalition.noise(run).items():
                samples[place].setdefault(name, []).append(noise)
    for name, own in samples[0].items():
        truly, simulated = np.concatenate(own), np.concatenate(samples[1][name])
        if not (_is_noise(truly, once_in) and _is_noise(simulated, once_in)):
            found.add(name)
    return found


def _is_noise(sample, once_in):
    return stats.kstest(sample.astype(float), "uniform").pvalue > once_in


def _outline(message):
    """As `outline`; of the last sum, which travels packed, how long it is unpacked."""
    envelope = read_envelope(message)
    body = decode(envelope.body, BODIES[envelope.topic])
    previous = getattr(body, "previous", b"")
    unpacked = zlib.decompress(previous) if previous else b""
    fields = dict(outline(message)[2])
    return envelope.topic, fields | ({"previous": len(unpacked)} if previous else {})
