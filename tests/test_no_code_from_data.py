"""The sources hold no way by which data could run as code: no pickle, no eval, no unsafe YAML, no shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

SOURCE = Path(__file__).parents[1] / "src" / "toolsavvy"
FILES = sorted(SOURCE.rglob("*.py"))
CONF = Path(__file__).parents[1] / "conf"
MODULES = frozenset(("pickle", "cPickle", "joblib", "dill", "cloudpickle", "shelve", "marshal", "code", "runpy", "pty"))
CALLS = frozenset(("eval", "exec", "compile", "__import__"))
SHELLS = frozenset(("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"))
LOADS = {"torch.load": "weights_only", "np.load": "allow_pickle", "numpy.load": "allow_pickle"}
"""Readers, and the argument that each must be given."""
SAFE = {"weights_only": True, "allow_pickle": False}
LOADER = "yaml.load with another loader"
ALLOWED = {
    ("training/fitting.py", "import pickle"): "for its exception alone",
    ("models/loading.py", "import pickle"): "for its exception alone",
    ("catalogs/openapi.py", LOADER): "a subclass of the safe loader, as the test below sees",
    ("methods/overview/gathering.py", LOADER): "the same",
}
"""(file, finding) -> why it is no way in."""


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or an attribute."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def findings(tree: ast.AST) -> Iterator[str]:
    """What could run data."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {a.name}" for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield f"import {node.module}"
        elif isinstance(node, ast.Call):
            yield from in_call(node)
        elif isinstance(node, ast.arguments):
            pairs = [*zip(node.args[::-1], node.defaults[::-1], strict=False)]
            pairs += [*zip(node.kwonlyargs, node.kw_defaults, strict=True)]
            yield from (
                f"default {a.arg}=True" for a, d in pairs if a.arg == "trust_remote_code" and is_constant(d, True)
            )
        elif isinstance(node, ast.AnnAssign) and dotted(node.target) == "trust_remote_code":
            if is_constant(node.value, True):
                yield "default trust_remote_code=True"
        elif isinstance(node, ast.Attribute) and dotted(node) in (
            "OmegaConf.load",
            "yaml.unsafe_load",
            "yaml.full_load",
        ):
            yield dotted(node)


def in_call(node: ast.Call) -> Iterator[str]:
    """What a call could run."""
    name, given = dotted(node.func), {k.arg: k.value for k in node.keywords}
    if name in CALLS or name in SHELLS:
        yield f"{name}()"
    if name in LOADS:
        argument = LOADS[name]
        if not is_constant(given.get(argument), SAFE[argument]):
            yield f"{name} without {argument}={SAFE[argument]}"
    if name == "yaml.load" and "Safe" not in ast.unparse(node):
        yield LOADER
    for argument in ("shell", "trust_remote_code", "allow_pickle"):
        if is_constant(given.get(argument), True):
            yield f"{argument}=True"
    is_loader = name.endswith(("load_from_checkpoint", "trainer.fit", "trainer.validate", "trainer.test"))
    if is_loader and "ckpt_path" in given and not is_constant(given.get("weights_only"), True):
        yield f"{name} without weights_only=True"


def test_no_module_can_run_what_it_reads() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), what)
        for path in FILES
        for what in findings(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(ALLOWED)


def test_where_pickle_is_allowed_only_its_exception_is_used() -> None:
    for file in (file for file, what in ALLOWED if what == "import pickle"):
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        used = {dotted(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and dotted(n).startswith("pickle.")}
        assert used == {"pickle.UnpicklingError"}, file


def test_the_other_loaders_of_yaml_are_safe_ones() -> None:
    from toolsavvy.catalogs import openapi
    from toolsavvy.methods.overview import gathering

    for loader in (openapi._yaml_loader(), gathering.FAST):
        for tag in ("!!python/object/apply:os.getcwd []", "!!python/name:os.getcwd", "!!python/module:os"):
            with pytest.raises(yaml.constructor.ConstructorError):
                yaml.load(f"a: {tag}", loader)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from joblib import load", "eval('1')", "exec(text)", "torch.load(p)", "yaml.unsafe_load(t)",
        "torch.load(p, weights_only=False)", "np.load(p)", "np.load(p, allow_pickle=True)", "yaml.load(t, yaml.Loader)",
        "subprocess.run(c, shell=True)", "os.system(c)", "def f(a, trust_remote_code=True): ...",
        "class A:\n    trust_remote_code: bool = True", "trainer.fit(m, ckpt_path=p)",
        "from_pretrained(p, trust_remote_code=True)",
    ],
)  # fmt: skip
def test_the_scan_sees_them(code: str) -> None:
    assert list(findings(ast.parse(code)))


def test_no_option_trusts_the_code_of_a_model_unasked() -> None:
    asked = {}
    for path in sorted(CONF.rglob("*.yaml")):
        node = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if node.get("trust_remote_code"):
            asked[path.relative_to(CONF).as_posix()] = path.read_text(encoding="utf-8")
    for name, text in asked.items():
        assert "code" in text.split("trust_remote_code")[0] or "#" in text.split("trust_remote_code")[1], name
