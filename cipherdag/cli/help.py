"""Help that shows first what most people use: sections, options for experts, an example."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import click

from cipherdag.cli.options import is_source

EXPERTS = frozenset(
    {
        "approval_s", "as_json", "as_published", "deal", "device", "lacking", "live",
        "min_cell_size", "patient", "seed", "timeout_s", "visits",
    }
)  # fmt: skip
"""Settings of runs that most people leave as they are; an algorithm names its usual parameters."""
WHOLE = "cipherdag.help.whole"
MOST_NEAR = 2
EXAMPLES = {
    "demo": "cipherdag demo",
    "effect": "cipherdag effect result --of Smoking --on Dyspnoea --out answer",
    "mcp": "cipherdag mcp studies",
    "repeat": "cipherdag repeat result --seed 1 --out again",
    "report": "cipherdag report result --truth edges.csv",
    "run": "cipherdag run north.csv south.csv west.csv --out result",
    "simulate": "cipherdag simulate fedpc data.csv --sites 5",
    "audit bundle": "cipherdag audit bundle result --out evidence.zip",
    "audit export": "cipherdag audit export north --format csv --out left.csv",
    "audit show": "cipherdag audit show result",
    "audit verify": "cipherdag audit verify result",
    "graph compare": "cipherdag graph compare result edges.csv",
    "graph export": "cipherdag graph export result --format dot --out graph.dot",
    "graph identify": "cipherdag graph identify result --treatment Smoking --outcome Dyspnoea",
    "graph show": "cipherdag graph show result --png graph.png",
    "schema diff": "cipherdag schema diff schema.toml newer.toml",
    "schema infer": "cipherdag schema infer north.csv south.csv --out schema.toml",
    "schema merge": "cipherdag schema merge north.toml south.toml --out schema.toml",
    "schema overlap": "cipherdag schema overlap schema.toml --sites north,south,west",
    "schema preview": "cipherdag schema preview warehouse.toml",
    "site activate": "cipherdag site activate north.approval --study CODE",
    "site approve": "cipherdag site approve 1f3a9c20",
    "site carry": "cipherdag site carry shared --coordinator lead@example.org",
    "site check": "cipherdag site check",
    "site deny": 'cipherdag site deny 1f3a9c20 --why "The purpose is too wide."',
    "site engine": "cipherdag site engine --door door",
    "site knowledge": "cipherdag site knowledge --forbid Dyspnoea Smoking --out knowledge.toml",
    "site new": "cipherdag site new north --algorithm fedpc --data patients.csv",
    "site register": "cipherdag site register --out register.csv",
    "site releases": "cipherdag site releases",
    "site request": "cipherdag site request",
    "site result": "cipherdag site result --out report",
    "site start": "cipherdag site start",
    "site status": "cipherdag site status 1f3a9c20",
    "coordinator approve": "cipherdag coordinator approve north.request",
    "coordinator carry": "cipherdag coordinator carry shared --site north=data@example.org",
    "coordinator new": "cipherdag coordinator new --study habits --host study.example.org",
    "coordinator plan": 'cipherdag coordinator plan fedpc --purpose "Which habits matter?"',
    "coordinator renew": "cipherdag coordinator renew",
    "coordinator revoke": "cipherdag coordinator revoke north",
    "coordinator run": 'cipherdag coordinator run fedpc --purpose "Which habits matter?"',
    "coordinator sites": "cipherdag coordinator sites",
    "coordinator start": "cipherdag coordinator start",
}
"""An example of every command but those of algorithms, which `AlgorithmCommand` takes."""


class Commands(click.Group):
    """A group that answers a command which it lacks with the near ones of the whole program."""

    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named, or a usage error with the lines that may be meant."""
        near = [] if self.get_command(ctx, args[0]) else self._near(ctx, args[0])
        if near:
            lines = " or ".join(f"'cipherdag {line}'" for line in near)
            ctx.fail(f"No such command {args[0]!r}. Did you mean {lines}?")
        return super().resolve_command(ctx, args)

    def _near(self, ctx: click.Context, word: str) -> list[str]:
        """The lines of this group, else of all, whose last word is this one or near it."""
        root = ctx.find_root()
        prefix = tuple(ctx.command_path.removeprefix(root.command_path).split())
        lines = sorted(_lines(root.command, ctx), key=len)
        ends = sorted({line[-1] for line in lines})
        if self is root.command and word not in ends and is_source(word):
            return [f"run {shlex.quote(word)}"]
        here = [] if word in ends else get_close_matches(word, self.list_commands(ctx), 1)
        close = here or get_close_matches(word, ends, 1)
        meant = [line for line in lines if line[-1:] == (*close,)]
        first = [line for line in meant if line[:-1] == prefix] or meant[:MOST_NEAR]
        return [" ".join(line) for line in first]


def _lines(command: click.Command | None, ctx: click.Context) -> Iterator[tuple[str, ...]]:
    """The words of every command below a group, without making those of algorithms."""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            yield (name,)
            yield from ((name, *line) for line in _lines(command.commands.get(name), ctx))


def example(line: str) -> str:
    """The end of a help text that shows a command line, which is not wrapped."""
    return f"\b\nExample:\n  {line}"


def finish(command: click.Command, words: Sequence[str] = ()) -> None:
    """Give a tree of commands its examples, and lists of commands whole sentences.

    Click cuts these sentences at a length.
    """
    command.short_help = command.get_short_help_str(limit=sys.maxsize)
    if line := EXAMPLES.get(" ".join(words)):
        command.epilog = example(line)
    if isinstance(command, click.Group):
        for name, subcommand in command.commands.items():
            finish(subcommand, (*words, name))


def write_section(
    formatter: click.HelpFormatter, heading: str, records: Sequence[tuple[str, str]]
) -> None:
    """Write some options under a heading, if there are any."""
    if records:
        with formatter.section(heading):
            formatter.write_dl(records)


def whole_help() -> click.Option:
    """The option that shows the help with the options for experts."""

    def shown(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            context.meta[WHOLE] = True
            click.echo(context.get_help())
            context.exit()

    settings: dict[str, Any] = {"is_eager": True, "expose_value": False, "hidden": True}
    return click.Option(["--help-all"], is_flag=True, callback=shown, **settings)
