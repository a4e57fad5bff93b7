"""Files whose headers differ make one draft, and what it asks to be written makes it right."""

import re
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cipherdag import Schema, infer_schema
from cipherdag.sites.drafts.merging import merge_schemas
from cipherdag.sites.drafts.together import draft_files
from cipherdag.sites.table.column_reader import stands_for_missing
from cipherdag.sites.table.names import is_female, loose_forms, truth_value
from cipherdag.sites.table.site_table import load_table
from tests.support.commands import call

NAMES = {
    "kiel": ["mrn", "age", "sex", "smoker", "glucose", "creatinine", "stage", "died"],
    "graz": ["mrn", "age", "sex", "smoker", "glucose", "creatinine", "stage", "died"],
    "berlin": ["Patienten-ID", "Alter", "Geschlecht", "Raucher", "Glukose (mg/dl)", "Kreatinin",
               "Stadium", "Verstorben"],
    "lyon": ["No dossier", "Âge", "Sexe", "Fumeur", "Glycémie (mmol/l)", "Créatinine", "Stade",
             "Décédé"],
}  # fmt: skip
WORDS = {  # sex, smoker, stage and died
    "kiel": (["F", "M"], ["0", "1"], ["I", "II", "III"], ["False", "True"]),
    "graz": (["f", "m"], ["NO", "YES"], ["I", "II", "III"], ["no", "yes"]),
    "berlin": (["weiblich", "männlich"], ["nein", "ja"], ["I", "II", "III"], ["nein", "ja"]),
    "lyon": (["F", "H"], ["Non", "Oui"], ["1", "2", "3"], ["non", "oui"]),
}


def truth(site):
    """Numbers and codes of a site in the study's units, before it wrote them as it does."""
    rng = np.random.default_rng(sorted(NAMES).index(site))
    n = 90
    return {
        "age": rng.integers(30, 90, n).astype(float),
        "glucose": rng.normal(110, 15, n).round(1),
        "creatinine": rng.normal(1.0, 0.12, n).round(3),
        **{name: rng.integers(0, k, n) for name, k in (("sex", 2), ("smoker", 2), ("stage", 3))},
        "died": (np.arange(n) % 7 == 0).astype(int) * (site != "graz"),
    }


@pytest.fixture
def files(tmp_path):
    paths = []
    for site, names in NAMES.items():
        values = truth(site)
        glucose = values["glucose"] / (18.016 if site == "lyon" else 1.0)
        creatinine = values["creatinine"] * (88.42 if site == "lyon" else 1.0)
        coded = ("sex", "smoker", "stage", "died")
        words = [np.array(w)[values[k]] for k, w in zip(coded, WORDS[site], strict=True)]
        if site == "berlin":
            words[1][:2] = "unk"
        identifiers = [f"{site}{k:05}" for k in range(90)]
        columns = [identifiers, values["age"], words[0], words[1], glucose, creatinine, *words[2:]]
        frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
        paths.append(tmp_path / f"{site}.csv")
        frame.to_csv(paths[-1], index=False)
    return paths


def followed(draft):
    """The schema with what stands behind DECIDE written, word for word."""
    for comment, column in re.findall(r"((?:# [^\n]*\n)+)\[columns\.(\w+)\]", draft):
        said = " ".join(line.removeprefix("# ") for line in comment.splitlines())
        if "DECIDE" not in said:
            continue
        for line, file in re.findall(r"(multiply\.\S+ = \S+) for '([^']*)'", said):
            draft = draft.replace(f'[sources."{file}"]\n', f'[sources."{file}"]\n{line}\n')
        form = r'(kind|unit|categories|synonyms) = ("[^"]*"|\[[^]]*\]|\{[^}]*\})'
        lines = "\n".join(f"{k} = {v}" for k, v in re.findall(form, said))
        draft = draft.replace(
            f'[columns.{column}]\nkind = "ignore"', f"[columns.{column}]\n{lines}"
        )
    return draft


