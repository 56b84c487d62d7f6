"""A model's decoder blocks, found by structure, so that no family has to be listed."""

from __future__ import annotations

from typing import Any

from torch import nn

from toolsavvy.errors import UserError
from toolsavvy.models.tuning import plain


def blocks(model: Any) -> list[nn.Module]:
    """The decoder's blocks in order; block i of layer i (counted from 1) is entry i - 1.

    Hooks on them see the residual stream: their input is layer i - 1, their output layer i, before the final norm.

    Args:
        model: a causal LM, its inner model, a multimodal one with a text decoder, or PEFT's wrapper of one.

    Raises:
        UserError: there is no list of modules as long as the config's num_hidden_layers, or more than one.
    """
    return list(_found(model)[1])


def backbone(model: Any) -> nn.Module:
    """The module that runs the blocks: takes token ids, has no output matrix over the vocabulary.

    Raises:
        UserError: as `blocks`.
    """
    return _found(model)[0]


def embeddings(model: Any) -> nn.Module:
    """The layer that turns token ids into vectors.

    Some families scale its output or add positions to it before block 1 (Gemma 1 and 2, GPT-2); layer 0 of captured
    states is what enters block 1.
    """
    return plain(model).get_input_embeddings()


def text_config(model: Any) -> Any:
    """The config of the text decoder, which multimodal models keep inside their own."""
    config = plain(model).config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def _found(model: Any) -> tuple[nn.Module, nn.ModuleList]:
    """The blocks and the module that holds them."""
    root = plain(model)
    length = getattr(text_config(model), "num_hidden_layers", None)
    lists = {name: child for name, child in root.named_modules() if isinstance(child, nn.ModuleList)}
    names = _outermost([name for name, child in lists.items() if len(child) == length])
    if len(names) > 1:  # a tower for images may be as deep: the text's embeddings stand beside the text's blocks
        embedded = embeddings(model)
        beside = [n for n in names if any(child is embedded for child in _holder(root, n).children())]
        names = beside or names
    if len(names) != 1:
        shown = ", ".join(f"{name} ({len(child)})" for name, child in lists.items()) or "no module list at all"
        raise UserError(
            f"the decoder's blocks can't be told in {type(root).__name__}: {len(names)} module lists have the length "
            f"{length}; found: {shown}",
            where="model",
            expected="one module list as long as the config's num_hidden_layers",
            fix="use a decoder-only language model in transformers' own format",
        )
    return _holder(root, names[0]), lists[names[0]]


def _holder(root: nn.Module, name: str) -> nn.Module:
    return root.get_submodule(name.rpartition(".")[0])


def _outermost(names: list[str]) -> list[str]:
    """Without those inside another one: a block may hold as many experts as there are blocks."""
    return [n for n in names if not any(n.startswith(f"{other}.") for other in names)]
