"""A set of parameter tasks as people look at it: tables, its card, and single instances."""

from __future__ import annotations

import json
import random
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from toolsavvy.calls.flattening import leaves, shown
from toolsavvy.generators.parambench.audit import Audit
from toolsavvy.generators.parambench.dividing import SHARES
from toolsavvy.generators.product import Summary
from toolsavvy.levels import RULE
from toolsavvy.tasks import LEVELS, ParamTask

_WIDTH = 110
_LONG = 8
"""Values of a result that are shown of one call: those that the task is about, then the first ones."""


def tables(found: Audit, counts: Mapping[str, int]) -> tuple[Summary, ...]:
    """Levels by split, the audit's numbers, what was made."""
    return _level_table(found), _audit_table(found, counts), _service_table(found)


def _level_table(found: Audit) -> Summary:
    rows = [(name, *(f"{n[level]:,}" for level in LEVELS), f"{sum(n.values()):,}") for name, n in found.levels.items()]
    whole = found.levels["all"]
    shares = [f"{100 * whole[level] / max(found.instances, 1):.1f} %" for level in LEVELS]
    return Summary("levels", ("split", *LEVELS, "all"), (*rows, ("share of all", *shares, "")))


def _audit_table(found: Audit, counts: Mapping[str, int]) -> Summary:
    rows = [
        ("instances", f"{found.instances:,}"),
        ("operations", f"{found.operations:,}"),
        ("derived by the oracle, whole object", f"{found.oracle:.2%}"),
        ("duplicate instructions", f"{found.duplicates:,}"),
        ("operations in more than one split", f"{len(found.crossing):,}"),
        ("instructions with an API name", f"{len(found.leaks):,}"),
        ("references that break their schema", f"{len(found.violating):,}"),
        ("values stated in the instruction", f"{found.origins['stated']:.1%}"),
        ("values only in earlier results", f"{found.origins['upstream']:.1%}"),
        ("values in neither: implied", f"{found.origins['derived']:.1%}"),
        ("instructions that say an id", f"{found.stated_ids:.1%}"),
        ("guessed without reading: whole object", f"{found.guessed['exact']:.1%}"),
        ("guessed without reading: fields", f"{found.guessed['fields']:.1%}"),
        ("earlier calls, quartiles", " / ".join(f"{q:g}" for q in found.context_calls)),
        *((f"stories {name}", f"{n:,}") for name, n in sorted(counts.items())),
    ]
    return Summary("audit", ("what", "found"), tuple(rows))


def _service_table(found: Audit) -> Summary:
    """Operations and instances of each service, by split."""
    services = sorted({name.partition(":")[0] for name in found.by_operation})
    rows = []
    for service in services:
        own = [entry for name, entry in found.by_operation.items() if name.startswith(f"{service}:")]
        parts = [[entry for entry in own if entry["split"] == split] for split in SHARES]
        cells = [f"{len(part)} / {sum(entry['instances'] for entry in part)}" for part in parts]
        rows.append((service, *cells, f"{len(own)} / {sum(entry['instances'] for entry in own)}"))
    return Summary("operations / instances", ("service", *SHARES, "all"), tuple(rows))


