"""The project as a whole: README's commands and tree are true, files name no machine, licence and version are there."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import toolsavvy
from toolsavvy.config.compose import compose, compose_sweep, with_experiment
from toolsavvy.config.preflight import check_config

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SOURCE, CONF = ROOT / "src" / "toolsavvy", ROOT / "conf"


def code_blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def commands(text: str = README) -> list[str]:
    """Command lines of the bash blocks, and inline code that starts with the command; comments taken off."""
    lines = [line for block in code_blocks("bash", text) for line in block.splitlines()]
    lines += [
        f"{code}" for code in re.findall(r"(?<!`)`(toolsavvy [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    ]
    return [shlex.join(words) for line in lines if (words := shlex.split(line, comments=True))]


TOOLSAVVY = sorted({c for c in commands() if c.split()[0] == "toolsavvy"})


def check(words: list[str]) -> None:
    """Compose and check what a command line asks for, without looking at files."""
    overrides = with_experiment([w for w in words if "=" in w])
    jobs = compose_sweep(overrides) if "-m" in words else [compose(overrides)]
    for job in jobs:
        check_config(job)


def test_the_readme_shows_the_two_commands_and_at_least_one_of_every_method() -> None:
    assert {"make demo", "make test"} <= set(commands())
    methods = {p.stem for p in (CONF / "method").glob("*.yaml")}
    assert {m for m in methods if f"| `{m}` |" in README} == methods


@pytest.mark.parametrize("command", TOOLSAVVY)
def test_the_readmes_commands_compose(command: str) -> None:
    words = shlex.split(command)[1:]
    flags = {w for w in words if w.startswith("-")}
    assert flags <= {"--help", "-m", "--cfg"}
    check([w for w in words if w not in ("--help", "--cfg", "job")])


def test_a_wrong_command_would_be_noticed() -> None:
    (command,) = commands("```bash\ntoolsavvy method=evalute  # typo\n```")
    with pytest.raises(toolsavvy.errors.UserError, match="evalute"):
        check(shlex.split(command)[1:])


@pytest.mark.parametrize("command", sorted({c for c in commands() if c.startswith("make ")}))
def test_the_readmes_make_targets_exist(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [w for w in shlex.split(command)[1:] if "=" not in w]
    for target in targets:
        assert re.search(rf"^{target}:.*## ", makefile, re.M), target


@pytest.mark.parametrize("name", ["demo", "test", "lint", "bench", "clean"])
def test_make_help_tells_every_target(name: str) -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"^{name} +\w", done.stdout, re.M)


def tree() -> dict[str, str]:
    """Path -> description, from the README's tree (two spaces a level)."""
    (block,) = code_blocks("text")
    found: dict[str, str] = {}
    above: list[str] = []
    for line in block.splitlines():
        match = re.fullmatch(r"( *)(\S+)(?: {2,}(\S.*))?", line)
        assert match is not None, line
        depth = len(match[1]) // 2
        above[depth:] = [match[2]]
        found["".join(above)] = match[3] or ""
    return found


def tracked() -> list[Path]:
    """Files under version control, or all of an unpacked source archive."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = done.stdout.splitlines() if done.returncode == 0 else []
    files = [ROOT / n for n in names] or [p for p in ROOT.rglob("*") if not {".venv", ".git"} & set(p.parts)]
    return [p for p in files if p.is_file()]


def test_everything_in_the_tree_exists_and_is_described() -> None:
    folders = {path for path in tree() if path.endswith("/")}
    for path, text in tree().items():
        place = ROOT / path
        assert place.is_dir() if path in folders else place.is_file(), f"README's tree: no {path}"
        assert text or any(p.startswith(path) and p != path for p in tree()), f"README's tree: {path} is not described"


def test_every_module_and_every_group_is_in_the_tree() -> None:
    modules = {p.relative_to(ROOT).as_posix() for p in SOURCE.rglob("*.py")}
    groups = {f"conf/{p.name}/" for p in CONF.iterdir() if p.is_dir()}
    areas = {f"tests/{p.parent.name}/" for p in (ROOT / "tests").glob("*/*.py")}
    assert sorted((modules | groups | areas) - set(tree())) == []


TEXTS = [p for p in tracked() if p.suffix in {".py", ".md", ".yaml", ".toml", ".json", ""} and p.name != "LICENSE"]
# Written so that this file doesn't hold them.
FORBIDDEN = {
    "a machine's path": r"(?<![\w.~])/(work|tmp|root|home/\w+)/\w",
    "a package index": r"pypi|pythonhosted|files\.python|npmjs|(?:extra-)?index-url|find-links|download\.pytorch",
    "a secret": r"\b(sk-[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|ghp_[A-Za-z0-9]{20,})",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_files_name_no(what: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in TEXTS
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert found == []


def test_no_file_is_large_or_binary() -> None:
    large = [p.name for p in tracked() if p.stat().st_size > 200_000]
    binary = [p.name for p in tracked() if b"\0" in p.read_bytes()[:8000]]
    assert (large, binary) == ([], [])


def test_the_licence_is_apache_in_full() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    for part in ("Apache License", "Version 2.0, January 2004", "9. Accepting Warranty", "END OF TERMS AND CONDITIONS"):
        assert part in text


def test_the_version_is_the_same_everywhere() -> None:
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert toolsavvy.__version__ == released[0] == version("toolsavvy")


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda p: p.relative_to(CONF).as_posix())
def test_every_option_starts_with_what_it_is_and_is_yaml(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    header = next(line for line in text.split("\n") if not line.startswith("# @package"))
    assert re.match(r"# \S.{8,}", header), header
    assert isinstance(yaml.safe_load(text), dict)
    assert max(map(len, text.splitlines())) <= 140


def test_the_makefile_and_ci_agree() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "set -euo pipefail" in run
    assert run.rstrip().endswith("make test")


@pytest.mark.parametrize("group", ["method", "tuning", "indexing", "trainer"])
def test_the_menus_in_the_table_of_contents_are_whole(group: str) -> None:
    text = (CONF / "config.yaml").read_text(encoding="utf-8")
    line = re.search(rf"^  - {group}: .*#.*: ([\w ]+)$", text, re.M)
    assert line is not None
    assert sorted(line[1].split()) == sorted(p.stem for p in (CONF / group).glob("*.yaml"))


def test_the_readme_says_what_the_quickstart_trains_on() -> None:
    catalog = compose(["experiment=quickstart"]).config.catalog
    assert f"on {catalog.operations} operations" in README
