"""generator=parambench: the set as files with their audit, inside a run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from toolsavvy.assets import AWSCLI, atomic_write
from toolsavvy.catalogs.parambench import save
from toolsavvy.errors import UserError
from toolsavvy.generators.parambench import cards
from toolsavvy.generators.parambench.audit import audit
from toolsavvy.generators.parambench.building import Settings, build
from toolsavvy.generators.parambench.cached import fingerprint, operations_as_tools, versions
from toolsavvy.generators.product import Product
from toolsavvy.parameters.cloud.world import require_cloud
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import write_json


class ParamBench:
    """Parameter tasks by ParamBench's recipe on AWS's network API, every reference call executed on moto.

    Source: 2608.03071, section 3. Deviations: another API, since the paper's is not public; instructions are rendered
    by program, so that what each value follows from is known; levels by our own printed rule.

    Args:
        n: tasks.
        seed: of everything that is drawn: the same seed gives the same bytes.
        operations: ask for these alone; None: all that have stories.
        name: of the set.

    Raises:
        UserError: a number out of range, an unknown operation, or moto is not installed.
    """

    def __init__(
        self, n: int = 1022, seed: int = 0, operations: Sequence[str] | None = None, name: str = "parambench_aws"
    ) -> None:
        if n < 1:
            raise UserError(
                f"{n} is out of range", where="generator.n", expected="1 or more", fix="set generator.n=1022"
            )
        require_cloud()
        self.settings = Settings(n, seed, tuple(sorted(set(operations or ()))))
        self.name = name

    def fingerprint(self) -> str:
        """As `Generator.fingerprint`: settings, our code, the wheel of the schemas, moto's version."""
        return fingerprint(self.settings)

    def generate(self, run: Run) -> Product:
        """Write tasks.jsonl, tools.jsonl, audit.json and README.md."""
        with run.stage("play"):
            tools = operations_as_tools()
            made = build(self.settings, tools)
        with run.stage("audit"):
            found = audit(made.tasks)
        facts = {**{k: v for k, v in asdict(self.settings).items() if v}, "awscli": AWSCLI.version}
        with run.stage("write"):
            files = save(run.dir, made.tasks, tools.values())
            refused = dict(made.refused)
            report = {"name": self.name, "counts": dict(made.counts), "refused": refused, **found.as_json()}
            write_json(run.dir / "audit.json", report)
            with atomic_write(run.dir / "README.md", text=True) as file:
                file.write(cards.card(self.name, found, facts, versions()))
        return Product(
            self.name,
            cards.tables(found, made.counts),
            {"audit_failed": found.failures()},
            (*files, "audit.json", "README.md"),
            samples=lambda count: cards.sampled(made.tasks, count, self.settings.seed),
        )
