"""What a policy says of plans that open sums of tests."""

from dataclasses import replace

import msgspec
import pytest

from cipherdag import FedBOSS, FedCMFS, FedFCI, FedPC, Scoring
from cipherdag.algorithms.registry import program_digest
from cipherdag.errors import PolicyRefusedError
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.sites.policy.parameter_rules import opened_of_tests
from cipherdag.sites.policy.policy import Policy

MEMBERS = tuple(Member(name=f"hospital-{k}", identity=bytes([k]) * 32) for k in range(3))
SUMS = [
    FedPC(reveal="sums"),
    FedPC(evidence="vote"),
    FedPC(evidence="vote", reveal="bits"),
    FedPC(evidence="fisher"),
    FedPC(evidence="pooled"),
    FedFCI(reveal="sums"),
    FedCMFS(reveal="sums"),
    FedCMFS(evidence="stratified"),
]
BITS = [FedPC(), FedFCI(), FedCMFS()]


def planned(algorithm):
    return make_plan(
        MEMBERS,
        algorithm=algorithm.name,
        parameters=msgspec.to_builtins(algorithm),
        program=program_digest(algorithm.name),
        protection="masking",
        purpose="Which drugs raise cholesterol?",
        requester="Dr. Grey",
        seed=0,
    )


@pytest.mark.parametrize("algorithm", SUMS, ids=repr)
def test_the_default_policy_refuses_plans_that_open_sums_of_tests(algorithm):
    plan = planned(algorithm)
    assert opened_of_tests(plan) == "sums"
    with pytest.raises(PolicyRefusedError, match="discloses sums of tests") as refused:
        Policy().check_plan(plan, runs=0)
    assert 'reveal = "sums"' in refused.value.remedy
    Policy.loads('reveal = "sums"').check_plan(plan, runs=0)


@pytest.mark.parametrize("algorithm", [*BITS, FedBOSS()], ids=repr)
def test_plans_that_open_bits_or_have_no_such_choice_pass(algorithm):
    plan = planned(algorithm)
    assert opened_of_tests(plan) == ("none" if algorithm.name == "fedboss" else "bits")
    Policy().check_plan(plan, runs=0)


@pytest.mark.parametrize(
    "algorithm", [FedPC(alpha=0.03), FedCMFS(alpha=0.04), FedBOSS(scoring=Scoring(penalty=1.7))]
)
def test_bits_at_values_of_any_choice_are_refused_and_sums_are_not(algorithm):
    with pytest.raises(PolicyRefusedError, match="leave at few levels"):
        Policy().check_plan(planned(algorithm), runs=0)
    Policy(reveal="sums").check_plan(planned(replace(algorithm, reveal="sums")), runs=0)
