from __future__ import annotations

import csv
import io
import json

import pytest
from catalog_files import fault, write_text
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.catalogs.reading import Record, existing, read_json, read_jsonl, read_records, read_rows, read_text
from toolsavvy.errors import UserError

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT, lambda c: st.lists(c) | st.dictionaries(TEXT, c), max_leaves=6
)


def test_bom_crlf_blank_lines_and_line_numbers(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": "x"}\r\n\r\n{"a": "y"}\r\n')
    records = list(read_jsonl(path))
    assert [dict(r.value) for r in records] == [{"a": "x"}, {"a": "y"}]
    assert [r.place for r in records] == [f"{path}, line 1", f"{path}, line 3"]


def test_unicode_line_separators_stay_inside_their_line(tmp_path):
    path = write_text(tmp_path / "a.jsonl", '{"a": "x\u2028y\x85z"}\n')
    assert next(iter(read_jsonl(path))).value == {"a": "x\u2028y\x85z"}


def test_types_that_a_person_calls_the_same_are_named_once():
    with pytest.raises(UserError) as caught:
        Record({"a": True}, "x").get("a", (int, float))
    assert caught.value.expected == "a number"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("a;b\n1;2\n", "instead of ';'"),
        ("a\tb\n", r"instead of '\t'"),
        ("a,b,b\n1,2,3\n", "correct the header"),
        ("\nx\n", ""),
    ],
)
def test_a_header_that_is_none_names_what_to_do(tmp_path, text, fix):
    path = write_text(tmp_path / "a.csv", text)
    fault(lambda: list(read_rows(path, ("a", "b"))), what="header", where="line 1", expected="a,b, each once", fix=fix)


@pytest.mark.parametrize(
    ("data", "fix"),
    [("a".encode("utf-16"), "UTF-16"), (b"PAR1\xb5", ".parquet"), (b"\x1f\x8b\x08", "gunzip"), (b"caf\xe9", "LATIN1")],
)
def test_a_file_that_is_no_text_says_what_it_is(tmp_path, data, fix):
    (tmp_path / "a.jsonl").write_bytes(data)
    fault(lambda: read_text(tmp_path / "a.jsonl"), what="not UTF-8", where="a.jsonl, line 1", fix=fix)


@pytest.mark.parametrize("line", [1, 2, 3])
def test_broken_json_names_its_line(tmp_path, line):
    rows = ['{"a": 1}'] * 3
    rows[line - 1] = '{"a": "cut'
    path = write_text(tmp_path / "a.jsonl", "\n".join(rows))
    fault(lambda: list(read_jsonl(path)), what="broken JSON", where=f"a.jsonl, line {line}", expected="valid JSON")


def test_broken_json_file_names_line_and_column(tmp_path):
    path = write_text(tmp_path / "a.json", '[\n {"a": 1},\n {"a" 2}\n]')
    fault(lambda: read_json(path), what="column 7", where="a.json, line 3", expected="valid JSON")


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_bytes_that_are_not_utf8_name_line_and_offset(tmp_path, bom):
    path = tmp_path / "a.jsonl"
    path.write_bytes(bom + b'{"a": 1}\n{"a": "caf\xe9"}\n')
    offset = len(bom) + len(b'{"a": 1}\n{"a": "caf')
    error = fault(
        lambda: read_text(path), what=f"offset {offset}", where="a.jsonl, line 2", expected="UTF-8", fix="iconv"
    )
    assert "0xe9" in error.what


@pytest.mark.parametrize("content", ["", "\n \r\n", "\ufeff"])
def test_an_empty_file(tmp_path, content):
    path = write_text(tmp_path / "a.jsonl", content)
    fault(lambda: list(read_jsonl(path)), what="empty", where="a.jsonl", expected="at least one record")


def test_a_line_that_is_no_object_and_an_empty_array(tmp_path):
    path = write_text(tmp_path / "a.jsonl", '{"a": 1}\n[1, 2]\n')
    fault(lambda: list(read_jsonl(path)), what="a list", where="line 2", expected="an object")
    path = write_text(tmp_path / "b.json", "[]")
    fault(lambda: list(read_records(path)), what="the list is empty", where="b.json", expected="at least one")
    path = write_text(tmp_path / "c.json", '[{"a": 1}, 7]')
    fault(lambda: list(read_records(path)), what="a number (7)", where="c.json, record 2", expected="an object")


