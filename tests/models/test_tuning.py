from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from toolsavvy.errors import UserError
from toolsavvy.indexing import SCHEMES
from toolsavvy.models.forward import logits, states
from toolsavvy.models.tuning import TOOLS_FILE, Tuning, adapt, interpolate, load, merged, plain, restore, save, snapshot
from toolsavvy.models.virtual import ToolModel
from toolsavvy.retrieval.toolgen import ToolGen
from toolsavvy.training.rows import memorization_rows, query_rows
from world import toy_set, toy_tools, train_toy

DATA = toy_set(6)
KINDS = ("lora", "full")


def trained(scheme: str = "atomic", kind: str = "lora", *, tied: bool = True, epochs: int = 2) -> ToolModel:
    tools = toy_tools(DATA, scheme, tied=tied, tuning=Tuning(kind, rank=4, alpha=8))
    rows = [
        *query_rows(tools, DATA.catalog, DATA.train, 32),
        *memorization_rows(tools, DATA.catalog, ["reverse"], 32),  # brings the new rows in as inputs
    ]
    train_toy(tools, rows, epochs=epochs, rate=1e-2)
    return tools


@torch.no_grad()
def outputs(model: Any, tools: ToolModel) -> torch.Tensor:
    """Logits of the whole vocabulary on text with virtual tokens in it."""
    ids = [*tools.frame.wrap(tools.text.encode("create the invoice")), *tools.codes[0], *tools.codes[-1], tools.eos_id]
    model.eval()
    return model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("scheme", ["atomic", "hierarchical"])
