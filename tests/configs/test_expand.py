from __future__ import annotations

from pathlib import Path

import pytest

from chat_server import closed_port
from toolsavvy.config.compose import compose
from toolsavvy.config.places import groups
from toolsavvy.config.preflight import check_config, preflight
from toolsavvy.errors import UserError

SERVER = "toolsavvy.models.server.ServerChat"


def told(*overrides: str) -> UserError:
    with pytest.raises(UserError) as caught:
        check_config(compose(["method=evaluate", "catalog=toy", *overrides]))
    return caught.value


ALL = [(option, "template") for option in groups()["catalog"]]


@pytest.mark.parametrize(("option", "value"), [*ALL, ("toy", "llm"), ("toy", "{how:template,examples:3}")])
def test_every_catalog_takes_it(option: str, value: str) -> None:
    check_config(compose(["method=evaluate", f"catalog={option}", f"catalog.expand={value}"]))


def test_a_catalog_of_the_users_own_takes_it_too(tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog" / "own.yaml").write_text("_target_: world.toy_set\ntools: 3\n")
    job = compose(["method=evaluate", "catalog=own", "+catalog.expand=template"], config_dir=str(tmp_path))
    assert check_config(job).catalog["expand"] == "template"


@pytest.mark.parametrize(
    ("value", "what", "expected", "fix"),
    [
        ("templat", "'templat' is no valid value", "null, template, llm", "'template'"),
        ("true", "True is no valid value", "null, template, llm", ""),
        ("[llm]", "['llm'] is no valid value", "null, template, llm", ""),
        ("{how:lm}", "'lm' is no valid value", "one of template, llm", "'llm'"),
        ("{haw:llm}", "unknown key 'catalog.expand.haw'", "examples, how, judge, writer", "'how'"),
        ("{examples:-1}", "-1 is out of range", ">= 0", ""),
        ("{examples:x}", "'x' is no number", "0 or more", ""),
        ("{how:llm,judge:gpt}", "'gpt' is no language model", "null, or arguments with a _target_", "judge="),
    ],
)
def test_bad_words(value: str, what: str, expected: str, fix: str) -> None:
    error = told(f"catalog.expand={value}")
    assert what in error.what
    assert error.where == f"command line, catalog.expand={value}"
    assert expected in error.expected
    assert fix in error.fix


def test_a_bad_word_in_a_file_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog" / "own.yaml").write_text("_target_: toolsavvy.catalogs.toy.load\nexpand: llama\n")
    with pytest.raises(UserError) as caught:
        check_config(compose(["method=evaluate", "catalog=own"], config_dir=str(tmp_path)))
    assert caught.value.where == f"{tmp_path.name}/catalog/own.yaml, key 'catalog.expand'"


def test_a_judge_is_bound_to_its_signature() -> None:
    assert "modell" in told(f"catalog.expand={{how:llm,judge:{{_target_:{SERVER},modell:m}}}}").what


def test_a_server_that_is_down_is_told_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    down = f"http://127.0.0.1:{closed_port()}/v1"
    common = ["method=evaluate", "catalog=toy", f"paths.outputs={tmp_path}", "llm=server", f"llm.base_url={down}"]
    preflight(compose([*common, "catalog.expand=template"]))
    for value in ("llm", f"{{how:llm,judge:{{_target_:{SERVER},model:m,base_url:'{down}'}}}}"):
        with pytest.raises(UserError) as caught:
            preflight(compose([*common, f"catalog.expand={value}"]))
        assert "base_url" in caught.value.where or "base_url" in str(caught.value)
