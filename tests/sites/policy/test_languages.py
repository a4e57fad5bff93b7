"""The approval in other languages: whole, with the same values, and nothing of it is signed."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from gettext import NullTranslations
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import catalogues
import msgspec
import pytest
from asked_plans import SITES, asked_plans, plan_of

from cipherdag import FedPC, pages
from cipherdag.algorithms.parameters import flattened, options_of
from cipherdag.algorithms.registry import algorithm_class
from cipherdag.errors import CipherdagError, PolicyRefusedError
from cipherdag.graphs.relations import Determined, Relation
from cipherdag.pages.language import COMPOSED, ENGLISH, LANGUAGES, Language, language
from cipherdag.privacy.key_graph import KeyBounds
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.sites.policy.approvals import Approvals, AskedRun, Person
from cipherdag.sites.policy.plan_account import differences, plan_lines, summary_lines
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import BitBudget
from cipherdag.sites.record.opened_sums import CohortChange, OpenedSum
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings

OTHERS = [code for code in LANGUAGES if code != "en"]
WORDS = re.compile(r"[A-Za-z]{2,}")
BRACES = re.compile(r"(\{[^}]*\})")
FIXED = {*WORDS.findall("cipherdag site approve deny why status check FedCFL")}
RELATIONS = Determined((Relation("function", (0, 1)), Relation("coded", (2, 3))))
POLICY = Policy(max_rounds=1_234)
NAMES = list("abcdefgh")


class Letters(NullTranslations):
    """A language in which every letter of a known message is one letter that English lacks."""

    def __init__(self):
        super().__init__()
        known = catalogues.messages()
        self.known = {
            text for each in known for text in ([each] if isinstance(each, str) else each)
        }
        self.used = set()

    def gettext(self, message):
        if message not in self.known:
            return message
        self.used.add(str(message))
        parts = BRACES.split(message)
        return "".join(p if p.startswith("{") else re.sub("[A-Za-z]", "ø", p) for p in parts)

    def ngettext(self, one, many, n):
        return self.gettext(one if n == 1 else many)


def accounts(plan, say=ENGLISH, before=()):
    """All that a person reads of a plan, in lines."""
    asked = {"n_variables": 8, "determined": RELATIONS, "names": NAMES, "policy": POLICY}
    lines = []
    for labels in ((), (1, 2)):
        account = plan_lines(plan, **asked, labels=labels, say=say)
        short = {"n_variables": 8, "policy": POLICY, "spent": budget().sentence(say)}
        changed = differences(plan, before, say)
        lines += [*account, *changed]
        lines += summary_lines(plan, account, before=changed, say=say, **short)
    return [*lines, *plan_lines(plan, say=say)]


def budget(spent=()):
    """The bits that were found of two columns."""
    made = BitBudget(Policy(), SimpleNamespace(exists=lambda: False))
    made._spent = BitBudget.__init__.__globals__["Counter"](spent)
    return made


def values_of(plan):
    """The words that a plan's own values have, which nobody translates."""
    parameters = plan.parameters
    try:
        kind = algorithm_class(plan.algorithm)
        usual = {name: each.default for name, each in options_of(kind).items()}
        parameters = {**flattened(kind, plan.parameters), "usual": usual}
        title = kind.title
    except CipherdagError:
        title = ""
    run = plan.session.hex()[:8]
    said = [plan.algorithm, title, plan.requester, plan.purpose, plan.protection, run, *plan.names]
    text = json.dumps(parameters, default=str)
    methods = str(parameters.get("method", "")).upper()
    return {*WORDS.findall(" ".join([*said, text, text.replace("_", " "), methods]))} | FIXED


@pytest.fixture(scope="module")
def plans():
    return list(asked_plans())


