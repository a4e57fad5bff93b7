"""Sites with folders of their own that measured different columns, from schema to result."""

import re
from dataclasses import replace

import hospital_folders
import msgspec
import numpy as np
import pytest
from advice import advice, listed
from overlapping import LACKING, NAMES, simulated, sites_of

from cipherdag import Federation, FedFCI, FedPC
from cipherdag.algorithms.constraint_based.report import UNTESTED_DETAIL
from cipherdag.algorithms.registry import program_digest
from cipherdag.deployment.rehearsal import plan_checks
from cipherdag.errors import (
    CohortError,
    DifferencingError,
    KeyAgreementError,
    MissingColumnError,
    ParameterError,
)
from cipherdag.federation.connected import ConnectedFederation
from cipherdag.findings.graph import LearntGraph, LearntPAG
from cipherdag.program.program import plan_facts
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.plan import Member, Plan
from cipherdag.results.folder import verify_folder
from cipherdag.results.run import Run
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.plan_account import plan_lines
from cipherdag.sites.table.schema import Schema

FEDPC = FedPC(evidence="fisher", max_cond_size=1)
SITES = tuple(f"hospital-{k}" for k in range(6))


@pytest.fixture
def hospitals(tmp_path):
    frames = sites_of(np.random.default_rng(21))
    schema = simulated(dict(zip(SITES, frames, strict=True))).sites[0].table.schema
    made = hospital_folders.hospitals(tmp_path, names=SITES)
    made.installed = True
    for frame, folder in zip(frames, made.folders.values(), strict=True):
        frame.to_csv(folder.path / "data.csv", index=False)
        (folder.path / "schema.toml").write_text(schema.dumps(), "utf-8")
    yield made
    made.close()


def planned(hospitals, algorithm=FEDPC, names=SITES, lacking=None):
    """A plan that says what the schema says, or something else."""
    own = Schema.load(hospitals.folders[SITES[0]].path / "schema.toml").lacking
    told = own if lacking is None else lacking
    plan = hospitals.plan(parameters=msgspec.to_builtins(algorithm))
    cohort = tuple(
        Member(name=member.name, identity=member.identity, lacking=told.get(member.name, ()))
        for member in plan.cohort
        if member.name in names
    )
    return msgspec.structs.replace(plan, cohort=cohort, min_survivors=len(cohort))


def carried_out(hospitals, plan, engine=None, algorithm=FEDPC):
    session = hospitals.session({}, engine=engine or LocalEngine(hospitals.handlers()), plan=plan)
    facts = plan_facts(plan, session.open())
    outcome = run_program(session, Replay(algorithm.ask(facts), facts.present))
    session.finish()
    return outcome, session


def test_folders_come_to_the_graph_that_one_process_comes_to(hospitals):
    outcome, session = carried_out(hospitals, planned(hospitals))
    assert session.result
    frames = sites_of(np.random.default_rng(21))
    alone = simulated(dict(zip(SITES, frames, strict=True))).run(FEDPC)
    assert (
        FEDPC.conclude(outcome, replace(plan_facts(planned(hospitals), 12), names=NAMES)).graph
    ) == (alone.finding.graph)
    for folder in hospitals.folders.values():
        for line in folder.sums_path.read_text().splitlines():
            assert [len(own) for own in msgspec.json.decode(line)["alike"]] == [3, 3]


def test_sites_agree_on_what_groups_found_and_need_not_search(hospitals, monkeypatch):
    """Each has a program of its own; none goes through graphs."""
    own = FedFCI(evidence="fisher", max_cond_size=1, search="integrate")
    plan = msgspec.structs.replace(
        planned(hospitals, own), algorithm="fedfci", program=program_digest("fedfci")
    )
    with monkeypatch.context() as patched:
        patched.setattr("cipherdag.algorithms.fedfci.report.integrate_pags", None)
        outcome, session = carried_out(hospitals, plan, algorithm=own)
    assert session.result
    assert [len(group.variables) for group in outcome.groups] == [10, 10]
    found = own.conclude(outcome, replace(plan_facts(plan, 12), names=NAMES))
    assert [len(group["variables"]) for group in found.details["integrated"]["groups"]] == [10, 10]


