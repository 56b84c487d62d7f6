"""AWS operations and examples: schemas, example files, masking, splits, and the real wheel."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import random
import subprocess
import sys
import textwrap
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolsavvy import assets
from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool, split_words
from toolsavvy.catalogs import aws, aws_examples, aws_models
from toolsavvy.catalogs.aws_splits import HEADLINE, Splitter, Worked, names_tool, norm, sample
from toolsavvy.errors import UserError

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("TOOLSAVVY_SHARED_DATA", ROOT.parent / "shared" / "data"))
CONFIG = yaml.safe_load((ROOT / "conf" / "catalog" / "aws_network.yaml").read_text(encoding="utf-8"))
NETWORK = CONFIG["services"]

SHAPES: dict[str, Any] = {
    "Text": {"type": "string"},
    "Colour": {"type": "string", "enum": ["red", "blue"], "documentation": "<p>The colour. Second sentence.</p>"},
    "When": {"type": "timestamp"},
    "Bytes": {"type": "blob"},
    "Count": {"type": "long"},
    "Names": {"type": "list", "member": {"shape": "Text"}},
    "Tags": {"type": "map", "key": {"shape": "Text"}, "value": {"shape": "Text"}},
    "Node": {"type": "structure", "members": {"Name": {"shape": "Text"}, "Children": {"shape": "Nodes"}}},
    "Nodes": {"type": "list", "member": {"shape": "Node"}},
    "Either": {"type": "structure", "union": True, "members": {"A": {"shape": "Text"}, "B": {"shape": "Count"}}},
    "Anything": {"type": "structure", "document": True, "members": {}},
    "Input": {
        "type": "structure",
        "required": ["Colour"],
        "members": {
            "Colour": {"shape": "Colour"},
            "When": {"shape": "When", "documentation": "<p>A <code>time</code> &amp; a date.</p><p>More.</p>"},
            "Bytes": {"shape": "Bytes"},
            "Names": {"shape": "Names"},
            "Tags": {"shape": "Tags"},
            "Tree": {"shape": "Node"},
            "Either": {"shape": "Either"},
            "Anything": {"shape": "Anything"},
        },
    },
}


def model(full_name: str, operations: Mapping[str, str], shapes: Mapping[str, Any] = SHAPES) -> dict[str, Any]:
    return {
        "metadata": {"serviceFullName": full_name},
        "operations": {
            name: {"name": name, "documentation": text, "input": {"shape": "Input"}}
            for name, text in operations.items()
        },
        "shapes": shapes,
    }


def test_schema_holds_what_a_caller_must_know() -> None:
    (tool,) = aws_models.tools("ec2", model("Amazon EC2", {"PaintVpc": "<p>Paints a VPC.</p><ul><li>Once</li></ul>"}))
    assert (tool.id, tool.name, tool.group, tool.category) == ("ec2:PaintVpc", "PaintVpc", "ec2", "Amazon EC2")
    assert tool.description == "Paints a VPC.\nOnce"
    assert tool.parameters["required"] == ["Colour"]
    got = tool.parameters["properties"]
    assert got["Colour"] == {"type": "string", "enum": ["red", "blue"], "description": "The colour."}
    assert got["When"] == {"type": "string", "format": "date-time", "description": "A time & a date."}
    assert got["Bytes"] == {"type": "string", "contentEncoding": "base64"}
    assert got["Names"] == {"type": "array", "items": {"type": "string"}}
    assert got["Tags"] == {"type": "object", "additionalProperties": {"type": "string"}}
    children = got["Tree"]["properties"]["Children"]
    assert children == {"type": "array", "items": {"type": "object"}}  # cut where it meets itself
    assert got["Either"]["minProperties"] == got["Either"]["maxProperties"] == 1
    assert got["Anything"] == {}
    assert tool.returns == {"type": "object", "properties": {}}


def test_depth_and_size_of_a_schema_are_bounded() -> None:
    shapes: dict[str, Any] = {"Text": {"type": "string"}, "S0": {"type": "structure", "members": {}}}
    for i in range(1, 13):  # two members each: 2^12 paths
        members = {name: {"shape": f"S{i - 1}"} for name in ("left", "right")}
        shapes[f"S{i}"] = {"type": "structure", "members": members}
    shapes["Input"] = shapes["S12"]
    (tool,) = aws_models.tools("x", model("X", {"Do": ""}, shapes))
    text = json.dumps(tool.parameters)
    assert text.count('"left"') + text.count('"right"') <= 2 * aws_models.MAX_PROPERTIES
    node, depth = tool.parameters, 0
    while node.get("properties"):
        node, depth = node["properties"]["left"], depth + 1
    assert depth == aws_models.MAX_DEPTH


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>One</p>\n  <p>two   words</p>", "One\ntwo words"),
        ("a<br/>b", "a\nb"),
        ("<note><p>Note &lt;this&gt;</p></note><!-- not this -->", "Note <this>"),
        ("if 1 < 2 and 3 > 2", "if 1 < 2 and 3 > 2"),
        ("", ""),
    ],
)
def test_documentation_becomes_plain_text(markup: str, text: str) -> None:
    assert aws_models.plain_text(markup) == text


def test_newest_model_is_read() -> None:
    names = ["a/botocore/data/s3/2006-03-01/service-2.json", "a/botocore/data/s3/2020-01-01/service-2.json"]
    assert aws_models.latest([*reversed(names), "a/botocore/data/s3/2021-01-01/paginators-1.json"]) == {"s3": names[1]}


VPC = Tool("ec2:CreateVpc", "CreateVpc")
OPERATIONS = {"ec2": {"createvpc": VPC, "describevpcs": Tool("ec2:DescribeVpcs", "DescribeVpcs")}}


def parse(text: str, member: str = "awscli/examples/ec2/create-vpc.rst") -> list[aws_examples.Example]:
    return aws_examples.parse_file(member, text, OPERATIONS)[0]


def test_example_file_with_several_examples() -> None:
    text = """**Example 1: To create a VPC**

