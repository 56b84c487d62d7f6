"""A run's model/ behind an OpenAI-compatible server on loopback answers as it answers us.

The server is tests/chat_server.py around plain transformers: no code of ours takes part in an answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from openai import OpenAI
from transformers import AutoModelForCausalLM, AutoTokenizer

from chat_server import Answer, chat_server
from toolsavvy.catalog import Query
from toolsavvy.models.serving import rendered
from toolsavvy.models.tuning import Tuning, load, save
from toolsavvy.models.virtual import ToolModel
from toolsavvy.retrieval.toolgen import ToolGen
from toolsavvy.training.rows import query_rows
from world import toy_set, toy_tools, train_toy

DATA = toy_set(8)


def taught(kind: str) -> ToolModel:
    """A toy that has learnt its training queries."""
    tools = toy_tools(DATA, tuning=Tuning(kind))
    train_toy(tools, query_rows(tools, DATA.catalog, DATA.train, 64), epochs=15, rate=1e-2)
    return tools


def behave(folder: Path) -> Any:
    """What a server does with a request: template, greedy generation by the generation config, text."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def answer(body: dict[str, Any], before: int) -> Answer:
        ids = tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        out = model.generate(**ids, max_new_tokens=body["max_tokens"])
        return Answer(tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True))

    return answer


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_a_served_model_answers_as_ours_does(tmp_path: Path, kind: str) -> None:
    tools = taught(kind)
    save(tools, tmp_path / "model")
    queries: list[Query] = list(DATA.train)[:12]
    wanted, ours = [], load(tmp_path / "model")
    for query in queries:  # by hand, id by id, from the frame of training
        prompt = ours.frame.wrap(ours.text.encode(query.text))
        with torch.no_grad():
            row = ours.model.generate(  # type: ignore[operator]
                torch.tensor([prompt]), max_new_tokens=4, do_sample=False, eos_token_id=ours.eos_id
            )[0]
        wanted.append(ours.tokenizer.decode(row[len(prompt) :], skip_special_tokens=True))
    with chat_server(behave(tmp_path / "model")) as server, OpenAI(base_url=server.url, api_key="none") as client:
        given = [
            client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": q.text}], max_tokens=4, temperature=0
            )
            .choices[0]
            .message.content
            for q in queries
        ]
    assert given == wanted
    names = dict(zip(tools.tool_ids, (tools.tokenizer.decode([c[0]]) for c in tools.codes), strict=True))
    gold = sum(text.startswith(tuple(names[t] for t in q.relevant)) for text, q in zip(given, queries, strict=True))
    assert gold > len(queries) / 2  # what was taught comes out, as the text of a virtual token
    first = ToolGen(ours).fit(DATA.catalog).search(queries, 1).indices[:, 0]
    assert sum(text.startswith(names[tools.tool_ids[i]]) for i, text in zip(first, given, strict=True)) > 6


def test_prompts_rows_and_ends_are_those_of_training(tmp_path: Path) -> None:
    tools = toy_tools(DATA, tuning=Tuning("full"))
    model: Any = tools.model
    model.resize_token_embeddings(len(tools.tokenizer) + 13, mean_resizing=False)  # a vocabulary padded to a multiple
    kept = model.get_input_embeddings().weight.detach().clone()
    model.generation_config.do_sample, model.generation_config.temperature = True, 0.6
    save(tools, tmp_path / "model")
    assert torch.equal(model.get_input_embeddings().weight, kept)
    assert model.config.vocab_size == len(kept)
    assert model.generation_config.temperature == 0.6
    served = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert served.get_input_embeddings().weight.shape[0] == served.config.vocab_size == len(tools.tokenizer)
    assert torch.equal(served.get_output_embeddings().weight, kept[: len(tools.tokenizer)])
    told = json.loads((tmp_path / "model" / "generation_config.json").read_text())
    assert tools.eos_id in told["eos_token_id"]
    assert not told.get("do_sample")
    assert "temperature" not in told
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert rendered(tokenizer, "two words") == tools.frame.wrap(tools.text.encode("two words"))