def test_every_printed_remedy_leads_to_the_right_values(files, tmp_path, capsys, monkeypatch):
    path = tmp_path / "schema.toml"
    code, said, _ = call(capsys, monkeypatch, "schema", "infer", *files, "--out", path)
    assert code == 0
    assert re.search(r"glucose +glucose +glucose +Glukose \(mg/dl\) +Glycémie", said)
    assert {*re.findall(r"DECIDE  '(\w+)'", said)} == {"glucose", "creatinine", "stage"}
    draft = path.read_text("utf-8")
    assert set(Schema.loads(draft).names) == {"age", "sex", "smoker", "died"}
    path.write_text(followed(draft), "utf-8")
    schema = Schema.load(path)
    assert set(schema.names) == {*truth("kiel")}
    for file in files:
        table, right = load_table(schema.described(file), schema), truth(file.stem)
        at = schema.names.index
        for name in ("age", "glucose", "creatinine"):
            np.testing.assert_allclose(table.values[:, at(name)], right[name], rtol=2e-4)  # noqa: PD011 - of a SiteTable
        codes = {name: table.codes[:, at(name)] for name in ("sex", "smoker", "stage", "died")}
        if file.stem == "berlin":
            assert (codes["smoker"][:2] == -1).all()
            codes = {name: each[2:] for name, each in codes.items()}
            right = {name: each[2:] for name, each in right.items()}
        for name, each in codes.items():
            pairs = {*zip(right[name].tolist(), each.tolist(), strict=True)}
            assert len(pairs) == len({code for code, _ in pairs})  # one code each, at every site
        assert table.rows == 90
    code, _, wrong = call(capsys, monkeypatch, "run", "fedpc", *files, "--schema", path,
                          "--out", tmp_path / "out")  # fmt: skip
    assert code == 0, wrong


def test_one_category_means_the_same_at_every_site(files):
    schema = Schema.loads(followed(draft_files(files, 5)[0].dumps()))
    meant = {}
    for file in files:
        table, right = load_table(schema.described(file), schema), truth(file.stem)
        for name in ("sex", "smoker", "stage", "died"):
            codes = table.codes[2:, schema.names.index(name)]
            for value, code in zip(right[name][2:].tolist(), codes.tolist(), strict=True):
                assert meant.setdefault((name, value), code) == code


def test_a_column_that_one_file_lacks_is_said_with_its_choice(files, tmp_path, capsys, monkeypatch):
    frame = pd.read_csv(files[1]).drop(columns="age")
    frame.to_csv(files[1], index=False)
    path = tmp_path / "schema.toml"
    assert call(capsys, monkeypatch, "schema", "infer", *files, "--out", path)[0] == 0
    draft = path.read_text("utf-8")
    said = " ".join(draft.replace("\n# ", " ").split())
    assert "Ignored: graz.csv lacks it." in said
    assert 'write kind = "continuous" and unmeasured_at = ["graz"]' in said
    run = ["run", "fedpc", *files, "--schema", path, "--out", tmp_path / "out", "--force"]
    assert call(capsys, monkeypatch, *run)[0] == 0  # as it is drafted
    lines = '[columns.age]\nkind = "continuous"\nunmeasured_at = ["graz"]'
    path.write_text(draft.replace('[columns.age]\nkind = "ignore"', lines), "utf-8")
    assert call(capsys, monkeypatch, *run)[0] == 0  # groups that are large enough are formed
    sites = ",".join(file.stem for file in files)
    more = ["--sites", sites, "--min-sites", "3", "--out", path, "--force"]
    assert call(capsys, monkeypatch, "schema", "overlap", path, *more)[0] == 0
    assert call(capsys, monkeypatch, *run)[0] == 0


def test_files_with_equal_headers_make_the_draft_that_they_made(tmp_path):
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for seed, file in enumerate(files):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"age": rng.normal(60, 9, 40), "sex": rng.choice(["f", "m"], 40)})
        frame.to_csv(file, index=False)
    schema, differences, table = draft_files(files, 5)
    assert (schema.dumps(), differences, table) == (infer_schema(files).dumps(), (), [])
    alone, _, _ = draft_files([Path(files[0])], 5)
    assert alone == infer_schema(files[0])


def test_a_merged_draft_holds_no_category_of_few_rows(files):
    schema, _, _ = draft_files(files, 60)
    for column in schema.columns:
        for category in column.categories:
            spelled = {category, *dict(column.synonyms).get(category, ())}
            cells = [
                str(cell) for file in files for cell in pd.read_csv(file, dtype=str).to_numpy().flat
            ]
            assert sum(cell in spelled for cell in cells) >= 60
    assert not any(each.categories for each in draft_files(files, 400)[0].columns)


def test_the_order_of_files_does_not_count(files):
    texts = {draft_files(each, 5)[0].dumps() for each in permutations(files)}
    columns = {frozenset(Schema.loads(text).names) for text in texts}
    assert len(columns) == 1


