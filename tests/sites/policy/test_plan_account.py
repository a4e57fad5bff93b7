"""A plan in sentences, as the person reads them who decides on it."""

import msgspec
import pytest

from cipherdag import Describe, Effect, FedBOSS, FedCD, FedCMFS, FedPC, RFcd
from cipherdag.algorithms.parameters import flattened
from cipherdag.algorithms.registry import program_digest
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.questions.disclosure import sentences
from cipherdag.sites.policy.plan_account import differences, plan_lines, summary_lines
from cipherdag.sites.policy.policy import Policy

MEMBERS = tuple(Member(name=f"hospital-{k}", identity=bytes([k]) * 32) for k in range(5))
EVERY = [FedPC(alpha=0.02), FedCMFS(alpha=0.02), RFcd(searching=Searching(beam=2)), FedCD(rounds=3)]


def plan(of=EVERY[0], **changes):
    about = {
        "algorithm": of.name,
        "parameters": msgspec.to_builtins(of),
        "program": program_digest(of.name),
        "protection": "masking",
        "purpose": "Which drugs raise cholesterol?",
        "requester": "Dr. Grey",
        "seed": 41,
    }
    return make_plan(MEMBERS, **(about | changes))


def test_a_plan_that_describes_says_so():
    lines = plan_lines(plan(Describe()))
    assert lines[2] == (
        "The result: for every variable of the study, how its values are distributed over all "
        "sites' rows together. Rows of data stay at the sites."
    )


@pytest.mark.parametrize("algorithm", EVERY, ids=lambda own: own.name)
def test_the_sentences_hold_all_that_a_person_decides_on(algorithm):
    own = plan(algorithm)
    lines = plan_lines(own, n_variables=8, labels=(1, 2), policy=Policy(max_rounds=7))
    text = "\n".join(lines)
    assert lines[0].startswith(f"Dr. Grey asks for {algorithm.name} at hospital-0, hospital-1,")
    assert "Purpose: Which drugs raise cholesterol?" in lines
    assert "A sum covers 4 of the 5 sites at least. The coordinator, even if one site " in text
    assert any(line.startswith("The result: ") for line in lines)
    (changed,) = [line for line in lines if line.startswith("Parameter ")]
    assert changed in {
        "Parameter alpha is 0.02, usually 0.01. Significance level of every test.",
        "Parameter alpha is 0.02, usually 0.05. Significance level of every test.",
        "Parameter beam is 2, usually 10. Graphs that every step of the beam search keeps, b.",
        "Parameter rounds is 3, usually 10. Most federated rounds.",
    }
    (usual,) = [line for line in lines if line.startswith("All other parameters are as usual: ")]
    assert usual.endswith("; random seed 41.")
    told = usual.split(": ")[1].split("; random")[0].split(", ")
    named = [changed.split(" ")[1], *(words.split(" ")[0] for words in told)]
    assert sorted(named) == sorted(flattened(type(algorithm), own.parameters))
    assert not any(word in usual for word in ("None", "True", "False", "{", "["))
    told = [line.removeprefix("Disclosed: ") for line in lines if line.startswith("Disclosed: ")]
    assert told == list(sentences(algorithm.disclosures()))
    assert len(told) >= 1
    assert f"The first {'bits' if algorithm.name == 'fedcmfs' else 'sums'}: " in text
    bits = algorithm.name in {"fedpc", "fedcmfs"}
    decides = "what is disclosed decides" if bits else "the sums decide"
    assert f" values. Which questions follow, {decides}" in text
    assert ("leave in sealed parts: only the bits are read" in text) is bits
    assert "ends it after 7 rounds or 200,000,000 values, if not before." in lines[-1]
    assert all(line.isprintable() for line in lines)


def summarised(of, before=(), **changes):
    own = plan(of, **changes)
    account = plan_lines(own, n_variables=8, labels=(1, 2), policy=Policy())
    return summary_lines(own, account, n_variables=8, policy=Policy(), before=before)


@pytest.mark.parametrize("algorithm", [*EVERY, FedBOSS(), Describe()], ids=lambda own: own.name)
def test_the_summary_is_nine_short_lines(algorithm):
    lines = summarised(algorithm)
    assert len(lines) == 9
    starts = (
        "Dr. Grey asks",
        "Purpose",
        "On what",
        "What leaves",
        "Who sees it",
        "What the result",
    )
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=False))
    assert all(line.isprintable() and line.endswith((".", "?")) for line in lines)
    assert all(len(sentence.split()) <= 35 for line in lines for sentence in line.split(". "))


@pytest.mark.parametrize("name", ["beam", "alpha"])
def test_the_summary_names_every_setting_that_is_not_as_usual(name):
    (of,) = (
        own
        for own in EVERY
        if flattened(type(own), own.get_params()).get(name) in (2, 0.02) and own != EVERY[1]
    )
    (settings,) = (line for line in summarised(of) if line.startswith("Settings: "))
    assert f"{name} " in settings
    assert "(usually " in settings
    assert "Settings: all as usual." in summarised(type(of)())


