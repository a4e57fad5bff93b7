"""Columns that may be a time until an event: no cause of anything, and a question of its own.

Leaks:
    Nothing: what is said holds names of columns.
"""

import re
from collections.abc import Sequence

from cipherdag.sites.drafts.identifiers import words_of
from cipherdag.sites.table.column import Column

_UNITS = r"(time|days?|weeks?|months?|years?|zeit|dauer|tage|monate|jahre|jours|mois|dias|meses)"
_SPANS = (
    r"(.* )?(follow ?up|fu|fup|nachbeobachtung|beobachtungszeit|suivi|seguimiento)|"
    r"(.* )?(survival|surv|überleben|ueberleben|survie|supervivencia)|"
    r"os|pfs|dfs|rfs|efs|dss|ttp|tte"
)
_TIME = re.compile(
    rf"({_SPANS})( {_UNITS})*|(.* )?{_UNITS} (to|until|till) (?!birth|diagnos|treat).*|"
    r"futime|fuptime|survtime|überlebenszeit|ueberlebenszeit"
)
_ANY_TIME = re.compile(r"time|t|zeit|temps|tiempo|tempo|days|months|years|.*time")
_ENDS = (
    r"(event|death|dead|died|deceased|relapsed?|recur(rence|red)?|progress(ion|ed)?|censor(ed|ing)?|"
    r"verstorben|gestorben|tod|décès|décédé|deces|decede|muert[eo]|fallecido|exitus)"
)
_EVENT = re.compile(rf"(.* )?{_ENDS}( (event|status|flag|yn))?|((vital|os|pfs|dfs|rfs) )?status")
_DATE = re.compile(rf"(.* )?{_ENDS} ?(date|datum|day|dt)|(date|datum|day) (of |d )?(the )?{_ENDS}")
_MOST_CATEGORIES = 3
_ASK = (
    'Such a time ends with the event, so it is no cause in a graph. If so, set kind = "ignore" for '
    "both where a graph is asked for, and ask of them by"
)


def time_questions(columns: Sequence[Column]) -> dict[str, str]:
    """What to ask of each column that may be a time until an event, or the date of one, by name."""
    events = [each for each in columns if _may_be_event(each)]
    asked = {}
    for column in columns:
        words = words_of(column.name)
        if _DATE.fullmatch(words):
            asked[column.name] = (
                f"may '{column.name}' be the date of an event? Then make a column of the time from "
                "a patient's first day until it, or until they were last seen, and ask by Survival."
            )
        elif column.kind == "continuous" and _is_time(words, events):
            event = min(events, key=lambda each: _distance(each, words), default=None)
            until = "an event" if event is None else f"'{event.name}'"
            named = "the column that says which" if event is None else f'"{event.name}"'
            asked[column.name] = (
                f"is '{column.name}' the time until {until}, or until somebody was last seen? "
                f'{_ASK} Survival(time="{column.name}", event={named}).'
            )
    return asked


def _may_be_event(column: Column) -> bool:
    few = column.kind == "discrete" and len(column.categories) <= _MOST_CATEGORIES
    return few and _EVENT.fullmatch(words_of(column.name)) is not None


def _is_time(words: str, events: Sequence[Column]) -> bool:
    return bool(_TIME.fullmatch(words) or (events and _ANY_TIME.fullmatch(words)))


def _distance(event: Column, words: str) -> tuple[bool, bool, str]:
    """Smaller for an event that shares a word with a time's name, then for one that says which."""
    name = words_of(event.name)
    return not {*name.split()} & {*words.split()}, name == "status", event.name
