from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import PROBE, ROOT, command, environment, runs, status
from commands import fresh as toolsavvy
from rich.console import Console

from toolsavvy import __version__
from toolsavvy.__main__ import main
from toolsavvy.tracking.sweep import Outcome, show_jobs
from world import read_wandb


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from toolsavvy.__main__ import main; code = main(['--help']);"
        "heavy = {'torch', 'transformers', 'wandb', 'hydra', 'numpy', 'rich'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    times = []
    for _ in range(2):
        start = time.monotonic()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
        times.append(time.monotonic() - start)
        assert done.returncode == 0, done.stderr
    assert min(times) <= 1.0
    for word in ("toolgen", "evaluate", "doctor", "dry_run=true", "outputs/", "results.jsonl", "smollm2_135m"):
        assert word in done.stdout
    assert len(re.findall(r"^  toolsavvy ", done.stdout, re.M)) >= 10


def test_the_version_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"toolsavvy {__version__}\n"


def test_a_table_of_jobs_names_their_common_folder_once(tmp_path: Path) -> None:
    places = (tmp_path / "now" / "0", tmp_path / "now" / "1", tmp_path / "before" / "2")
    wide = Console(file=io.StringIO(), width=1000)
    show_jobs([Outcome(i, (f"seed={i}",), place, None) for i, place in enumerate(places)], wide)
    told = wide.file.getvalue()
    assert told.count(str(tmp_path / "now")) == 1
    assert str(places[2]) in told


def test_a_run_leaves_its_records_and_an_offline_wandb_run(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *PROBE, "seed=3", "logger.tags=[mine]")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    assert run.parent.name == "probe"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-[0-9a-f]{6}", run.name)
    assert f"done: {run}" in done.stderr

    assert status(run)["status"] == "done"
    record = json.loads((run / "run.json").read_text())
    assert record["seed"] == 3
    assert record["catalog_fingerprint"] == "abc"
    assert record["stages"].keys() == {"work"}
    assert record["versions"]["torch"]
    assert ("commit" in record["git"]) == (ROOT / ".git").exists()
    assert record["peak_memory"]["host"] > 10**7
    assert "seed=3" in record["overrides"]
    assert record["config_hash"] != record["cell"]
    assert "seed: 3" in (run / "config.yaml").read_text()
    numbers = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert [(n["slice"], n["value"]) for n in numbers] == [("all", 3.25), ("short", 0.5)]

    wandb = read_wandb(run)
    assert (wandb.project, wandb.group, wandb.job_type) == ("toolsavvy", "probe", "probe")
    assert wandb.name == "probe-toy-aws_network-lora-seed3"
    assert set(wandb.tags) == {"aws_network", "mine"}
    assert wandb.exit_code == 0
    assert wandb.config["seed"] == 3
    assert wandb.config["model"]["source"] == "toy"
    assert wandb.config["choices"]["method"] == "probe"
    assert wandb.config["cell"] == record["cell"]
    assert wandb.summary["catalog_test/probe/recall@5"] == 3.25
    assert wandb.summary["catalog_test:short/probe/recall@5"] == 0.5
    assert any(row.get("loss") == 0.25 and row.get("step") == 3 for row in wandb.history)
    assert [row["results.nrows"] for row in wandb.history if "results.nrows" in row] == [2]
    (table,) = run.glob("wandb/**/results_*.table.json")
    assert json.loads(table.read_text())["data"][0][:6] == ["probe", "catalog_test", "all", "recall", 5, 3.25]


def test_a_failing_job_of_a_sweep_is_failed_everywhere_and_the_others_go_on(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, "-m", *PROBE, "seed=1,2,3", PROBE="raise:2")
    assert done.returncode == 1
    jobs = runs(tmp_path)
    assert [j.name for j in jobs] == ["0", "1", "2"]
    assert [status(j)["status"] for j in jobs] == ["done", "failed", "done"]
    assert status(jobs[1])["error"] == "RuntimeError: planned failure"
    log = (jobs[1] / "run.log").read_text()
    assert "Traceback" in log
    assert "probe_method.py" in log
    assert "Traceback" not in (jobs[0] / "run.log").read_text()

    seen = [read_wandb(j) for j in jobs]
    assert len({w.id for w in seen}) == 3
    assert [w.exit_code for w in seen] == [0, 1, 0]
    assert {w.group for w in seen} == {jobs[0].parent.name}
    assert [w.config["seed"] for w in seen] == [1, 2, 3]
    assert len({w.config["cell"] for w in seen}) == 1

    assert "3 jobs" in done.stderr
    assert done.stderr.count("planned failure") >= 1
    for seed in (1, 2, 3):
        assert f"seed={seed}" in done.stderr
    assert "Traceback" not in done.stderr