def card(name: str, found: Audit, settings: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """The data card, Markdown."""
    made = ", ".join(f"{key} {value}" for key, value in {**settings, **versions}.items())
    failures = "\n".join(f"- {what}" for what in found.failures()) or "- none"
    shares = ", ".join(f"{split} {share:.0%}" for split, share in SHARES.items())
    return f"""# {name}

Parameter tasks by ParamBench's recipe (arXiv 2608.03071) on a public API: Amazon EC2 with VPC, Elastic Load Balancing
v2 and Route 53. Its numbers are not ParamBench's: that set is not public, and no sentence or schema of it is in here.

- **What a task is.** One operation's JSON Schema, an instruction in English, and earlier calls with their results; the
  answer is one argument object. {found.instances:,} tasks over {found.operations} operations.
- **Where it comes from.** Stories told by program: every call of a story, and the one that reaches its goal, was
  carried out on moto, an in-memory double of the cloud, and accepted. Schemas are those of the AWS CLI's models
  (Apache-2.0). Names, addresses and ids are made up; no account was used.
- **Instructions** are sentences rendered from the goal; they state values, imply them (units, service names, address
  arithmetic), or leave them to be found in earlier results. They never use the API's names.
- **Split** by operation, no operation in two of them ({shares}).
- **Made with** {made}. The same seed gives the same bytes.
- **Limits.** Template English; moto checks less than the cloud itself; defaults that a caller might also state are left
  out of references, which exact match counts as different (execution match does not).

## Levels

```
{RULE}
```

{markdown(_level_table(found))}

## Audit

{markdown(_audit_table(found, {}))}

What is wrong with it:

{failures}

The oracle is a program of rules that sees schema, instruction and context, never the goal. The guesser reads nothing:
it answers with the most frequent value of an operation's other tasks. A value is *stated* if the instruction has it
word for word.

## Operations

{markdown(_operation_table(found))}
"""


def _operation_table(found: Audit) -> Summary:
    rows = [
        (
            name, entry["split"], str(entry["instances"]), f"{entry['oracle']:.0%}",
            *(str(entry["levels"].get(level, 0)) for level in LEVELS), f"{entry['calls']:.1f}",
        )
        for name, entry in found.by_operation.items()
    ]  # fmt: skip
    return Summary("operations", ("operation", "split", "n", "oracle", *LEVELS, "earlier calls"), tuple(rows))


def markdown(table: Summary) -> str:
    """A summary as a Markdown table."""
    lines = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def sampled(tasks: Sequence[ParamTask], count: int, seed: int) -> list[str]:
    """Some instances as text, levels in turn, of different operations as long as there are any."""
    rng, pools = random.Random(f"{seed}/show"), {level: [t for t in tasks if t.level == level] for level in LEVELS}
    for pool in pools.values():
        rng.shuffle(pool)
    chosen: list[ParamTask] = []
    while len(chosen) < min(count, len(tasks)):
        for level in LEVELS:
            used = {t.reference.name for t in chosen}
            if pools[level] and len(chosen) < count:
                new = next((t for t in pools[level] if t.reference.name not in used), pools[level][0])
                pools[level].remove(new)
                chosen.append(new)
    return [instance(task) for task in chosen]


def instance(task: ParamTask) -> str:
    """One task: what is asked, what was done before, what is right."""
    lines = [f"{task.id}   {task.level}, {task.split}", *_wrapped(f"“{task.instruction}”", "  ")]
    lines += ["  earlier:"] if task.upstream else ["  nothing was done before"]
    for call in task.upstream:
        lines += _wrapped(f"{call.name}({_compact(call.arguments)})", "    ")
        lines += _wrapped(f"= {_values(call.output, task)}", "      ")
    lines.append("  right:")
    lines += [f"    {shown(leaf.path)} = {_compact(leaf.value)}" for leaf in leaves(task.reference.arguments)]
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _values(output: Any, task: ParamTask) -> str:
    """Values of a result by the last name on their path, in their order: those that the task needs, then others."""
    held = [leaf for leaf in leaves(output) if leaf.path and leaf.value not in ("", None, [], {})]
    needed = {str(leaf.value) for leaf in leaves(task.reference.arguments)}
    rank = [not (str(leaf.value) in needed or str(leaf.value) in task.instruction) for leaf in held]
    kept = sorted(sorted(range(len(held)), key=lambda i: (rank[i], i))[:_LONG])
    told = [f"{_last(held[i].path)} {_compact(held[i].value)}" for i in kept]
    return ", ".join(told) + (f" and {len(held) - _LONG} more" if len(held) > _LONG else "") or "done"


def _last(path: Sequence[str | int]) -> str:
    return next((str(step) for step in reversed(path) if isinstance(step, str)), "")
