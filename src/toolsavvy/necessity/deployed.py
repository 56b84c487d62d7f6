"""The necessity probe as a run leaves it in `model/`: two small files without pickle, and an example that runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.necessity.probe_card import AGAIN, ProbeCard, read_card, unreadable, write_card
from toolsavvy.probes.problems import Fits

CARD, WEIGHTS, EXAMPLE = "probe.json", "probe.safetensors", "example.py"
TOLERANCE = 0.05
"""Probability by which the example's score may differ: other kernels and precisions move it, other weights more."""
_TENSORS = ("weights", "bias", "mean", "scale")
_EXAMPLE = '''"""Does this model need the tool for a question? Usage: python example.py "What is 348 * 917?"."""

import sys
from pathlib import Path

from toolsavvy.necessity.deployed import load_probe

probe = load_probe(Path(__file__).parent)
model, tokenizer = probe.load_model()
question = sys.argv[1] if len(sys.argv) > 1 else probe.card.known_question
score = probe.needs_tool(model, tokenizer, question)
print(f"{score:.4f}", "call the tool" if score >= probe.card.threshold else "answer directly")
'''


@dataclass(frozen=True)
class DeployedProbe:
    """A linear probe for necessity, ready for use.

    Args:
        weights: float32 [d], on standardised states.
        bias: added to their sum.
        mean: float32 [d], of the training states.
        scale: float32 [d], their standard deviation.
        card: what it is.
        folder: where it was loaded from.
    """

    weights: np.ndarray
    bias: float
    mean: np.ndarray
    scale: np.ndarray
    card: ProbeCard
    folder: Path = Path()

    @classmethod
    def of(cls, fits: Fits, row: int, card: ProbeCard) -> DeployedProbe:
        """One of the probes that were fitted together."""
        return cls(fits.weights[row], float(fits.bias[row]), fits.mean[row], fits.scale[row], card)

    def log_odds(self, states: np.ndarray) -> np.ndarray:
        """Log-odds that the tool is needed, float64 [item], from states [item, d]."""
        standardised = (np.asarray(states, dtype=np.float64) - self.mean) / self.scale
        return standardised @ self.weights.astype(np.float64) + self.bias

    def prompt(self, question: str) -> Prompt:
        """The prompt that the probe reads the end of."""
        system = (Message("system", self.card.system),) if self.card.system else ()
        return Prompt((*system, Message("user", question)), self.card.tools)

    def needs_tool(self, model: Any, tokenizer: Any, question: str) -> float:
        """Probability that this model needs the tool for a question, by one forward pass up to the probe's layer.

        Raises:
            UserError: the model has another width or fewer layers than the probe's.
        """
        from toolsavvy.classification import sigmoid
        from toolsavvy.hidden.blocks import blocks, text_config
        from toolsavvy.hidden.states import state_of

        width, depth = text_config(model).hidden_size, len(blocks(model))
        if width != len(self.weights) or depth < self.card.cell.layer:
            raise self._other(f"the model has width {width} and {depth} layers")
        prompt = render(tokenizer, _encoder(tokenizer), self.prompt(question), thinking=self.card.thinking)
        return float(sigmoid(self.log_odds(state_of(model, prompt, self.card.cell)[None]))[0])

    def prefill(self, score: float) -> str:
        """The sentence that the answer is to begin with."""
        return self.card.prefills.call if score >= self.card.threshold else self.card.prefills.answer

    def load_model(self) -> tuple[Any, Any]:
        """The probe's model and tokenizer; a question whose score is known tells whether it is the right one.

        Raises:
            UserError: the model can't be loaded, or gives the known question another score.
        """
        from toolsavvy.models.loading import load_base

        spec = self.card.model
        if spec.source == "path" and spec.path and not Path(spec.path).is_absolute():
            spec = replace(spec, path=str((self.folder / spec.path).resolve()))
        model, tokenizer = load_base(spec, seed=self.card.seed)
        self.check(model.eval(), tokenizer)
        return model, tokenizer

    def check(self, model: Any, tokenizer: Any) -> None:
        """Compare the score of the known question.

        Raises:
            UserError: it is another one.
        """
        found = self.needs_tool(model, tokenizer, self.card.known_question)
        if not abs(found - self.card.known_score) <= TOLERANCE:
            raise self._other(f"the known question gets {found:.3f} instead of {self.card.known_score:.3f}")

    def _other(self, what: str) -> UserError:
        return UserError(
            f"this is not the model that the probe was trained on: {what}", where=str(self.folder / CARD),
            expected=f"{self.card.model_name}, layer {self.card.cell.layer}, width {len(self.weights)}",
            fix="load the model, revision and chat template that probe.json names, or train a probe for this one",
        )  # fmt: skip


@lru_cache(maxsize=1)
def _encoder(tokenizer: Any) -> Any:
    """The encoder of plain text, made once for a tokenizer."""
    from toolsavvy.models.text import TextEncoder

    return TextEncoder(tokenizer)


def save_probe(folder: Path | str, probe: DeployedProbe, model: Any, tokenizer: Any, known_question: str) -> None:
    """Write the probe, what it is, and an example of its use; other files in the folder stay.

    Args:
        folder: of the run's model.
        probe: to be written.
        model: the probe's, to score the known question.
        tokenizer: its tokenizer.
        known_question: any question of the set.

    Raises:
        UserError: the disk is full, or the model is not the probe's.
    """
    import safetensors.numpy

    folder = Path(folder)
    score = probe.needs_tool(model, tokenizer, known_question)
    card = replace(probe.card, known_question=known_question, known_score=score)
    tensors = {name: np.atleast_1d(np.asarray(getattr(probe, name), dtype=np.float32)) for name in _TENSORS}
    with atomic_write(folder / WEIGHTS) as file:
        file.write(safetensors.numpy.save(tensors))
    with atomic_write(folder / EXAMPLE, text=True) as file:
        file.write(_EXAMPLE)
    write_card(folder / CARD, card)


def load_probe(folder: Path | str) -> DeployedProbe:
    """Read a probe that `save_probe` wrote.

    Raises:
        UserError: a file is missing or damaged, or a field has no sense; with file and field.
    """
    folder = Path(folder).expanduser()
    card = read_card(folder / CARD)
    tensors = _tensors(folder / WEIGHTS)
    return DeployedProbe(
        tensors["weights"], float(tensors["bias"][0]), tensors["mean"], tensors["scale"], card, folder
    )  # fmt: skip


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """The probe's arrays, checked."""
    import safetensors.numpy
    from safetensors import SafetensorError

    try:
        found = safetensors.numpy.load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise unreadable(path, error) from error
    width = len(np.atleast_1d(found.get("weights", [])))
    for name in _TENSORS:
        expected = (1,) if name == "bias" else (width,)
        tensor = found.get(name)
        shape = None if tensor is None else tensor.shape
        where = f"{path}, field {name!r}"
        if tensor is None or shape != expected or not width:
            raise UserError(
                "missing" if tensor is None else f"shape {shape}", where=where, expected=f"shape {expected}", fix=AGAIN
            )
        if not np.isfinite(tensor.astype(np.float64)).all() or (name == "scale" and (tensor <= 0).any()):
            raise UserError("numbers that make no probe", where=where, expected="finite; scale above 0", fix=AGAIN)
    return {name: found[name].astype(np.float32) for name in _TENSORS}
