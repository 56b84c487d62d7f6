"""What `toolsavvy --help` says; imports nothing that takes time."""

from __future__ import annotations

HELP = """\
toolsavvy: train LLMs to use tools, and measure honestly what they know about them.

Usage: toolsavvy [GROUP=OPTION ...] [KEY=VALUE ...]

Methods (method=...)
  toolgen    an LLM that holds a whole tool catalog in its weights: memorization, then retrieval training
  evaluate   any systems on any suites, one table; trains nothing
  generate   a benchmark from catalogs: sampled, merged, with instructions, audited, exported; trains nothing
  report     several seeds of finished runs as one table with intervals
  doctor     versions, devices, caches: does this machine work?

Commands
  toolsavvy                                            the quickstart: two-stage ToolGen and its rivals, one table
  toolsavvy dry_run=true                               check everything, print the plan, do nothing
  toolsavvy seed=1                                     the quickstart with another seed
  toolsavvy -m seed=0,1,2                              three seeds, one after the other, one table of jobs
  toolsavvy -m +sweep=five_configurations              several jobs and a report at their end (conf/sweep/)
  toolsavvy experiment=toolgen_aws                     a published claim on more tools (conf/experiment/)
  toolsavvy method=evaluate 'retriever=[bm25,dense]'   compare retrievers
  toolsavvy method=evaluate catalog=jsonl catalog.path=tools.jsonl
                                                       your own tools
  toolsavvy model=qwen3_4b trainer=gpu                 another model on a GPU
  toolsavvy -m tuning=lora,full resume=true            rerun a sweep: skip what is done, continue what was cut off
  toolsavvy method=toolgen --cfg job                   print a whole configuration (names: --info defaults)
  toolsavvy method=report runs='[outputs/toolgen_aws/*]'
                                                       the seeds of a sweep as one table, also as Markdown
  toolsavvy method=doctor                              look at this machine

With no GROUP named the experiment is `quickstart`; name one (method, model, ...) and nothing of it is used.
{groups}
Results
  outputs/<experiment or method>/<date>_<time>-<token>[/<job>]/
    results.jsonl  every number with its interval      predictions/  per query, and TREC files
    run.json       versions, commit, seconds, memory   config.yaml   everything that was set
    status.json    running, done or failed             run.log       log and traceback
    model/         reloads with from_pretrained        wandb/        offline unless WANDB_API_KEY is set

Hydra's own flags: -m/--multirun, --cfg job|hydra|all, --info, --config-dir, --hydra-help.
Exit codes: 0 done, 1 a job failed, 2 something in the command or its input has to be mended first.
"""


def help_text(groups: dict[str, tuple[str, ...]]) -> str:
    """The help with the menu of every group."""
    shown = {name: options for name, options in groups.items() if name not in ("hydra", "paths")}
    width = max(len(name) for name in shown) + 2
    lines = "".join(f"  {name:<{width}}{' '.join(options)}\n" for name, options in shown.items())
    return HELP.format(groups=f"\nGroups\n{lines}")
