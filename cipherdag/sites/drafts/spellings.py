"""Which categories of several drafts are one, spelt differently."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from cipherdag.sites.table.column import Listed
from cipherdag.sites.table.names import (
    is_female,
    is_plain_number,
    loose_forms,
    sort_categories,
    truth_value,
)

_NEAR_MISS = 0.85
Reading: TypeAlias = Callable[[str], bool | None]


@dataclass(frozen=True, slots=True)
class SharedCategories:
    """The category of every text of a draft, and remarks on texts that are, or may be, one."""

    spelled: Mapping[str, str]
    remarks: tuple[tuple[str, str], ...]

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories in the order of drafts."""
        return sort_categories({*self.spelled.values()})

    @property
    def synonyms(self) -> Listed:
        """The other spellings of every category that has some."""
        pairs = sorted(self.spelled.items())
        by_category = (
            (category, tuple(text for text, each in pairs if each == category != text))
            for category in self.categories
        )
        return tuple((category, texts) for category, texts in by_category if texts)


def shared_categories(
    given: Mapping[str, Sequence[str]], declared: Mapping[str, str]
) -> SharedCategories:
    """The categories of all drafts, each in the spelling that most of them use.

    Two texts are one category where they share a loose form ("Männer", "maenner"), where a draft
    says so, or where every draft has just a word for true and one for false ("Yes", "1", "ja"), or
    for female and male.
    """
    used = Counter(text for categories in given.values() for text in set(categories))
    reads = reading_of(given.values())
    groups = grouped([*sorted(used), *sorted(declared.keys() - used.keys())], declared, reads=reads)
    spelled: dict[str, str] = {}
    remarks = []
    followed = min(map(tuple, given.values()), key=lambda texts: _draft_rank(texts, used))
    for group in groups:
        drafted = [text for text in group if text in used]
        chosen = min(drafted, key=lambda text: _rank(text, drafted, used, followed))
        spelled |= dict.fromkeys(group, chosen)
        others = sorted(text for text in drafted if text != chosen)
        if others:
            listed = ", ".join(
                f"'{text}' in {quoted(s for s, texts in given.items() if text in texts)}"
                for text in others
            )
            remarks.append((f"{listed} read as '{chosen}'.", "See `synonyms`; undo what is wrong."))
    if len({spelled[text] for text in used}) == 1 < len(used):
        # a column of one category would be none, so what drafts say is kept
        said = f"{quoted(sorted(used))} may spell one category; they are kept apart."
        return SharedCategories(
            {text: text for text in used}, ((said, "Where they do, leave the column out."),)
        )
    return SharedCategories(spelled, (*remarks, *_near_misses(given, spelled)))


def grouped(
    texts: Sequence[str], declared: Mapping[str, str], *, reads: Reading | None
) -> list[tuple[str, ...]]:
    """The texts in groups that spell one category each."""
    groups: list[tuple[set[str], list[str]]] = []
    for text in texts:
        keys = set(loose_forms(text)) | {f"\0{declared.get(text, text)}"}
        if reads is not None and (value := reads(text)) is not None:
            keys.add(f"\1{value}")
        same = [group for group in groups if group[0] & keys]
        rest = [group for group in groups if not group[0] & keys]
        members = [member for each in same for member in each[1]]
        groups = [*rest, (keys.union(*(each[0] for each in same)), [*members, text])]
    return [tuple(members) for _, members in groups]


def reading_of(given: Iterable[Sequence[str]], most: int = 2) -> Reading | None:
    """What reads every category, of a draft at ``most`` so many, as true or false, or by sex."""
    listed = [*given]
    for reads in (truth_value, is_female):
        if all(len(each) <= most and None not in map(reads, each) for each in listed):
            return reads
    return None


def _draft_rank(
    texts: Sequence[str], used: Mapping[str, int]
) -> tuple[bool, int, bool, Sequence[str]]:
    """Smaller for words, for spellings that more drafts use, and for small letters."""
    many = sum(used[text] for text in texts)
    capitals = any(text != text.lower() for text in texts)
    return any(map(is_plain_number, texts)), -many, capitals, sorted(texts)


def _rank(
    text: str, group: Sequence[str], used: Mapping[str, int], followed: Sequence[str]
) -> tuple[int, int, bool, bool, bool, str]:
    """Smaller for the word, then the spelling, that more drafts use; words before numbers.

    Of equals those of one draft are ``followed``, so that a column does not mix languages.
    """
    forms = loose_forms(text)
    word = sum(used[other] for other in group if forms & loose_forms(other))
    number, foreign = is_plain_number(text), text not in followed
    return -word, -used[text], number, foreign, text != text.lower(), text


def _near_misses(
    given: Mapping[str, Sequence[str]], spelled: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Categories of one draft alone that nearly are one of the others."""
    remarks: dict[frozenset[str], tuple[str, str]] = {}
    for site, categories in sorted(given.items(), reverse=True):
        here = {spelled[text] for text in categories}
        others = {spelled[text] for s, texts in given.items() if s != site for text in texts}
        for text in sorted(here - others):
            close = get_close_matches(text.casefold(), sorted(others - here), 1, _NEAR_MISS)
            if close and not is_plain_number(text):
                said = f"'{text}' stands in '{site}' alone, and is near to '{close[0]}'."
                remedy = f'If they are one, write synonyms = {{ "{close[0]}" = ["{text}"] }}.'
                remarks.setdefault(frozenset((text, close[0])), (said, remedy))
    return [*remarks.values()]


def quoted(sites: Iterable[str]) -> str:
    """Names in quotation marks."""
    return " and ".join(f"'{site}'" for site in sites)
