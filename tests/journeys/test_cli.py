"""The command line: the main paths, every bad input with its exit code, and what a pipe sees."""

import json
import re
import shlex
import tomllib

import adversary
import click
import numpy as np
import pandas as pd
import pytest

from cipherdag import Describe, Federation
from cipherdag.cli.demo import VARIANTS
from cipherdag.cli.main import cli
from cipherdag.graphs.exports import EXPORTS
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.networks import asia

BAD = {
    "empty": ("", "EmptyDataError"),
    "header_only": ("a,b\n", "EmptyDataError"),
    "one_row": ("a,b\n1,2\n", "TooFewRowsError"),
    "duplicate": ("a,a\n1,2\n2,1\n", "DuplicateNameError"),
    "clashing": ("a, a\n1,2\n2,1\n", "DuplicateNameError"),
    "constant": ("a,b\n1,2\n1,1\n1,2\n", "ConstantColumnError"),
    "missing_column": ("a\n1\n2\n", "MissingColumnError"),
    "extra_column": ("a,b,c\n1,2,3\n2,1,4\n", "ExtraColumnError"),
    "unknown_category": ("a,b\n1,2\n2,7\n", "UnknownCategoryError"),
    "ragged": ("a,b\n1,2,3\n2,1\n", "UnreadableDataError"),
}
MOST_OF_THE_DEMO = 59  # `make demo` adds how long it took
SCHEMA = """
[columns.a]
kind = "discrete"
categories = ["1", "2"]

[columns.b]
kind = "discrete"
categories = ["1", "2"]
"""


@pytest.fixture
def three_files(tmp_path):
    files = []
    for number, rows in enumerate(adversary.ROWS):
        file = tmp_path / f"clinic{number}.csv"
        adversary.patients(rows, number).to_csv(file, index=False)
        files.append(file)
    return files


@pytest.fixture
def one_file(tmp_path):
    file = tmp_path / "all.csv"
    asia().sample(1500, np.random.default_rng(0)).to_csv(file, index=False)
    truth = tmp_path / "truth.csv"
    truth.write_text(
        "parent,child\n" + "".join(f"{a},{b}\n" for a, b in asia().graph.directed), "utf-8"
    )
    return file, truth


def test_run_writes_a_whole_folder_and_says_what_left(call, three_files, tmp_path):
    out = tmp_path / "out"
    code, text, _ = call("run", "fedpc", *three_files, "--out", out)
    assert code == 0
    account = text[text.index("Learnt graph") :]
    assert re.search(
        r"^Disclosed: bits in \d+ rounds?, and sums over all sites in", account, re.MULTILINE
    )
    assert "What left" not in text
    command = re.search(r"^All that left: cipherdag (.*)$", account, re.MULTILINE)[1]
    _, said, _ = call(*shlex.split(command))
    assert "What left 'clinic0'" in said
    assert "only as a sum over 3 sites" in said
    for name in ("graph.svg", "graph.graphml", "graph.dot", "edges.csv", "run.toml", "schema.toml"):
        assert (out / name).stat().st_size > 0
    assert "FedPC over 3 sites" in (out / "report.html").read_text("utf-8")
    report = json.loads((out / "result.json").read_text("utf-8"))
    keys = "algorithm protection sites rounds seconds bytes_sent_per_site edges".split()
    assert set(keys) <= set(report)
    assert report["sites"] == ["clinic0", "clinic1", "clinic2"]
    edges = pd.read_csv(out / "edges.csv")
    assert edges.columns.tolist() == ["from", "to", "mark", "status", "why"]
    call("run", "fedpc", *three_files, "--reveal", "sums", "--out", out, "--force")
    edges = pd.read_csv(out / "edges.csv")
    effect = [f"association{more}" for more in ("", "_low", "_high", "_measure", "_sign", "_of")]
    own = ["p_value", "given", *effect, "status", "why"]
    assert edges.columns.tolist() == ["from", "to", "mark", *own]
    assert edges["p_value"].between(0, 0.01).all()


