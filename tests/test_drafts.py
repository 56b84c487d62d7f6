"""Files that are being written: what a killed process has left goes, what a living one writes stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from toolsavvy.assets import atomic_write
from toolsavvy.drafts import clear_drafts, draft_path


def test_drafts_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    code = f"import pathlib, toolsavvy.drafts as d; print(d.draft_path(pathlib.Path({str(tmp_path / 'a.json')!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    dead, living, other = Path(done.stdout.strip()), draft_path(tmp_path / "a.json"), tmp_path / ".hidden.tmp"
    elsewhere = tmp_path / dead.name.replace("@", "@not-").replace("a.json", "b.json")
    for path in (dead, living, other, elsewhere):
        path.touch()
    folder = tmp_path / dead.name.replace("a.json", "model")
    (folder / "deep").mkdir(parents=True)
    clear_drafts(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living, other, elsewhere])
    clear_drafts(tmp_path, is_owned=True)
    assert list(tmp_path.iterdir()) == [other], "what no draft of ours is called is left alone"


def test_a_file_under_way_has_a_draft_of_this_process(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "x.jsonl", text=True) as file:
        (under_way,) = tmp_path.iterdir()
        file.write("whole\n")
        clear_drafts(tmp_path)
        assert under_way.exists()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["whole\n"]
