"""A site whose process outlives a run, and what holds from the next run on."""

import hospital_folders
import pytest
from driving import outcome_over
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import CohortError, ReplayError, SiteNotReadyError
from cipherdag.privacy.wire import decode
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.messages import Refusal, read_envelope
from cipherdag.sites.session.serving import KeptSite


@pytest.fixture
def standing(tmp_path):
    """Hospitals, and a standing site in each folder."""
    made = hospital_folders.hospitals(tmp_path)
    sites = {name: KeptSite(folder.path) for name, folder in made.folders.items()}
    yield made, sites, {name: own.handle for name, own in sites.items()}
    for own in sites.values():
        own.close()


def whole_run(hospitals, handlers):
    session = hospitals.session(handlers)
    outcome = outcome_over(session)
    session.finish()
    return outcome


def test_one_process_answers_run_after_run(standing):
    hospitals, _, handlers = standing
    first, second = (whole_run(hospitals, handlers) for _ in range(2))
    assert (first.skeleton == second.skeleton).all()
    assert (first.support, first.layers) == (second.support, second.layers)


def test_a_study_that_shuts_a_site_out_holds_from_the_next_run_on(standing):
    hospitals, _, handlers = standing
    before = hospitals.study
    whole_run(hospitals, handlers)
    del hospitals.folders["hospital-2"]  # which gets no new study
    hospitals.pin(sites=before.sites[:2], revoked=("hospital-2",), version=2, min_sites=2)
    hospitals.study = before  # a coordinator that takes the old one up again
    with pytest.raises(CohortError, match="names 'hospital-2', which is revoked"):
        hospitals.session(handlers).open()


def test_a_new_policy_holds_from_the_next_run_and_a_broken_one_stops(standing):
    hospitals, _, handlers = standing
    whole_run(hospitals, handlers)
    policy = hospitals.folders["hospital-1"].policy_path
    kept = policy.read_text()
    policy.write_text("nonsense = 1")
    with pytest.raises(SiteNotReadyError) as caught:
        hospitals.session(handlers).open()
    assert caught.value.site == "hospital-1"
    policy.write_text(kept)
    whole_run(hospitals, handlers)


def test_an_old_invite_opens_no_run_and_a_repeated_one_the_same(standing):
    hospitals, _, handlers = standing
    sent = []

    def recording(operation, message):
        if operation == "invite":
            sent.append(message)
        return handlers["hospital-0"](operation, message)

    session = hospitals.session({**handlers, "hospital-0": recording})
    session.open()
    assert handlers["hospital-0"]("invite", sent[0]) == handlers["hospital-0"]("invite", sent[0])
    whole_run(hospitals, handlers)

    refused = read_envelope(handlers["hospital-0"]("invite", sent[0]))
    assert refused.topic == "refusal"
    error = refusal_error(decode(refused.body, Refusal), "hospital-0")
    assert isinstance(error, ReplayError)


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    made = hospital_folders.hospitals(tmp_path_factory.mktemp("idle"), names=("hospital-0",))
    site = KeptSite(made.folders["hospital-0"].path)
    site.handle("invite", b"")  # opens it
    yield site
    site.close()


@given(message=st.binary(max_size=200))
def test_garbage_does_not_reopen_a_site(idle, message):
    before = idle._open
    assert isinstance(idle.handle("invite", message), bytes)
    assert idle._open is before


def test_two_processes_cannot_stand_for_one_site(standing):
    hospitals, _, _ = standing
    with pytest.raises(SiteNotReadyError, match="another process"):
        KeptSite(hospitals.folders["hospital-0"].path, lock_wait_s=0.0)
