"""What a command about a result, a ledger or a stopped run advises is typed, and it works."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from advice import advice, case, listed

from cipherdag import Describe, FedBOSS, Federation, FedFCI, FedPC
from cipherdag.federation.checkpoint import Checkpoint

COMMAND = re.compile(r"`cipherdag ([^`]+)`")
OPTION = re.compile(r"--[a-z][a-z-]+")


@pytest.fixture
def typed(call):
    """Types a command that is wrong; gives what it advises."""

    def wrong(*words):
        code, _, said = call(*words)
        assert code, said
        return said.partition("\n  do      ")[2].partition("    (exit")[0]

    return wrong


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "data.csv"
    frame().to_csv(file, index=False)
    return file


def frame(rows=300):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.integers(0, 2, (rows, 3)), columns=list("abc"))


def run(algorithm):
    return Federation.split(frame(), 3, device="cpu").run(algorithm)


def simulate(table, out, algorithm="fedpc"):
    return ["simulate", algorithm, table, "--sites", "3", "--device", "cpu", "--out", out]


def stop(monkeypatch):
    """Stop the next run after its second round, as Ctrl-C would."""
    write = Checkpoint.write

    def stopping(self, entry):
        write(self, entry)
        if len(self.rounds) == 2:
            monkeypatch.setattr(Checkpoint, "write", write)
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", stopping)


@pytest.mark.follows(
    "or overwrite it with --force; in Python, with force=True", "or overwrite the file"
)
def test_a_result_is_overwritten_as_advised(call, typed, table, tmp_path):
    out = tmp_path / "out"
    assert call(*simulate(table, out))[0] == 0
    remedy = typed(*simulate(table, out))
    assert call(*simulate(table, out), OPTION.search(remedy)[0])[0] == 0
    name = re.search(r"(\w+)=True", remedy)[1]
    run(FedPC()).save(out, **{name: True})
    (out / "result.json").unlink()
    option, other = OPTION.findall(typed(*simulate(table, out)))
    assert call(*simulate(table, out), other)[0] == 0
    assert call(*simulate(table, out), option, tmp_path / "third")[0] == 0


@pytest.mark.follows(
    "Go on with `cipherdag run --resume {}`, or begin anew", "Go on with what it was begun"
)
def test_a_stopped_run_goes_on_or_begins_anew(call, typed, table, tmp_path, monkeypatch):
    out = tmp_path / "out"
    for follow in ("go on", "anew"):
        stop(monkeypatch)
        assert call(*simulate(table, out), "--force")[0] == 130
        remedy = typed(*simulate(table, out))
        words = shlex.split(COMMAND.search(remedy)[1])
        anew = [*simulate(table, out), OPTION.search(remedy.partition("anew")[2])[0]]
        assert call(*(words if follow == "go on" else anew))[0] == 0
    stop(monkeypatch)
    assert call(*simulate(table, out), "--force")[0] == 130
    frame(240).to_csv(table, index=False)
    assert OPTION.findall(typed(*words)) == anew[-1:]
    assert call(*anew)[0] == 0


@pytest.mark.follows(
    "Name the folder that the stopped run named", "or make it again with `cipherdag repeat`"
)
def test_a_run_that_ended_is_repeated(call, typed, table, tmp_path):
    out, again = tmp_path / "out", tmp_path / "again"
    assert call(*simulate(table, out))[0] == 0
    assert "a result lies in --out already" in typed("simulate", "--resume", out)
    words = COMMAND.search(typed("run", "--resume", out))[1].split()
    assert call(*words, out, "--out", again)[0] == 0


@pytest.mark.follows("Choose another folder with --out, or make this one")
def test_a_result_is_written_elsewhere(call, typed, table, tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    wrong = simulate(table, tmp_path / "file" / "out")
    option = OPTION.search(typed(*wrong))[0]
    assert call(*wrong[: wrong.index(option)], option, tmp_path / "other")[0] == 0


@pytest.mark.follows(
    "Choose with --site: {}; or take --format csv", "Leave --site out", "It holds {}."
)
def test_a_ledger_is_exported_as_advised(call, typed, tmp_path):
    run(FedPC()).save(tmp_path / "result")
    files = iter(range(100))

    def export(source, *options):
        return "audit", "export", source, "--out", tmp_path / str(next(files)), *options

    remedy = typed(*export(tmp_path / "result"))
    option, names, *rest = re.match(r".*(--site): (.*); or take (--\w+) (\w+)", remedy).groups()
    for site in names.split(", "):
        assert call(*export(tmp_path / "result", option, site))[0] == 0
    assert call(*export(tmp_path / "result", *rest))[0] == 0
    holds = typed(*export(tmp_path / "result", "--site", "zzz"))
    assert listed(holds, "It holds ") == names.split(", ")
    ledger = tmp_path / "result" / "releases" / f"{names.split(', ')[0]}.jsonl"
    assert OPTION.findall(typed(*export(ledger, "--site", "a"))) == ["--site"]
    assert call(*export(ledger))[0] == 0


@pytest.mark.follows("Name another file, or overwrite this one with --force.")
@pytest.mark.parametrize("how", ["another", "forced"])
def test_a_file_that_exists_gives_way(call, typed, table, tmp_path, how):
    run(FedPC()).save(tmp_path / "result")
    file = tmp_path / "file"
    for words in (
        ("audit", "export", tmp_path / "result", "--format", "csv"),
        ("audit", "bundle", tmp_path / "result"),
        ("schema", "infer", table),
    ):
        file.write_text("", "utf-8")
        option = OPTION.search(typed(*words, "--out", file))[0]
        named = ("--out", tmp_path / f"{words[1]}-other") if how == "another" else ()
        assert call(*words, *(named or ("--out", file, option)))[0] == 0


@pytest.mark.follows("Leave --dag out.", "Compare it with another result of FedFCI", "than FedFCI")
def test_a_pag_is_exported_and_compared_as_what_it_is(call, typed, tmp_path):
    fci, pc = run(FedFCI()), run(FedPC())
    fci.save(tmp_path / "fci")
    words = ["graph", "export", tmp_path / "fci", "--format", "csv", "--dag"]
    words += ["--out", tmp_path / "g"]
    words.remove(OPTION.search(typed(*words))[0])
    assert call(*words)[0] == 0
    pag, cpdag = fci.finding, pc.finding
    assert "FedFCI" in advice(cpdag.distance_to, pag.graph) + advice(pag.distance_to, cpdag.graph)
    for one, other in ((cpdag, run(FedBOSS()).finding), (pag, run(FedFCI(alpha=0.05)).finding)):
        assert one.distance_to(other.graph)


@pytest.mark.follows(
    "Run `cipherdag schema merge {} {} --out schema.toml`.", "draft one by `cipherdag"
)
def test_schemas_that_differ_are_merged(call, typed, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.csv"
    frame().assign(a=["yes", "no"] * 150).to_csv(other, index=False)
    for name, file in (("one.toml", table), ("two.toml", other)):
        assert call("schema", "infer", file, "--out", name)[0] == 0
    text = (tmp_path / "two.toml").read_text("utf-8").replace('"no", "yes"', '"0", "1", "2"')
    (tmp_path / "two.toml").write_text(text, "utf-8")
    words = COMMAND.search(typed("schema", "diff", "one.toml", "two.toml"))[1]
    assert call(*shlex.split(words))[0] == 0
    assert call("schema", "diff", "schema.toml", "schema.toml")[0] == 0
    (tmp_path / "bad.toml").write_text("x = 1", "utf-8")
    wrong = simulate(table, "out")
    words = COMMAND.search(typed(*wrong, "--schema", "bad.toml"))[1].replace("FILE", str(table))
    assert call(*shlex.split(words), "--out", "drafted.toml")[0] == 0
    assert call(*wrong, "--schema", "drafted.toml")[0] == 0


@pytest.mark.follows(
    "Write all tiers into the file of --tiers.",
    "Save it as UTF-8, and name the file.",
    "Name a file that is there, or columns: age,sex.",
)
def test_tiers_are_all_in_one_file(call, typed, table, tmp_path):
    known, tiers = tmp_path / "known.toml", tmp_path / "tiers.csv"
    known.write_text('tiers = [["a"], ["b"]]\n', "utf-8")
    tiers.write_text("variable,tier\na,1\nb,2\n", "utf-8")
    words = simulate(table, tmp_path / "out")
    option = OPTION.search(typed(*words, "--knowledge", known, "--tiers", tiers))[0]
    assert call(*words, option, tiers)[0] == 0
    tiers.write_bytes("variable,tier\nä,1\n".encode("latin-1"))
    assert "UTF-8" in typed(*words, "--tiers", tiers)
    tiers.write_text("variable,tier\na,1\n", "utf-8")
    assert call(*words, "--force", "--tiers", tiers)[0] == 0
    remedy = typed(*words, "--force", "--tiers", tiers.with_name("tires.csv"))
    shape = listed(remedy, "columns: ")
    assert call(*words, "--force", "--tiers", ",".join(["a", "b"][: len(shape)]))[0] == 0


@pytest.mark.follows("Change what is named; `cipherdag COMMAND --help-all` says what there is.")
def test_the_range_of_a_parameter_stands_in_the_help(call, typed, table, tmp_path):
    words = simulate(table, tmp_path / "out")
    remedy = typed(*words, "--evidence", "pooled", "--test", "kci")
    command = COMMAND.search(remedy)[1].replace("COMMAND", " ".join(words[:2])).split()
    code, said, _ = call(*command)
    assert code == 0
    assert "--evidence" in said


@pytest.mark.follows("Name the --out folder of a run.", "Name the --out folder of a finished run.")
def test_the_folder_of_a_run_is_named(call, typed, table, tmp_path):
    (tmp_path / "empty").mkdir()
    folders = [tmp_path / "empty", tmp_path / "described"]
    run(Describe()).save(folders[1])
    for ledger in (folders[1] / "releases").iterdir():
        ledger.unlink()
    remedies = [typed("audit", "verify", folders[1]), typed("graph", "show", folders[0])]
    option = {OPTION.search(remedy)[0] for remedy in remedies}
    words = simulate(table, tmp_path / "out")
    assert option == {words[-2]}
    assert call(*words)[0] == 0
    for command in ("audit verify", "graph show"):
        assert call(*command.split(), words[-1])[0] == 0


@pytest.mark.parametrize(
    "text",
    [
        case("", "Start it there again: result.json has"),
        case('command = "coordinator run"\nalgorithm = "fedpc"\n', "Ask them again: `cipherdag"),
    ],
)
def test_a_run_that_no_command_line_repeats_is_asked_for_again(call, typed, tmp_path, text):
    result = run(FedPC())
    result.save(tmp_path / "result")
    (tmp_path / "result" / "run.toml").write_text(text, "utf-8")
    remedy = typed("repeat", tmp_path / "result", "--out", tmp_path / "out")
    if not text:
        assert run(FedPC(**result.parameters)).finding.graph == result.finding.graph
        return
    words = COMMAND.search(remedy)[1].replace("...", "again").split()
    code, _, said = call(*words, "--alpha", "0.05", "--dir", tmp_path)
    assert (code, "no coordinator's folder" in said) == (4, True)


def _chain(rows=1800):
    """A file whose columns cause each other in a row: age, bmi, sugar; and a coin."""
    rng = np.random.default_rng(4)
    age = rng.normal(60.0, 12.0, rows)
    bmi = 26.0 + 0.2 * (age - 60.0) + rng.normal(0.0, 3.0, rows)
    sugar = 100.0 + 2.0 * (bmi - 26.0) + rng.normal(0.0, 6.0, rows)
    return pd.DataFrame(
        {"age": age, "bmi": bmi, "sugar": sugar, "sex": rng.choice(["f", "m"], rows)}
    )


@pytest.mark.follows(
    "No command is needed. To see whether the rows agree: `{}`.",
    "It is the other way round: `cipherdag effect {} {}`.",
)
@pytest.mark.parametrize("algorithm", ["fedpc", "fedboss"])
def test_an_effect_of_0_comes_with_what_can_be_run(typed, call, tmp_path, algorithm):
    data, folder = tmp_path / "rows.csv", tmp_path / "folder"
    _chain().to_csv(data, index=False)
    known = ["--forbid", "bmi", "age", "--forbid", "sugar", "bmi", "--forbid", "sugar", "age"]
    assert call(*simulate(data, folder, algorithm), *known)[0] == 0
    asked = ("effect", folder, "--of")
    for pair in (("sugar", "--on", "age"), ("sex", "--on", "bmi")):
        remedy = typed(*asked, *pair)
        assert remedy.startswith("No command is needed")
        code, said, error = call(*shlex.split(COMMAND.search(remedy)[1]), "--json")
        assert code == 0, error
        effect = json.loads(said.splitlines()[-1])["result"]["sets"][0]["contrasts"][0]
        assert effect["low"] < 0.0 < effect["high"], effect
    turned = COMMAND.search(typed(*asked, "bmi", "--on", "age"))[1]
    assert turned.endswith("--of age --on bmi")
    assert call(*shlex.split(turned))[0] == 0


@pytest.mark.follows("Write `parent,child` into the first line, and below it a line like age,bmi")
@pytest.mark.parametrize("drawn", ["dag {\na -> b\n}\n", "digraph g {a -> b}", "a -> b\n"])
def test_a_graph_of_another_program_is_written_as_a_csv(typed, call, table, tmp_path, drawn):
    file = tmp_path / "drawn.csv"
    file.write_text(drawn, "utf-8")
    words = ["simulate", "graphcheck", table, "--device", "cpu", "--graph", file]
    _, _, said = call(*words)
    assert ("of DAGitty or Graphviz" in said) == ("{" in drawn)
    remedy = typed(*words)
    header, example = re.search(r"`(\S+)` into .* a line like (\S+) for", remedy).groups()
    lines = [example.replace("age", a).replace("bmi", b) for a, b in ("ab", "bc")]
    file.write_text("\n".join([header, *lines]), "utf-8")
    code, _, error = call(*words)
    assert code == 0, error


@pytest.mark.follows("Leave out adjust, or graph: on the command line --adjust or --graph.")
def test_a_graph_and_a_set_to_adjust_for_are_one_too_many(typed, call, table, tmp_path):
    graph = tmp_path / "graph.csv"
    graph.write_text("parent,child\na,b\nc,a\nc,b\n", "utf-8")
    options = {"--graph": graph, "--adjust": "c"}
    words = ["simulate", "effect", table, "--treatment", "a", "--outcome", "b"]
    words += ["--min-cell-size", "1"]
    left_out = OPTION.findall(typed(*words, *[each for pair in options.items() for each in pair]))
    assert {*left_out} == {*options}
    for option in left_out:
        (stays,) = options.keys() - {option}
        code, _, error = call(*words, stays, options[stays])
        assert code == 0, error


@pytest.mark.follows("Say in schema.toml which codes are the event")
def test_a_third_code_of_an_event_counts_as_one_of_two(typed, call, tmp_path):
    rng = np.random.default_rng(1)
    data, schema = tmp_path / "rows.csv", tmp_path / "schema.toml"
    rows = pd.DataFrame({"days": rng.exponential(300.0, 600).round() + 1.0})
    rows["status"] = rng.choice([0, 1, 2], 600, p=[0.4, 0.4, 0.2])
    rows.to_csv(data, index=False)
    call("schema", "infer", data, "--out", schema)
    words = ["simulate", "survival", data, "--time", "days", "--event", "status"]
    remedy = typed(*words, "--schema", schema)
    two, censored, counted = re.search(
        r"(categories = \S+ \S+) with (synonyms = \{.*?\}) .*, (\{.*?\}) as", remedy
    ).groups()
    text, events = schema.read_text("utf-8"), {}
    for counts_as, other in (("none", censored), ("event", f"synonyms = {counted}")):
        wrong = 'categories = ["0", "1", "2"]'
        assert wrong in text
        schema.write_text(text.replace(wrong, f"{two}\n{other}"), "utf-8")
        code, said, error = call(*words, "--schema", schema, "--min-cell-size", "1")
        assert code == 0, error
        events[counts_as] = int(re.search(r"(\d+) events", said)[1])
    # those after the last bin of time are not counted
    assert 0.9 < events["none"] / (rows["status"] == 1).sum() <= 1.0
    assert 0.9 < events["event"] / (rows["status"] > 0).sum() <= 1.0
