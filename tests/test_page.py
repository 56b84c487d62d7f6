from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from toolsavvy.page import Figure, Page, Section, Table

BAD = "<script>alert('x')</script> & \"quoted\" <b>"


class Reader(HTMLParser):
    """What a browser would see: elements, attributes, text; nesting is checked."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_everything_is_escaped_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "f.svg").write_text(f"<svg xmlns='http://www.w3.org/2000/svg'>{BAD}</svg>", encoding="utf-8")
    table = Table([BAD, "b"], [[BAD, "1"]], caption=BAD, note=BAD)
    sections = [
        Section(BAD + str(i), BAD, (table,), (Figure(tmp_path / "f.svg", BAD, alt=BAD),)) for i in range(4)
    ]  # fmt: skip
    seen = Reader(Page(BAD, tuple(sections)).html())
    tags = [tag for tag, _ in seen.found]
    assert not {"script", "b", "svg", "link", "iframe"} & set(tags)
    assert "script-src" not in Page(BAD, tuple(sections)).html()  # nothing to sort, nothing may run
    assert all("onerror" not in attrs for _, attrs in seen.found)
    assert "".join(seen.texts).count(BAD) == 2 + 4 * (1 + 1 + 1 + 4 + 1)
    assert [a["alt"] for tag, a in seen.found if tag == "img"] == [BAD] * 4


def test_the_page_holds_its_pictures_and_fetches_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG-and-more")
    (tmp_path / "b.SVG").write_text("<svg/>", encoding="utf-8")
    figures = tuple(Figure(tmp_path / n) for n in ("a.png", "b.SVG"))
    path = Page("t", (Section("s", figures=figures),)).write(tmp_path / "out" / "report.html")
    page = path.read_text(encoding="utf-8")
    attributes = [a for tag, a in Reader(page).found if tag == "img"]
    assert {a["alt"] for a in attributes} == {"s"}
    images = [a["src"] or "" for a in attributes]
    kinds, data = zip(*(src.removeprefix("data:").split(";base64,") for src in images), strict=True)
    assert kinds == ("image/png", "image/svg+xml")
    assert [base64.b64decode(d) for d in data] == [b"\x89PNG-and-more", b"<svg/>"]
    assert not re.search(r"https?:|//[a-z]", page.replace("data:image", ""))
    assert "default-src 'none'" in page
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_columns_of_numbers_are_aligned_and_others_are_not() -> None:
    rows = [["model a", "41.6 [40, 43]", "3", "0/0", "1,204"], ["9 models", "-2.1 [-3, 1]", "", "1 %", "7"]]
    page = Page("t", (Section("s", tables=(Table(["name", "a", "b", "c", "d"], rows),)),)).html()
    heads = [attrs.get("class") for tag, attrs in Reader(page).found if tag == "th"]
    assert heads == [None, "number", "number", "number", "number"]


def test_paragraphs_contents_and_odd_characters() -> None:
    sections = tuple(Section(f"part {i}", "one\n\ntwo\nlines") for i in range(4))
    seen = Reader(Page("t", sections).html())
    assert [tag for tag, _ in seen.found].count("p") == 8
    links = [attrs["href"] for tag, attrs in seen.found if tag == "a"]
    assert links == [f"#{attrs['id']}" for tag, attrs in seen.found if tag == "h2"]
    assert len(links) == 4
    assert "<nav" not in Page("t", sections[:2]).html()
    odd = Page("t", (Section("s", "a\x00b\ud800c\x1bd"),)).html()
    assert "a\ufffdb?c\ufffdd" in odd


def test_sections_of_one_title_share_the_heading() -> None:
    page = Page("t", (Section("labels", "one"), Section("labels", "two"), Section("other", "three"))).html()
    assert [page.count(f">{title}</h2>") for title in ("labels", "other")] == [1, 1]
    assert page.index("one") < page.index("two") < page.index(">other<") < page.index("three")


def test_a_page_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = Page("t", (Section("s", "first"),)).write(tmp_path / "report.html")
    short, odd = Table(["a", "b"], [["1"]], caption="c"), Figure(tmp_path / "a.gif")
    for section, message in (
        (Section("s", tables=(short,)), "row 0 of table 'c' has 1 cells, not 2"),
        (Section("s", figures=(odd,)), r"not a\.gif"),
    ):
        with pytest.raises(ValueError, match=message):
            Page("t", (section,)).write(path)
    assert "first" in path.read_text(encoding="utf-8")
