"""Completion as a shell asks for it: bash itself evaluates the script and fills COMPREPLY."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from commands import HERE, ROOT, environment

from toolsavvy.__main__ import main
from toolsavvy.config.completion import asked, script
from toolsavvy.starting import USER_ERROR

TRY = """
{script}
ask() {{
  COMP_LINE="$1"; COMP_POINT=${{#1}}; COMPREPLY=()
  {function} {program}
  printf '%s|' "${{COMPREPLY[@]}}"; echo
}}
"""


def completed(program: str, *lines: str, breaks: str | None = None) -> list[list[str]]:
    """What bash would offer after each line."""
    text = TRY.format(script=script("install", "toolsavvy"), function="_toolsavvy_complete", program=program)
    text += f"COMP_WORDBREAKS={breaks!r}\n" if breaks is not None else ""
    text += "\n".join(f'ask "{line}"' for line in lines)
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=environment(), cwd=ROOT)
    assert done.stderr == ""
    return [line.rstrip("|").split("|") for line in done.stdout.splitlines()]


def test_bash_completes_groups_options_keys_and_sweeps_of_python_m() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = ("me", "method=to", "method=toolgen tuning.ra", "-m +sweep=l", f"--config-dir {HERE / 'conf'} method=pr")
    found = completed(sys.executable, *(f"{sys.executable} -m toolsavvy {line}" for line in lines))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert {"method=", "method.", "memorization="} <= set(found[0])
    assert found[1] == ["toolgen "]  # '=' breaks words: bash replaces what follows it
    assert found[2] == ["tuning.rank="]
    assert {"layers ", "lora_vs_full "} <= set(found[3])
    assert found[4] == ["probe "]  # of the user's own folder
    seconds = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(lines)
    assert seconds <= 2.0, "too slow to be waited for at a key"


def test_the_installed_command_completes_too_and_offers_no_schemas() -> None:
    program = Path(sys.executable).parent / "toolsavvy"
    whole, option = completed(str(program), "toolsavvy ", "toolsavvy retriever=den", breaks=" ")
    assert {"method=", "catalog=", "seed=", "resume="} <= set(whole)
    assert [word for word in whole if "schema" in word] == []
    assert option == ["retriever=dense "]  # where '=' breaks no words


def test_other_programs_of_python_are_left_alone() -> None:
    assert completed(sys.executable, "python setup.py me", "python -m other me") == [[""], [""]]


def test_installing_prints_a_script_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-sc", "install=bash"]) == 0
    assert capsys.readouterr().out == script("install", sys.argv[0])
    assert script("install", "/usr/bin/toolsavvy").endswith("complete toolsavvy\n")
    assert script("install", "toolsavvy/__main__.py").endswith("complete python python3 toolsavvy\n")
    assert main(["-sc", "install=tcsh"]) == USER_ERROR
    assert 'eval "$(toolsavvy -sc install=bash)"' in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "rest", "flags"),
    [
        ("toolsavvy me", "toolsavvy me", []),
        ("/usr/bin/toolsavvy method=toolgen ", "toolsavvy method=toolgen ", []),
        ("python -m toolsavvy -m seed=", "toolsavvy -m seed=", []),
        (".venv/bin/python3.11 -X dev -m toolsavvy me", "toolsavvy me", []),
        ("toolsavvy --config-dir mine method=", "toolsavvy method=", ["--config-dir", "mine"]),
        ("toolsavvy seed=1 -cd mine me", "toolsavvy seed=1 me", ["--config-dir", "mine"]),
        ("toolsavvy --config-dir mi", "toolsavvy --config-dir mi", []),
    ],
)
def test_lines_are_read_however_the_program_is_called(line: str, rest: str, flags: list[str]) -> None:
    assert asked(line) == (rest, flags)
