"""A plan: one form for equal plans, one digest over all of it, and one session named after it."""

import json

import msgspec
import numpy as np
import plain_plan
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import MalformedMessageError, ParameterError
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.journal import Journal, Started
from cipherdag.protocol.plan import (
    COLLUDERS,
    MAX_TEXT,
    NONCE_BYTES,
    PLAN_FORMAT,
    SESSION_BYTES,
    Member,
    Plan,
    fewest_survivors,
    make_plan,
)
from cipherdag.sites.policy.policy import Policy

MEMBERS = tuple(Member(name=f"hospital-{k}", identity=bytes([k]) * 32) for k in range(3))

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda own: st.lists(own, max_size=4) | st.dictionaries(st.text(max_size=8), own, max_size=4),
    max_leaves=8,
)


def printable(longest):
    """One line of text."""
    return st.text(max_size=longest).map(lambda own: "".join(filter(str.isprintable, own)))


parameters = st.dictionaries(st.text(max_size=8), plain, max_size=5)
plans = st.builds(
    Plan,
    algorithm=printable(20),
    parameters=parameters,
    seed=st.integers(-(2**63), 2**64 - 1),
    program=st.text(max_size=64),
    versions=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4),
    cohort=st.lists(
        st.builds(Member, name=printable(9), identity=st.binary(max_size=40)), max_size=5
    ).map(tuple),
    protection=st.sampled_from(["masking", "bfv", "none"]),
    min_survivors=st.integers(0, 99),
    colluders=st.integers(0, 99),
    min_contributors=st.integers(0, 99),
    purpose=printable(50),
    requester=printable(50),
    created=printable(30),
    nonce=st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES),
)


def plan(**changes):
    about = {"algorithm": "fedpc", "protection": "masking"}
    return make_plan(MEMBERS, **(about | changes))


@pytest.mark.parametrize("seed", [1.5, "1", None, 2**64, -(2**63) - 1, 2**200])
def test_a_seed_that_is_no_whole_number_of_64_bits_is_refused(seed):
    said = "64 bits" if isinstance(seed, int) else "a seed is a whole number, not "
    with pytest.raises(ParameterError, match=said):
        plan(seed=seed)
    assert plan(seed=np.int64(3)).seed == 3


