"""Each protection says what it is in one place, and nobody else tells them apart."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cohort import SUM_KEY, agreed_keys, declare, values_of, whole_sum, words_of

import cipherdag
from cipherdag.errors import MalformedMessageError, ParameterError, ProtectionError
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.protection_kind import MASKING
from cipherdag.privacy.protections import DEFAULT, PROTECTING, PROTECTIONS, protection_kind
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.secrecy import Secret
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.plan import Member, Plan, make_plan

PACKAGE = Path(cipherdag.__file__).parent


def test_what_is_offered_and_what_is_not():
    assert list(PROTECTIONS) == ["masking", "bfv", "none"]
    assert PROTECTING == ("masking", "bfv")
    assert DEFAULT == "masking"
    assert all(protection_kind(name).name == name for name in PROTECTIONS)
    for name in ("ckks", "", "Masking", "none ", "paillier"):
        with pytest.raises(ProtectionError, match="no protection named"):
            protection_kind(name)
    with pytest.raises(TypeError):
        PROTECTIONS["ckks"] = MASKING


def test_each_says_in_its_own_words_what_leaves():
    for kind in PROTECTIONS.values():
        assert kind.disclosure.endswith(".")
        assert "answer" in kind.disclosure.lower()
    for field in ("name", "title", "left", "shown", "disclosure"):
        assert len({getattr(kind, field) for kind in PROTECTIONS.values()}) == 3
    assert [kind.left for kind in PROTECTIONS.values()] == ["masked", "encrypted", "IN THE CLEAR"]


@pytest.mark.parametrize("field", ["name", "title", "left", "shown", "disclosure"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_a_protection_that_declares_no_disclosure_cannot_be_made(field, text):
    with pytest.raises(ParameterError):
        replace(MASKING, **{field: text})


@pytest.mark.parametrize("name", list(PROTECTIONS))
def test_all_are_made_alike_and_give_the_same_sums(name):
    if name == "bfv":
        pytest.importorskip("tenseal")
    kind = PROTECTIONS[name]
    content = kind.shared()
    sites = [kind.site(index, keys, SUM_KEY, content) for index, keys in enumerate(agreed_keys(3))]
    coordinator = kind.coordinator()
    segments = Segment(3, 1.0, 40, signed=True), Segment(1, 1.0, comparison=True)
    declaration = declare(3, *segments, threshold=0)
    answers = [np.array([0.25, -0.5, own / 4, own == 2]) for own in range(3)]
    found = whole_sum(sites, coordinator, answers, declaration)
    assert found.tolist() == [0.75, -1.5, 0.75, 1.0]
    assert all(isinstance(site, Secret) for site in sites)
    share = sites[0].share(np.zeros(4), declare(3, *segments, label="next"))
    in_the_clear = len(share) == 8 * 6 and not values_of(words_of(share), WORD_MODULI[0]).any()
    assert in_the_clear == (not kind.protects)


@pytest.mark.parametrize("name", ["ckks", "", "masking\n", "MASKING", "none|bfv", "xmasking"])
def test_a_message_that_names_another_protection_is_malformed(name):
    member = Member(name="a", identity=bytes(32))
    plan = make_plan((member,), protection="bfv", algorithm="fedpc")
    assert decode(encode(plan), Plan) == plan
    with pytest.raises(MalformedMessageError):
        decode(encode(msgspec.structs.replace(plan, protection=name)), Plan)


def test_the_names_cost_no_import_of_what_protections_compute_with():
    heavy = "numpy", "tenseal", "cryptography", "torch", "pandas"
    for module in ("cipherdag.privacy.protections", "cipherdag.cli.main"):
        script = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        assert run.stdout.decode().strip() == "[]"


def deciding(tree):
    """Strings that code compares with, branches on, or looks something up by."""
    for node in ast.walk(tree):
        parts = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        for part in parts:
            for leaf in ast.walk(part) if part is not None else ():
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf.value


def test_no_code_elsewhere_decides_by_the_name_of_a_protection():
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in PACKAGE.rglob("*.py")
        if path.parent != PACKAGE / "privacy"
        and (names := set(PROTECTING) & set(deciding(ast.parse(path.read_text("utf-8")))))
    }
    assert found == {}
    for template in (PACKAGE / "pages" / "templates").iterdir():
        assert not any(f'"{name}"' in template.read_text("utf-8") for name in PROTECTING)