@pytest.mark.parametrize("how", ["copy", "other order", "other names", "one more row", "by chance"])
def test_files_with_the_same_rows_are_named_and_not_merged(tmp_path, how):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"age": rng.normal(60, 9, 80).round(1), "sex": rng.choice(["f", "m"], 80)})
    second = {
        "copy": frame,
        "other order": frame.sample(frac=1.0, random_state=1),
        "other names": frame.rename(columns={"age": "Alter"}),
        "one more row": pd.concat([frame, frame[:1].assign(age=71.3)]),
    }.get(how, frame.iloc[:12])
    first = frame.iloc[:12] if how == "by chance" else frame
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file, rows in zip(files, (first, second), strict=True):
        rows.to_csv(file, index=False)
    schema, _, _ = draft_files(files, 5)
    said = "'a.csv' and 'b.csv' hold the same rows" in " ".join(schema.comment.split())
    assert said == (how in ("copy", "other order", "other names"))
    assert load_table(schema.described(files[0]), schema).rows == len(first)


def test_a_run_over_the_same_file_says_so(files, tmp_path, capsys, monkeypatch, caplog):
    copy = tmp_path / "copy.csv"
    copy.write_bytes(files[0].read_bytes())
    schema = tmp_path / "schema.toml"
    three = [files[0], copy, files[1]]
    assert call(capsys, monkeypatch, "schema", "infer", *three, "--out", schema)[0] == 0
    assert "'kiel.csv' and 'copy.csv' hold the same rows" in " ".join(
        schema.read_text("utf-8").replace("\n# ", " ").split()
    )
    run = ["run", "fedpc", *three, "--schema", schema, "--out", tmp_path / "out"]
    code, _, wrong = call(capsys, monkeypatch, *run)
    assert code == 0, wrong
    assert "sites 'kiel' and 'copy' hold the same rows" in caplog.text


@pytest.mark.parametrize("named", [False, True], ids=["as it is", "renamed there"])
def test_described_files_and_databases_are_matched_like_files(files, tmp_path, named):
    berlin = pd.read_csv(files[2])
    berlin.to_csv(tmp_path / "export.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    own = 'rename."Alter" = "Jahre"\nmultiply.Jahre = 1.0\n' if named else ""
    (tmp_path / "berlin.toml").write_text(
        'file = "export.csv"\ndelimiter = ";"\ndecimal = ","\nencoding = "cp1252"\n' + own, "utf-8"
    )
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "lyon.db")) as connection:
        words = '* REPLACE ("Stade"::VARCHAR AS "Stade")'
        connection.execute(f"CREATE TABLE t AS SELECT {words} FROM read_csv('{files[3]}')")
    (tmp_path / "lyon.toml").write_text('address = "duckdb:///lyon.db"\ntable = "t"\n', "utf-8")
    given = [files[0], files[1], tmp_path / "berlin.toml", tmp_path / "lyon.toml"]
    if named:
        given = given[:3]  # "Jahre" is no word for age that the program has
    schema, _, table = draft_files(given, 5)
    assert any(re.match(r"sex +sex +sex +Geschlecht", line) for line in table)
    schema = Schema.loads(followed(schema.dumps()))
    assert "sex" in schema.names
    assert ("age" in schema.names) != named
    for source in given:
        right = truth(source.stem)
        assert load_table(schema.described(source), schema).rows == 90
        if not named:
            got = load_table(schema.described(source), schema)
            for name in ("age", "glucose", "creatinine"):
                numbers = got.values[:, schema.names.index(name)]  # noqa: PD011 - of a SiteTable
                np.testing.assert_allclose(numbers, right[name], rtol=2e-4)


@pytest.mark.follows("Draft a schema from it")
def test_merge_says_that_a_description_of_data_is_no_draft(files, tmp_path, capsys, monkeypatch):
    path = tmp_path / "kiel.toml"
    path.write_text('file = "kiel.csv"\n', "utf-8")
    code, _, wrong = call(capsys, monkeypatch, "schema", "merge", path, path)
    assert code != 0
    assert "this describes data, and is no schema" in wrong
    draft = tmp_path / "draft.toml"
    assert call(capsys, monkeypatch, "schema", "infer", path, "--out", draft)[0] == 0
    assert call(capsys, monkeypatch, "schema", "merge", draft)[0] == 0


