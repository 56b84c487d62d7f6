"""States of real weights: a trained model has outlier dimensions and attention sinks that random ones lack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from test_capture import oracle

from toolsavvy.config.schema import ModelConfig
from toolsavvy.hidden.capture import capture
from toolsavvy.hidden.states import state_of
from toolsavvy.models.loading import load_base
from toolsavvy.models.prompts import Rendered

CONFIG = Path(__file__).parents[2] / "conf" / "model" / "smollm2_135m.yaml"
QUESTIONS = ("What is 17 + 25?", "Who wrote the first dictionary of English, and when was it printed?", "Is water wet?")


def test_smollm2s_states_equal_the_librarys(tmp_path: Path) -> None:
    model, tokenizer = load_base(ModelConfig(**yaml.safe_load(CONFIG.read_text(encoding="utf-8"))))
    prompts = []
    for question in QUESTIONS:
        before = tokenizer("<|im_start|>system\nYou may use a calculator.<|im_end|>\n<|im_start|>user\n" + question)
        after = tokenizer("<|im_end|>\n<|im_start|>assistant\n")
        prompts.append(Rendered((*before["input_ids"], *after["input_ids"]), len(before["input_ids"])))
    states = capture(model, prompts, tmp_path / "a", positions=12, names=QUESTIONS)
    expected = oracle(model, prompts, 12)
    assert len(states.cells) == 2 * 31 * 12
    for i, cell in enumerate(states.cells):
        truth = expected[cell.of][cell.layer, 12 + cell.position]
        error = np.abs(states.read(i) - truth).max(1) / np.abs(truth).max(1)
        assert error.max() < 1e-3, cell
    cell = states.cells[-2]
    last = state_of(model, prompts[1], cell)
    truth = expected[cell.of][cell.layer, 12 + cell.position, 1]
    np.testing.assert_allclose(last, truth, rtol=1e-3, atol=1e-3 * float(np.abs(truth).max()))
