"""What `toolsavvy --help` says; imports nothing that takes time."""

from __future__ import annotations

import textwrap

WIDTH = 118
"""Columns of a menu of options."""
HELP = """\
toolsavvy: train LLMs to use tools, and measure honestly what they know about them.

Usage: toolsavvy [GROUP=OPTION ...] [KEY=VALUE ...]

Methods (method=...)
  toolgen      can an LLM hold a tool catalog in its weights and retrieve by generating? Trains it, in two stages
  contrastive  can an embedding model be made tool-savvy? Trains a bi-encoder with hard negatives
  necessity    does a model call a tool when it needs one, and if not, did it know? Probes; trains nothing
  pbt          can a probe on hidden states pick the right arguments? Trains on the answers that the probe keeps
  evaluate     how do all systems compare on all suites? One table; trains nothing
  generate     what does a benchmark for my catalog look like? Makes and audits one; trains nothing
  report       what do these runs say together? One page, report.html
  doctor       does this machine work? Versions, devices, caches, extras, and a self-test

Commands that people use
  toolsavvy                                              the quickstart: two-stage ToolGen and its rivals, one table
  toolsavvy dry_run=true                                 check everything, print the plan, do nothing
  toolsavvy method=doctor                                look at this machine, then try a small run
  toolsavvy method=evaluate 'retriever=[bm25,dense]'     compare retrievers
  toolsavvy method=evaluate catalog=jsonl catalog.path=my_tools
                                                         your own tools: tools.jsonl and queries.jsonl
  toolsavvy method=toolgen model=qwen3_4b trainer=gpu    another model, on a GPU
  toolsavvy method=generate generator=mcq catalog=aws    questions about the tools of a catalog
  toolsavvy -m seed=0,1,2                                three seeds, then one table of the jobs
  toolsavvy -m +sweep=five_configurations                a sweep of conf/sweep/, and a report at its end
  toolsavvy -m method=toolgen tuning=lora,full resume=true
                                                         again: skips what is done, continues what was cut off
  toolsavvy experiment=contrastive_aws                   a claim of conf/experiment/: what it shows, what it costs
  toolsavvy method=report runs='outputs/quickstart/*'    what finished runs say together
  toolsavvy method=toolgen --cfg job                     print a whole configuration

With no GROUP named the experiment is `quickstart`; name one (method, model, ...) and nothing of it is used.
{groups}
Results
  outputs/<experiment or method>/<date>_<time>-<token>[/<job>]/
    results.jsonl  every number with its interval      predictions/  per query, and TREC files
    run.json       versions, commit, seconds, memory   config.yaml   everything that was set
    status.json    running, done or failed             run.log       log and traceback
    history.csv    learning curves                     model/        reloads with from_pretrained
    report.html    of method=report                    wandb/        offline unless WANDB_API_KEY is set

Hydra's own flags: -m/--multirun, --cfg job|hydra|all, --info, --config-dir (options of your own), --hydra-help.
Completion in bash: eval "$(toolsavvy -sc install=bash)". Notebooks over finished runs: notebooks/.
Exit codes: 0 done, 1 a job failed, 2 something in the command or its input has to be mended first.
The last line of every error says what to do. Pages for your own catalog, model, method, suite, retriever: README.md
"""


def help_text(groups: dict[str, tuple[str, ...]]) -> str:
    """The help with the menu of every group."""
    shown = {name: options for name, options in groups.items() if name not in ("hydra", "paths")}
    width = max(len(name) for name in shown) + 2
    rows = [
        textwrap.fill(f"  {name:<{width}}{' '.join(options)}", WIDTH, subsequent_indent=" " * (width + 2))
        for name, options in shown.items()
    ]
    return HELP.format(groups="\n".join(["", "Groups", *rows, ""]))
