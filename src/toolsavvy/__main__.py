"""compose -> preflight -> run -> record: the `toolsavvy` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from toolsavvy import __version__
from toolsavvy.errors import UserError
from toolsavvy.starting import FAILED, INTERRUPTED, STOPPED, TERMINATED, check, complain, run_hydra, run_single, stderr

if TYPE_CHECKING:
    from argparse import Namespace

    from toolsavvy.config.compose import Job
    from toolsavvy.config.schema import Config

OVERRIDES = "key=value, and flags that --help names"
_RUNS_NOTHING = ("cfg", "info")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: without the program's name; that of this process by default.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if {"--help", "-h"} & set(words):
        return _help()
    if "--version" in words:
        sys.stdout.write(f"toolsavvy {__version__}\n")
        return 0
    try:
        if not {"--shell-completion", "-sc"} & set(words):  # every key that is completed waits for imports
            from toolsavvy.tracking.masking import learn_from_overrides

            learn_from_overrides(words)
        return _command(words)
    except UserError as error:
        return complain(error)
    except KeyboardInterrupt:
        stderr().print(STOPPED)
        return INTERRUPTED
    except SystemExit as stop:
        if stop.code == TERMINATED:
            stderr().print(STOPPED)
        raise
    except BrokenPipeError:  # whoever read the output has what he wanted: toolsavvy --cfg job | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:
        return _crashed()


def _help() -> int:
    """Answer before anything slow is imported."""
    from toolsavvy.config.help import help_text
    from toolsavvy.config.places import groups

    sys.stdout.write(help_text(groups()))
    return 0


def _crashed() -> int:
    """A fault of ours: the traceback, as Python would print it, without secrets and commands to the terminal."""
    import traceback

    from toolsavvy.errors import plain
    from toolsavvy.tracking.masking import mask_text

    way = "no run holds this fault: report the traceback above with its command; toolsavvy method=doctor looks further"
    sys.stderr.write(plain(mask_text(f"{traceback.format_exc()}  fix: {way}\n")))
    return FAILED


def _command(words: list[str]) -> int:
    """Parse, compose, check, and hand over to Hydra."""
    from toolsavvy.config.compose import compose, compose_sweep, with_experiment

    args = _parse(words)
    if args.shell_completion:
        return _complete(args.overrides)
    if args.hydra_help:
        return run_hydra(["--hydra-help"], [])
    _check_sweep(args)
    overrides = with_experiment(args.overrides)
    if any(getattr(args, name) for name in _RUNS_NOTHING):
        if args.cfg:
            compose(overrides, config_dir=args.config_dir)
        return run_hydra(_flags(words, args), overrides)
    make = compose_sweep if args.multirun else lambda o, config_dir: [compose(o, config_dir=config_dir)]
    jobs = make(overrides, config_dir=args.config_dir)
    if any(job_.config.get("dry_run") is True for job_ in jobs):
        return _show_plans(jobs, check(jobs))
    if args.multirun:
        from toolsavvy.sweeping import run_sweep

        return run_sweep(_flags(words, args), overrides, jobs)
    check(jobs)
    return run_single(_flags(words, args), overrides, jobs[0])


def _complete(overrides: Sequence[str]) -> int:
    """Completion: a script for the shell, or what can follow the line that is being typed there."""
    from toolsavvy.config.completion import asked, script

    command, _, shell = " ".join(overrides).partition("=")
    if command not in ("install", "uninstall", "query") or shell not in ("bash", "zsh", "fish"):
        expected, fix = "install, uninstall or query, of bash, zsh or fish", 'eval "$(toolsavvy -sc install=bash)"'
        raise UserError("no such completion", where="command line, -sc", expected=expected, fix=fix)
    if shell == "bash" and command != "query":
        sys.stdout.write(script(command, sys.argv[0]))
        return 0
    os.environ["COMP_LINE"], flags = asked(os.environ.get("COMP_LINE", ""))
    return run_hydra(["-sc", *flags], overrides)


def _parse(words: list[str]) -> Namespace:
    """Hydra's flags, and the overrides; flags that would run another config than the one checked are refused."""
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = _refuse_flag
    args = parser.parse_intermixed_args(words)
    for name in ("config_name", "config_path"):
        if getattr(args, name):
            flag = f"--{name.replace('_', '-')}"
            fix = "options of your own go into --config-dir FOLDER, a whole run into its experiment/NAME.yaml"
            raise UserError(f"{flag} is not for use here", where=f"command line, {flag}", expected=OVERRIDES, fix=fix)
    return args


def _refuse_flag(message: str) -> NoReturn:
    """What argparse would end the process for."""
    raise UserError(message, where="command line", expected=OVERRIDES, fix="see toolsavvy --help")


def _check_sweep(args: Namespace) -> None:
    """A file of conf/sweep says what varies: it is added to a configuration, and needs -m."""
    from toolsavvy.config.compose import key_of

    override = next((o for o in args.overrides if key_of(o) == "sweep" and not o.startswith("~")), None)
    if override is not None and not (args.multirun and override.startswith("+")):
        added = f"toolsavvy -m +{override.lstrip('+')}"
        missing = [*([] if args.multirun else ["-m"]), *([] if override.startswith("+") else ["the plus sign"])]
        where, fix = f"command line, {override}", f"add {' and '.join(missing)}"
        raise UserError("a sweep is of several jobs", where=where, expected=added, fix=fix)


def _flags(words: Sequence[str], args: Namespace) -> list[str]:
    """The command line without its overrides."""
    return [w for w in words if w not in set(args.overrides)]


def _show_plans(jobs: Sequence[Job], configs: Sequence[Config]) -> int:
    """Say what would be done."""
    from toolsavvy.config.planning import show_plan
    from toolsavvy.report import Terminal

    for job_, config in zip(jobs, configs, strict=True):
        show_plan(job_, config, Terminal(highlight=False, emoji=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
