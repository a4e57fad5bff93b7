"""Reads a report page strictly: every tag closed, every identifier once, no foreign address."""

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img"}
SHAPES = {"path", "polygon", "rect", "line", "circle"}  # may close themselves inside an SVG
ADDRESSES = {"href", "src", "action", "formaction", "srcset", "data", "xlink:href", "poster"}


class Page(HTMLParser):
    """A page that is well formed, or an AssertionError.

    Attributes:
        elements: (tag, attributes) in order of appearance.
        ids: Every identifier.
        links: Every address.
        tables: Rows of cells by the table's identifier; a cell is (text, values of its data).
        texts: Text by tag, joined, such as everything in ``<title>``.
    """

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.source = text
        self.elements, self.ids, self.links, self.tables, self.texts = [], [], [], {}, {}
        self._open, self._table, self._cell = [], None, None
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"
        assert len(set(self.ids)) == len(self.ids), "an identifier stands twice"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute of <{tag}> stands twice"
        own = dict(attrs)
        self.elements.append((tag, own))
        self.ids += [own["id"]] if "id" in own else []
        self.links += [value for name, value in attrs if name in ADDRESSES]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self._table = own.get("id", f"table-{len(self.tables)}")
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self._cell = ["", []]
            self.tables[self._table][-1].append(self._cell)
        elif tag == "data" and self._cell is not None:
            self._cell[1].append(own["value"])

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID | SHAPES, f"<{tag}/> does not close itself"
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> closes <{self._open[-1]}>"
        self._open.pop()
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, data):
        for tag in self._open:
            self.texts[tag] = self.texts.get(tag, "") + data
        if self._cell is not None:
            self._cell[0] += data

    def body(self, table):
        """Rows of a table without its headings."""
        return self.tables[table][1:]

    def column(self, table, heading, *, values=False):
        """The cells below a heading: their text, or the numbers behind it."""
        place = [cell[0] for cell in self.tables[table][0]].index(heading)
        rows = self.body(table)
        return [row[place][1] if values else row[place][0].strip() for row in rows]

    def check_offline(self):
        """Nothing in it leads to another file or machine, and its policy allows only itself."""
        assert all(link.startswith("#") or link == "data:," for link in self.links), self.links
        assert {link[1:] for link in self.links if link.startswith("#")} <= set(self.ids)
        assert not re.search(r"https?:|@import|url\(|//[a-z]", self.texts["style"])
        assert not [own for _, own in self.elements if any(n.startswith("on") for n in own)]
        assert not [own for _, own in self.elements if "style" in own]
        policy = next(own["content"] for tag, own in self.elements if own.get("http-equiv"))
        assert "default-src 'none'" in policy
        for tag in ("style", "script"):
            assert [name for name, _ in self.elements].count(tag) == 1
            digest = hashlib.sha256(self.texts[tag].encode()).digest()
            assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
