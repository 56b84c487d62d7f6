"""Run the benches: `python tests/bench/run.py [trie atomic cli ...]`; exit code 1 when a target is missed.

Every `bench_<name>.py` beside this file has `run() -> Record`; records go to `results/<item>.json`.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path


def main(chosen: list[str]) -> int:
    names = sorted(p.stem.removeprefix("bench_") for p in Path(__file__).parent.glob("bench_*.py"))
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        print(f"no bench named {', '.join(unknown)}; there are: {', '.join(names)}")
        return 2
    failed = []
    for name in chosen or names:
        try:
            record = importlib.import_module(f"bench_{name}").run()
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        record.write()
        record.show()
        if not record.passed:
            failed.append(name)
    print("\nall targets met" if not failed else f"\nmissed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
