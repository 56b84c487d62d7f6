from __future__ import annotations

import ast
import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from toolsavvy.config.compose import compose, typed
from toolsavvy.config.methods import METHODS
from toolsavvy.config.outline import keywords
from toolsavvy.config.planning import make_plan, show_plan

HEAVY = ("torch", "transformers", "pytorch_lightning", "sentence_transformers", "faiss", "wandb")


@pytest.mark.parametrize(
    "choices",
    [
        "catalog=toy",
        "catalog=toy method=evaluate 'retriever=[bm25,dense,finetuned]'",
        "catalog=toy method=contrastive 'retriever=[bm25,dense]' 'method.mining.retriever=${retriever.bm25}'",
    ],
)
def test_checking_and_planning_a_run_loads_nothing_heavy(choices: str, tmp_path: Path) -> None:
    overrides = [*shlex.split(choices), "dry_run=true", f"paths.outputs={tmp_path}"]
    code = (
        "import sys; from toolsavvy.__main__ import main; code = main(sys.argv[1:]); "
        f"print('loaded', [m for m in {HEAVY} if m in sys.modules], code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *overrides], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "loaded [] 0", done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"doctor", "report", "generate", "necessity", "pbt", "custom"}))
def test_every_method_that_works_has_a_plan(name: str) -> None:
    overrides = [f"method={name}", "catalog=toy", "model=toy", "encoder=toy"]
    plan = make_plan(typed(compose(overrides).config))
    assert plan.systems and plan.suites == ("catalog_test",)


def test_the_plan_of_necessity_follows_what_is_asked_for() -> None:
    def stages(*overrides: str) -> str:
        return "; ".join(make_plan(typed(compose(["method=necessity", "model=toy", *overrides]).config)).stages)

    whole = stages("method.teach.questions=40", "method.steering.alphas=[0.1]", "method.prefill=5")
    for part in ("teach: 40 questions", "sample: 10 answers", "neutral", "probe (ours)", "steer", "prefill"):
        assert part in whole, part
    assert "teach" not in stages() and "steer" not in stages()
    assert "probe" not in stages("probe=none") and "probe" not in stages("method.sampling.backend=server")
    assert stages("questions=recorded", "questions.model=Qwen3-4B") == "labels as recorded"


def test_the_plan_of_pbt_follows_what_is_asked_for() -> None:
    def stages(*overrides: str) -> str:
        return "; ".join(make_plan(typed(compose(["method=pbt", "model=toy", *overrides]).config)).stages)

    whole = stages("method.filter.rounds=2")
    for part in ("150 labelled", "zero-shot, 3-shot", "seed SFT: 150 rows", "round 1", "round 2", "PGR of seed, probe"):
        assert part in whole, part
    bare = stages("method.filter.arms=[]", "method.rerank.of=[]", "method.baselines=false")
    assert "round" not in bare and "PGR" not in bare and "zero-shot" not in bare


def test_a_plan_without_training_names_no_training_stage() -> None:
    def printed(method: str) -> str:
        job = compose([f"method={method}", "catalog=toy", "model=toy", "encoder=toy"])
        console = Console(file=io.StringIO(), width=200)
        show_plan(job, typed(job.config), console)
        return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]

    assert "memorization" in printed("toolgen").partition("stages")[2]
    rows = printed("evaluate").partition("stages")[2]
    assert "memorization" not in rows and "about 0" not in rows


def test_the_plan_of_a_generator_names_it_and_its_sources() -> None:
    overrides = ["method=generate", "catalog=toy", "encoder=toy", "+catalog@generator.sources.more=toy"]
    plan = make_plan(typed(compose(overrides).config))
    assert plan.stages == ("generator: ToolRet", "read catalog", "read more")
    assert plan.training_tokens == 0


@pytest.mark.parametrize(
    ("overrides", "systems"),
    [
        ([], ("bm25", "zero_shot", "contrastive_hard")),
        (["retriever=[bm25,dense]"], ("bm25", "dense", "contrastive_hard")),
        (["retriever=dense", "retriever.dense.index=HNSW8"], ("dense", "zero_shot", "contrastive_hard")),
        (["method.rivals=false", "retriever=dense"], ("zero_shot", "contrastive_hard")),
        (["method.instructions=[with]", "method.rivals=false"], ("zero_shot-inst", "contrastive_hard-inst")),
        (
            ["method.instructions=[without,with]", "method.rivals=false"],
            ("zero_shot", "zero_shot-inst", "contrastive_hard", "contrastive_hard-inst"),
        ),
    ],
)
def test_a_plan_of_contrastive_names_its_stages_and_the_systems_of_the_table(
    overrides: list[str], systems: tuple[str, ...]
) -> None:
    choices = ["method=contrastive", "catalog=toy", "encoder=toy", "retriever=bm25", "tuning=full"]
    plan = make_plan(typed(compose([*choices, "method.recipes.hard.epochs=2", *overrides]).config))
    assert set(plan.systems) == set(systems) and len(plan.systems) == len(systems)
    assert plan.stages == ("contrastive (hard): 72 pairs x 2 epochs, 3 hard negatives each, tuning=full",)
    assert plan.training_tokens and plan.training_tokens > 72 * 2 * 4 * 10


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ("def f(a, *, b=1): ...", {"a", "b"}),
        ("def f(a, **more): ...", None),
        ("class f:\n    def __init__(self, a, b=2): ...", {"a", "b"}),
        ("class f: ...", set()),
        ("class f(Base): ...", None),
        ("@dataclass\nclass f:\n    a: int", None),
    ],
)
def test_the_arguments_of_a_target_are_read_from_its_source(source: str, taken: set[str] | None) -> None:
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    assert keywords(node) == taken