The following ``create-vpc`` example creates a *small* VPC.
It has `one tag <https://example.org/tag>`__. ::

    aws ec2 create-vpc \\
        --cidr-block 10.0.0.0/16

Output::

    {"secret": "output"}

For more information, see `Guide <https://example.org>`__.

**Example 2: To create a dedicated VPC**

**Note:** Costs extra.

This example creates a dedicated VPC.

Command::

  aws ec2 create-vpc --instance-tenancy dedicated
"""
    first, second = parse(text)
    assert (first.id, first.tool, first.title) == ("ec2/create-vpc#1", "ec2:CreateVpc", "To create a VPC")
    assert first.description == "The following create-vpc example creates a small VPC. It has one tag."
    assert first.masked_description == "The following example creates a small VPC. It has one tag."
    assert second.title == "To create a dedicated VPC"
    assert second.description == "Note: Costs extra. This example creates a dedicated VPC."


def test_underlined_titles_and_commands_without_a_blank_line() -> None:
    (example,) = parse("Create a VPC\n------------\n\nThis creates a VPC::\n  aws ec2 create-vpc\n\nOutput::\n\n  {}\n")
    assert (example.title, example.description) == ("Create a VPC", "This creates a VPC.")


def test_a_section_belongs_to_the_operation_that_it_shows() -> None:
    text = "**To check**\n\nThis lists VPCs. ::\n\n    aws ec2 describe-vpcs\n"
    assert [e.tool for e in parse(text)] == ["ec2:DescribeVpcs"]
    assert [e.tool for e in parse(text, "awscli/examples/ec2/misnamed.rst")] == ["ec2:DescribeVpcs"]
    both = "**To do**\n\nThis does. ::\n\n    aws ec2 describe-vpcs\n    aws ec2 create-vpc\n"
    assert [e.tool for e in parse(both)] == ["ec2:CreateVpc"]


@pytest.mark.parametrize(
    ("member", "text", "reason"),
    [
        (
            "awscli/examples/s3/cp.rst",
            "**To copy**\n\nCopies. ::\n\n    aws s3 cp a b\n",
            "not an operation of the API",
        ),
        ("awscli/examples/ec2/wait/vpc-exists.rst", "**To wait**\n\nWaits.", "waiter"),
        ("awscli/examples/global_options.rst", "``--debug``", "help text"),
        ("awscli/examples/ec2/create-vpc.rst", "Creates. ::\n\n    aws ec2 create-vpc\n", "no title"),
        ("awscli/examples/ec2/create-vpc.rst", "**To create**\n\n    aws ec2 create-vpc\n", "no description"),
    ],
)
def test_skipped_examples_are_counted_by_reason(member: str, text: str, reason: str) -> None:
    examples, skipped = aws_examples.parse_file(member, text, OPERATIONS)
    assert examples == [] and skipped == {reason: 1}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("The following create-vpc example creates", "The following example creates"),
        ("The following create-vpc creates", "The following command creates"),
        ("The aws ec2 create-vpc command creates", "The command creates"),
        ("The following ec2 create-vpc command creates", "The following command creates"),
        ("The following create-vpcs example creates", "The following example creates"),
        ("Use create-vpc to create. Create-vpc needs", "Use this command to create. This command needs"),
        ("aws ec2 create-vpc creates", "This command creates"),
        ("An aws ec2 create-vpc call", "A call"),
        ("The CreateVpc action or create_vpc", "The action or this command"),
        ("the file create-vpc.json", "the file input.json"),
        ("see create-vpc-endpoint and --create-vpc", "see create-vpc-endpoint and --create-vpc"),
        ("Creates a VPC", "Creates a VPC"),
    ],
)
def test_masking_keeps_the_grammar(text: str, masked: str) -> None:
    assert aws_examples.mask(text, "ec2", "create-vpc", "CreateVpc") == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("The following publish example sends", "The following example sends"),
        ("Run aws sns publish to publish", "Run this command to publish"),
        ("To publish a message", "To publish a message"),
    ],
)
def test_a_command_that_is_a_verb_stays_a_verb(text: str, masked: str) -> None:
    assert aws_examples.mask(text, "sns", "publish", "Publish") == masked


# --- splits, on random worlds -------------------------------------------------------------------


def world(seed: int, tools: int = 60) -> tuple[Catalog, dict[str, list[Worked]]]:
    """Random tools whose examples share titles and descriptions now and then."""
    draw = random.Random(seed)
    catalog = Catalog("world", tuple(Tool(f"s{i % 3}:Do{i}", f"Do{i}", group=f"s{i % 3}") for i in range(tools)))
    by_tool = {}
    for tool in catalog.tools:
        texts = [(draw.randrange(150), draw.randrange(200)) for _ in range(draw.choice([0, 1, 1, 1, 2, 3, 5]))]
        if texts:
            by_tool[tool.id] = [Worked(f"{tool.id}#{n}", f"Title {t}", f"Text {d}") for n, (t, d) in enumerate(texts)]
    return catalog, by_tool


def splitter(seed: int, **changes: Any) -> Splitter:
    catalog, by_tool = world(seed)
    given = {"taught_share": 0.5, "validation_share": 0.2, "seed": seed, "train_titles": False} | changes
    return Splitter(catalog, by_tool, **given)


def golds(queries: Sequence[Query]) -> set[str]:
    return {tool for query in queries for tool in query.relevant}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("train_titles", [False, True])
def test_splits_keep_their_promises(seed: int, train_titles: bool) -> None:
    _, by_tool = world(seed)
    splits = splitter(seed, train_titles=train_titles).split()
    for one, two in combinations(splits, 2):
        assert not {norm(q.text) for q in splits[one]} & {norm(q.text) for q in splits[two]}
    taught = golds(splits["train"])
    assert golds(splits["test_seen"]) <= taught
    assert not golds(splits["test_unseen"]) & taught
    seen = [q for q in splits["validation"] if q.tier == "seen"]
    unseen = [q for q in splits["validation"] if q.tier == "unseen"]
    assert golds(seen) <= taught
    assert not golds(unseen) & golds(splits["test_unseen"])
    for query in splits["test_mixed"]:
        assert golds([query]) & taught and golds([query]) - taught
    assert {q.subset for q in splits["train"]} == ({"short", "verbose"} if train_titles else {"verbose"})
    assert {q.subset for q in splits["trained_titles"]} <= {"short"}
    owners = defaultdict(set)
    for tool, examples in by_tool.items():
        for example in examples:
            owners[norm(example.title)].add(tool)
            owners[norm(example.description)].add(tool)
    for queries in splits.values():
        assert len({q.id for q in queries}) == len(queries)
        for query in queries:
            assert set(query.relevant) == owners[norm(query.text)]  # every operation with that text is a gold


def test_a_taught_operation_keeps_a_further_example() -> None:
    tools = tuple(Tool(f"s:Do{i}", f"Do{i}", group="s") for i in range(20))
    by_tool = {t.id: [Worked(f"{t.id}#{n}", f"T {t.id} {n}", f"D {t.id} {n}") for n in range(2)] for t in tools[:8]}
    by_tool |= {t.id: [Worked(f"{t.id}#0", f"T {t.id}", f"D {t.id}")] for t in tools[8:]}
    settings = {"taught_share": 0.4, "validation_share": 0.0, "seed": 3, "train_titles": False}
    splits = Splitter(Catalog("c", tools), by_tool, **settings).split()
    assert {k: len(v) for k, v in splits.items()} == {
        "train": 8, "validation": 0, "test_seen": 16, "test_unseen": 24, "test_mixed": 0, "trained_titles": 8
    }  # fmt: skip
    assert golds(splits["test_seen"]) == golds(splits["train"]) == {t.id for t in tools[:8]}


def test_seed_decides_and_nothing_else() -> None:
    assert splitter(1).split() == splitter(1).split()
    catalog, by_tool = world(1)
    settings = {"taught_share": 0.5, "validation_share": 0.2, "train_titles": False}
    assert len({str(Splitter(catalog, by_tool, seed=s, **settings).split()) for s in range(3)}) == 3


def test_sample_is_stratified_and_prefers_what_can_be_tested() -> None:
    tools = [Tool(f"{g}:{i}", str(i), group=g) for g, n in (("a", 60), ("b", 30), ("c", 9)) for i in range(n)]
    several = {f"a:{i}" for i in range(10)}
    kept = sample(tools, 33, several, 0)
    sizes = {group: sum(i.startswith(group) for i in kept) for group in "abc"}
    assert sizes == {"a": 20, "b": 10, "c": 3}
    assert several <= kept
    assert sample(tools, 33, several, 1) != kept
    assert sample(tools, len(tools), several, 0) == {t.id for t in tools}
    for wrong in (0, 100):
        with pytest.raises(UserError, match="99 of these services") as caught:
            sample(tools, wrong, several, 0)
        assert caught.value.where == "catalog.operations" and "1 to 99" in caught.value.expected


def test_name_overlap_is_by_whole_words() -> None:
    tool = Tool("ec2:CreateVpc", "CreateVpc")
    assert names_tool("To create a VPC.", tool)
    assert not names_tool("To create VPCs", tool)


# --- a small wheel ------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A wheel with two services, built here."""
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "awscli-small.whl"
    ec2 = model("Amazon EC2", {"CreateVpc": "<p>Creates.</p>", "DescribeVpcs": "<p>Describes.</p>", "DeleteVpc": ""})
    s3 = model("Amazon S3", {"PutObject": "<p>Puts.</p>"})
    example = "**To {0}**\n\nThe following ``{1}`` example does {0}. ::\n\n    aws {2} {1}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("awscli/botocore/data/ec2/2016-11-15/service-2.json", json.dumps(ec2))
        archive.writestr("awscli/botocore/data/s3/2006-03-01/service-2.json", json.dumps(s3))
        archive.writestr("awscli/examples/ec2/create-vpc.rst", example.format("make", "create-vpc", "ec2") * 2)
        archive.writestr("awscli/examples/ec2/describe-vpcs.rst", example.format("look", "describe-vpcs", "ec2"))
        archive.writestr("awscli/examples/s3api/put-object.rst", example.format("store", "put-object", "s3api"))
        archive.writestr("awscli/examples/s3/cp.rst", example.format("copy", "cp", "s3"))
    return str(path)