RARE = st.sampled_from(
    ["Zwitterling", "Müllerstadium", "IV", "4", "ja", "Yes", "f", "w", "H", "divers", "77", "unk",
     "M\u00dcNNLICH", "3.4.1987", "a@b.org", "stage of Ms Kim", "I.", "0", "oui"]
)  # fmt: skip


@given(
    rare=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), RARE), max_size=12),
    fewest=st.sampled_from([1, 5, 11]), order=st.permutations(range(4)),
)  # fmt: skip
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(
    rare=[(3, 2, "77"), (0, 2, "Müllerstadium"), (3, 0, "Zwitterling")], fewest=5, order=range(4)
)
@example(rare=[(0, 2, "IV")] * 3 + [(1, 2, "IV")] * 3, fewest=5, order=range(4))
def test_no_matched_draft_holds_a_text_of_few_rows(tmp_path_factory, rare, fewest, order):
    folder, rows = tmp_path_factory.mktemp("rare"), {}
    paths = []
    for number, (site, words) in enumerate(WORDS.items()):
        columns = {
            name: np.array(given)[np.arange(90) % len(given)].astype(object)
            for name, given in zip(("sex", "smoker", "stage"), words[:3], strict=True)
        }
        for at, (of, which, text) in enumerate(rare):
            if of == number:
                [*columns.values()][which][at] = text
        names = (NAMES[site][2], NAMES[site][3], NAMES[site][6])
        for name, cells in columns.items():
            rows.setdefault(name, Counter()).update(map(str, cells))
        paths.append(folder / f"{site}.csv")
        named = dict(zip(names, columns.values(), strict=True))
        pd.DataFrame({**named, NAMES[site][1]: truth(site)["age"]}).to_csv(paths[-1], index=False)
    schema, found, _ = draft_files([paths[each] for each in order], fewest)
    said = schema.dumps().partition("case counts.")[2] + " ".join(map(str, found))
    often = {text for counts in rows.values() for text, n in counts.items() if n >= fewest}
    often |= {"4", "IV"} if {"4", "IV"} & often else set()  # a Roman numeral is a spelling
    spelled = {loose for text in often for loose in loose_forms(text)}
    for text in {text for counts in rows.values() for text in counts} - often:
        of_words = truth_value(text) is not None or is_female(text) is not None
        if not of_words and not loose_forms(text) & spelled and not stands_for_missing(text):
            assert f'"{text}"' not in said, text
            assert f"'{text}'" not in said, text


def test_rows_of_all_files_count_and_drafts_of_owners_hold_each_alone(files, tmp_path):
    for file in files[:2]:
        frame = pd.read_csv(file, dtype=str)
        frame.loc[:2, "stage"] = "IV"  # of three rows at each
        frame.to_csv(file, index=False)
    together = Schema.loads(followed(draft_files(files, 5)[0].dumps()))
    (stage,) = (column for column in together.columns if column.name == "stage")
    assert "IV" in stage.categories  # one person has all files, and six rows of these hold it
    drafts = {file.stem: infer_schema(file) for file in files[:2]}
    merged, _ = merge_schemas(drafts)
    (stage,) = (column for column in merged.columns if column.name == "stage")
    assert stage.categories == ("I", "II", "III")  # nobody has five rows with it
    frame = pd.read_csv(files[0], dtype=str)
    frame.loc[:5, "stage"] = "IV"
    frame.to_csv(files[0], index=False)
    drafts["kiel"] = infer_schema(files[0])
    merged, _ = merge_schemas(drafts)
    (stage,) = (column for column in merged.columns if column.name == "stage")
    assert "IV" in stage.categories  # by kiel's rows alone


def test_spellings_of_files_with_equal_headers_become_synonyms(files, tmp_path):
    given = files[:2]  # kiel and graz call their columns alike and spell otherwise
    schema, found, table = draft_files(given, 5)
    by_name = {column.name: column for column in schema.columns}
    assert by_name["sex"].categories == ("f", "m")
    assert dict(by_name["sex"].synonyms) == {"f": ("F",), "m": ("M",)}
    assert len(by_name["smoker"].categories) == 2
    assert table
    assert not any(each.open for each in found)
    for file in given:
        got, right = load_table(schema.described(file), schema), truth(file.stem)
        codes = got.codes[:, schema.names.index("sex")]
        np.testing.assert_array_equal(codes, right["sex"])
