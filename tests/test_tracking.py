from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolsavvy.config.compose import compose, typed
from toolsavvy.errors import UserError
from toolsavvy.tracking import Run, Status, config_hash, read_status
from toolsavvy.tracking.masking import MASK, is_secret_name, mask, mask_override
from toolsavvy.tracking.records import append_lines, find_run, is_alive, read_lines, read_record, write_status
from toolsavvy.tracking.run import Identity, summary_key


@dataclass(frozen=True)
class Number:
    system: str
    suite: str = "catalog_test"
    slice: str = "all"
    metric: str = "recall"
    k: int | None = 5
    value: float = 0.5
    low: float = 0.4
    high: float = 0.6
    n: int = 10


def make_run(folder: Path, *overrides: str) -> Run:
    cfg = compose(["method=doctor", "catalog=toy", "logger=none", *overrides]).config
    choices = {"method": "doctor", "model": "toy", "catalog": "toy", "tuning": "lora"}
    return Run(typed(cfg), cfg, folder, Identity(choices, tuple(overrides), "group"))


def test_done_and_failed(tmp_path: Path) -> None:
    with make_run(tmp_path / "a") as run:
        during = read_status(run.dir)
        assert during is not None
        assert is_alive(during)
    after = read_status(tmp_path / "a")
    assert after is not None
    assert (after.status, after.error) == ("done", None)
    assert not is_alive(after)
    with pytest.raises(ZeroDivisionError), make_run(tmp_path / "b") as run, run.stage("first"):
        logging.getLogger("other.library").warning("a library says something")
        _ = 1 / 0
    failed = read_status(tmp_path / "b")
    assert failed is not None
    assert failed.status == "failed"
    assert failed.error == "ZeroDivisionError: division by zero"
    log = (tmp_path / "b" / "run.log").read_text()
    assert "a library says something" in log
    assert "Traceback" in log
    assert json.loads((tmp_path / "b" / "run.json").read_text())["stages"].keys() == {"first"}
    assert logging.getLogger().handlers == [] or all(
        str(tmp_path) not in str(getattr(h, "baseFilename", "")) for h in logging.getLogger().handlers
    )


def test_ctrl_c_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), make_run(tmp_path):
        raise KeyboardInterrupt
    status = read_status(tmp_path)
    assert status is not None
    assert (status.status, status.error) == ("failed", "interrupted")


def test_a_killed_process_is_not_alive(tmp_path: Path) -> None:
    write_status(tmp_path, Status("running", pid=os.getpid(), host=os.uname().nodename, started=time.time() - 10**6))
    status = read_status(tmp_path)
    assert status is not None
    assert not is_alive(status)


def test_results_are_appended_and_a_number_is_never_there_twice(tmp_path: Path) -> None:
    with make_run(tmp_path) as run:
        run.record([Number("bm25"), Number("dense")])
        run.record([Number("toolgen", k=None)])
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"system": "torn')
    with make_run(tmp_path) as run:
        assert len(run.results()) == 3
        run.record([Number("dense", value=0.75), Number("knn")])
    rows = read_lines(tmp_path / "results.jsonl")
    assert [(r["system"], r["value"]) for r in rows] == [("bm25", 0.5), ("toolgen", 0.5), ("dense", 0.75), ("knn", 0.5)]
    assert list(rows[0]) == ["system", "suite", "slice", "metric", "k", "value", "low", "high", "n"]


def test_a_run_that_goes_on_with_other_code_keeps_what_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for commit in ("a", "a", "b"):
        monkeypatch.setattr("toolsavvy.tracking.run.git_state", lambda commit=commit: {"commit": commit})
        with make_run(tmp_path):
            pass
    told = read_record(tmp_path)
    assert (told["attempts"], told["git"]) == (3, {"commit": "b"})
    assert [earlier["git"] for earlier in told["earlier_attempts"]] == [{"commit": "a"}]
    assert (tmp_path / "run.log").read_text().count("continued with other code") == 1