def test_sites_check_a_plan_before_and_when_they_join_it(hospitals):
    good, forged = planned(hospitals), planned(hospitals, lacking=dict.fromkeys(SITES[:3], (3,)))
    folder = hospitals.folders[SITES[4]]
    assert {own.state for own in plan_checks(folder, good)} == {"ok"}
    found = {own.check: own for own in plan_checks(folder, forged)}
    assert found["plan: policy"].state == "fail"
    assert "'hospital-0' measured other variables" in found["plan: policy"].finding
    assert "schema overlap" in found["plan: policy"].fix
    with pytest.raises(KeyAgreementError, match="'hospital-0' measured other variables"):
        carried_out(hospitals, forged)


def test_sites_refuse_a_cohort_that_leaves_too_few_of_a_group(hospitals):
    fewer = planned(hospitals, names=SITES[:5])
    with pytest.raises(CohortError, match="'hospital-3' and 'hospital-4' measured"):
        carried_out(hospitals, fewer)


def advised(hospitals, plan):
    """What the last site is advised to do about a plan."""
    (fix,) = {each.fix for each in plan_checks(hospitals.folders[SITES[4]], plan) if each.fix}
    return fix


@pytest.mark.follows("Plan with --lacking as `cipherdag schema overlap` prints it.")
def test_a_plan_with_what_the_command_prints_is_carried_out(hospitals, call):
    remedy = advised(hospitals, planned(hospitals, lacking=dict.fromkeys(SITES[:3], (3,))))
    option, line = re.match(r"Plan with (--\w+) as `cipherdag ([^`]+)`", remedy).groups()
    schema = hospitals.folders[SITES[0]].path / "schema.toml"
    code, said = told(call, *line.split(), str(schema), "--sites", ",".join(SITES))
    printed = re.findall(rf"{option} ([\w-]+)=([\d,]+)", said)
    lacking = {name: tuple(int(v) - 1 for v in numbers.split(",")) for name, numbers in printed}
    assert code == 0
    assert carried_out(hospitals, planned(hospitals, lacking=lacking))


@pytest.mark.follows("Let every site take a schema that leaves out what too few of them")
def test_a_schema_for_larger_groups_lets_the_sites_run(hospitals, call, tmp_path):
    remedy = advised(hospitals, planned(hospitals, names=SITES[:5]))
    line = re.search(r"`cipherdag ([^`]+)`", remedy)[1].split()
    schema = hospitals.folders[SITES[0]].path / "schema.toml"
    made, fewer = tmp_path / "made.toml", schema.read_text("utf-8").replace(f', "{SITES[5]}"', "")
    schema.write_text(fewer, "utf-8")
    words = [str(schema) if word == "schema.toml" else word for word in line]
    code, said = told(call, *words, "--out", str(made))
    assert code == 0, said
    for folder in hospitals.folders.values():
        (folder.path / "schema.toml").write_bytes(made.read_bytes())
    plan = planned(hospitals, names=SITES[:5])
    assert not any("too few of them" in each.fix for each in plan_checks(folder, plan))


def test_a_later_run_that_cuts_a_group_waits_for_a_person(hospitals):
    """The cohort is the same; only what one site is said to lack changed, at every site alike."""
    handlers = hospitals.handlers()
    carried_out(hospitals, planned(hospitals), LocalEngine(handlers))
    carried_out(hospitals, planned(hospitals), LocalEngine(handlers))
    hospitals.close()
    schema = Schema.load(hospitals.folders[SITES[0]].path / "schema.toml")
    alike = Schema(
        tuple(
            replace(own, unmeasured_at=SITES if own.unmeasured_at else ()) for own in schema.columns
        )
    )
    for folder in hospitals.folders.values():
        (folder.path / "schema.toml").write_text(alike.dumps(), "utf-8")
    with pytest.raises(DifferencingError):
        carried_out(hospitals, planned(hospitals))


