"""How many bits about two columns were found, over studies, schemas and runs."""

from dataclasses import replace

import numpy as np
import pytest

from cipherdag.errors import PolicyRefusedError, SiteNotReadyError
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.questions.scores.score_sums import RaoSums
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import BitBudget

POLICY = replace(Policy(), max_bits_per_pair=5)
EVERYONE = (0, 1, 2)


def asked(*tests, levels=(0.01,)):
    counts, members = pack_blocks([np.array(tests)])
    return RaoBits(RaoSums((2, 2, 2), counts, members, 100), levels)


def test_bits_of_a_pair_end_at_the_limit_whatever_the_schema(tmp_path):
    path = tmp_path / "bits.jsonl"
    first = BitBudget(POLICY, path, ("age", "sex", "stroke"))
    first.spend(b"run 1", asked([0, 2], levels=(0.05, 0.01)), EVERYONE)
    other = BitBudget(POLICY, path, ("stroke", "weight", "age"))
    other.spend(b"run 2", asked([0, 2], [0, 1], levels=(0.1, 0.05)), EVERYONE)
    assert other.spent == {("age", "stroke"): 4, ("stroke", "weight"): 2}
    with pytest.raises(PolicyRefusedError, match="6 bits about 'age' and 'stroke' would be found"):
        other.spend(b"run 3", asked([2, 0], levels=(0.2, 0.02)), EVERYONE)
    assert BitBudget(POLICY, path).spent == other.spent
    assert "so far 4 at most, of 'age' and 'stroke'" in other.sentence()


def test_an_attempt_that_is_repeated_counts_once(tmp_path):
    budget = BitBudget(POLICY, tmp_path / "bits.jsonl", ("age", "sex", "stroke"))
    for sites in (EVERYONE, EVERYONE, EVERYONE[:2]):
        budget.spend(b"run", asked([0, 1]), sites)
    assert budget.spent == {("age", "sex"): 2}


def test_a_count_that_cannot_be_read_stops_the_site(tmp_path):
    path = tmp_path / "bits.jsonl"
    assert "none so far" in BitBudget(POLICY, path).sentence()
    path.write_text("{}\n", "utf-8")
    with pytest.raises(SiteNotReadyError, match="what was found before is not known"):
        _ = BitBudget(POLICY, path).spent
