"""Conversations with a language model: one interface, answered here by a local causal model; `server` asks a server."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Protocol

from toolsavvy.config.schema import ModelConfig
from toolsavvy.models.framing import Message, framed

_FENCE = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """What came back for one conversation.

    Args:
        text: the answer; None when there is none after all retries (time-out, refusal, a prompt that is too long).
        error: why there is none.
        prompt_tokens: of the conversation; 0 where nobody counted them.
        completion_tokens: of the answer.
        is_cached: it was given before, so that these tokens cost nothing now.
        finish_reason: why it ends there, in the server's word (stop, length, tool_calls); "" where nobody said.
        refusal: what a server says that it does not answer.
    """

    text: str | None
    error: str = ""
    prompt_tokens: int = field(default=0, compare=False)
    completion_tokens: int = field(default=0, compare=False)
    is_cached: bool = field(default=False, compare=False)
    finish_reason: str = field(default="", compare=False)
    refusal: str = field(default="", compare=False)


Heard = Callable[[int, Reply], None]
"""Told of every answer the moment it is there: position of its conversation, reply."""


@dataclass(frozen=True)
class Usage:
    """What asking a model came to.

    Args:
        calls: answers that it gave.
        cached: answers that were there already.
        failed: conversations without an answer.
        prompt_tokens: of the calls.
        completion_tokens: of the calls.
        cached_prompt_tokens: of the cached answers, which cost nothing now.
        cached_completion_tokens: of the cached answers.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    cached_completion_tokens: int = 0


class Chat(Protocol):
    """Anything that answers conversations."""

    name: str
    """What tables and caches call the model."""

    def answer(
        self,
        conversations: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        heard: Heard | None = None,
    ) -> list[Reply]:
        """One reply per conversation, in their order; one that fails is a `Reply` without text, not an exception.

        Args:
            conversations: each ends with a user's turn.
            max_tokens: longest answer.
            temperature: 0 is greedy. Above, equal conversations of one call get answers of their own.
            heard: called in this thread with each reply as soon as it is there, in the order in which they come.

        Raises:
            UserError: nothing can be answered at all (no such model, a server that is down).
        """
        ...


def final_text(text: str) -> str:
    """The answer without the reasoning that some models write before it (`<think>…</think>`).

    Reasoning that was cut off before its end is no answer, whatever it holds.
    """
    answer = text.rpartition("</think>")[2].strip()
    return "" if answer.startswith("<think>") else answer


def parse_json(text: str | None) -> dict[str, Any] | None:
    """The JSON object that an answer holds, in a fence or among other words; None when there is none.

    Strict: no repair. Of several objects the first complete one counts; NaN and infinity are no JSON.
    """
    if text is None:
        return None
    text = final_text(text)
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    for part in (*_FENCE.findall(text), text):
        for match in re.finditer(r"\{", part):
            try:
                value, _ = decoder.raw_decode(part, match.start())
            except (ValueError, RecursionError):
                continue
            return value
    return None


