from __future__ import annotations

import json
from dataclasses import replace

import pytest
from argument_tasks import subnet_task, toy_writer

from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.errors import UserError
from toolsavvy.parameters.generating import generate


def test_greedy_and_samples_come_task_by_task_and_follow_from_themselves_alone() -> None:
    model, tokenizer, prompts = toy_writer()
    tasks = [subnet_task(i) for i in range(3)]
    options = {"samples": 2, "max_tokens": 12}
    found = generate(model, tokenizer, tasks, prompts, **options)
    assert [(g.task_id, g.index) for g in found] == [(t.id, i) for t in tasks for i in range(3)]
    alone = generate(model, tokenizer, tasks[1:2], prompts, batch_size=1, **options)
    assert alone == found[3:6]
    assert generate(model, tokenizer, tasks, prompts, max_tokens=12) == [g for g in found if g.index == 0]
    other = generate(model, tokenizer, tasks, prompts, seed=1, **options)
    assert [g for g in other if g.index == 0] == [g for g in found if g.index == 0]
    assert other != found


def test_nothing_is_drawn_twice_and_a_torn_line_is_dropped(tmp_path, monkeypatch) -> None:
    model, tokenizer, prompts = toy_writer()
    tasks = [subnet_task(i) for i in range(3)]
    whole = generate(model, tokenizer, tasks, prompts, samples=2, max_tokens=8)
    wanted: list[int] = []
    draw = LocalSampler.draw

    def counting(self, asked, indices, **options) -> None:
        wanted.append(sum(map(len, indices)))
        draw(self, asked, indices, **options)

    monkeypatch.setattr(LocalSampler, "draw", counting)

    def again(samples: int = 2):
        wanted.clear()
        return generate(model, tokenizer, tasks, prompts, samples=samples, max_tokens=8, store=tmp_path)

    assert again(1) == [g for g in whole if g.index < 2]
    assert wanted == [3, 3]
    assert again() == whole
    assert wanted == [3]
    assert again() == whole
    assert wanted == []
    file = max(tmp_path.glob("*.jsonl"), key=lambda path: path.stat().st_size)
    file.write_bytes(file.read_bytes()[:-20])  # killed while it wrote
    assert again() == whole
    assert wanted == [1]
    assert all(json.loads(line) for line in file.read_text().splitlines())


def test_another_models_answers_are_not_taken(tmp_path) -> None:
    tasks = [subnet_task()]
    first, second = toy_writer(0), toy_writer(1)
    own = generate(second[0], second[1], tasks, second[2], max_tokens=8)
    generate(first[0], first[1], tasks, first[2], max_tokens=8, store=tmp_path)
    assert generate(second[0], second[1], tasks, second[2], max_tokens=8, store=tmp_path) == own
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_samples_at_temperature_zero_are_refused() -> None:
    model, tokenizer, prompts = toy_writer()
    with pytest.raises(UserError, match="greedy") as caught:
        generate(model, tokenizer, [subnet_task()], prompts, samples=2, temperature=0)
    assert caught.value.where == "temperature"
    assert "temperature=0.7" in caught.value.fix


def test_constrained_answers_are_kept_apart_and_their_greedy_one_begins_an_object(tmp_path) -> None:
    model, tokenizer, prompts = toy_writer()
    tasks = [subnet_task(i) for i in range(2)]
    free = generate(model, tokenizer, tasks, prompts, max_tokens=12, store=tmp_path)
    held = generate(model, tokenizer, tasks, prompts, max_tokens=12, store=tmp_path, constrained=True)
    assert held != free
    assert all(g.text.startswith('{"VpcId": "') for g in held)  # the only required field, and the first
    assert generate(model, tokenizer, tasks, prompts, max_tokens=12, store=tmp_path) == free
    closed = {"type": "object", "properties": {"Only": {"enum": ["a"]}}, "required": ["Only"]}
    tool = replace(tasks[0].tool, parameters=closed)
    other = replace(tasks[0], tools=(tool,))
    (found,) = generate(model, tokenizer, [other], prompts, max_tokens=40, store=tmp_path, constrained=True)
    assert (found.text, found.finished) == ('{"Only": "a"}', True)
