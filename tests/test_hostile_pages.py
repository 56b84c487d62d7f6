"""A browser opens pages whose every text is an attack: nothing runs, nothing is fetched, all of it is shown as text."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from browser import listener, shown
from toolsavvy.figures.vector import Chart, Grid, Series, chart, grid
from toolsavvy.page import Cell, Drawing, Figure, Page, Section, Table

RUN = "document.title='it ran';document.documentElement.setAttribute('data-ran','1')"


def attacks(address: str) -> list[str]:
    """What a tool's name may hold; a request tells which of them fetched something."""
    return [
        f"<script>{RUN}</script>",
        f"</title><script>{RUN}</script>",
        f"</style><script>{RUN}</script>",
        f"</script><script>{RUN}</script>",
        f"]]><script>{RUN}</script><![CDATA[",
        f'"><img src=x onerror="{RUN}">',
        f'\'><svg onload="{RUN}">',
        f'" autofocus onfocus="{RUN}" x="',
        f"javascript:{RUN}",
        f'<a href="javascript:{RUN}">click</a>',
        f"<img src={address}/image><link rel=stylesheet href={address}/style><iframe src={address}/frame></iframe>",
        f"<meta http-equiv=refresh content='0;url={address}/refresh'><base href={address}/>",
        f"x}} body {{ background: url({address}/css) }} @import url({address}/import);",
        f"<svg><script href={address}/svg></script><image href={address}/picture /></svg>",
        f"<form action={address}/form><button>go</button></form>",
        f"{{{{constructor.constructor('{RUN}')()}}}} ${{{RUN}}} \\u003cscript\\u003e",
        f"--><script>{RUN}</script><!--",
        f"<scr\0ipt>{RUN}</scr\0ipt> \ud800 <\u202eimg src=x onerror='{RUN}'>",
    ]


def picture(path: Path, address: str) -> Path:
    """An SVG that tries to run and to fetch."""
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="{RUN}"><script>{RUN}</script>'
        f'<image href="{address}/in-svg"/><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" '
        f'src="{address}/foreign"/></foreignObject></svg>',
        encoding="utf-8",
    )
    return path


def hostile_page(folder: Path, address: str) -> Page:
    """Every attack in every place of a page."""
    sections = []
    image = picture(folder / "evil.svg", address)
    for text in attacks(address):
        table = Table(
            [text, "n"], [[text, "1"], [Cell(text, path=text), "2"], [Cell(text, is_code=True), "3"]], text, text
        )
        line = chart(Chart(text, text, text, (Series(0, (1, 2), (0.1, 0.2)),)))
        heat = grid(Grid(text, text, text, text, (text, "b"), (text,), ((0.1, 0.2),), ((text, text),)))
        drawing = Drawing((line, heat), text, ((0, text),))
        figure = Figure(image, text, text)
        sections.append(Section(text, text, (table,), (figure,), (drawing,), is_warning=True))
    return Page(attacks(address)[1], tuple(sections), lead=attacks(address)[0])


def test_nothing_of_a_hostile_page_runs_or_is_fetched(tmp_path: Path) -> None:
    with listener() as (address, asked):
        page = hostile_page(tmp_path, address)
        seen = shown(page.write(tmp_path / "report.html"), tmp_path / "profile")
        assert asked == []
    document = Document(seen)
    assert document.title == attacks(address)[1]
    assert not {"iframe", "form", "link", "base", "foreignobject", "image", "object", "embed"} & set(document.tags)
    assert document.tags.count("script") == 1
    assert not [name for name in document.attributes if name.startswith(("on", "data-ran", "srcdoc", "style"))]
    assert document.links
    assert all(link.startswith(("./", "../", "#")) for link in document.links)


class Document(HTMLParser):
    """Tags, names of attributes, links and the title of a document as the browser writes it out."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.title = html.unescape(text[text.index("<title>") + 7 : text.index("</title>")])
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]


def test_the_attacks_are_attacks(tmp_path: Path) -> None:
    """The same texts in a page that escapes nothing: they run and fetch."""
    with listener() as (address, asked):
        path = tmp_path / "naive.html"
        texts = [a for a in attacks(address) if "refresh" not in a]
        path.write_text("<html><body>" + "<p>".join(texts).encode("utf-8", "replace").decode(), encoding="utf-8")
        seen = shown(path, tmp_path / "profile")
    assert 'data-ran="1"' in seen
    assert {"/image", "/style", "/frame"} <= set(asked)


def test_the_policy_stops_what_would_slip_through(tmp_path: Path) -> None:
    """Were a text not escaped, the page's own policy would still keep it from running and fetching."""
    with listener() as (address, asked):
        whole = Page("t", (Section("s", "PLACE", (Table(["a"], [["1"], ["2"]]),)),)).html()
        texts = [a for a in attacks(address) if "refresh" not in a]  # a policy does not stop a page from leaving
        body = "<p>".join(texts).encode("utf-8", "replace").decode()
        (tmp_path / "a.html").write_text(whole.replace("PLACE", body), encoding="utf-8")
        seen = shown(tmp_path / "a.html", tmp_path / "profile")
    assert asked == []
    assert "data-ran=" not in seen[: seen.index("<head")]


@pytest.mark.parametrize(
    "path", ["javascript:alert(1)", "//host/x", "http://host", "../a b/c?d#e", "/etc/passwd", "a&b\"'<>"]
)
def test_links_of_cells_stay_inside(path: str) -> None:
    href = Cell("x", path=path).href
    assert href.startswith(("./", "../"))
    assert not re.search(r"[\s:?#\"'<>]|^\.{1,2}//", href)