@pytest.mark.parametrize("code", OTHERS)
def test_a_catalogue_translates_every_message_and_has_no_other(code):
    catalogue, text, compiled = catalogues.fresh(code)
    assert list(catalogues.faults(catalogue)) == []
    folder = catalogues.CATALOGUES
    assert (folder / f"{code}.po").read_bytes() == text
    assert (folder / f"{code}.mo").read_bytes() == compiled


@pytest.mark.parametrize(
    ("translation", "fault"),
    [
        ("", "not translated"),
        ("Zweck:", "other placeholders"),
        ("Zweck: {purpose} {sites}", "other placeholders"),
        ("Zweck: {Zweck}", "other placeholders"),
        ("Zweck: {purpose", "other placeholders"),
        ("Zweck: {purpose} {purpose.__class__}", "other placeholders"),
        ("Zweck: {purpose} {purpose!x}", "other placeholders"),
    ],
)
def test_a_lost_or_foreign_placeholder_is_a_fault(translation, fault):
    catalogue = catalogues.fresh("de")[0]
    catalogue.get("Purpose: {purpose}").string = translation
    (said,) = catalogues.faults(catalogue)
    assert said.startswith(fault)


def test_no_algorithm_s_account_leaves_a_word_untranslated(plans):
    letters = Letters()
    say = Language("xx", letters)
    for before, plan in zip([plans[0], *plans], plans, strict=False):
        allowed = values_of(plan) | values_of(before)
        for line in accounts(plan, say, [before]):
            left = {*WORDS.findall(line)} - allowed
            technical = line.startswith(say("NOT POSSIBLE HERE:"))
            assert not left or technical, (line, left)
    assert letters.used >= {text for text in letters.known if text.startswith("Parameter ")}


def test_what_is_said_of_a_decision_leaves_no_word_untranslated(tmp_path):
    say, key, plan = Language("xx", Letters()), SigningIdentity.generate(), plan_of(FedPC())
    approvals = Approvals(tmp_path, key.public)
    with pytest.raises(PolicyRefusedError):
        approvals.check(plan)
    lines = [approvals.deadline(approvals.runs()[0], say)]
    for decision in ("approved", "denied"):
        run = approvals.decide(plan.session.hex(), decision, key, Person("Weber"))
        lines += [each.in_words(say) for each in run.decisions]
    left = {*WORDS.findall(" ".join(lines))} - values_of(plan) - {"Weber"}
    assert left == set()


def test_every_composed_message_is_one_that_a_room_makes(plans):
    letters = Letters()
    say = Language("xx", letters)
    for plan in plans:
        accounts(plan, say)
    of = OpenedSum("ab" * 16, "2026-03-01", "", ("a", "b"))
    for sites in (("a",), ("a", "b")):
        say.of(CohortChange(False, of, sites).text)
    say.of("the rows of 'a' and 'b' and 'c' changed since an earlier run: they are asked anew")
    say.of(KeyBounds(200, 0, 10, 42, 30).sentence())
    say.of(Determined(RELATIONS.relations[:1]).disclosed)
    assert {*COMPOSED} - letters.used == set()


@pytest.mark.parametrize("code", OTHERS)
def test_an_account_has_the_same_values_in_every_language(code, plans):
    say = language(code)
    for plan in plans[::7]:
        translated, english = accounts(plan, say), accounts(plan)
        assert len(translated) == len(english)
        for line, source in zip(translated, english, strict=True):
            assert line.isprintable()
            assert "{" not in line
            numbers = [sorted(re.findall(r"\d+", text)) for text in (line, source)]
            if "NOT POSSIBLE HERE" not in source and "bits over all runs" not in source:
                assert [n for n in numbers[1] if n not in numbers[0]] in ([], ["1"]), line


def test_numbers_have_no_comma_that_reads_as_a_decimal_point():
    lines = accounts(plan_of(FedPC()), language("de"))
    assert any("spätestens nach 1 234 Runden oder 200 000 000 Werten" in line for line in lines)
    assert any(
        "after 1,234 rounds or 200,000,000 values" in line for line in accounts(plan_of(FedPC()))
    )


