"""Fills templates into pages that open offline: one file, its own style and script, no other."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from cipherdag.pages.numerals import moment, probability, shown, size

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(
    template: str, *, scripts: Sequence[str] = ("page.js", "graph.js"), **content: Any
) -> str:
    """A page; every value is escaped, and a value that is missing is an error.

    Scripts are files in ``templates`` that the page's own script is made of.
    """
    from markupsafe import Markup

    picture, script = _asset("picture.css"), Markup("").join(map(_asset, scripts))
    style = picture + _asset("page.css")
    return (
        _environment()
        .get_template(template)
        .render(
            style=style,
            picture_style=picture,
            script=script,
            style_hash=_integrity(style),
            script_hash=_integrity(script),
            **content,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cipherdag.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"size": size, "shown": shown, "moment": moment, "p": probability}
    environment.tests["number"] = lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool)
    )
    return environment


@cache
def _asset(name: str) -> Markup:
    from markupsafe import Markup

    text = resources.files("cipherdag.pages").joinpath("templates", name).read_text("utf-8")
    return Markup(text)  # noqa: S704  (our own file, the same for every page)


def _integrity(text: str) -> str:
    """What the page's content security policy allows: this text and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
