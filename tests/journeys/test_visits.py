"""Rows that are visits: patients are counted, their keys stay at the site, the rest is refused."""

import logging

import hospital_folders
import msgspec
import numpy as np
import pandas as pd
import pytest

from cipherdag import CausalGraph, Federation, FedPC, Policy, Survival
from cipherdag.algorithms.describe.algorithm import Describe
from cipherdag.algorithms.effect.algorithm import Effect
from cipherdag.algorithms.fedboss.algorithm import FedBOSS
from cipherdag.algorithms.fedfci.algorithm import FedFCI
from cipherdag.algorithms.graphcheck.algorithm import GraphCheck
from cipherdag.deployment.rehearsal import plan_checks
from cipherdag.errors import EmptyDataError, ParameterError, PolicyRefusedError, SchemaError
from cipherdag.program.program import plan_facts
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.questions.pooled_data import Columns
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table
from cipherdag.sites.table.visits import MAX_VISITS

KEY = "MRN-{}-{:05d}-Q"
SCHEMA = """
[columns.pid]
kind = "patient"
missing = ["NA"]
[columns.crp]
kind = "continuous"
[columns.sodium]
kind = "continuous"
"""


def visits(site, *, patients=60, each=10, seed=1, shared=1.5, slope=0.0):
    """Two numbers of a site, independent but for ``slope``, alike within patients."""
    rng = np.random.default_rng((seed, ord(site)))
    whose = np.repeat(np.arange(patients), each)
    crp, sodium = (
        rng.normal(size=len(whose)) + shared * rng.normal(size=patients)[whose] for _ in range(2)
    )
    keys = [KEY.format(site, number) for number in whose]
    return pd.DataFrame({"pid": keys, "crp": crp, "sodium": sodium + slope * crp})


def three(**options):
    return {site: visits(site, **options) for site in "abc"}


def test_columns_that_are_alike_within_patients_get_no_edge():
    wrong = {"by row": 0, "by patient": 0}
    for seed in range(8):
        data = three(seed=seed)
        rows = {site: frame.drop(columns="pid") for site, frame in data.items()}
        wrong["by row"] += len(Federation.simulate(rows).run(FedPC()).graph.edges)
        by_patient = Federation.simulate(data, patient="pid").run(FedPC())
        wrong["by patient"] += len(by_patient.graph.edges)
    assert wrong["by row"] >= 3
    assert wrong["by patient"] == 0


@pytest.mark.parametrize("reveal", ["auto", "bits"])
def test_scores_of_visits_join_nothing_and_find_what_there_is(reveal):
    wrong, boss = {"by row": 0, "by patient": 0}, FedBOSS(reveal=reveal)
    for seed in range(5):
        data = three(seed=seed, each=40, shared=3.0)
        rows = {site: frame.drop(columns="pid") for site, frame in data.items()}
        wrong["by row"] += len(Federation.simulate(rows).run(boss).graph.edges)
        by_patient = Federation.simulate(data, patient="pid").run(boss)
        wrong["by patient"] += len(by_patient.graph.edges)
    assert wrong["by row"] >= 1
    assert wrong["by patient"] == 0
    assert by_patient.finding.of_patients == "7,200 visits of 180 patients"
    run = Federation.simulate(three(slope=0.7), patient="pid").run(boss)
    assert len(run.graph.edges) == 1


def test_a_dependence_of_visits_is_still_found():
    run = Federation.simulate(three(slope=0.5), patient="pid").run(FedPC())
    assert len(run.graph.edges) == 1


@pytest.mark.parametrize(
    "algorithm",
    [
        *(FedPC(), FedPC(reveal="sums"), FedFCI(), FedPC(bootstrap=3)),
        *(FedBOSS(), FedBOSS(reveal="bits"), FedBOSS(bootstrap=3)),
    ],
    ids=lambda one: f"{one.name}-{one.reveal}-{one.bootstrap}",
)
def test_with_unique_keys_a_run_is_the_same(algorithm):
    data = three(each=1, patients=200, slope=0.2)
    with_key = Federation.simulate(data, patient="pid").run(algorithm)
    rows = {site: frame.drop(columns="pid") for site, frame in data.items()}
    without = Federation.simulate(rows).run(algorithm)
    assert with_key.graph == without.graph
    if not algorithm.bootstrap:
        assert with_key.finding.evidence == without.finding.evidence