@pytest.mark.parametrize(
    ("code", "n", "said"),
    [
        ("de", 1, "1 weiterer Lauf in den Einzelheiten."),
        ("de", 0, "0 weitere Läufe in den Einzelheiten."),
        ("fr", 0, "0 autre exécution dans les détails."),
        ("fr", 2, "2 autres exécutions dans les détails."),
        ("es", 1, "1 ejecución más en los detalles."),
        ("es", 5, "5 ejecuciones más en los detalles."),
    ],
)
def test_a_count_has_the_form_that_the_language_asks_for(code, n, said):
    assert (
        language(code).counted("{n} more run in the details.", "{n} more runs in the details.", n)
        == said
    )


def test_a_coordinator_s_words_are_never_taken_for_a_message():
    forged = {"purpose": "none is given", "requester": "The coordinator {who}"}
    first, second, *_ = plan_lines(plan_of(FedPC(), **forged), say=language("de"))
    assert first.startswith("The coordinator {who} beantragt fedpc")
    assert second == "Zweck: none is given."


def test_what_is_considered_is_said_in_the_language_of_the_reader():
    said = (
        "with run abababab of 2026-03-01 it would show the answers of 'a' by subtraction; "
        "the rows of 'a' and 'b' and 'c' changed since an earlier run: they are asked anew"
    )
    run = AskedRun(plan_of(FedPC()), "2026-03-01T00:00:00+00:00", said)
    assert run.considered() == said
    assert run.considered(language("fr")) == (
        "avec l'exécution abababab du 2026-03-01, elle montrerait par soustraction les réponses de "
        "'a' ; les lignes de 'a' et 'b' et 'c' ont changé depuis une exécution antérieure : elles "
        "sont interrogées à nouveau"
    )
    assert replace(language("fr"), code="en").of(said) == said


# the signature


def test_a_signature_is_the_same_whatever_language_was_shown(tmp_path):
    key, plan = SigningIdentity.generate(), plan_of(FedPC())
    signatures = set()
    for code in ("", *LANGUAGES):
        approvals = Approvals(tmp_path / code, key.public, lambda: datetime(2026, 3, 1, tzinfo=UTC))
        with pytest.raises(PolicyRefusedError):
            approvals.check(plan)
        person = Person("A. Weber", "data protection")
        run = approvals.decide(plan.session.hex(), "approved", key, person, language=code)
        (decision,) = run.decisions
        assert decision.language == code
        assert run.signed_by(key.public)
        changed = msgspec.structs.replace(decision, language="fr")
        assert msgspec.structs.replace(run, decisions=(changed,)).signed_by(key.public)
        approvals.check(plan)
        signatures.add(decision.signature)
    assert len(signatures) == 1


def test_a_decision_of_an_earlier_revision_is_read_without_language(tmp_path):
    key, plan = SigningIdentity.generate(), plan_of(FedPC())
    approvals = Approvals(tmp_path, key.public)
    with pytest.raises(PolicyRefusedError):
        approvals.check(plan)
    approvals.decide(plan.session.hex(), "approved", key, Person("A. Weber"))
    (path,) = tmp_path.glob("*/asked.json")
    path.write_text(re.sub(r',\s*"language": ""', "", path.read_text("utf-8")), "utf-8")
    assert "language" not in path.read_text("utf-8")
    approvals.check(plan)


# the commands


@pytest.fixture
def site(tmp_path):
    """A site whose policy is in German, and at which a plan waits."""
    policy = Policy(language="de")
    folder = SiteFolder.create(tmp_path / "site", SiteSettings(name="hospital-0"), policy)
    with pytest.raises(PolicyRefusedError):
        folder.approvals().check(
            plan_of(FedPC()),
            consider=["the rows of 'a' changed since an earlier run: they are asked anew"],
        )
    return folder


