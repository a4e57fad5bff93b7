"""Which columns of several tables are one, by names, types, ranges, categories and units.

Nothing here decides alone: every match has its reasons, and a person reads them.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cipherdag.sites.drafts.spellings import reading_of
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import loose_forms

NUMBERS = ("continuous", "binned")
"""Kinds of columns that have units."""

_CONCEPTS = {  # English, German, French, Spanish, Italian; words without accents
    "identifier": r"mrn|pid|(patient|patienten|person|case|fall)s? ?(id|nr|no|number|nummer)|"
    r"n[ro]? (de )?dossier|numero (de )?dossier|id (patient|paciente)|nhs (no|number)|nhc",
    "birth": r"birth ?date|date of birth|dob|geburtsdatum|date de naissance|fecha de nacimiento",
    "age": r"age|alter|edad|eta",
    "sex": r"sex|gender|geschlecht|sexe|genre|sexo|genero|sesso",
    "smoking": r"smok\w*( status)?|rauch(er|en)(status)?|fumeu\w*|taba[cgq]\w*|fuma\w*",
    "bmi": r"bmi|body mass index|imc",
    "weight": r"weight|(koerper)?gewicht|poids|peso",
    "height": r"height|(koerper)?groesse|taille|talla|altezza",
    "temperature": r"(body |koerper)?temp(erature?|eratura?)?",
    "diabetes": r"diabet\w*( mellitus)?",
    "glucose": r"glucose|glukose|gly[ck]a?emi[ea]|glucosa|glicemia|blood sugar|blutzucker",
    "hba1c": r"hba ?1c|hemoglobine glyquee",
    "haemoglobin": r"hb|hgb|ha?emoglobine?|hemoglobina",
    "creatinine": r"(serum )?(creatinine?|kreatinin|creatinina)",
    "cholesterol": r"(total )?cholesterol|(gesamt)?cholesterin|cholesterol total|colesterolo?",
    "triglycerides": r"triglyceri\w*|trigliceri\w*",
    "systolic": r"sbp|pas|tas|systolic( blood pressure| bp)?|blutdruck hoeherer|(rr |blutdruck )?"
    r"syst(olisch(er)?)?( blutdruck)?|((pression|tension|presion|pa|ta) )?(arterielle |arterial )?"
    r"s[iy]stoli(que|ca)",
    "diastolic": r"dbp|pad|tad|diastolic( blood pressure| bp)?|(rr |blutdruck )?"
    r"diast(olisch(er)?)?( blutdruck)?|((pression|tension|presion|pa|ta) )?(arterielle |arterial )?"
    r"diastoli(que|ca)",
    "stage": r"(tumou?r )?stage|(tumor)?stadium|stade|estadio|stadio",
    "ventilation": r"(mechanical )?ventilat(ed|ion)|beatm(et|ung)|ventilee?|ventilado",
    "stay": r"los|length of stay|(liege|verweil)dauer|duree (de|du) sejour|estancia",
    "death": r"died|death|dead|deceased|exitus|(ver|ge)storben|tod|decedee?|deces|muert[eo]|"
    r"fallecido",
    "follow-up": r"(follow ?up|survival|surv)( time)?|ueberleben(szeit)?|survie|suivi|"
    r"supervivencia|seguimiento",
    "treatment": r"treatment|behandlung|traitement|tratamiento|trattamento",
    "ward": r"ward|station|service|servicio|planta|reparto",
    "admission": r"(date (of |d )?)?(admi(tted|ssion)|entree)( date)?|aufnahme(datum)?|"
    r"(fecha (de )?)?ingreso",
    "country": r"country|land|pays|pais|paese",
    "remark": r"remarks?|comments?|notes?|bemerkung(en)?|kommentar|remarques?|commentaires?|"
    r"observaci(on|ones)",
}
_FACTORS = {  # a number in the first unit, times the factor, is one in the second
    "glucose": (("mmol/l", "mg/dl", 18.016),),
    "creatinine": (("mg/dl", "umol/l", 88.42),),
    "cholesterol": (("mmol/l", "mg/dl", 38.67),),
    "triglycerides": (("mmol/l", "mg/dl", 88.57),),
    "weight": (("kg", "lb", 2.2046),),
    "height": (("m", "cm", 100.0), ("in", "cm", 2.54), ("m", "in", 39.37)),
    "age": (("years", "months", 12.0),),
    "haemoglobin": (("g/dl", "g/l", 10.0),),
    "follow-up": (("months", "days", 30.437), ("years", "days", 365.24), ("years", "months", 12.0)),
    "stay": (("days", "hours", 24.0),),
}
_TIMES = r"(?P<years>y|yrs?|years?|jahren?|ans|annees|anos|anni)|(?P<months>months?|monaten?|mois)|"
_TIMES += r"(?P<days>d|days?|tagen?|jours|dias|giorni)|(?P<hours>h|hours?|stunden?|heures)"
_UNITS = {  # that a name may end with, by its concept; "" for those of any concept
    "": r"(?P<amount>[munpk]?(mol|g)|[mk]?i?u)[ /]?(per )?(?P<volume>[mdu]?l|m2)|(?P<mmhg>mm ?hg)",
    "age": _TIMES,
    "stay": _TIMES,
    "follow-up": _TIMES,
    "weight": r"(?P<kg>kgs?|kilos?)|(?P<lb>lbs?|pounds?)",
    "height": r"(?P<cm>cms?)|(?P<m>m)|(?P<in>in|inch(es)?)",
    "bmi": r"(?P<amount>kg)[ /]?(?P<volume>m2)",
    "temperature": r"(?P<celsius>°? ?c|(deg ?)?celsius|deg ?c)|"
    r"(?P<fahrenheit>°? ?f|(deg ?)?fahrenheit|deg ?f)",
}
_BRACKETS = re.compile(r"\s*[(\[]\s*([^)\]]+?)\s*[)\]]")
_MEASURED = re.compile(r"[^/]+/[^/]+|%|years?|jahre|kg|lb|c?m|mmhg", re.IGNORECASE)
_ENDS = re.compile(r"(?<=[^\W_])[\s_.-]+(?=[^\s_.-])")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "µ": "u", "μ": "u"})
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi")
_BODY = {"celsius": (33.0, 43.0), "fahrenheit": (91.0, 110.0)}
"""Between which numbers a median of body temperatures lies."""
MOST_RATIO = 1.5
"""By which factor two medians may differ once both are in one unit."""


@dataclass(frozen=True, slots=True)
class Header:
    """A column of a table, and the quartiles of its numbers where rows are at hand."""

    column: Column
    quartiles: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """Its name there."""
        return self.column.name

    @property
    def unitless(self) -> str:
        """Its name without a unit: in brackets, or at the end of the name of numbers."""
        return self._parts[0]

    @property
    def said_unit(self) -> str:
        """What it, or its name, says of the unit of its numbers."""
        return self.column.unit or self._parts[1]

    @property
    def unit(self) -> str:
        """The unit as units are compared: in small letters, without accents."""
        text = "".join(_folded(self.said_unit).split())
        return _read_unit(self.concept, text) or text

    @property
    def words(self) -> str:
        """The words of its name, without a unit, accents or marks."""
        return _words(self.unitless)

    @property
    def concept(self) -> str:
        """What its name means, or empty."""
        return _concept(self.words)

    @property
    def _parts(self) -> tuple[str, str]:
        """Its name without a unit, and the unit."""
        bracket = _BRACKETS.search(self.name)
        if bracket:
            rest = self.name[: bracket.start()] + self.name[bracket.end() :]
            concept, said = _concept(_words(rest)), bracket[1]
            if rest and (_MEASURED.fullmatch(said) or _read_unit(concept, _folded(said))):
                return rest, said
        for end in _ENDS.finditer(self.name):
            rest, said = self.name[: end.start()], self.name[end.end() :]
            concept = _concept(_words(rest))
            read = _read_unit(concept, _words(said))
            if read and (concept or self.column.kind in NUMBERS):
                return rest, read
        return self.name, ""


def _folded(text: str) -> str:
    """The text in small letters without accents; umlauts as two letters."""
    plain = unicodedata.normalize("NFC", text).casefold().translate(_UMLAUTS)
    return "".join(
        letter
        for letter in unicodedata.normalize("NFKD", plain)
        if not unicodedata.combining(letter)
    )


def _words(name: str) -> str:
    """Its words in small letters without accents or marks; a capital may begin one."""
    split = re.sub(r"(?<=[^\W\d_A-Z])(?=[A-Z][a-z]{2})", " ", name)
    return " ".join(re.findall(r"[^\W_]+", _folded(split)))


def _concept(words: str) -> str:
    return next((name for name, form in _CONCEPTS.items() if re.fullmatch(form, words)), "")


def _read_unit(concept: str, text: str) -> str:
    """The unit that a text writes, of numbers that mean something; empty if it is none."""
    for forms in (_UNITS[""], _UNITS.get(concept, "(?!)")):
        read = re.fullmatch(forms, text)
        if read and read.lastgroup:
            parts = read.groupdict()
            if parts.get("amount"):
                return f"{parts['amount']}/{parts['volume']}"
            return next(name for name, part in parts.items() if part)
    return ""


Tables = Mapping[str, Sequence[Header]]
Group = dict[str, Header]  # the columns that are one, by table


@dataclass(frozen=True, slots=True)
class Match:
    """One column of several tables: its name in the study, that of each table, and why."""

    name: str
    headers: Mapping[str, Header]
    reasons: str

    @property
    def renamed(self) -> dict[str, str]:
        """By table, the names that are not the one in the study."""
        return {site: each.name for site, each in self.headers.items() if each.name != self.name}


def matches(tables: Tables) -> list[Match]:
    """The columns of all tables, those of several once; in the order of the first table.

    Equal names match, then names equal but for units, marks and case, then names that mean the
    same. Where a table has two columns of a meaning, none of them matches by it.
    """
    groups = _by_key(tables, lambda header: header.name)
    groups = _joined(groups, lambda header: header.words.replace(" ", ""))
    groups = _joined(groups, lambda header: header.concept)
    often = Counter(header.name for headers in tables.values() for header in headers)
    ranks = {  # the lowest for the table whose names most others share
        site: -sum(often[header.name] - 1 for header in headers) for site, headers in tables.items()
    }
    return [
        Match(_name(group, often, ranks), group, ", ".join(_reasons(group))) for group in groups
    ]


def _by_key(tables: Tables, key: Callable[[Header], str]) -> list[Group]:
    groups: dict[str, Group] = {}
    for site, headers in tables.items():
        for header in headers:
            groups.setdefault(key(header), {})[site] = header
    return [*groups.values()]


def _joined(groups: list[Group], key: Callable[[Header], str]) -> list[Group]:
    """The groups with those of one key joined, unless two of them are of one table."""
    by_key: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        keys = {key(header) for header in group.values()} - {""}
        for each in keys if len(keys) == 1 else ():
            by_key[each].append(group)
    for same in by_key.values():
        sites = [site for group in same for site in group]
        if len(same) > 1 and len({*sites}) == len(sites):
            for group in same[1:]:
                same[0].update(group)
                group.clear()
    return [group for group in groups if group]


def meanings(column: Column) -> frozenset[str]:
    """What categories of a column mean: their loose forms, and truth values or sexes."""
    spelled = [text for _, texts in column.synonyms for text in texts]
    forms = {form for each in (*column.categories, *spelled) for form in loose_forms(each)}
    reads = reading_of([column.categories])
    values = () if reads is None else ((reads.__name__, reads(each)) for each in column.categories)
    return frozenset({*forms, *map(str, values)})


def _name(group: Group, often: Counter[str], ranks: Mapping[str, int]) -> str:
    """The name that most tables have, else the plainest; no unit where tables have several."""
    units = {header.unit for header in group.values()} - {""}
    names = {header.name: ranks[site] for site, header in sorted(group.items())}
    if len(units) > 1:
        plain = {header.unitless: ranks[site] for site, header in sorted(group.items())}
        names = {name: at for name, at in plain.items() if name not in often or name in names}
    concept = next(iter(group.values())).concept

    def rank(name: str) -> tuple[object, ...]:
        usable = re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None
        return -often[name], not usable, _words(name) != concept, names[name], len(name), name

    return min(names or {header.name: 0 for header in group.values()}, key=rank)


def _reasons(group: Group) -> Iterator[str]:
    """Why the columns of a group are one, and what speaks against it."""
    headers = [*group.values()]
    if len({header.name for header in headers}) == 1:
        yield "equal names"
    elif len({_words(header.name).replace(" ", "") for header in headers}) == 1:
        yield "names equal but for marks"
    elif len({header.words.replace(" ", "") for header in headers}) == 1:
        yield "names equal but for the unit"
    else:
        yield f"names that mean {headers[0].concept}"
    kinds = sorted({header.column.kind for header in headers})
    yield f"all {kinds[0]}" if len(kinds) == 1 else " and ".join(kinds)
    if units := sorted({header.unit for header in headers} - {""}):
        yield f"units {' and '.join(units)}"
    ranges = [header.quartiles for header in headers if header.quartiles]
    if len(ranges) > 1:
        low, high = max(each[0] for each in ranges), min(each[-1] for each in ranges)
        yield "ranges overlap" if low <= high else "ranges do not overlap"
    said = [meanings(header.column) for header in headers if header.column.categories]
    if len(said) > 1:
        shared = frozenset.intersection(*said)
        yield "categories agree" if shared else "categories differ"


def other_units(match: Match) -> dict[str, tuple[float, str]]:
    """The tables whose numbers seem to be in another unit than those of most others.

    Units say so, or medians that differ by about the factor between two usual units.

    Returns:
        By table, what its numbers have to be multiplied by, and the unit that they then have.
    """
    headers = {
        site: each
        for site, each in match.headers.items()
        if not each.column.categories and (each.unit or each.quartiles)
    }
    factors = {
        site: {
            other: matched
            for other, each in headers.items()
            if (matched := _conversion(each, header)) is not None
        }
        for site, header in headers.items()
    }
    # most others are in the unit of the table to which the fewest have to be converted
    return min(factors.values(), key=len, default={})


def _conversion(one: Header, other: Header) -> tuple[float, str] | None:
    """The factor that converts numbers of one to the other's unit, and that unit; else None."""
    if one.concept != other.concept:
        return None
    for first, second, factor in _FACTORS.get(one.concept, ()):
        for start, end, times in ((first, second, factor), (second, first, 1.0 / factor)):
            possible = one.unit in ("", start) and other.unit in ("", end)
            said = bool(one.unit and other.unit)
            if possible and (said or _near(one, other, times)):
                return float(f"{times:.5g}"), end
    return None