def test_the_summary_says_that_tables_leave_without_protection():
    text = "\n".join(summarised(FedPC(evidence="pooled", reveal="sums"), protection="none"))
    assert "contingency tables" in text
    assert "answers leave IN THE CLEAR, and the coordinator reads every site's." in text


def test_no_text_of_a_plan_passes_for_the_program_s_own_warning():
    own = plan(requester="LOOK: nothing leaves here. Dr. Grey")
    lines = summary_lines(own, plan_lines(own), n_variables=8, policy=Policy())
    assert [line.startswith("LOOK:") for line in lines] == [True] + [False] * (len(lines) - 1)


def test_the_summary_says_what_is_new_and_what_is_not_possible():
    assert any("this site has approved no other run yet" in own for own in summarised(FedPC()))
    lines = summarised(FedPC(), before=["run 1 of May: a.", "run 2 of June: b."])
    (said,) = [line for line in lines if line.startswith("What differs from before: ")]
    assert "run 2 of June: b. 1 more run in the details." in said
    lines = summarised(FedPC(), parameters={"alpha": 7.0})
    assert lines[-1].startswith("NOT POSSIBLE HERE: alpha must be above 0")


def test_a_default_plan_is_thirteen_lines():
    lines = plan_lines(plan(FedPC()), n_variables=8, policy=Policy())
    assert len(lines) == 13
    opened = [line for line in lines if line.startswith("Disclosed: ")]
    assert [line.split(": ")[1] for line in opened] == [
        "Exact sums over all sites",
        "One bit each of any site, not whose",
        "One bit each over all sites",
        "One bit each over all sites",
    ]
    assert "whether a test says dependent" in " ".join(opened)


@pytest.mark.parametrize(
    ("n_sites", "said"),
    [
        (2, "The coordinator and one site together could read the other site's numbers."),
        (2, "The coordinator deals the comparisons, which nobody checks."),
        (3, "Any two sites together could read the third one's numbers."),
        (3, "One site deals the comparisons, which nobody checks."),
        (5, "Of 10 pairs of sites, 5 drawn by lot could together read the sums behind bits."),
    ],
)
def test_who_could_learn_more_than_bits_is_said_for_all_sizes(n_sites, said):
    own = msgspec.structs.replace(plan(FedPC()), cohort=MEMBERS[:n_sites])
    assert said in "\n".join(plan_lines(own))
    summary = "\n".join(summary_lines(own, plan_lines(own), n_variables=None, policy=Policy()))
    assert said in summary or "nobody checks" in said
    assert ("even if one site helps it" in summary) is (n_sites > 2)
    assert "On what: the columns of the study's schema." in summary
    opens_sums = msgspec.structs.replace(plan(FedPC(reveal="sums")), cohort=MEMBERS[:n_sites])
    assert said not in "\n".join(plan_lines(opens_sums))
    if n_sites == 2:
        assert "even if one site helps it" not in "\n".join(plan_lines(own))


def test_a_coordinator_sees_no_first_sums_and_no_site_s_budget():
    text = "\n".join(plan_lines(plan()))
    assert "first sums" not in text
    assert "policy" not in text
    assert "Disclosed: " in text


@pytest.mark.parametrize(
    ("protection", "said"), [("masking", "mask"), ("bfv", "encrypt"), ("none", "CLEAR")]
)
def test_they_say_how_answers_leave(protection, said):
    (line,) = [
        own for own in plan_lines(plan(protection=protection)) if own.startswith("Answers leave ")
    ]
    assert said in line


def test_who_asks_and_for_what_is_said_to_be_missing():
    lines = plan_lines(plan(requester="", purpose=""))
    assert lines[0].startswith("The coordinator asks for fedpc")
    assert lines[1] == "Purpose: none is given."


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm": "magic", "parameters": {}, "program": ""}, "no algorithm named 'magic'"),
        ({"parameters": {"alpha": 7.0}}, "alpha must be above 0"),
        ({"parameters": {"beta": 1}}, "'fedpc' has no parameter 'beta'"),
    ],
)
def test_what_cannot_run_here_is_said_so(changes, said):
    lines = plan_lines(plan(**changes), n_variables=5, policy=Policy())
    assert lines[-1].startswith("NOT POSSIBLE HERE: ")
    assert said in lines[-1]
    assert lines[1].startswith("Purpose: ")
    assert not any(line.startswith("Disclosed: ") for line in lines if "magic" in said)


def test_a_plan_that_cannot_begin_with_this_schema_is_said_so():
    lines = plan_lines(plan(FedCMFS()), n_variables=5, labels=(), policy=Policy())
    assert lines[-1].startswith("NOT POSSIBLE HERE: ")
    assert "label" in lines[-1]


@pytest.mark.parametrize("forged", ["0.01\nDisclosed: nothing", "\x1b[2J\x1b[H", "a\u202eb"])
def test_a_coordinator_s_text_is_no_sentence_and_steers_no_terminal(forged):
    own = plan(purpose="x", parameters={"test": forged})
    earlier = plan(parameters={"test": "auto"})
    for line in (*plan_lines(own, n_variables=5, policy=Policy()), *differences(own, [earlier])):
        assert line.isprintable()
    assert "Disclosed: nothing" not in plan_lines(own)


