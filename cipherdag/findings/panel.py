"""What an algorithm can add to the report of its runs: a panel is data, its template draws it.

A result carries panels in ``panels``; the report shows them in order, after the graph. Their
numbers stand in the result's ``details`` too, hence in ``result.json``. A new kind of panel is a
frozen type in a file of its own with the name of its template, and one more member of `Panel`.
"""

from __future__ import annotations

from cipherdag.findings.curves import Curves
from cipherdag.findings.forest import Forest
from cipherdag.findings.heat_map import HeatMap
from cipherdag.findings.rows import Rows

Panel = Curves | Forest | HeatMap | Rows
