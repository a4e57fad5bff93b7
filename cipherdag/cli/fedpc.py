"""The options of FedPC, and what they stand for, for every command that runs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from cipherdag.cli.options import FILE, shared_options
from cipherdag.errors import ParameterError
from cipherdag.privacy.protections import PROTECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cipherdag.sites.policy.policy import Policy

FEDPC_PARAMETERS = (
    "alpha",
    "evidence",
    "sepset",
    "colliders",
    "reference",
    "test",
    "kernel_rows",
    "max_cond_size",
    "site_effect",
    "knowledge",
    "bootstrap",
)


def knowledge_text(path: Path | None) -> str:
    """The text of a file of background knowledge, so that a saved run holds it; else empty.

    Raises:
        ParameterError: It cannot be read, or holds none.
    """
    from cipherdag.graphs.knowledge import Knowledge

    if path is None:
        return ""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} cannot be read as text") from error
    Knowledge.loads(text)
    return text


fedpc_options = shared_options(
    [
        click.option("--alpha", type=float, default=0.01, show_default=True, help="Test level."),
        click.option(
            "--evidence",
            type=click.Choice(
                ["vote", "statistic", "fisher", "stouffer", "weighted_p", "pooled", "glm"]
            ),
            default="vote",
            show_default=True,
            help="What decides a test: the sites' votes, or one test over all sites.",
        ),
        click.option(
            "--sepset",
            type=click.Choice(["max", "mean", "vote", "search"]),
            default="max",
            show_default=True,
            help="How a separating set is chosen; search only with other evidence than vote.",
        ),
        click.option(
            "--colliders",
            type=click.Choice(["sepset", "conservative", "majority"]),
            default="sepset",
            show_default=True,
            help="What makes a collider: the chosen separating set, or all of them; the last two "
            "only with other evidence than vote.",
        ),
        click.option(
            "--reference",
            type=click.Choice(["paper", "code"]),
            default="paper",
            show_default=True,
            help="Follow the paper, or its original program, where the two differ.",
        ),
        click.option(
            "--test",
            type=click.Choice(["auto", "g2", "pearson", "fisherz", "regression", "kci"]),
            default="auto",
            show_default=True,
            help="CI test; auto follows the schema.",
        ),
        click.option(
            "--kernel-rows",
            type=int,
            default=1000,
            show_default=True,
            help="Most rows of a site that --test kci looks at, evenly spaced.",
        ),
        click.option(
            "--min-cell-size",
            type=click.IntRange(min=0),
            help="The sites' own limit for pooled counts in this process; 11 by default.",
        ),
        click.option(
            "--knowledge",
            type=FILE,
            callback=lambda _context, _option, path: knowledge_text(path),
            help="Forbidden and required edges, and tiers (TOML).",
        ),
        click.option(
            "--site-effect",
            is_flag=True,
            help="With --evidence glm: sites may differ in level.",
        ),
        click.option(
            "--bootstrap",
            type=int,
            default=0,
            show_default=True,
            help="Replicates over rows that the sites draw anew, for the confidence of edges.",
        ),
        click.option("--truth", type=FILE, help="True edges (CSV) to measure the graph against."),
    ]
)


def fedpc_policy(options: Mapping[str, Any]) -> Policy | None:
    """The policy of sites in this process, if the default is not meant."""
    from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy

    size, glm = options["min_cell_size"], options["evidence"] == "glm"
    if size is None and not glm:
        return None
    policy = Policy(allow_unprotected=not PROTECTIONS[options["protection"]].protects)
    if glm:  # who runs all sites is the coordinator that they trust
        policy = replace(policy, questions=QUESTION_KINDS)
    return policy if size is None else replace(policy, min_cell_size=size)


def fedpc_source(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a saved run says of the sites' policy, if the default was not meant."""
    size = options["min_cell_size"]
    return {} if size is None else {"min_cell_size": size}