def test_an_effect_has_wider_intervals_by_patients():
    data = three(slope=0.3)
    effect = Effect(treatment="crp", outcome="sodium")
    rows = {site: frame.drop(columns="pid") for site, frame in data.items()}
    by_patient, by_row = (
        run.finding.sets[0].contrasts[0]
        for run in (
            Federation.simulate(data, patient="pid").run(effect),
            Federation.simulate(rows).run(effect),
        )
    )
    assert by_patient.estimate == by_row.estimate
    assert by_patient.error > 1.3 * by_row.error


OPENING = [FedPC(reveal="sums"), FedPC(bootstrap=2), FedBOSS(), FedBOSS(reveal="bits")]
"""Runs over two numbers whose every byte is searched for keys."""


def followed(site):
    """Visits with a time until an event."""
    frame = visits(site, patients=20)
    died = np.where(frame.index % 3 == 0, "no", "yes")
    return frame.assign(months=np.exp(frame["crp"]), died=died)


@pytest.mark.parametrize(
    ("make", "algorithms"),
    [
        (lambda site: visits(site, patients=20), OPENING),
        (followed, [Survival(time="months", event="died", adjust=("sodium",))]),
    ],
    ids=["numbers", "times"],
)
def test_no_byte_that_leaves_or_is_kept_holds_a_key(make, algorithms, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    said = []

    class Listening(LocalEngine):
        def __init__(self, handlers):
            super().__init__({site: self._heard(each) for site, each in handlers.items()})

        @staticmethod
        def _heard(handler):
            def answer(operation, message):
                reply = handler(operation, message)
                said.extend([bytes(message), bytes(reply)])
                return reply

            return answer

    data = {site: make(site) for site in "abc"}
    data["a"].loc[3, "pid"] = None
    sites = Federation.simulate(data, patient="pid")
    federation = type(sites)(sites=sites.sites, wire=Listening)
    for algorithm in algorithms:
        run = federation.run(algorithm)
        run.save(tmp_path / str(len(said)))
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    everything = b"\n".join([*said, *files, caplog.text.encode()])
    assert len(said) > 20
    assert len(files) > 2 * len(algorithms)
    assert b"MRN-" not in everything
    for site in data:
        assert f"MRN-{site}".encode().hex().encode() not in everything


def test_rows_that_cannot_be_used_are_counted_and_named(caplog):
    frame = visits("a", patients=4, each=MAX_VISITS + 3)
    frame.loc[[5, 9], "pid"] = ["NA", ""]
    table = load_table(frame, Schema.loads(SCHEMA), site="a")
    assert table.rows == 4 * MAX_VISITS
    assert np.bincount(table.patients).tolist() == [MAX_VISITS] * 4
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "a: 2 of 212 rows without a patient are left out, first row 6" in said
    assert f"a: 10 of 212 rows beyond the first {MAX_VISITS} of their patient are left out" in said


def test_a_split_tears_no_patient_apart():
    federation = Federation.split(visits("a"), 4, patient="pid", seed=3)
    first = [site.table.numbers()[:, 0] for site in federation.sites]
    whole = visits("a").groupby("pid")["crp"].apply(set)
    for numbers, site in zip(first, federation.sites, strict=True):
        for number in range(int(site.table.patients.max()) + 1):
            assert set(numbers[site.table.patients == number]) in list(whole)
    assert sum(map(len, first)) == 600


@pytest.mark.follows('Choose evidence "stratified" (FedPC, FedFCI, GraphCheck, FedCMFS), FedBOSS')
@pytest.mark.parametrize(
    "algorithm",
    [
        FedPC(evidence="fisher"),
        FedPC(evidence="vote", reveal="sums"),
        FedBOSS(within_sites=False),
    ],
)
def test_evidence_that_takes_rows_for_persons_is_refused(algorithm):
    federation = Federation.simulate(three(patients=15), patient="pid")
    with pytest.raises(ParameterError, match="takes rows for persons") as refused:
        federation.run(algorithm)
    assert 'evidence "stratified"' in refused.value.remedy
    stratified = type(algorithm)(evidence="stratified") if algorithm.name == "fedpc" else FedFCI()
    assert federation.run(stratified).finding.of_patients == "450 visits of 45 patients"


def test_a_site_refuses_a_plan_that_takes_its_visits_for_persons():
    table = load_table(visits("a"), Schema.loads(SCHEMA), site="a")
    view = SiteView.of_table(table, min_cell_size=0)
    with pytest.raises(PolicyRefusedError, match="takes rows for persons"):
        view.answer(Columns(n_variables=2))
    asked = Columns(n_variables=2, visits=MAX_VISITS)
    kinds = asked.read(view.answer(asked))
    assert (kinds.rows, kinds.patients) == (600, 60)


def test_few_patients_are_few_however_many_rows_they_have():
    table = load_table(visits("a", patients=10, each=20), Schema.loads(SCHEMA), site="a")
    view = SiteView.of_table(table, min_cell_size=11)
    asked = Columns(n_variables=2, visits=MAX_VISITS)
    assert asked.read(view.answer(asked)).rows == 0
    with pytest.raises(PolicyRefusedError, match="fewer"):
        view.check_min_rows()


def test_each_of_resampled_patients_brings_all_its_rows():
    table = load_table(visits("a", patients=30, each=4), Schema.loads(SCHEMA), site="a")
    drawn = table.take_patients(np.array([7, 7, 2]))
    assert drawn.patients.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert np.array_equal(drawn.numbers()[:4], table.numbers()[28:32])
    assert np.array_equal(drawn.numbers()[:4], drawn.numbers()[4:8])


def test_a_check_of_a_graph_takes_visits():
    check = GraphCheck(CausalGraph.empty(("crp", "sodium")))
    federation = Federation.simulate(three(), patient="pid")
    assert not federation.run(check).finding.failing


def test_the_key_is_the_site_s_alone_and_there_is_one():
    schema, text = Schema.loads(SCHEMA), SCHEMA.replace("pid", "fallnummer")
    assert schema.canonical() == Schema.loads(text).canonical()
    assert Schema.loads(schema.dumps()).patient == schema.patient
    with pytest.raises(SchemaError, match="already names"):
        Schema.loads(SCHEMA + '[columns.mrn]\nkind = "patient"\n')
    with pytest.raises(SchemaError, match="persons"):
        Schema.loads('rows = "persons"\n' + SCHEMA)


@pytest.fixture
def hospitals(tmp_path):
    made = hospital_folders.hospitals(tmp_path, names=["aachen", "bonn", "celle"])
    made.installed = True
    for letter, folder in zip("abc", made.folders.values(), strict=True):
        visits(letter, patients=40, each=5).to_csv(folder.path / "data.csv", index=False)
        (folder.path / "schema.toml").write_text(SCHEMA, "utf-8")
    # one site's rows are persons, and its schema knows no patient
    persons = visits("c", patients=200, each=1).drop(columns="pid")
    persons.to_csv(folder.path / "data.csv", index=False)
    (folder.path / "schema.toml").write_text(
        SCHEMA.split("[columns.crp]")[1].join(["[columns.crp]", ""]), "utf-8"
    )
    yield made
    made.close()


def planned(hospitals, visiting):
    """A plan of FedPC that names the sites whose rows are visits."""
    plan = hospitals.plan(parameters=msgspec.to_builtins(FedPC()))
    cohort = tuple(
        msgspec.structs.replace(each, visits=MAX_VISITS if each.name in visiting else 1)
        for each in plan.cohort
    )
    return msgspec.structs.replace(plan, cohort=cohort)


def carried_out(hospitals, plan):
    session = hospitals.session({}, engine=LocalEngine(hospitals.handlers()), plan=plan)
    facts = plan_facts(plan, session.open())
    outcome = run_program(session, Replay(FedPC().ask(facts), facts.present))
    session.finish()
    return outcome


def test_folders_of_visits_and_of_persons_learn_together(hospitals):
    outcome = carried_out(hospitals, planned(hospitals, ["aachen", "bonn"]))
    assert outcome.of_patients == {"visits": [600, 280]}
    kept = [path for folder in hospitals.folders.values() for path in folder.path.rglob("*")]
    written = [path for path in kept if path.is_file() and path.name != "data.csv"]
    assert len(written) > 10
    assert not any(b"MRN-" in path.read_bytes() for path in written)


@pytest.mark.follows("Plan with --visits SITE, in Python connect(visits=[...]), for each site")
def test_a_plan_that_names_no_site_of_visits_is_refused(hospitals):
    (fix,) = {
        each.fix
        for each in plan_checks(hospitals.folders["aachen"], planned(hospitals, []))
        if each.fix
    }
    assert fix.startswith("Plan with --visits SITE")
    assert carried_out(hospitals, planned(hospitals, ["aachen", "bonn"]))


def test_descriptions_count_in_units_of_enough_patients():
    def described(**options):
        frames = {
            site: frame.assign(sex=frame.index % 2) for site, frame in three(**options).items()
        }
        return Federation.simulate(frames, patient="pid").run(Describe())

    assert described(each=10).finding.rounded_to == 11 * 10
    with pytest.raises(PolicyRefusedError, match="units of 330 rows"):
        described(each=30)


def test_an_effect_of_visits_warns_of_no_rows_below_a_number():
    rng = np.random.default_rng(4)
    frames = {}
    for site in "abc":
        whose = np.repeat(np.arange(60), 40)
        treated, number = rng.integers(0, 2, 60)[whose], rng.normal(size=60)[whose]
        cost = treated + rng.normal(size=len(whose))
        arms = np.array(["no", "yes"])[treated]
        frames[site] = pd.DataFrame({"pid": whose, "t": arms, "a": number, "y": cost})
    effect = Federation.simulate(frames, patient="pid").run(
        Effect(treatment="t", outcome="y", adjust="a")
    )
    assert not any(one.tests for one in effect.finding.sets[0].departures)
    assert not any(rows for *_, rows in effect.finding.cells("overlap"))


def test_patients_of_sites_with_few_of_them_are_not_counted():
    frames = {
        site: visits(site, patients=each)
        for site, each in zip("abcd", (60, 60, 60, 4), strict=True)
    }
    finding = Federation.simulate(frames, patient="pid", policy=Policy(min_cell_size=5)).run(
        FedPC()
    )
    assert finding.finding.of_patients == "1,840 visits of 180 patients"


@pytest.mark.parametrize("lacking", ["a", "b"])
def test_a_simulated_site_without_the_column_has_persons(lacking, caplog):
    data = three(patients=20, each=5)
    data[lacking] = data[lacking].drop(columns="pid")
    run = Federation.simulate(data, patient="pid").run(FedPC())
    assert run.finding.of_patients == "300 visits of 140 patients"
    assert f"site '{lacking}': no column says whose its rows are" in caplog.text


@pytest.mark.follows("Did you mean '{}'?")
@pytest.mark.follows("The columns are {}.")
def test_a_patient_column_that_is_none_is_answered_by_names():
    with pytest.raises(SchemaError, match="no such column") as refused:
        Federation.simulate(three(), patient="PIDs")
    assert refused.value.remedy == "Did you mean 'pid'?"
    with pytest.raises(SchemaError, match="no such column") as refused:
        Federation.simulate(three(), patient="whose")
    assert refused.value.remedy == "The columns are pid, crp, sodium."
    assert Federation.simulate(three(), patient="pid")


@pytest.mark.follows("Fill in whose rows they are; or leave the column out if no person has two.")
def test_a_site_whose_rows_have_no_key_is_refused():
    data = three()
    data["b"]["pid"] = None
    with pytest.raises(EmptyDataError, match="site 'b': no row says whose it is"):
        Federation.simulate(data, patient="pid")
    data["b"] = data["b"].drop(columns="pid")
    assert Federation.simulate(data, patient="pid").run(FedPC()).finding.of_patients


def test_a_site_with_one_patient_is_warned_of(caplog):
    data = three()
    data["b"]["pid"] = "P-1"
    Federation.simulate(data, patient="pid")
    said = "site 'b': Rows are of few patients, and a site that has 10 or fewer does no test."
    assert said in caplog.text


def test_a_key_without_repeats_silences_no_warning(caplog):
    data = {site: visits(site).assign(pid=range(600)) for site in "abc"}
    Federation.simulate(data, patient="pid")
    assert "Rows are like those before them in crp" in caplog.text
    caplog.clear()
    Federation.simulate(three(), patient="pid")
    assert "Rows are like those before them" not in caplog.text


def test_visits_that_are_counted_are_all_or_said_to_be_complete():
    rng, data = np.random.default_rng(2), three()
    for frame in data.values():
        frame["sex"] = rng.choice(["f", "m"], len(frame))
        frame.loc[frame.index < 10, "crp"] = np.nan
    federation = Federation.simulate(data, patient="pid")
    assert federation.run(FedPC()).finding.of_patients == "1,800 visits of 180 patients"
    effect = Effect(treatment="sex", outcome="sodium")
    said = "1,770 complete visits of 177 patients"
    assert federation.run(effect).finding.of_patients == said
    described = federation.run(Describe())
    assert " visits, of which 1,770 miss no value, by 177 patients, of" in str(described)
    assert str(described).count("patients") == 1