def test_what_people_read_says_who_lacks_which_numbers(hospitals):
    text = "\n".join(plan_lines(planned(hospitals), n_variables=12))
    assert "Lacking numbers 1, 6: hospital-0, hospital-1, hospital-2." in text
    assert "Lacking numbers 4, 10: hospital-3, hospital-4, hospital-5." in text
    assert "what remains covers a whole group at least" in text
    assert not any(name in text for name in NAMES)
    other = msgspec.structs.replace(planned(hospitals), algorithm="rfcd", parameters={})
    assert "NOT POSSIBLE HERE: RFcd needs every variable" in "\n".join(plan_lines(other))
    again = Plan.loads(planned(hospitals).dumps())
    assert again.measured.lacking == ((0, 5),) * 3 + ((3, 9),) * 3


@pytest.mark.follows("Its sites are {}.")
def test_a_coordinator_plans_with_numbers_and_is_told_what_is_wrong(hospitals, monkeypatch):
    class Folder:
        study = staticmethod(lambda: hospitals.study)

    def plan(lacking, algorithm=FEDPC):
        return ConnectedFederation(Folder, purpose="a test", lacking=lacking).plan(algorithm)

    told = {name: (1, 6) if name in SITES[:3] else (10, 4) for name in SITES}
    assert plan(told).cohort == planned(hospitals).cohort
    assert plan(told).min_survivors == 6
    assert plan({}).min_survivors == 4
    for lacking, algorithm, error, said in (
        ({"aspen": [1]}, FEDPC, CohortError, "'aspen', no site"),
        ({SITES[0]: [0]}, FEDPC, ParameterError, "from 1"),
        ({SITES[0]: [1]}, FEDPC, CohortError, "'hospital-0' measured"),
        (told, FedPC(evidence="pooled"), ParameterError, "pooled cannot"),
        (told, "fedboss", ParameterError, "needs every variable"),
    ):
        with pytest.raises(error, match=said):
            plan(lacking, algorithm)
    names = listed(advice(plan, {"aspen": [1]}))
    assert plan({name: told[name] for name in names}).cohort == plan(told).cohort


def told(call, *arguments):
    """The exit code of a command, and all that it said."""
    code, out, err = call(*arguments)
    return code, out + err


def test_a_result_is_saved_read_and_repeated_with_what_was_not_tested(tmp_path, call):
    for name, frame in zip(SITES, sites_of(np.random.default_rng(3)), strict=True):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{name}.csv") for name in SITES]
    code, said = told(call, "run", "fedpc", *files)
    assert code == 6
    assert "overlapping" in said
    code, said = told(call, "run", "fedpc", *files, "--overlapping", "--out", str(tmp_path / "out"))
    assert code == 0
    assert "WARNING: No site measured both ends of these edges" in said
    verify_folder(tmp_path / "out")
    result = Run.load(tmp_path / "out", LearntGraph)
    untested = {("v00", "v03"), ("v00", "v09"), ("v03", "v05"), ("v05", "v09")}
    assert set(map(tuple, result.finding.details[UNTESTED_DETAIL])) == untested
    beside = {
        frozenset((own.source, own.target)): own.facts
        for own in result.finding.evidence.edges
        if any("No site measured both" in fact for fact in own.facts)
    }
    assert set(beside) == set(map(frozenset, untested))
    assert result.page().count("No site measured both") >= 2
    assert call("repeat", str(tmp_path / "out"))[0] == 0


