"""What holds for every test: one thread a process, no account and no hub is asked, and no skip goes unnoticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before torch is imported, and for the processes that tests start: workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
for _name in ("WANDB_API_KEY", "HF_TOKEN", "TOOLSAVVY_OUTPUTS"):
    os.environ.pop(_name, None)

SHARED = Path(os.environ.get("TOOLSAVVY_SHARED_DATA") or Path(__file__).parents[2] / "shared" / "data")
ALLOWED_SKIPS = ("shared data is absent", "needs a CUDA device", "no Chromium browser is installed")
_unexpected: list[str] = []


def pytest_report_header() -> str:
    """Say what the skips depend on."""
    return f"shared data: {'there' if SHARED.is_dir() else 'absent, tests on real files of other sources are skipped'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked gpu run where torch sees one."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect skips that nobody allowed (runs where the summary is printed)."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(allowed in reason for allowed in ALLOWED_SKIPS):
            _unexpected.append(f"{report.nodeid}: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip for any other reason fails the round."""
    if _unexpected and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was skipped without leave."""
    for line in _unexpected:
        terminalreporter.write_line(f"SKIPPED WITHOUT LEAVE {line}", red=True)
