"""Sampled answers of an OpenAI-compatible server (vLLM and the like): for models and numbers beyond one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from toolsavvy.decoding.chance import row_key
from toolsavvy.decoding.samples import Heard, Sample
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message, Reply
from toolsavvy.models.prompts import Prompt
from toolsavvy.models.server import Ask, ServerChat

VERSION = 1
"""Of how requests are made and answers are written down."""


class ServerSampler:
    """Samples of a model that a server runs.

    A sample is one request with a seed of its own, so that servers that keep to seeds give it again. Calls that the
    server has parsed (`tool_calls`) are written into the text as `<tool_call>{json}</tool_call>`. What a server of
    this name answers may change with its weights: the key is that of its name, address and parameters.

    Args:
        chat: the server.
        seed: of the samples.
        suffix: what else the samples follow from, for `key` (the revision that the server runs).
        waves: how many samples of a prompt are asked for at first where few may be enough; doubled each time.
    """

    def __init__(self, chat: ServerChat, *, seed: int = 0, suffix: str = "", waves: int = 1) -> None:
        self.chat, self.seed, self.name, self.waves = chat, seed, chat.name, max(1, waves)
        facts = (VERSION, chat.name, chat.base_url, sorted(chat.parameters.items(), key=str), seed, suffix)
        self.key = sha256(repr(facts).encode()).hexdigest()

    def draw(
        self,
        prompts: Sequence[Prompt],
        indices: Sequence[Sequence[int]],
        *,
        temperature: float,
        max_tokens: int,
        heard: Heard,
    ) -> None:
        """As `Sampler.draw`, in waves, several requests at once.

        Raises:
            UserError: the server can't be used at all, or some samples have no answer after all retries; the others
                were told.
        """
        waiting = [list(own) for own in indices]
        stopped, failed = set[int](), list[tuple[int, Reply]]()
        wave = self.waves
        while any(waiting):
            asks, owners = [], []
            for i, own in enumerate(waiting):
                now, waiting[i] = ([], []) if i in stopped else (own[:wave], own[wave:])
                asks += [self._ask(prompts[i], k, temperature, max_tokens) for k in now]
                owners += [(i, k) for k in now]

            def tell(at: int, reply: Reply, owners: Sequence[tuple[int, int]] = owners) -> None:
                place, index = owners[at]
                if reply.text is None and not reply.finish_reason:
                    failed.append((place, reply))
                elif place not in stopped and heard(place, _sample(prompts[place], index, reply)):
                    stopped.add(place)

            self.chat.ask(asks, heard=tell)
            wave *= 2
        if missing := [(place, reply) for place, reply in failed if place not in stopped]:
            raise _missing(missing, sum(map(len, indices)))

    def _ask(self, prompt: Prompt, index: int, temperature: float, max_tokens: int) -> Ask:
        digest = repr([prompt.messages, prompt.tools, prompt.prefill])
        seed = row_key(self.seed, digest, float(temperature), index)[0] >> 33  # servers take 31 bits
        fields: dict[str, Any] = {"seed": seed}
        if prompt.tools:
            fields["tools"] = [_function(tool) for tool in prompt.tools]
        messages = prompt.messages
        if prompt.prefill:
            # vLLM's way to let the model go on with a turn of its own.
            fields |= {"add_generation_prompt": False, "continue_final_message": True}
            messages = (*messages, Message("assistant", prompt.prefill))
        return Ask(messages, max_tokens, temperature, fields)


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as servers want it, whether or not it already is in its envelope."""
    return dict(tool) if "function" in tool else {"type": "function", "function": dict(tool)}


def _sample(prompt: Prompt, index: int, reply: Reply) -> Sample:
    """A refusal is an answer, and so is nothing (all tokens spent on reasoning)."""
    text = reply.refusal if reply.text is None else reply.text
    return Sample(index, prompt.prefill + text, reply.completion_tokens, reply.finish_reason != "length")


def _missing(failed: Sequence[tuple[int, Reply]], wanted: int) -> UserError:
    place, reply = failed[0]
    return UserError(
        f"{len(failed)} of {wanted} samples have no answer; the first: {reply.error}", where=f"prompt {place + 1}",
        expected="an answer to every request",
        fix="see what the server says and start again: samples that are there are not drawn again",
    )  # fmt: skip