def test_loads_a_local_wheel(small: str) -> None:
    loaded = aws.load("small", path=small)
    assert [t.id for t in loaded.catalog.tools] == [
        "ec2:CreateVpc",
        "ec2:DeleteVpc",
        "ec2:DescribeVpcs",
        "s3:PutObject",
    ]
    assert loaded.headline == HEADLINE
    assert loaded.audit["operations without description"] == 1
    assert loaded.audit["repeated examples dropped"] == 1
    assert loaded.audit["skipped examples: not an operation of the API"] == 1
    assert loaded.audit["operations with examples"] == 3
    only = aws.load("small", services=["s3api"], path=small)
    assert [t.id for t in only.catalog.tools] == ["s3:PutObject"]
    assert len(aws.load("small", path=small, with_examples_only=True).catalog) == 3
    texts = {q.text for qs in aws.load("small", path=small, mask_names=False).splits.values() for q in qs}
    assert "The following put-object example does store." in texts


def test_damaged_parse_cache_is_rebuilt(small: str, tmp_path: Path) -> None:
    before = aws.load("small", path=small)
    (ec2,) = (tmp_path / "cache" / "assets" / "parsed").glob("*/ec2.json")
    ec2.write_text(ec2.read_text()[:100])
    assert aws.load("small", path=small) == before
    ec2.unlink()
    assert aws.load("small", path=small) == before