def sole_json(text: str | None) -> dict[str, Any] | None:
    """The JSON object that an answer is, alone or in one fence; None for anything else.

    For verdicts: a judge that quotes a verdict out of a document, before its own or without one, has given none.
    """
    body = final_text(text or "")
    if len(body) > 6 and body.startswith("```") and body.endswith("```"):
        body = body[3:-3].removeprefix("json").strip()
    try:
        value = json.loads(body, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that says a thing twice says nothing."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


class LocalChat:
    """Answers of a causal language model through transformers.

    The model's chat template makes the frame and turns' texts are encoded apart from it, so that no text can become a
    special token. A tokenizer without a template gets `role: text` lines. Models that refuse a system turn get its
    text at the start of the first user turn. Equal (model, device) pairs share their weights in memory.

    Args:
        model: the config's model group.
        batch_size: conversations per forward pass, left-padded.
        max_input: tokens of a prompt; None is what the model reads. A longer one is not answered.
        thinking: let models that can reason before they answer.
        device: cpu, cuda, ...; None chooses.
        seed: of sampled answers, and of a toy's weights.

    Raises:
        UserError: on first use, a model that can't be loaded.
    """

    def __init__(
        self,
        model: ModelConfig | Mapping[str, Any],
        batch_size: int = 8,
        max_input: int | None = None,
        thinking: bool = False,
        device: str | None = None,
        seed: int = 0,
    ) -> None:
        self.spec = model if isinstance(model, ModelConfig) else ModelConfig(**model)
        self.batch_size, self.max_input, self.thinking = batch_size, max_input, thinking
        self.device, self.seed = device, seed
        spec = self.spec
        self.name = str(spec.id or spec.path or spec.wheel or "toy language model (random weights)")

    @property
    def loaded(self) -> LoadedModel:
        """Weights, tokenizer and text encoder, loaded when first needed."""
        return _load(json.dumps(asdict(self.spec), sort_keys=True), self.seed, self.device)

    def answer(
        self,
        conversations: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        heard: Heard | None = None,
    ) -> list[Reply]:
        """As `Chat.answer`; sampling follows the model's own generation settings but for the temperature."""
        prompts = [self.prompt(conversation) for conversation in conversations]
        limit = self.limit - max_tokens
        fits = [i for i, ids in enumerate(prompts) if len(ids) <= limit]
        replies = [Reply(None, f"the prompt has {len(ids)} tokens, {limit} can be read") for ids in prompts]
        fits.sort(key=lambda i: -len(prompts[i]))
        drawn: Counter[str] = Counter()
        for start in range(0, len(fits), self.batch_size):
            rows = fits[start : start + self.batch_size]
            # Samples hang on what is asked, not on how much was before it: a call that is continued goes on alike.
            batch = repr([prompts[i] for i in rows])
            draw, drawn[batch] = drawn[batch], drawn[batch] + 1
            found = self._generate([prompts[i] for i in rows], max_tokens, temperature, draw)
            for i, reply in zip(rows, found, strict=True):
                replies[i] = reply
                if heard:
                    heard(i, reply)
        return replies

    def prompt(self, conversation: Sequence[Message]) -> list[int]:
        """Token ids of a conversation up to where the answer starts, with one BOS where the model has one."""
        return framed(self.loaded.tokenizer, conversation, thinking=self.thinking).encode(
            self.loaded.tokenizer, self.loaded.text
        )[0]

    @property
    def limit(self) -> int:
        """Tokens that prompt and answer may have together."""
        config = self.loaded.model.config
        own = getattr(getattr(config, "text_config", config), "max_position_embeddings", None) or 2**31
        return min(own, self.max_input or own)

    def _generate(self, prompts: list[list[int]], max_tokens: int, temperature: float, draw: int) -> list[Reply]:
        """Answers of one batch; `draw` keeps the samples of equal batches apart."""
        import torch

        from toolsavvy.models.loading import quiet_transformers

        model, tokenizer = self.loaded.model, self.loaded.tokenizer
        pad: Any = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
        ids, mask = left_padded(prompts, pad, model.device)
        how: dict[str, Any] = {"do_sample": temperature > 0}
        how |= {"temperature": temperature} if temperature > 0 else {}
        with torch.inference_mode(), torch.random.fork_rng(), quiet_transformers():
            torch.manual_seed(int.from_bytes(sha256(f"{self.seed} {draw} {prompts}".encode()).digest()[:7]))
            output = model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=max_tokens, pad_token_id=pad, **how
            )
        rows = output[:, ids.shape[1] :]
        texts = [tokenizer.decode(row, skip_special_tokens=True) for row in rows]
        counts = [int((row != pad).sum()) for row in rows]  # what was written after the end is padding
        return [Reply(t, "", len(p), n) for t, p, n in zip(texts, prompts, counts, strict=True)]


@dataclass(frozen=True)
class LoadedModel:
    """A causal model ready to run.

    Args:
        model: transformers' model, in evaluation mode on its device.
        tokenizer: its fast tokenizer.
        text: encoder of plain text.
    """

    model: Any
    tokenizer: Any
    text: Any


@lru_cache(maxsize=1)
def _load(spec: str, seed: int, device: str | None) -> LoadedModel:
    """Load a model once for all that talk to it; `spec` is the model group as JSON."""
    import torch

    from toolsavvy.models.loading import load_base
    from toolsavvy.models.text import TextEncoder

    model, tokenizer = load_base(ModelConfig(**json.loads(spec)), seed=seed)
    place: Any = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return LoadedModel(model.to(place).eval(), tokenizer, TextEncoder(tokenizer))


def left_padded(prompts: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[Any, Any]:
    """Token ids and attention mask, int64 [prompt, time], every prompt ending in the last column."""
    import torch

    width = max(len(ids) for ids in prompts)
    ids = torch.full((len(prompts), width), pad, dtype=torch.int64)
    mask = torch.zeros((len(prompts), width), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt, dtype=torch.int64)
        mask[row, width - len(prompt) :] = 1
    return ids.to(device), mask.to(device)
