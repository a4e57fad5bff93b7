"""Fed-CD from tables with interventions to a result by name."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from adversary import recorded
from scipy import stats

from cipherdag import CausalGraph, FedCD, Federation, FedPC, Schema, Training
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import (
    MissingColumnError,
    ParameterError,
    SchemaError,
    SiteUnreachableError,
    TooFewRowsError,
    UnknownCategoryError,
)
from cipherdag.federation.site import split_regimes
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.wire import decode
from cipherdag.protocol.messages import Envelope, Share, read_envelope
from cipherdag.results.folder import verify_folder
from cipherdag.sites.answers.belief_answers import local_beliefs
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table.site_table import load_table

STEPS = {
    "epochs": 1, "fit_steps": 60, "graph_steps": 30, "batch": 32, "graphs": 20, "hidden": 8,
}  # fmt: skip
SMALL = {"rounds": 2, "training": Training(**STEPS)}
NAMES = ("dose", "enzyme", "pain")


def trial(rows=300, each=60, seed=0):
    """dose -> enzyme -> pain with three levels each, and experiments on all of them."""
    rng = np.random.default_rng(seed)

    def draw(count, target):
        levels = np.zeros((count, 3), dtype=int)
        for j in range(3):
            noise = rng.choice(3, size=count, p=[0.85, 0.15, 0.0])
            follows = (
                (levels[:, j - 1] + noise) % 3 if j else rng.choice(3, count, p=[0.5, 0.3, 0.2])
            )
            levels[:, j] = rng.integers(0, 3, count) if NAMES[j] == target else follows
        return pd.DataFrame(levels, columns=list(NAMES)).assign(experiment=target or "")

    return pd.concat([draw(rows, None), *(draw(each, name) for name in NAMES)], ignore_index=True)


def dealt(protection="masking", deal="vertical", sites=3, **options):
    return Federation.split(
        trial(),
        sites,
        interventions="experiment",
        deal=deal,
        protection=protection,
        device="cpu",
        **options,
    )


def test_another_seed_comes_to_another_belief():
    one, other = (dealt("none").run(FedCD(**SMALL), seed=seed) for seed in (5, 6))
    assert one.finding.details["belief"] != other.finding.details["belief"]


def test_the_graph_is_found_by_name_and_agreed_upon():
    larger = {**STEPS, "epochs": 2, "fit_steps": 150, "graph_steps": 80, "hidden": 16}
    result = dealt("none").run(FedCD(rounds=3, training=Training(**larger)))
    truth = CausalGraph.from_edges(NAMES, directed=[("dose", "enzyme"), ("enzyme", "pain")])
    assert result.finding.dag == truth
    assert result.finding.graph == truth
    assert result.finding.metrics(truth).shd == result.finding.metrics_cpdag(truth).shd == 0
    report = result.to_dict()["details"]
    assert report["belief"]["dose"]["enzyme"] > 0.5 > report["belief"]["enzyme"]["dose"]
    assert report["cut"] == []
    assert len(report["edge_entropy"]) == len(result.rounds)
    assert report["edge_entropy"][-1] <= report["edge_entropy"][0]


def measured(rows=900, each=300, seed=0):
    """The same chain in numbers."""
    rng = np.random.default_rng(seed)

    def draw(count, target):
        levels = np.zeros((count, 3))
        for j in range(3):
            follows = levels[:, j - 1] + 0.5 * rng.standard_normal(count)
            own = follows if j else rng.standard_normal(count)
            levels[:, j] = 2.0 + rng.standard_normal(count) if NAMES[j] == target else own
        return pd.DataFrame(levels, columns=list(NAMES)).assign(experiment=target or "")

    return pd.concat([draw(rows, None), *(draw(each, name) for name in NAMES)], ignore_index=True)


def test_dcdi_finds_a_chain_of_numbers_over_three_sites():
    federation = Federation.split(
        measured(), 3, interventions="experiment", deal="vertical", protection="none", device="cpu"
    )
    training = Training(epochs=1, fit_steps=600, hidden=8, batch=64, sparsity=0.02)
    algorithm = FedCD(method="dcdi-g", rounds=2, training=training)
    result = federation.run(algorithm, seed=3)
    assert result.finding.graph == CausalGraph.from_edges(
        NAMES, directed=[("dose", "enzyme"), ("enzyme", "pain")]
    )


def test_an_experiment_whose_target_is_unknown_is_refused_by_name():
    frame = measured().replace({"experiment": {"pain": "unknown"}})
    with pytest.raises(UnknownCategoryError, match="unknown"):
        Federation.split(frame, 3, interventions="experiment", device="cpu")


# -- privacy ----------------------------------------------------------------------------------


def shares_seen(engine):
    """The uniform words of every share that the coordinator received, in order."""
    words = []
    for operation, _, message in engine.received:
        if operation == "ask":
            envelope: Envelope = read_envelope(message)
            words.append(np.frombuffer(decode(envelope.body, Share).share, dtype=np.uint64))
    return words


def test_the_coordinator_cannot_tell_who_intervened_on_what():
    """Two runs that differ in who holds which experiments only, with equal aggregates.

    What arrives is alike in everything but masked words, and these are uniform in both runs, given
    the sums: no function of the transcript tells the runs apart.
    """
    federation = dealt()
    tables = [site.table for site in federation.sites]
    assert len({tuple(t.interventions.any(axis=0)) for t in tables}) == 3
    swapped = replace(
        federation,
        sites=tuple(
            replace(site, table=table)
            for site, table in zip(federation.sites, tables[1:] + tables[:1], strict=True)
        ),
    )
    runs = []
    for arrangement in (federation, swapped):
        recording, engines = recorded(arrangement)
        result = recording.run(FedCD(**SMALL), seed=2)
        runs.append((result, engines[0]))
    (one, first), (other, second) = runs
    assert [r.aggregate for r in one.rounds] == [r.aggregate for r in other.rounds]
    # the same messages of the same lengths in the same order, whoever holds what
    shapes = [[(op, site, len(m)) for op, site, m in e.sent + e.received] for e in (first, second)]
    assert [s[:2] for s in shapes[0]] == [s[:2] for s in shapes[1]]
    lengths = [np.array([s[2] for s in own]) for own in shapes]
    assert np.abs(lengths[0] - lengths[1]).max() <= 16  # packed numbers of varying width
    for words, again in zip(shares_seen(first), shares_seen(second), strict=True):
        assert len(words) == len(again)
        assert not (words == again).any()
        both = np.concatenate([words, again]) / WORD_MODULI[0]
        assert stats.kstest(both, "uniform").pvalue > 1e-8
        assert abs(np.corrcoef(words.astype(float), again.astype(float))[0, 1]) < 0.9
    # what does differ, the sites' own answers, never arrived in the clear
    assert one.bytes_sent_per_site.keys() == other.bytes_sent_per_site.keys()


# -- data -------------------------------------------------------------------------------------


def schema_of(frame, **changes):
    schema = infer_schema(frame).with_interventions("experiment")
    mark = replace(schema.intervention, **changes)
    return Schema(tuple(mark if c.name == "experiment" else c for c in schema.columns))


def test_a_column_names_the_intervened_variables_of_each_row():
    frame = trial()
    frame["experiment"] = ["none", "pain;dose", " enzyme", ""] + ["none"] * (len(frame) - 4)
    table = load_table(frame, schema_of(frame, missing=("none",)))
    assert table.names == NAMES
    assert table.interventions[:4].astype(int).tolist() == [
        [0, 0, 0], [1, 0, 1], [0, 1, 0], [0, 0, 0],
    ]  # fmt: skip
    assert table.observational().rows == len(frame) - 2
    assert table.take(np.array([1])).interventions.tolist() == [[True, False, True]]
    assert (
        load_table(
            frame.drop(columns="experiment"), infer_schema(frame.drop(columns="experiment"))
        ).interventions
        is None
    )
    frame.loc[2, "experiment"] = "enzyme;gout"
    with pytest.raises(UnknownCategoryError, match="row 3") as refused:
        load_table(frame, schema_of(frame, missing=("none",)))
    assert refused.value.column == "experiment"
    with pytest.raises(MissingColumnError):
        load_table(frame.drop(columns="experiment"), schema_of(frame))


def test_the_schema_says_which_column_names_interventions():
    schema = schema_of(trial())
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert again.intervention.name == "experiment"
    assert again.names == NAMES
    plain = Schema(tuple(c for c in schema.columns if c.kind != "intervention"))
    assert plain.canonical() != schema.canonical()
    assert schema.canonical().startswith(plain.canonical())
    with pytest.raises(SchemaError, match="already names"):
        Schema((*schema.columns, replace(schema.intervention, name="other")))
    with pytest.raises(SchemaError, match="no such column"):
        schema.with_interventions("elsewhere")
    with pytest.raises(SchemaError, match="label"):
        replace(schema.intervention, label=True)


def test_conditional_independence_tests_see_observational_rows_only():
    frame = trial(rows=900)
    with_marks = Federation.simulate(
        {f"s{k}": frame.iloc[k::3] for k in range(3)}, interventions="experiment", device="cpu"
    )
    plain = frame[frame["experiment"] == ""].drop(columns="experiment")
    parts = {f"s{k}": frame.iloc[k::3] for k in range(3)}
    without = Federation.simulate(
        {n: p[p["experiment"] == ""].drop(columns="experiment") for n, p in parts.items()},
        schema=infer_schema(plain),
        device="cpu",
    )
    sums = [
        [r.aggregate for r in f.run(FedPC(evidence="vote")).rounds] for f in (with_marks, without)
    ]
    assert sums[0] == sums[1]


@pytest.mark.parametrize("vertical", [True, False])
def test_regimes_are_dealt_out_or_divided(vertical):
    table = load_table(trial(), schema_of(trial()))
    rng = np.random.default_rng(0)
    parts = split_regimes(table.interventions, 3, vertical=vertical, rng=rng)
    assert sorted(np.concatenate(parts)) == list(range(table.rows))
    held = np.array([table.interventions[rows].sum(axis=0) for rows in parts])
    if vertical:
        assert sorted(held.max(axis=1)) == [60, 60, 60]
        assert (np.count_nonzero(held, axis=0) == 1).all()
    else:
        assert (held == 20).all()
    free = [int((~table.interventions[rows].any(axis=1)).sum()) for rows in parts]
    assert free == [100, 100, 100]


def test_what_cannot_be_split_is_named():
    table = load_table(trial(), schema_of(trial()))
    rng = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="dealt out over 4"):
        split_regimes(table.interventions, 4, vertical=True, rng=rng)
    with pytest.raises(ParameterError, match="too few"):
        split_regimes(table.interventions, 200, vertical=False, rng=rng)
    with pytest.raises(SchemaError, match="dealt out"):
        Federation.split(trial().drop(columns="experiment"), 3, deal="vertical", device="cpu")


@pytest.mark.parametrize("column", [None, "experiment"])
def test_without_any_intervention_no_direction_is_made_up(column):
    frame = trial().drop(columns="experiment")
    if column is not None:
        frame[column] = ""
    sites = {f"s{k}": frame.iloc[k::3] for k in range(3)}
    federation = Federation.simulate(sites, interventions=column, device="cpu")
    with pytest.raises(SchemaError, match="Fed-CD needs rows of known interventions") as refused:
        federation.run(FedCD(**SMALL))
    assert "--interventions" in refused.value.remedy


def test_a_site_whose_schema_names_no_interventions_does_not_train():
    table = replace(dealt("none").sites[0].table, interventions=None)
    question = next(FedCD(**SMALL).ask(Facts(3, 3)))
    with pytest.raises(SchemaError, match="no column names interventions"):
        local_beliefs(question, SiteView.of_table(table, min_cell_size=1, device="cpu"))


def test_a_site_without_observational_rows_is_not_ready():
    federation = dealt("none")
    table = federation.sites[0].table
    only = table.take(np.flatnonzero(table.interventions.any(axis=1)))
    sites = (replace(federation.sites[0], table=only), *federation.sites[1:])
    with pytest.raises(Exception) as refused:
        replace(federation, sites=sites).run(FedCD(**SMALL))
    assert refused.type.__name__ in (TooFewRowsError.__name__, SiteUnreachableError.__name__)
    question = next(FedCD(**SMALL).ask(Facts(3, 3)))
    with pytest.raises(TooFewRowsError, match="observational"):
        local_beliefs(question, SiteView.of_table(only, min_cell_size=1, device="cpu"))


# -- commands ---------------------------------------------------------------------------------

FLAGS = [
    str(part)
    for name, value in {"rounds": 2, **STEPS}.items()
    for part in (f"--{name.replace('_', '-')}", value)
]


def test_simulate_writes_a_whole_folder_that_verifies_and_repeats(call, tmp_path):
    file, truth, out, again = (tmp_path / n for n in ("trial.csv", "truth.csv", "out", "again"))
    trial().to_csv(file, index=False)
    truth.write_text("from,to,mark\ndose,enzyme,-->\nenzyme,pain,-->\n", "utf-8")
    arguments = ("simulate", "fedcd", file, "--interventions", "experiment", "--sites", 3, *FLAGS)
    code, text, _ = call(*arguments, "--truth", truth, "--out", out)
    assert code == 0
    assert "Learnt graph (DAG)" in text
    assert "Disclosed: sums over all sites in" in text
    report = json.loads((out / "result.json").read_text("utf-8"))
    assert report["parameters"]["training"]["hidden"] == 8
    assert len(report["details"]["edge_entropy"]) == 2
    assert report["metrics"]["shd"] >= 0
    assert len(verify_folder(out)) == 3
    assert call("repeat", out, "--out", again)[0] == 0
    repeated = json.loads((again / "result.json").read_text("utf-8"))
    assert repeated["details"] == report["details"]


def test_run_takes_one_file_per_site_and_the_column_from_the_schema(call, tmp_path):
    frame = trial()
    files = [tmp_path / f"clinic{k}.csv" for k in range(3)]
    for k, file in enumerate(files):
        frame.iloc[k::3].to_csv(file, index=False)
    schema = tmp_path / "schema.toml"
    schema.write_text(schema_of(frame).dumps(), "utf-8")
    code, text, _ = call("run", "fedcd", *files, "--schema", schema, "--json", *FLAGS)
    assert code == 0
    last = json.loads(text.splitlines()[-1])["result"]
    assert last["sites"] == ["clinic0", "clinic1", "clinic2"]
    assert set(last["details"]["belief"]) == set(NAMES)


@pytest.mark.parametrize(
    ("arguments", "expected", "text"),
    [
        (("--interventions", "gout"), 6, "no such column"),
        (("--sites", "4"), 2, "dealt out"),
        (("--sharpness", "3"), 2, "sharpness goes with --as-published only"),
        (("--as-published", "--full-mass", "60", "--sharpness", "99"), 2, "sharpness"),
        (("--as-published", "code", "--method", "sdi"), 2, "method sdi contradicts"),
        (("--epochs", "0"), 2, "epochs must be at least 1"),
        (("--intervention-type", "imperfect"), 2, "enco takes perfect interventions"),
        (("--method", "dcdi-g", "--intervention-type", "unknown"), 2, "'unknown' is not one of"),
    ],
)
def test_what_is_wrong_is_named(call, tmp_path, arguments, expected, text):
    file = tmp_path / "trial.csv"
    trial().to_csv(file, index=False)
    known = ("--interventions", "experiment") if "gout" not in arguments else ()
    code, _, error = call("simulate", "fedcd", file, *known, *FLAGS, *arguments)
    assert code == expected
    assert text in error