def test_audit_accepts_a_run_and_names_the_line_of_one_changed_byte(call, three_files, tmp_path):
    out = tmp_path / "out"
    call("run", "fedpc", *three_files, "--out", out)
    code, text, _ = call("audit", "verify", out)
    assert code == 0
    assert text.count("unbroken") == 3
    ledger = out / "releases" / "clinic1.jsonl"
    lines = ledger.read_text("utf-8").split("\n")
    lines[2] = lines[2].replace('"values":', '"values":1', 1)
    ledger.write_text("\n".join(lines), "utf-8")
    code, _, error = call("audit", "verify", out)
    assert code == 1
    assert "line 3" in error
    assert "clinic1" in error


def test_audit_finds_a_ledger_that_was_cut_or_removed(call, three_files, tmp_path):
    out = tmp_path / "out"
    call("run", "fedpc", *three_files, "--out", out)
    ledger = out / "releases" / "clinic1.jsonl"
    lines = ledger.read_text("utf-8").splitlines()
    ledger.write_text("\n".join(lines[:-1]) + "\n", "utf-8")
    assert call("audit", "verify", out)[0] == 1
    ledger.unlink()
    code, _, error = call("audit", "verify", out)
    assert code == 1
    assert "clinic1" in error


def test_audit_show_speaks_in_sentences_and_in_json(call, three_files, tmp_path):
    out = tmp_path / "out"
    call("run", "fedpc", *three_files, "--out", out, "--protection", "bfv")
    _, text, _ = call("audit", "show", out)
    assert "encrypted, seen by everybody only as a sum over 3 sites" in text
    _, text, _ = call("audit", "show", out, "--json")
    assert {"site", "round", "kind", "digest"} <= set(json.loads(text.splitlines()[0]))


def test_simulate_measures_against_a_truth_and_can_be_repeated(call, one_file, tmp_path):
    file, truth = one_file
    out, again = tmp_path / "out", tmp_path / "again"
    code, text, _ = call(
        "simulate", "fedpc", file, "--sites", 3, "--truth", truth, "--out", out, "--seed", 4
    )
    assert code == 0
    assert "SHD" in text
    report = json.loads((out / "result.json").read_text("utf-8"))
    assert set(report["metrics"]) >= {
        "shd", "reverse", "extra", "miss", "precision", "recall", "f1",
    }  # fmt: skip
    assert call("repeat", out, "--out", again)[0] == 0
    other = json.loads((again / "result.json").read_text("utf-8"))
    assert other["edges"] == report["edges"]
    assert other["metrics"] == report["metrics"]


def test_a_truth_may_name_a_column_that_is_left_out(call, one_file, tmp_path, caplog):
    file, truth = one_file
    out, plain = tmp_path / "out", tmp_path / "plain"
    call("simulate", "fedpc", file, "--sites", 3, "--truth", truth, "--out", plain)
    whole = tmp_path / "whole.csv"
    pd.read_csv(file).assign(country="DE").to_csv(whole, index=False)
    more = tmp_path / "more.csv"
    more.write_text(truth.read_text("utf-8") + "country,Smoking\n", "utf-8")
    code, text, error = call(
        "simulate", "fedpc", whole, "--sites", 3, "--truth", more, "--out", out
    )
    assert code == 0, text + error
    assert "compared without 'country'" in caplog.text
    metrics = [
        json.loads((own / "result.json").read_text("utf-8"))["metrics"] for own in (out, plain)
    ]
    assert metrics[0] == metrics[1]
    assert call("report", out, "--truth", more)[0] == 0
    assert call("repeat", out, "--out", tmp_path / "again")[0] == 0
    more.write_text(truth.read_text("utf-8") + "contry,Smoking\n", "utf-8")
    code, _, error = call("simulate", "fedpc", whole, "--sites", 3, "--truth", more)
    assert code == 1
    assert "'contry'" in error


def test_graph_show_compare_and_export(call, one_file, tmp_path):
    file, truth = one_file
    out = tmp_path / "out"
    call("simulate", "fedpc", file, "--sites", 3, "--out", out)
    assert "-->" in call("graph", "show", out)[1] or "---" in call("graph", "show", out)[1]
    assert json.loads(call("graph", "compare", out, out, "--json")[1])["shd"] == 0
    assert "SHD" in call("graph", "compare", out, truth)[1]
    svg, png = tmp_path / "drawn", tmp_path / "drawn.png"
    assert call("graph", "show", out, "--svg", svg, "--png", png)[0] == 0
    assert svg.read_bytes()[:5] == b"<?xml"
    assert png.read_bytes()[:4] == b"\x89PNG"
    for kind in EXPORTS:
        target = tmp_path / f"graph.{kind}"
        assert call("graph", "export", out, "--format", kind, "--out", target)[0] == 0
        assert target.stat().st_size > 0
    dag = tmp_path / "dag.csv"
    assert call("graph", "export", out, "--format", "csv", "--dag", "--out", dag)[0] == 0
    assert CausalGraph.from_csv(dag.read_text("utf-8")).is_dag


