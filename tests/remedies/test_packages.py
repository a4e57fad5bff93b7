"""An error about a package that is not installed names the command that installs it."""

import re
import sys
import tomllib
from importlib import metadata

import numpy as np
import pandas as pd
import pytest
from advice import advice
from documents import ROOT

from cipherdag import CausalGraph, infer_schema
from cipherdag.audit.bundle import bundle as write_bundle
from cipherdag.cli.programs.mcp_server import server
from cipherdag.graphs.drawing.figure import plot
from cipherdag.privacy.bfvcontext import BfvContext
from cipherdag.privacy.protections import protection_kind
from cipherdag.program.versions import require_flare
from cipherdag.protocol.engines.pysyft_carrier import check_version

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GRAPH = CausalGraph.from_edges("ab", directed=["ab"])


def frame():
    return pd.DataFrame(np.eye(4), columns=list("abcd"))


def table(path):
    if path.suffix == ".toml":
        path.write_text('address = "sqlite:///none.db"\ntable = "a"\n', "utf-8")
    elif path.suffix == ".xlsx":
        frame().to_excel(path, index=False)
    else:
        path.write_bytes(b"PAR1" if path.suffix == ".parquet" else bytes(8) + b"DUCK")
    return infer_schema([path])


def bundle(folder):
    import report_run

    report_run.asia_run().save(folder / "result")
    return write_bundle(folder / "result", folder / "bundle.zip")


def to_file(name):
    return lambda folder: table(folder / name)


def without(module, use, *parts):
    return pytest.param(module, use, marks=pytest.mark.follows(*parts), id=f"{module}: {parts[0]}")


def installed(command):
    """The distributions that a command of pip installs."""
    (asked,) = re.fullmatch(r"pip install '?([\w\[\],-]+)'?", command).groups()
    extra = re.fullmatch(r"cipherdag\[([a-z]+)\]", asked)
    lines = PROJECT["optional-dependencies"][extra[1]] if extra else [asked]
    return {re.match(r"[\w-]+", line)[0].lower() for line in lines}


@pytest.mark.parametrize(
    ("module", "use"),
    [
        without("rocrate.rocrate", bundle, "Run `pip install 'cipherdag[crate]'`."),
        without("mcp.server", server, "Run `pip install 'cipherdag[mcp]'`."),
        without("tenseal", lambda _: BfvContext.generate(), "pip install 'cipherdag[bfv]'`, or"),
        without("matplotlib", lambda _: plot(GRAPH), "Run `pip install 'cipherdag[plot]'`."),
        without("pgmpy.base", lambda _: GRAPH.to_pgmpy(), "Run `pip install {}`."),
        without(
            "causallearn.graph.Edge", lambda _: GRAPH.to_causallearn(), "Run `pip install {}`."
        ),
        without("pyarrow.parquet", to_file("a.parquet"), "[parquet]'`, or export the table"),
        without("duckdb", to_file("a.duckdb"), "Run `pip install 'cipherdag[duckdb]'`, or"),
        without("openpyxl", to_file("a.xlsx"), "Run `pip install 'cipherdag[excel]'`, or"),
        without("sqlalchemy", to_file("a.toml"), "Run `pip install 'cipherdag[sql]'`, or"),
    ],
)
def test_the_command_installs_what_is_missing(tmp_path, monkeypatch, module, use):
    monkeypatch.setitem(sys.modules, module, None)
    (command,) = re.findall(r"`(pip [^`]+)`", advice(use, tmp_path))
    distributions = metadata.packages_distributions()[module.partition(".")[0]]
    assert {each.lower() for each in distributions} & installed(command)


@pytest.mark.parametrize(
    ("distribution", "use"),
    [
        without("nvflare", require_flare, "Run `pip install 'cipherdag[flare]'`."),
        without("syft", check_version, "Run `pip install 'cipherdag[pysyft]'`: docs"),
    ],
)
def test_the_command_installs_what_no_metadata_name(monkeypatch, distribution, use):
    metadata.version.cache_clear()  # `costs` reads each version once
    monkeypatch.setattr(metadata.Distribution, "discover", classmethod(lambda *_, **__: iter(())))
    (command,) = re.findall(r"`(pip [^`]+)`", advice(use))
    assert distribution in installed(command)


class Unread:
    """A frame that pyarrow would read, were it installed."""

    def to_arrow(self):
        raise ImportError


@pytest.mark.follows("Run `pip install 'cipherdag[parquet]'`, or give a pandas DataFrame.")
def test_a_frame_that_needs_pyarrow_is_given_otherwise(monkeypatch):
    monkeypatch.setattr("cipherdag.sites.table.data_frame._whole_frame", lambda frame: Unread())
    remedy = advice(infer_schema, [{}])
    assert "pyarrow" in installed(re.search(r"`(pip [^`]+)`", remedy)[1])
    assert infer_schema([frame()]).names


@pytest.mark.follows("Choose masking, or bfv after `pip install 'cipherdag[bfv]'`.")
def test_a_protection_that_is_advised_is_there():
    remedy = advice(protection_kind, "zzz")
    for name in re.search(r"Choose (\w+), or (\w+)", remedy).groups():
        assert protection_kind(name).protects
    assert "tenseal" in installed(re.search(r"`(.*)`", remedy)[1])