def test_a_torn_last_line_is_dropped_before_appending(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_text('{"a": 1}\n{"a": 2')
    assert read_lines(path) == [{"a": 1}]
    append_lines(path, [{"a": 3}])
    assert path.read_text() == '{"a": 1}\n{"a": 3}\n'


@pytest.mark.parametrize("line", ["[1]", "null", "{", "[" * 100_000])
def test_a_line_that_is_no_record_is_damage(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1}}\n{line}\n{{"a": 2}}\n')
    with pytest.raises(UserError, match="line 2: broken JSON"):
        read_lines(path)
    (tmp_path / "run.json").write_text(line)
    assert read_record(tmp_path) == {}


@pytest.mark.parametrize(
    ("line", "what"), [('{"k": 1}', "the field is missing"), ('{"s": null, "k": 1}', "None is no")]
)
def test_a_record_of_another_file_is_named(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"s": "x", "k": null}}\n\n{line}\n')
    with pytest.raises(UserError, match=f"a.jsonl, line 3, field 's': {what}"):
        read_lines(path, ("s",), ("k",))
    with pytest.raises(UserError, match="field 'z': the field is missing"):
        read_lines(path, (), ("z",))


def test_line_separators_inside_a_text_end_no_record(tmp_path: Path) -> None:
    rows = [{"text": "one\u2028two\x85three"}, {"text": "four"}]
    append_lines(tmp_path / "store.jsonl", rows)
    assert read_lines(tmp_path / "store.jsonl") == rows


def test_further_ranks_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    with make_run(tmp_path / "run") as run, run.stage("work"):
        run.record([Number("bm25")])
        run.log({"loss": 1.0})
    assert not (tmp_path / "run").exists()


def test_an_earlier_run_is_found_by_its_config(tmp_path: Path) -> None:
    def finish(name: str, state: str, *overrides: str) -> Path:
        folder = tmp_path / "doctor" / name
        with make_run(folder, *overrides):
            pass
        write_status(folder, Status(state))  # type: ignore[arg-type]
        return folder

    wanted = config_hash(compose(["method=doctor", "catalog=toy", "seed=1"]).config)
    assert find_run(tmp_path, wanted) is None
    finish("other", "done", "seed=2")
    cut_off = finish("cut_off", "running", "seed=1")
    assert find_run(tmp_path, wanted) == cut_off
    done = finish("done/0", "done", "seed=1")
    os.utime(done / "run.json", (1, 1))
    assert find_run(tmp_path, wanted) == done


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *((name, True) for name in ("api_key", "hf_token", "OPENAI_API_KEY", "password", "generator.api_key")),
        *((name, False) for name in ("batch_tokens", "tokens", "key", "max_length", "tokenizer")),
    ],
)
def test_secret_names(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_masking_by_name_and_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "abcdef123456")
    masked = mask({"a": ["see abcdef123456 here", 3], "api_key": "typed by hand", "b": {"token": None}})
    assert masked == {"a": [f"see {MASK} here", 3], "api_key": MASK, "b": {"token": None}}
    assert mask_override("generator.api_key=xyz") == f"generator.api_key={MASK}"
    assert mask_override("seed=1") == "seed=1"


def test_summary_keys() -> None:
    row = Number("toolgen (free)").__dict__
    assert summary_key(row) == "catalog_test/toolgen (free)/recall@5"
    assert summary_key({**row, "k": None, "slice": "short"}) == "catalog_test:short/toolgen (free)/recall"


def test_a_resumed_run_keeps_the_seconds_of_its_first_attempt(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), make_run(tmp_path) as run:
        with run.stage("first"):
            time.sleep(0.02)
        run.note(catalog_fingerprint="abc", first={"tokens_per_second": 5.0})
        raise KeyboardInterrupt
    with make_run(tmp_path) as run:
        assert run.seconds("first") >= 0.02
        with run.stage("second"):
            pass
    record = json.loads((tmp_path / "run.json").read_text())
    assert list(record["stages"]) == ["first", "second"]
    assert record["attempts"] == 2
    assert (record["catalog_fingerprint"], record["first"]) == ("abc", {"tokens_per_second": 5.0})
    with make_run(tmp_path, "seed=1") as run:  # another config in the same folder starts anew
        assert run.seconds("first") == 0