def wrong(what: str, **changes: Any) -> Callable[[str], UserError]:
    def check(path: str) -> UserError:
        with pytest.raises(UserError, match=what) as caught:
            aws.load(**({"name": "small", "path": path} | changes))
        return caught.value

    return check


def test_user_errors_name_the_key(small: str, tmp_path: Path) -> None:
    error = wrong("unknown service 'ecs2'", services=["ecs2"])(small)
    assert error.where == "catalog.services" and "ec2" in error.fix
    error = wrong("no service is chosen", services=[])(small)
    assert error.where == "catalog.services" and error.expected
    error = wrong("1.5 is no share", taught_share=1.5)(small)
    assert error.where == "catalog.taught_share" and "0 to 1" in error.expected
    error = wrong("9 operations wanted, 3", operations=9)(small)
    assert error.where == "catalog.operations"
    error = wrong("no such file")(str(tmp_path / "none.whl"))
    assert "none.whl" in error.where
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("other.txt", "")
    error = wrong("no service models")(str(tmp_path / "other.whl"))
    assert "other.whl" in error.where and "awscli" in error.expected


# --- the pinned wheel ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network() -> RetrievalSet:
    return aws.load("aws_network", NETWORK)


@pytest.mark.parametrize("name", ["aws", "aws_network"])
def test_configuration_spells_out_every_argument_and_its_default(name: str) -> None:
    config = yaml.safe_load((ROOT / "conf" / "catalog" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert config.pop("_target_") == "toolsavvy.catalogs.aws.load"
    assert config.pop("expand") is None  # every catalog has it; the loader does not see it
    defaults = {key: p.default for key, p in inspect.signature(aws.load).parameters.items()}
    changed = {"name", "services"} if name == "aws_network" else set()
    assert {k for k, v in config.items() if v != defaults.get(k, inspect.Parameter.empty)} == changed
    assert config.keys() == defaults.keys()


def test_network_catalog_as_documented(network: RetrievalSet) -> None:
    assert len(network.catalog) == 1351
    assert all(tool.description for tool in network.catalog.tools)
    assert all(tool.parameters["type"] == "object" for tool in network.catalog.tools)
    vpc = network.catalog.tools[network.catalog.index["ec2:CreateVpc"]]
    assert vpc.parameters["properties"]["InstanceTenancy"]["enum"] == ["default", "dedicated", "host"]
    share = network.audit["short queries naming their operation"] / network.audit["short queries"]
    assert 0.5 < share < 0.6
    assert network.audit["queries with several golds"] > 0


def test_no_query_shows_a_command_or_a_name(network: RetrievalSet) -> None:
    for queries in network.splits.values():
        for query in queries:
            assert "\n" not in query.text and "Output::" not in query.text and "aws ec2 " not in query.text
            for gold in query.relevant:
                name = network.catalog.tools[network.catalog.index[gold]].name
                kebab = split_words(name).replace(" ", "-")
                assert name not in query.text and f" {kebab} " not in query.text


@pytest.mark.parametrize("operations", [300, 400])
def test_sampled_catalogs_leave_enough_to_measure(operations: int) -> None:
    loaded = aws.load("aws_network", NETWORK, operations=operations)
    assert len(loaded.catalog) == operations
    assert abs(len(golds(loaded.train)) - operations / 2) <= 2
    for split in HEADLINE:
        for subset in ("short", "verbose"):
            assert sum(q.subset == subset for q in loaded.splits[split]) >= 120


def test_same_in_another_process_with_another_hash_seed(network: RetrievalSet) -> None:
    code = f"""
        import hashlib
        from toolsavvy.catalogs import aws
        loaded = aws.load("aws_network", {NETWORK!r})
        print(loaded.catalog.fingerprint, hashlib.sha256(repr(loaded.splits).encode()).hexdigest())
    """
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, env=environment
    )
    splits = hashlib.sha256(repr(network.splits).encode()).hexdigest()
    assert done.stdout.split() == [network.catalog.fingerprint, splits]


def test_warm_load_needs_no_pip_and_little_time(network: RetrievalSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_pip_download", lambda *_: pytest.fail("pip was called"))
    start = time.process_time()
    aws.load("aws_network", NETWORK)
    assert time.process_time() - start < 2


@pytest.mark.skipif(not (SHARED / "aws_network").exists(), reason="shared data is absent")
def test_titles_agree_with_an_independent_reading_of_the_same_files() -> None:
    _, examples = aws.Source.open(None).read(NETWORK)
    titles = defaultdict(set)
    for example in examples:
        titles[example.tool].add(example.title)
    lines = (SHARED / "aws_network" / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["source"].startswith("awscli")]
    agree = sum(row["title"] in titles[f"{row['service']}:{row['operation']}"] for row in rows)
    assert len(rows) > 900 and agree / len(rows) >= 0.98