def shuffled(value):
    """The same value, its tables in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    if isinstance(value, list):
        return [shuffled(own) for own in value]
    return value


@given(plans)
def test_equal_plans_have_equal_bytes(own):
    content = encode(own)
    assert decode(content, Plan) == own
    assert encode(decode(content, Plan)) == content
    other = msgspec.structs.replace(
        own, parameters=shuffled(own.parameters), versions=shuffled(own.versions)
    )
    assert encode(other) == content
    assert (other.digest, other.session) == (own.digest, own.session)
    assert own.session == own.digest[:SESSION_BYTES]
    own.check(own.session)


@given(plans, st.data())
def test_a_changed_field_is_another_plan_and_another_session(own, data):
    other = data.draw(plans)
    for field in Plan.__struct_fields__:
        value = PLAN_FORMAT + 1 if field == "format" else getattr(other, field)
        changed = msgspec.structs.replace(own, **{field: value})
        same = encode(changed) == encode(own)
        assert (changed.digest == own.digest) == same
        assert same == (repr(getattr(own, field)) == repr(value)) or own == changed
        if not same:
            with pytest.raises(MalformedMessageError):
                changed.check(own.session)


def test_the_bytes_and_the_digest_are_those_of_a_plain_writer():
    vector = json.loads(plain_plan.VECTOR.read_text("utf-8"))
    assert plain_plan.vector() == vector
    own = msgspec.convert(
        vector["plan"]
        | {
            "cohort": [
                own | {"identity": bytes.fromhex(own["identity"])}
                for own in vector["plan"]["cohort"]
            ],
            "nonce": bytes.fromhex(vector["plan"]["nonce"]),
        },
        Plan,
    )
    assert Plan.__struct_fields__ == plain_plan.FIELDS
    assert encode(own).hex() == vector["bytes"]
    assert own.digest.hex() == vector["digest"]
    assert own.session.hex() == vector["session"]
    assert decode(bytes.fromhex(vector["bytes"]), Plan) == own


@given(parameters, st.integers(-(2**63), 2**64 - 1))
def test_a_plan_is_the_same_after_wire_and_journal(own, seed):
    made = plan(parameters=own, seed=seed)
    assert made.parameters == own
    assert decode(encode(made), Plan) == made
    written = msgspec.json.encode(Started(plan=made))
    assert msgspec.json.decode(written, type=Started).plan.digest == made.digest


def test_lists_stand_for_tuples_so_that_a_plan_equals_what_arrives(tmp_path):
    made = plan(parameters={"knowledge": {"forbidden": (("a", "b"),)}})
    assert made.parameters == {"knowledge": {"forbidden": [["a", "b"]]}}
    assert decode(encode(made), Plan) == made
    Journal(tmp_path / "journal.jsonl").write(Started(plan=made))
    assert Journal(tmp_path / "journal.jsonl").plan == made


@pytest.mark.parametrize(
    "value", [float("inf"), float("-inf"), float("nan"), b"x", object(), 2**64, -(2**63) - 1]
)
def test_a_parameter_that_json_cannot_say_is_refused(value):
    with pytest.raises(ParameterError, match="parameter"):
        plan(parameters={"own": value})
    with pytest.raises(ParameterError, match="parameter"):
        plan(parameters={"own": [{"deep": value}]})


def test_no_two_plans_are_alike():
    made = {plan().session for _ in range(50)}
    assert len(made) == 50
    assert len({plan().nonce for _ in range(50)}) == 50


def test_another_format_nonce_or_session_is_malformed():
    own = plan()
    own.check(own.session)
    for wrong in (bytes(SESSION_BYTES), own.session[:-1], own.digest, b""):
        with pytest.raises(MalformedMessageError, match="the session is not that of the plan"):
            own.check(wrong)
    for changes in (
        {"format": 0},
        {"format": PLAN_FORMAT + 1},
        {"nonce": b""},
        {"nonce": bytes(17)},
    ):
        other = msgspec.structs.replace(own, **changes)
        with pytest.raises(MalformedMessageError, match="format"):
            other.check(other.session)


@pytest.mark.parametrize("field", ["purpose", "requester"])
def test_words_are_bounded_on_both_sides(field):
    longest = plan(**{field: "ä" * MAX_TEXT})
    assert decode(encode(longest), Plan) == longest
    with pytest.raises(ParameterError, match="2000 characters"):
        plan(**{field: "x" * (MAX_TEXT + 1)})
    forged = msgspec.structs.replace(longest, **{field: "x" * (MAX_TEXT + 1)})
    with pytest.raises(MalformedMessageError):
        decode(encode(forged), Plan)


def test_what_a_plan_does_not_know_or_lacks_is_malformed():
    written = msgspec.to_builtins(plan(), builtin_types=(bytes,))
    assert decode(msgspec.msgpack.encode(written), Plan).cohort == MEMBERS
    for key in written:
        short = {own: value for own, value in written.items() if own != key}
        if key == "format":
            continue  # a plan that does not say has this one
        with pytest.raises(MalformedMessageError):
            decode(msgspec.msgpack.encode(short), Plan)
    for wrong in ({"surprise": 1}, {"seed": "1"}, {"seed": 1.5}, {"protection": "ckks"}):
        with pytest.raises(MalformedMessageError):
            decode(msgspec.msgpack.encode(written | wrong), Plan)


@pytest.mark.parametrize("n_sites", range(1, 9))
def test_any_two_sums_share_more_sites_than_collude(n_sites):
    for colluders in range(max(n_sites, 2)):
        fewest = fewest_survivors(n_sites, colluders)
        assert 1 <= fewest <= n_sites
        assert fewest == n_sites or 2 * fewest - n_sites > colluders
    cohort = tuple(Member(name=str(k), identity=bytes(32)) for k in range(n_sites))
    made = make_plan(cohort, algorithm="fedpc", protection="masking")
    assert made.colluders == min(COLLUDERS, n_sites - 1)
    assert made.min_survivors == fewest_survivors(n_sites, made.colluders)


@pytest.mark.parametrize("colluders", [0, 1, 2, 5])
def test_no_test_is_opened_of_fewer_sites_than_collude_and_two(colluders):
    """Whether the plan says how many collude, the policy, or a coordinator that plans for fewer."""
    members = [Member(f"site-{k}", bytes([k]) * 32) for k in range(9)]
    least = max(3, colluders + 2)
    about = {"algorithm": "fedpc", "protection": "masking", "purpose": "p"}
    made = make_plan(members, **about, colluders=colluders, min_contributors=3)
    assert made.min_contributors == least
    lying = msgspec.structs.replace(made, min_contributors=1)
    assert Policy(tolerated_colluders=0).fewest_contributors(lying) == least
    careful = Policy(tolerated_colluders=colluders)
    assert careful.fewest_contributors(msgspec.structs.replace(lying, colluders=0)) == least
    assert make_plan(members[:2], **about, colluders=1).min_contributors == 2


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "\x1b[2Ja", "a\u202eb", "a\u2028b", "\x00"])
@pytest.mark.parametrize("field", ["algorithm", "purpose", "requester", "created", "name"])
def test_no_text_of_a_plan_passes_for_another_line_on_a_screen(field, text):
    made = plan(purpose="Which drugs help?", requester="A university")
    changes = {field: text}
    if field == "name":
        changes = {"cohort": (*MEMBERS[:2], Member(name=text, identity=MEMBERS[2].identity))}
    lying = msgspec.structs.replace(made, **changes)
    with pytest.raises(MalformedMessageError, match="cannot be printed"):
        lying.check(lying.session)
    if field in ("purpose", "requester"):
        with pytest.raises(ParameterError, match="one line"):
            plan(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shade": 1}, "holds no plan: Object contains unknown field `shade`"),
        ({"seed": "x"}, "Expected `int`, got `str` - at `$.seed`"),
        ({"cohort": [{"name": "a"}]}, "missing required field `identity` - at `$.cohort[0]`"),
        ({"\x1b[2J": 1}, "holds no plan"),
        ({"x" * 10_000: 1}, "unknown field `xxx"),
        ({"seed": 2**70}, "more than 64 bits"),
        ({"parameters": {"max_rows": [-(2**70)]}}, "more than 64 bits"),
    ],
)
def test_a_file_without_a_plan_is_refused_by_the_wrong_field(changes, said, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**json.loads(plan().dumps()), **changes}), "utf-8")
    with pytest.raises(MalformedMessageError) as refused:
        Plan.read(file)
    assert said in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < len(str(file)) + 250
    with pytest.raises(MalformedMessageError):
        Plan.loads(file.read_text("utf-8"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"seed: 1", "JSON is malformed"),
        (b"", "truncated"),
        (b"\xff\xfe", "utf-8"),
        (None, "No su"),
    ],
)
def test_a_file_that_is_no_json_is_refused_as_that(content, said, tmp_path):
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(MalformedMessageError, match=f"holds no plan: .*{said}"):
        Plan.read(file)
