"""Secrets, however they got in and however they are written, are hidden in all that goes out."""

from __future__ import annotations

import base64
import html
import json
import logging
import urllib.parse
from collections.abc import Iterator

import pytest
import yaml

from toolsavvy.tracking import masking
from toolsavvy.tracking.masking import (
    MASK,
    MaskingFormatter,
    is_secret_name,
    learn,
    learn_from,
    learn_from_overrides,
    mask,
    mask_override,
    mask_text,
    told,
)

SECRET = "p√s+w/o=rd\"'<&>\\ 9z%"


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(masking, "_learnt", set())
    yield


LETTERS = "abcdefghij0123456789ABCD"
"""What keys consist of; no file holds anything that looks like one."""


@pytest.mark.parametrize("user", ["", "u", "me", "bob"])
def test_every_way_to_write_a_secret_is_hidden(user: str) -> None:
    learn(SECRET)
    pair = f"{user}:{SECRET}".encode()
    forms = [
        SECRET, json.dumps(SECRET), json.dumps(SECRET, ensure_ascii=False), repr(SECRET), html.escape(SECRET),
        urllib.parse.quote(SECRET), urllib.parse.quote(SECRET, safe=""), urllib.parse.quote_plus(SECRET),
        yaml.safe_dump({"a": SECRET}, allow_unicode=True), base64.b64encode(SECRET.encode()).decode(),
    ]  # fmt: skip
    for form in forms:
        assert "9z" not in mask_text(f"before {form} after"), form
    coded = base64.b64encode(pair).decode()
    hidden = mask_text(f"it is {coded}, they said")
    assert MASK in hidden
    core = base64.b64encode(SECRET.encode())
    assert all(coded[i : i + 10] not in hidden for i in range(4, len(coded) - 14)), core


def test_a_key_of_several_lines_is_hidden_line_by_line() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "AQEFAASCBKcwggSjAgEAAoIB"]
    learn("\n".join(lines))
    for line in lines[1:]:
        assert mask_text(f"  {line}\n") == f"  {MASK}\n"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("at https://bob:hunter2@host/v1 now", f"at https://{MASK}:{MASK}@host/v1 now"),
        ("https://:hunter2@host", f"https://{MASK}:{MASK}@host"),
        ("GET https://h/v1?a=1&api_key=hunter2&b=2", f"GET https://h/v1?a=1&api_key={MASK}&b=2"),
        ("https://h/?X-Amz-Signature=abcd1234#x", f"https://h/?X-Amz-Signature={MASK}#x"),
        ("Authorization: Bearer abc123def456", f"Authorization: Bearer {MASK}"),
        (f"a key sk-{LETTERS}", f"a key {MASK}"),
        (f"hf_{LETTERS}", MASK),
    ],
)
def test_what_stands_where_secrets_stand_is_hidden(text: str, hidden: str) -> None:
    assert mask_text(text) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is used", "basic information", "mail bob@example.com", "http://127.0.0.1:8000/v1",
        "https://host/path?page=2&size=10", "batch_tokens=512 max_tokens=96", "a ratio of 3:4@5", "see [1] & co; x=y",
    ],
)  # fmt: skip
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert mask_text(text) == text


def test_names_of_secrets() -> None:
    secret = "api_key apikey X-Api-Key apiKey accessToken hf_token a.b.password passphrase Authorization client_secret"
    secret += " AWS_SECRET_ACCESS_KEY aws_session_token db.pwd cookie private_key"
    ordinary = "batch_tokens tokens key max_length tokenizer eos_token pad_token key_env author keyword passing path"
    ordinary += " max_token keys secretary compass monkey"
    assert [name for name in secret.split() if not is_secret_name(name)] == []
    assert [name for name in ordinary.split() if is_secret_name(name)] == []


@pytest.mark.parametrize(
    ("override", "hidden"),
    [
        ("+llm.api_key=hunter2x", f"+llm.api_key={MASK}"),
        ("++a.b.Authorization='Bearer hunter2x'", f"++a.b.Authorization={MASK}"),
        ("llm.password=hunter2x,hunter3x", f"llm.password={MASK}"),
        ("+llm={api_key:hunter2x,n:1}", f"+llm={{api_key:{MASK},n:1}}"),
        ("+llm={a:{'password':'hunter2x'},n:1}", f"+llm={{a:{{'password':{MASK}}},n:1}}"),
        ("+llm={tokens:12,token:[hunter2x,hunter3x]}", f"+llm={{tokens:12,token:{MASK}}}"),
        ("llm.base_url='http://bob:hunter2x@h/v1'", f"llm.base_url='http://{MASK}:{MASK}@h/v1'"),
        ("llm.base_url='http://h/v1?token=hunter2x'", f"llm.base_url='http://h/v1?token={MASK}'"),
        ("seed=1,2", "seed=1,2"),
        ("retriever=[bm25,dense]", "retriever=[bm25,dense]"),
        ("llm.key_env=MY_KEY", "llm.key_env=MY_KEY"),
    ],
)
def test_overrides(override: str, hidden: str) -> None:
    assert mask_override(override) == hidden
    learn_from_overrides([override])
    if "hunter" in override and "://" not in override:
        assert "hunter2x" not in mask_text("cannot convert hunter2x to an integer")


def test_a_variable_that_an_override_fetches_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARMLESS_NAME", "quite a secret")
    learn_from_overrides(["llm.api_key=${oc.env:HARMLESS_NAME}"])
    assert mask_text("it was quite a secret!") == f"it was {MASK}!"
    monkeypatch.setenv("REGISTRY_URL", "https://me:p%40ssw0rd@host/simple")
    assert "ssw0rd" not in mask_text("could not fetch with p@ssw0rd and p%40ssw0rd")
    monkeypatch.setenv("MAX_TOKEN_LENGTH", "100000")
    assert mask_text("100000 rows") == "100000 rows"


def test_plain_data_below_the_names_of_secrets() -> None:
    node = {"password": 12345678, "token": 3, "credentials": {"user": "a", "all": ["b", None]}, "x": [{"api_key": "k"}]}
    assert mask(node) == {
        "password": MASK, "token": 3, "credentials": {"user": MASK, "all": [MASK, None]}, "x": [{"api_key": MASK}]
    }  # fmt: skip
    learn_from(node)
    assert mask({"note": "was 12345678"}) == {"note": f"was {MASK}"}
    assert mask_text("a b k") == "a b k"


def test_a_line_of_the_log_and_a_cut_error() -> None:
    learn("0123456789abcdef")
    try:
        raise ValueError("x" * 90 + "0123456789abcdef \x1b[2J")
    except ValueError as error:
        assert "01234" not in told(error, 110)
        record = logging.LogRecord("a", 40, "f", 1, "no %s \x9b", ("0123456789abcdef",), (ValueError, error, None))
    line = MaskingFormatter("%(message)s").format(record)
    assert line.startswith(f"no {MASK} \\x9b\n")
    assert "\\x1b[2J" in line
    assert "\x1b" not in line
    assert "01234" not in line
