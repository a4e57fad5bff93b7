"""Counts of the same sites are found in one unit for good: two units tell small counts exactly."""

import hospital_folders
import msgspec
import numpy as np
import pytest
from followed_patients import EDGES, ward
from hospital_folders import NAMES

from cipherdag import Survival
from cipherdag.errors import PolicyRefusedError
from cipherdag.program.versions import computed_with
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.opened_sums import OpenedSums

ASKED = Survival(time="4", event="3", edges=EDGES)
FIRST, SECOND = b"\x01" * 32, b"\x02" * 32
SITES = ("north", "south", "west")


def policy(size):
    return Policy(approve_runs="automatic", min_cell_size=size)


@pytest.fixture
def hospitals(tmp_path):
    made = hospital_folders.hospitals(tmp_path, policy=policy(11))
    made.installed = True
    tables = [ward(200, seed) for seed in range(3)]
    schema = infer_schema(tables).dumps()
    for folder, rows in zip(made.folders.values(), tables, strict=True):
        (folder.path / "schema.toml").write_text(schema, encoding="utf-8")
        (folder.path / "data.csv").write_text(rows.to_csv(index=False), encoding="utf-8")
    yield made
    made.close()


def run(hospitals, *sizes):
    """A survival analysis, after the sites' min_cell_size was set; the unit of its counts."""
    for name, size in zip(NAMES, sizes, strict=True):
        hospitals.folders[name].policy_path.write_text(policy(size).dumps())
    plan = hospitals.plan(
        algorithm="survival", versions=computed_with(), parameters=msgspec.to_builtins(ASKED)
    )
    try:
        opened = hospitals.carry_out(hospitals.handlers(), ASKED, plan)
    finally:
        hospitals.close()
    return {question.unit for question, _ in opened} - {0}


@pytest.mark.follows("be the largest min_cell_size of the sites again.")
def test_counts_in_a_second_unit_are_refused_by_every_site(hospitals, caplog):
    assert run(hospitals, 11, 5, 11) == {11}
    with pytest.raises(PolicyRefusedError) as caught:
        run(hospitals, 5, 5, 5)
    assert caught.value.site in NAMES
    assert caught.value.exit_code == 3
    assert caplog.text.count("in units of 5, after units of 11 in run") == len(NAMES)
    assert caplog.text.count("Have 11 be the largest min_cell_size of the sites again.") == len(
        NAMES
    )
    assert run(hospitals, 5, 11, 5) == {11}  # as it was again


def record(*written, path=None):
    own = OpenedSums(b"schema", path)
    for session, sites, unit in written:
        own.write(session, sites, unit=unit)
    return own


@pytest.mark.parametrize("session", [FIRST, SECOND])
def test_a_unit_is_for_good_within_a_run_and_over_runs(session, tmp_path):
    path = tmp_path / "sums.jsonl"
    record((FIRST, SITES, 0), (FIRST, SITES, 11), (FIRST, SITES, 11), path=path)
    assert len(path.read_text("utf-8").splitlines()) == 2
    again = OpenedSums(b"other columns", path)
    again.accept(session)  # approval of another cohort is none of another unit
    again.check(session, SITES, fewest=3, unit=11)
    again.check(session, SITES, fewest=3)
    for unit in (5, 10, 12):
        with pytest.raises(PolicyRefusedError, match=f"in units of {unit}, after units of 11"):
            again.check(session, SITES, fewest=3, unit=unit)


def test_other_sites_may_have_another_unit():
    own = record((FIRST, SITES, 11))
    own.check(SECOND, (*SITES, "east", "far", "up"), fewest=3, unit=5)


def test_floors_by_two_units_tell_four_times_as_many_small_counts():
    """What the record is for: totals of which a site knows its part, by 11 and then by 5."""
    counts = np.arange(1, 11)
    alone = both = 0
    for part in range(55):
        by_first = (counts + part) // 11
        pairs = list(zip(by_first.tolist(), ((counts + part) // 5).tolist(), strict=True))
        alone += sum(by_first.tolist().count(one) == 1 for one in by_first.tolist())
        both += sum(pairs.count(one) == 1 for one in pairs)
    assert 0 < 4 * alone < both