def test_a_pag_is_exported_as_no_dag(call, one_file, tmp_path):
    out = tmp_path / "out"
    call("simulate", "fedfci", one_file[0], "--sites", 3, "--out", out)
    asked = ("graph", "export", out, "--format", "csv", "--out", tmp_path / "dag.csv")
    code, _, error = call(*asked, "--dag")
    assert code == 1
    assert "a PAG stands for no single class of DAGs" in error
    assert "Leave --dag out." in error
    assert call(*asked)[0] == 0


@pytest.mark.parametrize("name", BAD)
def test_bad_data_ends_with_code_6_and_says_what_where_and_what_to_do(call, tmp_path, name):
    content, error = BAD[name]
    schema = tmp_path / "schema.toml"
    schema.write_text(SCHEMA, "utf-8")
    files = []
    for number in range(3):
        files.append(tmp_path / f"site{number}.csv")
        good = "a,b\n1,2\n2,1\n1,1\n"
        files[-1].write_text(content if number == 1 else good, "utf-8")
    code, _, text = call("run", "fedpc", *files, "--schema", schema)
    assert code == 6
    assert error in text
    assert "site1.csv" in text
    assert "cause" in text
    assert "  do " in text


@pytest.mark.parametrize(
    ("b", "rows", "said"),
    [
        ('kind = "continuous"', "1.5,2\n2,x\n3,4\n", ("NotNumericError", "column 'b'")),
        (
            'kind = "discrete"\ncategories = ["0", "1"]',
            "1.5,0\n2,1\n3,0\n4,1\n",
            ("MixedTypesError",),
        ),
    ],
)
def test_columns_that_no_vote_can_test_end_with_code_6(call, tmp_path, b, rows, said):
    schema = tmp_path / "schema.toml"
    schema.write_text(f'[columns.a]\nkind = "continuous"\n[columns.b]\n{b}\n', "utf-8")
    files = [tmp_path / f"s{k}.csv" for k in range(3)]
    for file in files:
        file.write_text(f"a,b\n{rows}", "utf-8")
    code, _, text = call("run", "fedpc", *files, "--schema", schema, "--evidence", "vote")
    assert code == 6
    assert all(words in text for words in said)


def test_files_without_an_algorithm_choose_one_and_say_why(call, three_files, tmp_path):
    code, _, text = call("run", *three_files, "--out", tmp_path / "out")
    assert code == 0
    assert "FedBOSS is taken. There are categories" in text
    described = tomllib.loads((tmp_path / "out" / "run.toml").read_text("utf-8"))
    assert described["algorithm"] == "fedboss"
    assert call("repeat", tmp_path / "out")[0] == 0
    code, shown, text = call("run", *three_files, "--json")
    assert code == 0
    assert "FedBOSS is taken." in text
    assert all(json.loads(line) for line in shown.splitlines())
    code, _, text = call("simulate", three_files[0], "--sites", 2)
    assert code == 0
    assert "FedPC is taken. There are fewer than three sites" in text


def test_neither_an_algorithm_nor_a_file_is_named_as_such(call, tmp_path):
    code, _, text = call("run", tmp_path / "no-such-file.csv")
    assert code == 2
    assert "there is no file" in text
    code, _, text = call("run", "nothing-of-the-kind")
    assert code == 2
    assert "No such command" in text


def test_two_files_are_refused_for_privacy_with_code_3(call, three_files):
    code, _, text = call("run", "fedpc", *three_files[:2], "--reveal", "sums")
    assert code == 3
    assert "CohortError" in text
    assert call("run", "fedpc", *three_files[:2])[0] == 0  # of which bits alone leave


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "fedpc"),
        ("run", "fedpc", "no-such-file.csv"),
        ("simulate", "fedpc", __file__, "--sites", "0"),
        ("dance",),
        ("run", "fedpc", __file__, "--protection", "ckks"),
    ],
)
def test_usage_ends_with_code_2(call, arguments):
    assert call(*arguments)[0] == 2