def test_on_error_stop_leaves_the_rest_out(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, "-m", *PROBE, "logger=none", "seed=1,2", "on_error=stop", PROBE="raise:1")
    assert done.returncode == 1
    assert [status(j)["status"] for j in runs(tmp_path)] == ["failed", "skipped"]


def test_resume_continues_the_job_that_was_cut_off_and_skips_what_is_done(tmp_path: Path) -> None:
    sweep = ("-m", *PROBE, "logger=none", "seed=1,2", "resume=true")
    killed = toolsavvy(tmp_path, *sweep, PROBE="kill:2")
    assert killed.returncode == -signal.SIGKILL
    first, second = runs(tmp_path)
    assert (status(first)["status"], status(second)["status"]) == ("done", "running")
    before = (first / "run.json").stat().st_mtime_ns

    again = toolsavvy(tmp_path, *sweep, PROBE="kill:2")
    assert again.returncode == 0, again.stderr
    assert runs(tmp_path) == [first, second]
    assert status(second)["status"] == "done"
    assert json.loads((second / "run.json").read_text())["continued"] is True
    assert (first / "run.json").stat().st_mtime_ns == before
    assert len((second / "results.jsonl").read_text().splitlines()) == 2
    single = toolsavvy(tmp_path, *PROBE, "logger=none", "seed=2", "resume=true")
    assert (single.returncode, f"done: {second}" in single.stderr) == (0, True)
    assert runs(tmp_path) == [first, second]


def test_sigterm_is_a_failure_with_records(tmp_path: Path) -> None:
    args = command(tmp_path, *PROBE, "logger=none", "seed=1")
    with subprocess.Popen(args, cwd=ROOT, env=environment(PROBE="sleep:1"), stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.rglob("half.txt")):
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
        assert process.wait(20) == 128 + signal.SIGTERM
    (run,) = runs(tmp_path)
    assert status(run)["status"] == "failed"


def test_secrets_of_the_environment_stay_there(tmp_path: Path) -> None:
    secret = "sk-very-secret-4711"
    args = (*PROBE, "seed=2", "logger.tags=['${oc.env:OPENAI_API_KEY}']")
    done = toolsavvy(tmp_path, *args, PROBE="raise:2", OPENAI_API_KEY=secret)
    assert done.returncode == 1
    assert secret not in done.stdout + done.stderr
    (run,) = runs(tmp_path)
    assert (run / "config.yaml").exists()
    assert [p for p in run.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()] == []


def test_a_mistake_in_the_input_of_a_running_method_is_one_message(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *PROBE, "logger=none", "seed=2", PROBE="user:2")
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert lines[0] == "error: tools.jsonl, line 3, field 'id': planned mistake"
    assert lines[1:] == ["  expected: text", "  fix: mend it"]
    (run,) = runs(tmp_path)
    assert status(run)["status"] == "failed"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("model=smolm",), ("command line, model=smolm", "no option 'smolm'", "did you mean 'smollm2_135m'?")),
        (("model.dtpe=float16",), ("command line, model.dtpe=float16", "unknown key 'model.dtpe'", "'dtype'")),
        (("seed=1,2",), ("command line, seed=1,2", "expected: one value", "toolsavvy -m seed=1,2")),
    ],
)
def test_a_typo_is_one_message_and_exit_code_2(tmp_path: Path, args: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = toolsavvy(tmp_path, *args)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert "HYDRA" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_dry_run_shows_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *PROBE, "dry_run=true")
    assert done.returncode == 0, done.stderr
    for word in ("aws_network", "toy", "memorization: 7 rows x 2 epochs", "12,345", "probe", str(tmp_path)):
        assert word in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_one_bad_job_stops_a_sweep_before_it_starts(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, "-m", *PROBE, "tuning.rank=4,0")
    assert done.returncode == 2
    for word in ("job 1", "tuning.rank", "expected: >= 1"):
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("launcher", [(), ("hydra/launcher=joblib",)])
def test_ddp_in_a_sweep_is_refused(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    done = toolsavvy(tmp_path, "-m", *PROBE, "trainer.strategy=ddp", "trainer.devices=2", "seed=1,2", *launcher)
    assert done.returncode == 2
    for word in ("hydra/launcher=submitit_local", "used again" if launcher else "start the whole sweep again"):
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_cfg_job_of_the_bare_command_is_the_quickstart(tmp_path: Path) -> None:
    bare = toolsavvy(tmp_path, "--cfg", "job")
    named = toolsavvy(tmp_path, "--cfg", "job", "experiment=quickstart")
    assert (bare.returncode, named.returncode) == (0, 0), bare.stderr
    assert bare.stdout == named.stdout
    assert "toolsavvy.methods.toolgen.run" in bare.stdout