def test_one_step_of_lora_moves_the_new_rows_of_both_ends_and_no_base_weight(tied: bool, scheme: str) -> None:
    tools = toy_tools(DATA, scheme, tied=tied)
    before = {n: p.detach().clone() for n, p in tools.model.named_parameters()}
    fresh = [
        e.weight.detach().clone() for e in (tools.model.get_input_embeddings(), tools.model.get_output_embeddings())
    ]
    adapt(tools, Tuning(rank=4), seed=0)
    rows = query_rows(tools, DATA.catalog, DATA.train, 32) + memorization_rows(tools, DATA.catalog, ["reverse"], 32)
    train_toy(tools, rows, epochs=1, rate=1e-2, batch=len(rows))
    folded = merged(tools.model)
    new = list(tools.new_ids)
    old = [i for i in range(len(tools.tokenizer)) if i not in tools.new_ids]
    for embedding, start in zip((folded.get_input_embeddings(), folded.get_output_embeddings()), fresh, strict=True):
        assert ((embedding.weight[new] - start[new]).abs().max(1).values > 0).all()
        assert torch.equal(embedding.weight[old], start[old])
    frozen = {
        n.replace(".base_layer", "").removeprefix("base_model.model."): p for n, p in tools.model.named_parameters()
    }
    checked = [n for n in before if n in frozen]
    assert len(checked) >= len(before) - 2
    assert all(torch.equal(frozen[n], before[n]) and not frozen[n].requires_grad for n in checked)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_training_pass_equals_the_models_own(kind: str, tied: bool) -> None:
    tools = trained(kind=kind, tied=tied)
    ids = torch.tensor([[*tools.frame.prefix, *tools.text.encode("a song"), *tools.codes[1], *tools.frame.end]])
    tools.model.eval()
    with torch.no_grad():
        ours = logits(tools.model, states(tools.model, ids, torch.ones_like(ids))[0])
        torch.testing.assert_close(ours, tools.model(ids).logits[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_model_and_adapter_reload_with_plain_transformers_and_peft(kind: str, tied: bool, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tools = trained(kind=kind, tied=tied)
    expected = outputs(tools.model, tools)
    save(tools, tmp_path / "model")
    torch.testing.assert_close(outputs(tools.model, tools), expected, rtol=0, atol=0)  # saving changes nothing
    reloaded = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    assert reloaded.config.tie_word_embeddings == tied
    torch.testing.assert_close(outputs(reloaded, tools), expected, rtol=0, atol=2e-5)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    for tool, (token,) in zip(DATA.catalog.tools, tools.codes, strict=True):
        assert tokenizer.encode(f"<<{tool.id}>>", add_special_tokens=False) == [token]
    assert (tmp_path / "model" / "adapter").is_dir() == (kind == "lora")
    assert not list((tmp_path / "model").rglob("*.bin"))
    if kind == "lora":
        base = toy_tools(DATA, tied=tied).model  # the base model, resized, before any training
        adapted = PeftModel.from_pretrained(base, tmp_path / "model" / "adapter")
        torch.testing.assert_close(outputs(adapted, tools), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_saved_model_reloads_and_ranks_identically(scheme: str, tmp_path: Path) -> None:
    tools = trained(scheme)
    save(tools, tmp_path / "model")
    again = load(tmp_path / "model", fingerprint=DATA.catalog.fingerprint)
    assert (again.codes, again.new_ids, again.frame, again.tool_ids) == (
        tools.codes,
        tools.new_ids,
        tools.frame,
        tools.tool_ids,
    )
    assert again.text.encode("<|im_end|> <<toy:archive_song>>") == tools.text.encode("<|im_end|> <<toy:archive_song>>")
    queries = DATA.splits["test_seen"]
    for search in ("search", "search_free"):
        ours, theirs = (getattr(ToolGen(t).fit(DATA.catalog), search)(queries, 5) for t in (tools, again))
        assert (ours.indices == theirs.indices).all()
        assert abs(ours.scores - theirs.scores)[ours.scores > -1e9].max() < 1e-4


def test_a_reloaded_model_can_be_trained_on_and_saved_again(tmp_path: Path) -> None:
    save(trained(), tmp_path / "one")
    tools = adapt(load(tmp_path / "one"), Tuning(rank=4))
    train_toy(tools, query_rows(tools, DATA.catalog, DATA.train, 32), epochs=1, rate=1e-2)
    expected = outputs(tools.model, tools)
    save(tools, tmp_path / "one")  # over itself
    torch.testing.assert_close(outputs(load(tmp_path / "one").model, tools), expected, rtol=0, atol=2e-5)


def test_another_catalog_is_refused(tmp_path: Path) -> None:
    save(toy_tools(DATA), tmp_path / "model")
    other = toy_set(5).catalog
    with pytest.raises(UserError) as error:
        load(tmp_path / "model", fingerprint=other.fingerprint)
    assert "another catalog" in error.value.what
    assert error.value.where == str(tmp_path / "model")
    assert other.fingerprint[:12] in error.value.expected
    assert DATA.catalog.fingerprint[:12] in error.value.expected
    assert "same catalog" in error.value.fix
    with pytest.raises(UserError) as error:
        ToolGen(load(tmp_path / "model")).fit(other)
    assert "another catalog" in error.value.what
    assert other.fingerprint[:12] in error.value.expected


@pytest.mark.parametrize("damage", ["tools.json", "half a record", "weights", "no weights"])
def test_a_damaged_model_is_a_user_error(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save(toy_tools(DATA), folder)
    weights = folder / "model.safetensors"
    if damage == "tools.json":
        (folder / TOOLS_FILE).write_text('{"scheme": "ato')
    elif damage == "half a record":
        record = json.loads((folder / TOOLS_FILE).read_text())
        (folder / TOOLS_FILE).write_text(json.dumps({k: v for k, v in record.items() if k != "codes"}))
    elif damage == "weights":
        weights.write_bytes(weights.read_bytes()[:-100])
    else:
        weights.unlink()
    with pytest.raises(UserError) as error:
        load(folder)
    assert "damaged" in error.value.what
    assert str(folder) in error.value.where
    assert error.value.expected
    assert "again" in error.value.fix


def test_a_folder_that_is_no_tool_model_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path)
    assert str(tmp_path) in error.value.what
    assert error.value.where == "method.resume_from"
    assert TOOLS_FILE in error.value.expected
    assert "model/" in error.value.fix


def test_saving_where_nothing_can_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError) as error:
        save(toy_tools(DATA), tmp_path / "file" / "model")
    assert "could not save" in error.value.what
    assert "write permission" in error.value.expected
    assert sorted(os.listdir(tmp_path)) == ["file"]  # noqa: PTH208


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_restore_and_interpolate(kind: str) -> None:
    tools = toy_tools(DATA, tuning=Tuning(kind, rank=4))
    start, before = snapshot(tools.model), outputs(tools.model, tools)
    train_toy(tools, query_rows(tools, DATA.catalog, DATA.train, 32), epochs=1, rate=1e-2)
    end, after = snapshot(tools.model), outputs(tools.model, tools)
    assert not torch.allclose(before, after)
    restore(tools.model, start)
    assert torch.equal(outputs(tools.model, tools), before)
    middle = interpolate(start, end, 0.25)
    assert all(torch.allclose(middle[n], 0.75 * start[n] + 0.25 * end[n], atol=1e-6) for n in start)
    restore(tools.model, interpolate(start, end, 1.0))
    torch.testing.assert_close(outputs(tools.model, tools), after, rtol=0, atol=1e-6)


def test_adapters_are_seeded() -> None:
    def adapter(seed: int) -> dict[str, torch.Tensor]:
        return snapshot(adapt(toy_tools(DATA), Tuning(rank=4), seed).model)

    first, again, other = adapter(0), adapter(0), adapter(1)
    assert all(torch.equal(first[n], again[n]) for n in first)
    assert any(not torch.equal(first[n], other[n]) for n in first)


def test_the_plain_model_is_the_one_under_the_adapters() -> None:
    tools = toy_tools(DATA)
    inner = tools.model
    assert plain(inner) is inner
    assert plain(adapt(tools, Tuning()).model) is inner