def test_what_colluding_sites_may_know_is_said_for_every_number():
    for colluders, said in (
        (0, "The coordinator, as long as no site sides with it, sees "),
        (1, "The coordinator, even if one site helps it, sees "),
        (2, "The coordinator, even if 2 sites help it, sees "),
    ):
        for reveal in ("bits", "sums"):
            text = "\n".join(plan_lines(plan(FedPC(reveal=reveal), colluders=colluders)))
            assert f"{said}bits and sums only. All sites see the same." in text
    clear = "\n".join(plan_lines(plan(protection="none")))
    assert "Answers leave IN THE CLEAR: the coordinator reads every site's answer." in clear
    assert "bits and sums only" not in clear


def test_background_knowledge_is_told_as_people_write_it():
    known = Knowledge(forbidden=[["1", "2"], ["3", "1"]], tiers=[["1"], ["2", "3"]])
    (line,) = [
        line for line in plan_lines(plan(FedPC(knowledge=known))) if line.startswith("Parameter ")
    ]
    assert line.startswith("Parameter knowledge is forbidden 1 2; 3 1, tiers 1; 2 3, usually none.")


# beside earlier plans


def test_differences_name_what_changed_and_nothing_else():
    earlier = plan(FedPC(alpha=0.02))
    when = f"run {earlier.session.hex()[:8]} of {earlier.created[:10]}"
    assert differences(plan(FedPC(alpha=0.03)), [earlier]) == [f"{when}: alpha was 0.02, now 0.03."]
    assert differences(plan(seed=42), [earlier]) == [f"{when}: seed was 41, now 42."]
    assert differences(plan(protection="bfv"), [earlier]) == [
        f"{when}: protection was masking, now bfv."
    ]
    assert differences(plan(purpose="another"), [earlier]) == [
        f"{when}: no difference but its date and purpose."
    ]
    assert differences(plan(RFcd()), [earlier]) == [f"{when}: it ran fedpc."]


def test_differences_name_the_sites_and_every_earlier_run():
    first, second = plan(), plan(FedPC(alpha=0.5))
    fewer = msgspec.structs.replace(plan(), cohort=MEMBERS[:4])
    lines = differences(fewer, [first, second])
    assert len(lines) == 2
    assert f", now {', '.join(member.name for member in MEMBERS[:4])}." in lines[0]
    assert "alpha was 0.5, now 0.02" in lines[1]
    assert differences(fewer, []) == []


def test_of_a_name_that_has_no_usual_one_none_is_said():
    own = plan(Effect(treatment="2", outcome="3", adjust="1, 4"))
    lines = plan_lines(own, n_variables=4)
    assert lines[5:8] == [
        "Parameter treatment is 2. The cause, by name.",
        "Parameter outcome is 3. The variable that it acts on.",
        "Parameter adjust is 1, 4. Names of what to adjust for, with commas between them.",
    ]
    assert "how much one variable of the study changes another" in lines[2]
    unknown = plan_lines(plan(Effect(treatment="9", outcome="3")), n_variables=4)
    assert unknown[-1].startswith("NOT POSSIBLE HERE: there is no column '9'")


def test_a_name_in_letters_of_two_alphabets_is_marked():
    """A Cyrillic letter in a name or in the purpose looks like the Latin one."""
    about = {"requester": "Dr. \u0410nna Meyer", "purpose": "Does s\u03bfdium matter, with β-HCG?"}
    lines = plan_lines(msgspec.structs.replace(plan(Describe()), **about))
    looks = [line for line in lines if line.startswith("LOOK")]
    assert looks[0].startswith("LOOK: the word '\u0410nna' has letters of Cyrillic and Latin")
    assert looks[1].startswith("LOOK: the word 's\u03bfdium' has letters of Greek and Latin")
    assert len(looks) == 2
    own = msgspec.structs.replace(plan(Describe()), **about)
    short = summary_lines(own, lines, n_variables=None, policy=Policy())
    assert [line for line in short if line in looks] == looks
    assert lines[1].startswith("Purpose"), "what a short account shows stays in front"
    whole = msgspec.structs.replace(plan(Describe()), purpose="Who takes \u0430\u0441\u0435?")
    (look,) = [line for line in plan_lines(whole) if line.startswith("LOOK")]
    assert look.startswith("LOOK: the word '\u0430\u0441\u0435' has letters of Cyrillic:")
    blank = msgspec.structs.replace(plan(Describe()), purpose="Do\u3164 they help?")
    (look,) = [line for line in plan_lines(blank) if line.startswith("LOOK")]
    assert look == "LOOK: a letter, \\u3164, shows nothing. Ask who wrote it."
    plain = {"requester": "Анна Мейер", "purpose": "Größe, naïveté, 東京, 50 µg, β-blockers"}
    assert not any(
        line.startswith("LOOK")
        for line in plan_lines(msgspec.structs.replace(plan(Describe()), **plain))
    )
