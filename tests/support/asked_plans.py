"""Plans of every algorithm and option that a person may be asked to approve."""

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.parameters import grouped, options_of
from cipherdag.algorithms.registry import algorithm_class, algorithm_names, program_digest
from cipherdag.errors import ParameterError
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.protocol.plan import Member, make_plan

SITES = tuple(Member(name=f"hospital-{k}", identity=bytes([k]) * 32) for k in range(6))
NEEDED = {
    "survival": {"time": "3", "event": "4"},
    "effect": {"treatment": "2", "outcome": "3", "adjust": "1"},
}
MANY = 200


def variants(of: type[Algorithm]):
    """Values of the options of an algorithm: each choice, by bits and by sums, and other numbers.

    What an algorithm refuses is left out.
    """
    options, needed = options_of(of), NEEDED.get(of.name, {})
    single = [{}] + [
        {name: value}
        for name, each in options.items()
        for value in each.choices or ((True, False) if each.kind is bool else ())
    ]
    single += [
        {name: each.default + 1}
        for name, each in options.items()
        if each.kind is int and each.default
    ]
    single += [{name: each.default / 2} for name, each in options.items() if each.kind is float]
    single += [{"by": "1"}, {"adjust": ("1", "2"), "edges": (1.0, 2.0)}] * (of.name == "survival")
    known = Knowledge(forbidden=[["1", "2"], ["3", "1"]], tiers=[["1"], ["2", "3"]])
    single += [{"knowledge": known}] * ("knowledge" in options)
    more = [{"reveal": "sums"}] * ("reveal" in options) + [{"bootstrap": 2}] * (
        "bootstrap" in options
    )
    for values in [*single, *({**each, **one} for each in single for one in more)]:
        try:
            yield of(**grouped(of, {**needed, **values}))
        except ParameterError:
            continue


def plan_of(of, *, sites=SITES, **changes):
    """The plan of an algorithm, by Dr. Grey."""
    about = {
        "algorithm": of.name,
        "parameters": msgspec.json.decode(msgspec.json.encode(of)),
        "program": program_digest(of.name),
        "protection": "masking",
        "purpose": "Which drugs raise cholesterol?",
        "requester": "Dr. Grey",
        "seed": 41,
    }
    return make_plan(sites, **(about | changes))


def asked_plans():
    """Every variant's plan, and plans of other cohorts and protections; one after the other."""
    for name in algorithm_names():
        for algorithm in variants(algorithm_class(name)):
            yield plan_of(algorithm)
    pc = algorithm_class("fedpc")
    for protection in ("masking", "bfv", "none"):
        for size in (2, 3, 4, 5):
            for of in (pc(), pc(reveal="sums"), algorithm_class("rfcd")()):
                yield plan_of(of, sites=SITES[:size], protection=protection)
    for colluders in (0, 1, 2):
        yield plan_of(pc(), colluders=colluders)
    lacking = [msgspec.structs.replace(site, lacking=(0, 2)) for site in SITES[:3]]
    yield plan_of(pc(), sites=(*lacking, *SITES[3:]))
    visits = [msgspec.structs.replace(site, visits=4) for site in SITES[:2]]
    yield plan_of(algorithm_class("describe")(), sites=(*visits, *SITES[2:]))
    many = [Member(name=f"site-{k:04}", identity=k.to_bytes(32, "big")) for k in range(MANY)]
    for colluders in (0, 2):
        yield plan_of(pc(reveal="sums"), sites=tuple(many), colluders=colluders)
    odd = {
        "requester": "Dr. \u0410nna Meyer",
        "purpose": "Do\u3164 s\u03bfdium and \u0430\u0441\u0435 help",
    }
    yield plan_of(pc(), **odd)
    yield plan_of(pc(), requester="", purpose="")
    yield plan_of(pc(), algorithm="magic", parameters={}, program="")