def test_the_policy_s_language_is_shown_unless_another_is_asked_for(call, site):
    about = ("--dir", site.path)
    code, said, _ = call("site", "status", *about)
    assert code == 0
    for sentence in (
        "  Dr. Grey beantragt fedpc an hospital-0, hospital-1,",
        "  Zweck: Which drugs raise cholesterol?",
        "  ZU BEDENKEN: die Zeilen von 'a' haben sich seit einem früheren Lauf geändert",
        "  Bitte vor dem ",
        "  Alle Einstellungen und alles, was offengelegt wird: cipherdag site status ",
    ):
        assert sentence in said
    assert "  Finalité : Which" in call("site", "status", "--language", "fr", *about)[1]
    assert "  Purpose: Which" in call("site", "status", "--language", "en", *about)[1]
    code, _, said = call("site", "status", "--language", "it", *about)
    assert (code, "'it' is not one of" in said) == (2, True)
    run = site.approvals().runs()[0].session[:8]
    whole = call("site", "status", run, "--details", "--language", "es", *about)[1]
    assert "  Comunicado: Sumas exactas sobre todos los centros: el número de filas; " in whole


def test_a_decision_is_said_in_the_language_and_records_it(call, site):
    run = site.approvals().runs()[0].session[:8]
    said = call("site", "approve", run, "--yes", "--name", "A. Weber", "--dir", site.path)[1]
    assert said.splitlines()[0].startswith("Zu bedenken: die Zeilen von 'a' haben sich")
    assert f"Lauf {run} genehmigt: fedpc, masking.\nGenehmigt von A. Weber am " in said
    assert "Er beginnt, sobald alle Standorte ihn genehmigt haben." in said
    (decision,) = site.approvals().runs()[0].decisions
    assert decision.language == "de"
    about = ("--why", "non", "--name", "B. Roy", "--language", "fr", "--dir", site.path)
    said = call("site", "deny", run, *about)[1]
    assert f"Exécution {run} refusée : fedpc, masking." in said
    assert "Le coordinateur apprend le refus ; le motif reste ici." in said
    assert [each.language for each in site.approvals().runs()[0].decisions] == ["de", "fr"]
    said = call("site", "status", "--dir", site.path)[1]
    assert "  Abgelehnt, weil: non" in said


def test_a_plan_in_a_file_is_said_in_the_language(call, site, tmp_path):
    (tmp_path / "plan.json").write_text(plan_of(FedPC(), sites=SITES).dumps(), "utf-8")
    said = call("site", "check", "--plan", tmp_path / "plan.json", "--dir", site.path)[1]
    assert "Offengelegt: Exakte Summen über alle Standorte: die Zahl der Zeilen;" in said


@pytest.mark.parametrize(
    "broken",
    [
        lambda content: b"",
        lambda content: content[:5_000],
        lambda content: content[:8] + b"\xff" * 8 + content[16:],
        lambda content: content.replace("ü".encode(), b"\xff\xff"),
        lambda content: None,
    ],
    ids=["empty", "cut short", "numbers altered", "no text", "gone"],
)
def test_a_broken_catalogue_is_english_and_the_log_says_so(broken, tmp_path, monkeypatch, caplog):
    content = broken(Path(pages.__file__).with_name("catalogues").joinpath("de.mo").read_bytes())
    (tmp_path / "catalogues").mkdir()
    if content is not None:
        (tmp_path / "catalogues" / "de.mo").write_bytes(content)
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    assert language.__wrapped__("de") == ENGLISH
    assert "said in English, since" in caplog.text
    assert "de.mo" in caplog.text


def test_a_translation_with_other_placeholders_is_said_in_english():
    class Odd(NullTranslations):
        def gettext(self, message):
            return "{nobody.__class__} {0} {"

        def ngettext(self, one, many, n):
            return "{0}"

    say = Language("de", Odd())
    assert say("Denied by {person} on {day}.", person="A", day="B") == "Denied by A on B."
    assert say.counted("{n} refusal.", "{n} refusals.", 3) == "3 refusals."
