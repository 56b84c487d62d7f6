from __future__ import annotations

from typing import Any

import pytest
import torch

from toolsavvy.catalog import Catalog, Tool, split_words
from toolsavvy.errors import UserError
from toolsavvy.indexing import SCHEMES, codes
from toolsavvy.models.text import TextEncoder, chat_frame
from toolsavvy.models.virtual import DOCUMENT_START, ToolModel, add_virtual_tokens
from world import toy_lm, toy_set, toy_tokenizer, toy_tools

DATA = toy_set(12)


def both_ends(model: Any) -> list[torch.Tensor]:
    return [model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach()]


def build(
    catalog: Catalog = DATA.catalog, scheme: str = "atomic", *, tied: bool = True, padded: int = 0, **options: Any
) -> tuple[list[torch.Tensor], ToolModel]:
    """The embeddings before, and the tool model."""
    tokenizer = toy_tokenizer(list(DATA.catalog.documents))
    model = toy_lm(tokenizer, tied=tied, padded=padded)
    before = [m.clone() for m in both_ends(model)]
    book = codes(catalog, scheme, branches=2)
    return before, add_virtual_tokens(model, tokenizer, catalog, book, chat_frame(tokenizer), **options)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("padded", [0, 3, 64])
@pytest.mark.parametrize("init", ["name", "document"])
def test_new_rows_of_both_ends_are_means_of_their_words_and_old_rows_stay(tied: bool, padded: int, init: str) -> None:
    before, tools = build(tied=tied, padded=padded, init=init)
    after = both_ends(tools.model)
    plain = TextEncoder(toy_tokenizer(list(DATA.catalog.documents)))
    known = len(tools.tokenizer) - len(tools.new_ids)
    assert (after[0].data_ptr() == after[1].data_ptr()) == tied
    for old, new in zip(before, after, strict=True):
        assert len(new) >= len(tools.tokenizer)
        torch.testing.assert_close(new[:known], old[:known], rtol=0, atol=0)
        for tool, (token,) in zip(DATA.catalog.tools, tools.codes, strict=True):
            pieces = plain.encode(f"{split_words(tool.name)} {tool.group}")
            if init == "document":
                pieces += plain.encode(tool.description)[:DOCUMENT_START]
            by_hand = sum(old[p].double() for p in pieces) / len(pieces)
            torch.testing.assert_close(new[token].double(), by_hand, rtol=0, atol=1e-6)
    if not tied:
        assert not torch.allclose(after[0][list(tools.new_ids)], after[1][list(tools.new_ids)])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("padded", [0, 64])
def test_random_rows_are_seeded_distinct_and_as_wide_as_the_models_own(tied: bool, padded: int) -> None:
    _, first = build(tied=tied, padded=padded, init="random", seed=1)
    _, again = build(tied=tied, padded=padded, init="random", seed=1)
    _, other = build(tied=tied, padded=padded, init="random", seed=2)
    new = list(first.new_ids)
    for a, b, c in zip(both_ends(first.model), both_ends(again.model), both_ends(other.model), strict=True):
        assert torch.equal(a, b)
        assert not torch.allclose(a[new], c[new])
        assert torch.cdist(a[new], a[new]).fill_diagonal_(9).min() > 0.1
        assert float(a[new].std()) == pytest.approx(first.model.config.initializer_range, rel=0.3)


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    tokenizer = toy_tokenizer(list(DATA.catalog.documents))
    model = toy_lm(tokenizer)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    add_virtual_tokens(model, tokenizer, DATA.catalog, codes(DATA.catalog), chat_frame(tokenizer), init="random")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_gives_each_tool_a_code_of_its_own(scheme: str) -> None:
    before, tools = build(scheme=scheme)
    assert len(set(tools.codes)) == len(DATA.catalog)
    assert tools.tool_ids == tuple(t.id for t in DATA.catalog.tools)
    assert (tools.fingerprint, tools.scheme) == (DATA.catalog.fingerprint, scheme)
    assert tools.atomic == (scheme == "atomic")
    symbols = codes(DATA.catalog, scheme, branches=2)
    spelled = [tools.tokenizer.decode(code) for code in tools.codes]
    assert spelled == list(symbols.texts)
    if symbols.virtual:
        assert set(tools.new_ids) == {t for code in tools.codes for t in code}
        assert set(tools.text.encode(" ".join(spelled))).isdisjoint(tools.new_ids)
    else:
        assert tools.new_ids == ()
        assert all(torch.equal(a, b) for a, b in zip(before, both_ends(tools.model), strict=True))


def test_a_shared_symbol_starts_from_all_tools_below_it() -> None:
    before, tools = build(scheme="hierarchical")
    plain = TextEncoder(toy_tokenizer(list(DATA.catalog.documents)))
    shared = tools.codes[0][0]
    users = [t for t, code in zip(DATA.catalog.tools, tools.codes, strict=True) if shared in code]
    assert len(users) > 1
    pieces = [p for t in users for p in plain.encode(f"{split_words(t.name)} {t.group}")]
    by_hand = sum(before[0][p].double() for p in pieces) / len(pieces)
    torch.testing.assert_close(both_ends(tools.model)[0][shared].double(), by_hand, rtol=0, atol=1e-6)


def test_one_tool_and_names_that_tokens_cannot_spell_work() -> None:
    for name in ("do_it", "…", "🎉"):
        _, tools = build(Catalog("one", (Tool("a b/&& <x>", name),)))
        assert [tools.tokenizer.decode(code) for code in tools.codes] == ["<<a b/&& <x>>>"]
        assert all(m[list(tools.new_ids)].isfinite().all() for m in both_ends(tools.model))


def test_a_token_that_exists_is_refused() -> None:
    tools = toy_tools(DATA)
    frame, book = tools.frame, codes(DATA.catalog)
    rows = tools.model.get_input_embeddings().weight.shape
    with pytest.raises(UserError) as error:
        add_virtual_tokens(tools.model, tools.tokenizer, DATA.catalog, book, frame)
    assert book.symbols[0][0] in error.value.what
    assert error.value.where == "model"
    assert "base model" in error.value.expected
    assert "resume_from" in error.value.fix
    assert tools.model.get_input_embeddings().weight.shape == rows