def in_fahrenheit(match: Match) -> list[str]:
    """The tables whose temperatures seem to be degrees Fahrenheit, where others' are Celsius."""
    scales = {site: _scale(header) for site, header in match.headers.items()}
    both = {"celsius", "fahrenheit"} <= {*scales.values()}
    return [site for site, scale in scales.items() if scale == "fahrenheit"] if both else []


def _scale(header: Header) -> str:
    if header.concept != "temperature" or header.unit:
        return header.unit
    middle = header.quartiles[1] if header.quartiles else 0.0
    return next((name for name, (low, high) in _BODY.items() if low < middle < high), "")


def _near(one: Header, other: Header, factor: float) -> bool:
    if not (one.quartiles and other.quartiles) or one.quartiles[1] <= 0:
        return False
    return 1 / MOST_RATIO < other.quartiles[1] / one.quartiles[1] / factor < MOST_RATIO


def other_words(match: Match) -> dict[str, dict[str, str]]:
    """The tables that share no category with the others, by what each of theirs may mean there.

    Roman numerals and figures may mean the same; any other word may mean "", which is nothing.
    Where half of the tables or more share none, the first of them counts as one of the others.
    """
    headers = {site: each for site, each in match.headers.items() if each.column.categories}
    strangers: dict[str, dict[str, str]] = {}
    for site, header in headers.items():
        others = [each for other, each in headers.items() if other != site]
        shown = {text for each in others for text in meanings(each.column)}
        here = meanings(header.column)
        if shown and len(header.column.categories) > 1 and not here & shown:
            ranks = {as_figure(text): text for each in others for text in each.column.categories}
            strangers[site] = {
                text: ranks.get(as_figure(text), "") for text in header.column.categories
            }
    return strangers if 2 * len(strangers) < len(headers) else dict([*strangers.items()][1:])


def as_figure(text: str) -> str:
    """The figure of a Roman numeral up to six; any other text as it is."""
    return str(_ROMAN.index(text.casefold()) + 1) if text.casefold() in _ROMAN else text