def test_half_a_surrogate_pair_and_absurd_depth(tmp_path):
    path = write_text(tmp_path / "a.jsonl", '{"a": "\\ud83d\\ude00"}\n{"a": "\\ud83d"}\n')
    fault(lambda: list(read_jsonl(path)), what="surrogate", where="line 2", expected="whole characters")
    path = write_text(tmp_path / "b.jsonl", '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}\n")
    fault(lambda: list(read_jsonl(path)), what="nested too deeply", where="line 1")


def test_a_number_that_python_does_not_take(tmp_path):
    path = write_text(tmp_path / "a.jsonl", '{"a": 1}\n{"a": ' + "9" * 5000 + "}\n")
    fault(lambda: list(read_jsonl(path)), what="too many digits", where="line 2", expected="ordinary length")
    fault(lambda: read_json(path), what="too many digits", where="a.jsonl")


def test_missing_paths_name_the_key_and_the_near_miss(tmp_path):
    fault(lambda: existing(None), what="not set", where="catalog.path", fix="catalog.path=")
    (tmp_path / "metatool").mkdir()
    absent = tmp_path / "metatol"
    fault(lambda: existing(absent), what=str(absent), where="catalog.path", fix="did you mean 'metatool'?")
    error = fault(lambda: existing("x" * 5000), what="too long", where="catalog.path", fix="set catalog.path=")
    assert len(str(error)) < 1000
    (tmp_path / "gone").symlink_to("nowhere")
    assert "did you mean" not in fault(lambda: existing(tmp_path / "gone"), what="no such file", where="").fix


def test_a_folder_is_no_text(tmp_path):
    fault(lambda: read_text(tmp_path), what="can't be read", where=str(tmp_path), fix="name a file in it")


def test_fields_of_the_wrong_type_or_missing():
    record = Record({"id": 7, "flag": True, "text": " ", "none": None, "descripton": "x"}, "t.jsonl, line 4")
    fault(
        lambda: record.text("id"), what="a number (7)", where="t.jsonl, line 4, field 'id'", expected="text", fix='"7"'
    )
    fault(lambda: record.text("text", None), what="empty", where="field 'text'", expected="at least one letter")
    fault(lambda: record.get("flag", int), what="true/false (True)", where="field 'flag'", expected="a number")
    fault(lambda: record.text("description", None), what="missing", where="field 'description'", fix="'descripton'")
    assert record.text("none") == ""
    assert record.text("absent") == ""


def test_csv_rows_know_their_lines_across_quoted_line_ends(tmp_path):
    path = write_text(tmp_path / "a.csv", 'Query,Tool\r\n"two\nlines, ""quoted""",a\r\nx,b,c\r\n')
    rows = read_rows(path, ("Query", "Tool"))
    first = next(rows)
    assert first.value == {"Query": 'two\nlines, "quoted"', "Tool": "a"}
    assert first.place.endswith("line 2")
    fault(lambda: next(rows), what="3 columns", where="a.csv, line 4", expected="2: Query, Tool")
    fault(
        lambda: next(read_rows(path, ("Query", "Label"))), what="header", where="a.csv, line 1", expected="Query,Label"
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(TEXT, JSON, min_size=1), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_any_json_lines_come_back(tmp_path_factory, rows, end):
    path = write_text(
        tmp_path_factory.mktemp("j") / "a.jsonl", end.join(json.dumps(r, ensure_ascii=False) for r in rows)
    )
    assert [dict(r.value) for r in read_jsonl(path)] == rows


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_any_tsv_comes_back(tmp_path_factory, rows):
    rows = [(a.replace("\0", ""), b.replace("\0", "")) for a, b in rows]
    out = io.StringIO(newline="")
    csv.writer(out, delimiter="\t", quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    path = write_text(tmp_path_factory.mktemp("t") / "a.tsv", out.getvalue())
    assert [tuple(r.value.values()) for r in read_rows(path, ("a", "b"), delimiter="\t")] == rows
