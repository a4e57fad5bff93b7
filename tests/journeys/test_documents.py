"""Every page says what is true: its code runs, its links lead somewhere, its files parse."""

import re
import sys
from urllib.parse import urlsplit

import pytest
from documents import ROOT, Reader, anchors, blocks, external, links, pages
from walk_roles import ROLES
from walk_roles import pages as role_pages

import cipherdag
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema

RUN = {"python", "sh"}
SHOWN = {"", "text", "toml", "json", "html", "nginx", "sql", "r"}  # .ci/r runs blocks of R


def with_code(path):
    return any(block.language in RUN and "shown by" not in block.how for block in blocks(path))


@pytest.mark.parametrize("path", [p for p in pages() if with_code(p)], ids=str)
def test_a_reader_who_follows_the_page_gets_what_it_says(path, tmp_path):
    with Reader(tmp_path) as reader:
        for block in blocks(path):
            if "shown by" not in block.how:
                reader.follow(block)


@pytest.mark.parametrize("path", pages(), ids=str)
def test_every_block_is_of_a_known_kind_and_parses(path):
    for block in blocks(path):
        assert block.language in RUN | SHOWN, f"{path}:{block.line}"
        if shown := block.how.get("shown by"):
            assert (ROOT / shown).exists(), f"{path}:{block.line} names {shown}"


@pytest.mark.parametrize("path", pages(), ids=str)
def test_links_within_the_repository_lead_somewhere(path):
    for target in links(path):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        there = ((ROOT / path).parent / file).resolve() if file else ROOT / path
        assert there.exists(), f"{path}: {target}"
        if anchor:
            assert anchor in anchors(there), f"{path}: {target}"


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_a_way_in_that_begins_with_what_to_do(role):
    front = (ROOT / "docs" / "index.md").read_text("utf-8")
    page = ROOT / "docs" / "roles" / f"{role}.md"
    assert f"](roles/{role}.md)" in front
    headings = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert (headings[0], headings[-1]) == ("First", "Your pages")
    front_page, own, *further = role_pages(role)
    assert own == page.relative_to(ROOT)
    assert len(further) >= 2
    assert {front_page, *further} <= set(pages())


def test_the_reference_has_all_that_the_package_names():
    reference = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    for name in cipherdag.__all__:
        assert f"   cipherdag.{name}\n" in reference, name


def test_addresses_elsewhere_are_well_formed():
    """Nothing is asked of the network here; `make links` follows them."""
    for address, named in external().items():
        parts = urlsplit(address)
        assert parts.scheme == "https", (address, named)
        assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.hostname or ""), (address, named)
        assert not re.search(r"[\s\\^{}|]|%(?![0-9A-Fa-f]{2})", address), (address, named)


def test_links_and_anchors_are_found_as_github_makes_them(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`, c-d: E\n(my-label)=\n## Twice\n## Twice\n[x](y.md#z) and\n[long\ntext](#twice-1)"
        " `[no](nowhere)` <https://a.example/b>\n```text\n# no heading [no](nowhere)\n```\n"
        "```{include} x\n```\n## Last\n",
        "utf-8",
    )
    assert anchors(page) == {"a-b-c-d-e", "my-label", "twice", "twice-1", "last"}
    assert links(page) == ["y.md#z", "#twice-1", "https://a.example/b"]


def test_the_error_page_says_what_the_errors_say():
    sys.path.insert(0, str(ROOT / "docs"))
    from errors_page import PAGE, page

    assert page() == PAGE.read_text("utf-8"), "run python docs/errors_page.py"


def test_the_page_of_tables_says_what_the_findings_declare():
    sys.path.insert(0, str(ROOT / "docs"))
    from tables_page import PAGE, page

    assert page() == PAGE.read_text("utf-8"), "run python docs/tables_page.py"


def test_readme_and_pages_say_what_algorithms_declare():
    sys.path.insert(0, str(ROOT / "docs"))
    from disclosures import PAGES, page

    for name in PAGES:
        assert page(name) == (ROOT / name).read_text("utf-8"), "run python docs/disclosures.py"


def test_policies_and_schemas_on_the_pages_are_what_they_seem():
    found = [b for path in pages() for b in blocks(path) if b.language == "toml"]
    shown = [b for b in found if not {"saved as", "shown by"} & b.how.keys()]
    assert shown
    for block in shown:
        if block.code.startswith("[columns."):
            assert Schema.loads(block.code).names
        elif "[[relations]]" in block.code:
            columns = (Column(name, "continuous") for name in ("age", "age_group"))
            text = Schema(tuple(columns)).dumps() + block.code
            assert Schema.loads(text).applied
        else:
            assert Policy.loads(block.code).min_sites >= 3


def test_the_reader_notices_what_is_wrong(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- exit: 2 -->\n```sh\ncipherdag graph show nowhere\n```\n", "utf-8")
    (block,) = blocks(page)
    with Reader(tmp_path) as reader:
        reader.follow(block)
        assert "nowhere" in reader.printed
    page.write_text("```sh\ncipherdag graph show nowhere\n```\n", "utf-8")
    with Reader(tmp_path) as reader, pytest.raises(AssertionError, match="gave 2"):
        reader.follow(blocks(page)[0])
    page.write_text("```sh\nrm -r .\n```\n", "utf-8")
    with Reader(tmp_path) as reader, pytest.raises(AssertionError, match="may not run"):
        reader.follow(blocks(page)[0])
    page.write_text("```python\nprint(1)\n```\n<!-- prints -->\n```text\n2\n```\n", "utf-8")
    first, second = blocks(page)
    with Reader(tmp_path) as reader:
        reader.follow(first)
        with pytest.raises(AssertionError, match="is not in"):
            reader.follow(second)