def test_a_parameter_out_of_range_ends_with_code_2(call, one_file):
    assert call("simulate", "fedpc", one_file[0], "--sites", 3, "--alpha", "2")[0] == 2
    assert call("simulate", "fedpc", one_file[0], "--sites", 5000)[0] == 2


def test_two_files_of_one_name_end_with_code_2(call, tmp_path, three_files):
    other = tmp_path / "other"
    other.mkdir()
    double = other / "clinic0.csv"
    double.write_text(three_files[0].read_text("utf-8"), "utf-8")
    assert call("run", "fedpc", *three_files, double)[0] == 2


def test_a_folder_that_is_no_result_ends_with_code_1(call, tmp_path):
    for command in (("audit", "verify"), ("audit", "show"), ("graph", "show"), ("repeat",)):
        assert call(*command, tmp_path)[0] == 1


def test_a_run_over_data_frames_cannot_be_repeated_and_says_why(call, tmp_path):
    rows = asia().sample(300, np.random.default_rng(0))
    Federation.split(rows, 3).run(Describe()).save(tmp_path / "made")
    code, _, error = call("repeat", tmp_path / "made")
    assert code == 1
    assert "its rows lay in memory" in " ".join(error.split())
    assert "does not describe a run" not in error


def test_an_unwritable_out_is_found_before_the_run(call, one_file, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder", "utf-8")
    code, text, error = call("simulate", "fedpc", one_file[0], "--sites", 3, "--out", blocked)
    assert code == 1
    assert "OutputError" in error
    assert "round" not in text


def test_schema_infer_writes_what_run_reads(call, three_files, tmp_path):
    schema = tmp_path / "schema.toml"
    assert call("schema", "infer", *three_files, "--out", schema)[0] == 0
    assert call("run", "fedpc", *three_files, "--schema", schema)[0] == 0
    assert call("schema", "infer", *three_files, "--out", schema)[0] == 1
    (folder,) = {file.parent for file in three_files}
    _, of_folder, error = call("schema", "infer", folder)
    assert of_folder == schema.read_text("utf-8"), error


def test_schema_infer_of_a_folder_names_what_a_file_of_it_lacks(call, tmp_path):
    (tmp_path / "north.csv").write_text("a,b\n" + "1,0\n0,1\n" * 20, "utf-8")
    (tmp_path / "south.csv").write_text("a\n" + "1\n0\n" * 20, "utf-8")
    code, said, error = call("schema", "infer", tmp_path)
    assert code == 0, error
    assert "Ignored: south.csv lacks it." in " ".join(said.replace("#", " ").split())


def test_demo_ends_well(call, tmp_path):
    code, text, _ = call("demo", "--rows", 2000, "--out", tmp_path)
    assert code == 0
    assert "Masking and homomorphic encryption of the same sums gave the same graph." in text
    assert "The run by bits learnt " in text
    assert text.count("SHD") == 2
    assert text.index("Learnt graph") > text.index("All that left: cipherdag audit show")
    assert len(text.splitlines()) <= MOST_OF_THE_DEMO
    opened = [
        json.loads((tmp_path / name / "result.json").read_text("utf-8")) for name, *_ in VARIANTS
    ]
    assert [own["details"].get("reveal") for own in opened] == ["bits", None, None]
    assert opened[1]["edges"] == opened[2]["edges"]


def groups(command, words=()):
    """Every group of commands, with the words that lead to it."""
    yield words, command
    for name, own in command.commands.items():
        if isinstance(own, click.Group):
            yield from groups(own, (*words, name))


@pytest.mark.parametrize(("words", "group"), list(groups(cli)), ids=str)
def test_lists_of_commands_end_no_help_in_mid_sentence(call, words, group):
    code, text, _ = call(*words, "--help")
    assert code == 0
    assert "..." not in text.partition("Commands:")[2]
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        # as Sphinx asks for it
        assert not command.get_short_help_str().endswith("..."), name
