"""A clock that is wrong by days: whoever meets it names the clock, and both times."""

import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from cipherdag.audit.auditing import verify
from cipherdag.deployment import certificates, engine_checks, enrolment, processes
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.errors import SiteNotReadyError
from cipherdag.sites.record import ledger
from cipherdag.sites.study.site_folder import SiteFolder


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The folders of a coordinator and three sites, and the edges that they learn."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from fault_studies import enrolled

    work = tmp_path_factory.mktemp("clocks") / "study"
    _, _, expected = enrolled(work)
    return work, expected


@pytest.fixture
def work(template, tmp_path):
    """A copy of them."""
    return shutil.copytree(template[0], tmp_path / "copy")


@pytest.fixture
def coordinator(work):
    """The coordinator's folder."""
    return CoordinatorFolder(work / "coordinator")


@pytest.fixture
def site(work):
    """A site's."""
    return SiteFolder(work / "north")


def says(days):
    """What a clock says that is so many days off."""
    return f"this machine's clock says {datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}"


BOTH_WAYS = pytest.mark.parametrize(
    ("days", "said"), [(-3.0, "is valid from"), (100.0, "expired on")]
)


@BOTH_WAYS
def test_a_site_whose_clock_is_wrong_does_not_start(site, days, said):
    from fault_doors import clock

    with clock(days, engine_checks), pytest.raises(SiteNotReadyError, match=said) as caught:
        engine_checks.engine_address(site, site.study())
    assert says(days) in caught.value.message
    assert caught.value.remedy.startswith("Set this machine's clock; if it is right, ")


@BOTH_WAYS
def test_a_site_whose_clock_is_wrong_activates_nothing(coordinator, site, days, said):
    from fault_doors import approve, clock

    coordinator.renew()
    before = site.tls_chain.read_bytes()
    with clock(days, enrolment), pytest.raises(SiteNotReadyError, match=said) as caught:
        approve(coordinator, site)
    assert says(days) in caught.value.message
    assert site.tls_chain.read_bytes() == before


@pytest.mark.parametrize(("days", "said"), [(-3.0, "is valid from"), (1100.0, "expired on")])
def test_a_server_whose_clock_is_wrong_does_not_start(coordinator, days, said):
    from fault_doors import clock

    with clock(days, processes), pytest.raises(SiteNotReadyError, match=said) as caught:
        processes.serve(coordinator, stopped=lambda _: True)
    assert says(days) in caught.value.message
    assert "coordinator renew" in caught.value.remedy


@pytest.mark.parametrize("days", [5.0, -1100.0])
def test_a_site_names_the_clock_where_certificate_dates_do_not_fit(coordinator, site, days):
    from fault_doors import server_renewed

    assert server_renewed(coordinator, site, days) == "named by the site"


@pytest.mark.parametrize("days", [5.0, -100.0])
def test_a_server_names_the_clock_where_certificate_dates_do_not_fit(coordinator, site, days):
    from fault_doors import site_renewed

    assert site_renewed(coordinator, site, days) == "named by the server"


def test_a_certificate_dated_by_a_fast_clock_gives_way_to_the_next(coordinator, site):
    """Else a site would stay with it, since it seems to be valid for longer."""
    from fault_doors import approve, clock

    with clock(30.0, certificates, enrolment):
        coordinator.renew()
        approve(coordinator, site)
    with pytest.raises(SiteNotReadyError, match="is valid from"):
        engine_checks.engine_address(site, site.study())
    coordinator.renew()
    approve(coordinator, site)
    assert engine_checks.engine_address(site, site.study()).site == "north"


def test_clocks_that_jump_by_days_between_runs_change_no_result(template, tmp_path):
    """An auditor reads where a clock ran backwards, and nothing else comes of it."""
    from fault_cases import SAME, run
    from fault_doors import clock
    from fault_studies import Folders

    study = Folders(template[0], tmp_path / "copy", template[1])
    for days in (0.0, 30.0, -30.0, 0.0):
        with clock(days, ledger):
            assert run(study) == SAME
    study.stop_all()
    (checked,) = verify(study.work / "north")
    assert "clock ran backwards" in checked.remark
