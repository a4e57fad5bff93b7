"""What a site says of a plan before it joins: cohort, policy, and whether its data fit."""

import msgspec
import pytest

from cipherdag import FedCD, FedFCI, FedPC
from cipherdag.deployment.rehearsal import plan_checks
from cipherdag.protocol.plan import Member
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy

NAME = "hospital-1"


def set_policy(hospitals, **changes):
    """The site's policy, which lets sums of tests be opened."""
    text = Policy(**({"reveal": "sums"} | changes)).dumps()
    hospitals.folders[NAME].policy_path.write_text(text)


@pytest.fixture(autouse=True)
def _sums_are_allowed(hospitals):
    set_policy(hospitals)


def plan(hospitals, algorithm=None, **changes):
    algorithm = algorithm or FedPC(evidence="vote")
    about = {"algorithm": algorithm.name, "parameters": msgspec.to_builtins(algorithm)}
    return hospitals.plan(**(about | changes))


def findings(hospitals, own):
    found = plan_checks(hospitals.folders[NAME], own)
    assert [one.check for one in found] == ["plan: cohort", "plan: policy", "plan: data"]
    return {one.check.removeprefix("plan: "): one for one in found}


def states(found):
    return {name: one.state for name, one in found.items()}


GOOD = {"cohort": "ok", "policy": "ok", "data": "ok"}


def test_a_plan_that_fits_is_found_so_and_nothing_is_recorded(hospitals):
    found = findings(hospitals, plan(hospitals))
    assert states(found) == GOOD
    assert "3 sites, all of the study 'study'" in found["cohort"].finding
    assert "votes on edges" in found["data"].finding
    folder = hospitals.folders[NAME]
    assert not folder.ledger_path.exists()
    assert not folder.sums_path.exists()


def test_sites_that_this_one_does_not_know_are_named(hospitals):
    own = plan(hospitals)
    stranger = Member(name="hospital-9", identity=bytes(32))
    imposter = Member(name="hospital-0", identity=bytes(32))
    for other in (stranger, imposter):
        changed = msgspec.structs.replace(own, cohort=(other, *own.cohort[1:]))
        found = findings(hospitals, changed)
        assert states(found) == GOOD | {"cohort": "fail"}
        assert other.name in found["cohort"].finding


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"algorithms": frozenset({"rfcd"})}, "does not allow 'fedpc'"),
        ({"protections": frozenset({"bfv"})}, "does not accept protection"),
        ({"min_sites": 4}, "asks for 4"),
        ({"min_rows": 10**6}, "fewer rows"),
        ({"tolerated_colluders": 2}, "colluding"),
        ({"purposes": frozenset({"x"})}, "purpose"),
        ({"parameters": frozenset({"alpha 0.2..0.3"})}, "alpha 0.2..0.3"),
        ({"max_runs": 0}, "max_runs"),
    ],
)
def test_what_the_policy_forbids_is_said_with_the_rule(hospitals, policy, said):
    set_policy(hospitals, **policy)
    found = findings(hospitals, plan(hospitals))
    assert states(found)["policy"] == "fail"
    assert said in found["policy"].finding


def test_fed_cd_without_a_column_of_interventions_is_found(hospitals):
    set_policy(hospitals, questions=QUESTION_KINDS)
    found = findings(hospitals, plan(hospitals, FedCD()))
    assert states(found) == GOOD | {"data": "fail"}
    assert "no column names interventions" in found["data"].finding


def test_a_first_question_that_the_policy_forbids_is_found(hospitals):
    set_policy(hospitals, max_values=3)
    found = findings(hospitals, plan(hospitals))
    assert states(found) == GOOD | {"data": "fail"}
    assert "max_values" in found["data"].finding


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        (FedPC(evidence="pooled"), "tables"),
        (FedPC(), "score-bits"),
        (FedPC(reveal="sums"), "score-sums"),
        (FedPC(reveal="sums"), "site-differences"),
    ],
)
def test_a_later_question_that_the_policy_forbids_is_found(hospitals, algorithm, kind):
    """As those of regressions are, which columns of both kinds need and few policies name."""
    set_policy(hospitals, questions=QUESTION_KINDS - {kind})
    found = findings(hospitals, plan(hospitals, algorithm))
    assert states(found) == GOOD | {"data": "fail"}
    assert f"'{kind}'" in found["data"].finding


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (FedPC(evidence="pooled", max_rows=64), "max_rows = 64"),
        (FedPC(evidence="vote", test="fisherz"), "discrete"),
    ],
)
def test_data_that_do_not_fit_the_plan_are_found_before_the_run(hospitals, algorithm, said):
    found = findings(hospitals, plan(hospitals, algorithm))
    assert states(found) == GOOD | {"data": "fail"}
    assert said in found["data"].finding


def test_a_cell_that_does_not_fit_the_schema_is_not_quoted(hospitals):
    site = hospitals.folders[NAME]
    data = site.data_path(site.settings())
    header, *rows = data.read_text("utf-8").splitlines()
    cells = ",".join("Smith" for _ in header.split(","))
    data.write_text("\n".join([header, *rows, cells, ""]), "utf-8")
    found = findings(hospitals, plan(hospitals))
    assert states(found) == {"cohort": "ok", "policy": "fail", "data": "fail"}
    assert not any("Smith" in one.finding + (one.fix or "") for one in found.values())


def test_the_study_s_rules_hold_where_they_are_stricter(hospitals):
    set_policy(hospitals, allow_unprotected=True)
    found = findings(hospitals, plan(hospitals, protection="none"))
    assert states(found)["policy"] == "fail"


def test_another_program_and_an_unknown_algorithm_are_found(hospitals):
    for changes in ({"program": "0" * 64}, {"algorithm": "magic", "parameters": {}}):
        found = findings(hospitals, msgspec.structs.replace(plan(hospitals), **changes))
        assert states(found)["data"] == "fail"
        assert found["data"].finding


@pytest.mark.parametrize(
    "algorithm", [FedPC(), FedPC(evidence="fisher", reveal="bits"), FedFCI()], ids=repr
)
def test_data_fit_plans_that_open_bits(hospitals, algorithm):
    set_policy(hospitals, reveal="bits")
    found = findings(hospitals, plan(hospitals, algorithm))
    assert states(found) == GOOD
    assert "tests of pairs" in found["data"].finding
