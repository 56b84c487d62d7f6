"""README's pages for newcomers, followed to the letter: their files are written, their commands run."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import ROOT, environment, lines, record, runs, status

from toolsavvy.__main__ import main
from toolsavvy.models.loading import toy_model
from toolsavvy.starting import USER_ERROR

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("Your own tools", "Your own models", "Adding a retriever", "Adding a suite", "Adding a method")
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Page:
    """What a section of the README has one type: files by name, and commands."""

    files: dict[str, str]
    commands: tuple[str, ...]

    @property
    def code(self) -> int:
        """Lines that are no blank ones."""
        texts = [*self.files.values(), *self.commands]
        return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def page(title: str) -> Page:
    """The section of a title, up to the next one."""
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##+ )", README, re.M | re.S)
    assert found is not None, title
    fences = FENCE.findall(found[1])
    files = {name: text for _, name, text in fences if name}
    blocks = [text for language, name, text in fences if language == "bash" and not name]
    return Page(files, tuple(line for block in blocks for line in block.splitlines() if line.strip()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with all the pages' files."""
    for title in PAGES:
        for name, text in page(title).files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def follow(line: str, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> None:
    """One command in this process; without W&B, for time."""
    words = shlex.split(line, comments=True)
    if words[0].startswith("PYTHONPATH="):
        monkeypatch.syspath_prepend(words.pop(0).partition("=")[2])
    assert words[0] == "toolsavvy"
    assert main([*words[1:], "logger=none"]) == code


def numbers(run: Path, **wanted: object) -> list[float]:
    """Values of results.jsonl."""
    rows = lines(run / "results.jsonl")
    return [row["value"] for row in rows if all(row[key] == value for key, value in wanted.items())]


@pytest.mark.parametrize("title", PAGES)
def test_a_page_takes_less_than_forty_lines(title: str) -> None:
    assert page(title).commands
    assert page(title).code < 40


def test_every_file_is_of_the_kind_that_its_fence_says() -> None:
    kinds = {"json": ".jsonl", "python": ".py", "yaml": ".yaml"}
    for language, name, _ in FENCE.findall(README):
        if name:
            assert Path(name).suffix == kinds[language], name


def test_my_own_tools(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate, toy, real = [line for line in page("Your own tools").commands if "=my_tools " in line][-3:]
    follow(evaluate, monkeypatch)
    assert "5 tools" in capsys.readouterr().out
    (run,) = runs(folder / "outputs")
    assert numbers(run, system="bm25", slice="test", metric="recall", k=1) == [pytest.approx(2.5 / 3)]
    follow(toy, monkeypatch)
    trained = next(r for r in runs(folder / "outputs") if r != run)
    assert (trained / "model" / "config.json").is_file()
    assert numbers(trained, system="toolgen_plain-constrained", metric="recall", k=5, slice="test") == [1.0]
    follow(f"{real.partition('#')[0]} dry_run=true", monkeypatch)
    assert "memorization" in capsys.readouterr().out


def test_my_own_model(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokenizer = toy_model(seed=3)  # random weights: only that a folder of one's own works is shown
    model.save_pretrained(folder / "my_model")
    tokenizer.save_pretrained(folder / "my_model")
    train, evaluate = page("Your own models").commands[-2:]
    follow(train, monkeypatch)
    follow(evaluate, monkeypatch)
    mine = folder / "outputs" / "mine"
    told = next(r for r in runs(folder / "outputs") if r != mine)
    for name in ("constrained", "free"):
        before = numbers(mine, system=f"toolgen_plain-{name}", metric="ndcg", k=5)
        assert numbers(told, system=f"toolgen-{name}", metric="ndcg", k=5) == before
    capsys.readouterr()
    runpy.run_path("try_it.py")
    assert "<<weather.now>>" in capsys.readouterr().out


def test_a_retriever_of_ones_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = page("Adding a retriever").commands
    follow(line, monkeypatch)
    (run,) = runs(folder / "outputs")
    assert numbers(run, system="letters", slice="test", metric="recall", k=5) == [1.0]
    assert (run / "predictions" / "catalog_test.letters.run").is_file()
    follow(line.replace("letters.n=4", "letters.m=4"), monkeypatch, code=USER_ERROR)
    follow(line.replace("letters.n=4", "+retriever.letters.m=4"), monkeypatch, code=USER_ERROR)


def test_a_suite_of_ones_own(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = page("Adding a suite").commands
    follow(line, monkeypatch)
    assert "test/long" in capsys.readouterr().out
    (run,) = runs(folder / "outputs")
    rows = [r for r in lines(run / "results.jsonl") if (r["suite"], r["metric"], r["k"]) == ("lengths", "recall", 5)]
    assert {r["slice"]: r["n"] for r in rows} == {"test": 3, "test/short": 1, "test/long": 2}


def test_a_method_of_ones_own_in_a_sweep(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = page("Adding a method").commands
    follow(line, monkeypatch)
    first, second = runs(folder / "outputs")
    assert [status(run)["status"] for run in (first, second)] == ["done", "done"]
    assert [record(run)["choices"]["method"] for run in (first, second)] == ["agreement", "agreement"]
    assert [numbers(run, system="bm25 and letters", metric="overlap", k=k) for run, k in ((first, 1), (second, 3))]
    capsys.readouterr()
    follow(f"{line} resume=true", monkeypatch)
    assert runs(folder / "outputs") == [first, second]
    capsys.readouterr()
    follow(line.replace("settings.k", "settings.kk"), monkeypatch, code=USER_ERROR)
    assert "settings.kk" in capsys.readouterr().err
    follow(f"{line} 'method.uses=[catalogue]'", monkeypatch, code=USER_ERROR)
    assert capsys.readouterr().err.splitlines()[-1].endswith("did you mean 'catalog'?")


def test_a_method_of_ones_own_as_a_process(folder: Path) -> None:
    """PYTHONPATH and --config-dir as the page has them, with the plan that a dry run shows."""
    (line,) = page("Adding a method").commands
    words = shlex.split(line)
    paths = f"{words[0]}:{ROOT / 'src'}"
    program = [sys.executable, "-m", "toolsavvy", *(w for w in words[2:] if w != "-m"), "method.settings.k=2"]
    text = shlex.join(["env", paths, *program[:3], *[w for w in program[3:] if not w.endswith("=1,3")]])
    done = subprocess.run(["bash", "-c", f"{text} dry_run=true"], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert "bm25, letters" in done.stdout