def test_all_graphs_that_fit_are_saved_read_and_repeated(tmp_path, call, monkeypatch):
    for name, frame in zip(SITES, sites_of(np.random.default_rng(3)), strict=True):
        kept = [v for v in frame.columns if v in ("v00", "v01", "v02", "v03", "v04")]
        frame[kept].to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{name}.csv") for name in SITES]
    run = ["run", "fedfci", *files, "--overlapping", "--search", "integrate"]
    code, said = told(call, *run, "--out", str(tmp_path / "out"))
    assert code == 0
    verify_folder(tmp_path / "out")
    result = Run.load(tmp_path / "out", LearntPAG)
    assert result.finding.details["integrated"]["complete"]
    assert (f"fit every group of sites: {len(result.finding.fitting)}" in said) == bool(
        result.finding.fitting
    )
    assert ("No graph over all columns fits" in said) == (not result.finding.fitting)
    assert call("repeat", str(tmp_path / "out"))[0] == 0
    monkeypatch.setattr("cipherdag.algorithms.fedfci.algorithm.MOST_GRAPHS", 1)
    code, said = told(call, *run)
    assert code == 0
    assert "ended after 1 graphs were looked at" in said


@pytest.mark.follows("Name every site of the study behind --sites.")
def test_a_schema_is_put_in_groups_on_the_command_line(tmp_path, call):
    schema = simulated(dict(zip(SITES, sites_of(np.random.default_rng(3)), strict=True)))
    (tmp_path / "s.toml").write_text(schema.sites[0].table.schema.dumps(), "utf-8")
    known = ["schema", "overlap", str(tmp_path / "s.toml"), "--sites"]
    code, said = told(call, *known, ",".join(SITES), "--out", str(tmp_path / "made.toml"))
    assert code == 0
    assert "--lacking hospital-0=1,6 --lacking hospital-1=1,6" in said
    assert Schema.load(tmp_path / "made.toml") == Schema.load(tmp_path / "s.toml")
    code, said = told(
        call, *known, ",".join(SITES), "--min-sites", "4", "--out", str(tmp_path / "x")
    )
    assert code == 0
    assert "column 'v00' is left out" in said
    assert "The coordinator needs: nothing" in said
    assert {*LACKING[0], *LACKING[-1]}.isdisjoint(Schema.load(tmp_path / "x").names)
    code, said = told(call, *known, ",".join(SITES[:3]))
    assert code == 2
    assert "--sites lacks 'hospital-3'" in said


def test_a_schema_that_says_who_lacks_what_needs_no_option(tmp_path, call):
    """Of five sites two lack the same, which are too few: they use what all measured."""
    frames = dict(zip(SITES[:5], sites_of(np.random.default_rng(3)), strict=False))
    schema = simulated(dict(zip(SITES, sites_of(np.random.default_rng(3)), strict=True)))
    (tmp_path / "s.toml").write_text(schema.sites[0].table.schema.dumps(), "utf-8")
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{name}.csv") for name in frames]
    run = ["--schema", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out")]
    code, said = told(call, "run", *files, *run)
    assert code == 0, said
    names = {*Schema.load(tmp_path / "out" / "schema.toml").names}
    assert {*NAMES} - names == {*LACKING[0], *LACKING[-1]}
    frames[SITES[0]].drop(columns="v02").to_csv(files[0], index=False)
    code, said = told(call, "run", "fedpc", *files, *run, "--force")
    assert code == 6
    assert "column 'v02'" in said


def test_a_split_leaves_out_what_the_schema_says_a_site_lacks():
    frame = sites_of(np.random.default_rng(4), [()])[0]
    schema = infer_schema(frame)
    names = tuple(f"site-{k}" for k in range(1, 4))
    own = [replace(c, unmeasured_at=names if c.name == "v02" else ()) for c in schema.columns]
    federation = Federation.split(frame, 6, schema=Schema(tuple(own)))
    for site in federation.sites:
        assert np.isnan(site.table.values[:, 2]).all() == (site.name in names)
    with pytest.raises(MissingColumnError):
        Federation.simulate([frame, frame.drop(columns="v02"), frame])
