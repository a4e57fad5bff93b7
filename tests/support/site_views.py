"""What sites see of rounds of verdicts, whether alone or together, and whether it is noise.

A `Coalition` puts together what it was sent and what its members know beside that: a dealer what it
blinded the sums with, a holder its keys. Of a simulated run the sums are others wherever the trust
table says that the coalition learns verdicts only (``docs/explanation/verdicts.md``).
"""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from cipherdag.privacy.comparison.verdicts import unpack
from cipherdag.sites.session.verdicts import Part
from scipy import stats
from simulated_view import BODIES, outline

from cipherdag.protocol.messages import read_envelope
from cipherdag.protocol.wire import decode

COORDINATOR = -1
ONCE_IN = 1e-9
"""How rarely noise is taken for something else, test by test."""


@dataclass
class Compared:
    """All that is drawn and found in one round of verdicts, whoever it is that knows it.

    Attributes:
        roles: Dealer and holders.
        modulus: What sums are residues of.
        blinds: What the dealer added.
        blinded: What was opened.
        shares: Of both holders, as they signed them.
        bare: The same without the pad that both added.
    """

    roles: Any
    modulus: int
    blinds: np.ndarray
    blinded: np.ndarray = field(default_factory=lambda: np.zeros(0))
    shares: dict = field(default_factory=dict)
    bare: dict = field(default_factory=dict)

    @property
    def sums(self):
        """What was blinded."""
        return (self.blinded.astype(object) - self.blinds.astype(object)) % self.modulus

    @property
    def verdicts(self):
        """What everybody is told."""
        return np.split(self.shares[0] ^ self.shares[1], 2)[0]


@contextmanager
def overheard():
    """Rounds of verdicts by number, with what each dealer and holder draws and finds."""
    rounds: dict[int, Compared] = {}
    dealt, compared = Part.dealt, Part.compared

    def dealing(part, keys, modulus):
        blinds, sent = dealt(part, keys, modulus)
        if blinds is not None:
            rounds[part.number] = Compared(part.roles, modulus, blinds)
        return blinds, sent

    def comparing(part, request, keys, aggregation):
        found = compared(part, request, keys, aggregation)
        own, place = rounds[part.number], part.roles.holders.index(part.index)
        batch = part.roles.batch(part.declared, part.number, own.modulus)
        own.blinded = aggregation.blinded(request.blinded, part.declared)
        own.shares[place] = unpack(found.shares, 2 * batch.count)
        own.bare[place] = own.shares[place] ^ keys.pad(batch, 2 * batch.count)
        return found

    with patch.object(Part, "dealt", dealing), patch.object(Part, "compared", comparing):
        yield rounds


@dataclass(frozen=True)
class Coalition:
    """Sites by position, with or without the coordinator, that put together what they see."""

    members: frozenset[int]

    def __str__(self):
        own = ("coordinator" if site == COORDINATOR else str(site) for site in sorted(self.members))
        return " and ".join(own)

    def learns_sums(self, roles):
        """Whether the trust table says that it learns sums of a round with these roles."""
        return len(self._keys(roles)) == 2 or (self._deals(roles) and self._reads(roles))

    def noise(self, own):
        """What it sees of a round beside verdicts, as parts of 1 and as bits; noise if all is well.

        What a bit is compared with follows from the sum, which whoever tests knows.
        """
        found, odd = {}, np.array([int(value) % 2 for value in own.sums], dtype=bool)
        odd = np.concatenate([odd, odd])
        if self._reads(own.roles):
            found["what was opened"] = own.blinded / own.modulus
            found["what was opened less the sums"] = own.blinds / own.modulus
        for place in self._keys(own.roles):
            found[f"bare shares of holder {place}"] = own.bare[place]
        if not self._keys(own.roles):
            found["shares"] = own.shares[0]
            found["shares and whether sums are odd"] = own.shares[0] ^ odd
        if self._deals(own.roles):
            found["shares and those of the keys dealt"] = own.shares[0] ^ own.bare[0]
        return found

    def told(self, engine, names):
        """Every message to its sites: who says what, every number in it, how long the rest is."""
        own = {names[site] for site in self.members if site != COORDINATOR}
        return [(step, site, _outline(m)) for step, site, m in engine.sent if site in own]

    def _deals(self, roles):
        return roles.dealer in self.members

    def _keys(self, roles):
        return [place for place, site in enumerate(roles.holders) if site in self.members]

    def _reads(self, roles):
        return COORDINATOR in self.members or bool(self._keys(roles))


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
    if sample.dtype == bool:
        return stats.binomtest(int(sample.sum()), sample.size).pvalue > once_in
    return stats.kstest(sample.astype(float), "uniform").pvalue > once_in


def _outline(message):
    """As `outline`; of the last sum, which travels packed, how long it is unpacked."""
    envelope = read_envelope(message)
    body = decode(envelope.body, BODIES[envelope.topic])
    previous = getattr(body, "previous", b"")
    unpacked = zlib.decompress(previous) if previous else b""
    fields = dict(outline(message)[2])
    return envelope.topic, fields | ({"previous": len(unpacked)} if previous else {})
