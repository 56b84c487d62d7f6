"""Models that read a query and a document together and give one number: cross-encoders, monoT5, yes-or-no models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from toolsavvy.errors import UserError, did_you_mean

KINDS = ("cross_encoder", "seq2seq", "causal")
SOURCES = ("hub", "path", "toy")
DTYPES = ("float32", "bfloat16", "float16")
Pair = tuple[str, str]


class Weights(NamedTuple):
    """Where a reranker's weights come from; two rerankers of one source share them in memory."""

    kind: str
    source: str
    id: str | None = None
    revision: str | None = None
    path: str | None = None
    dtype: str = "float32"
    device: str | None = None
    trust_remote_code: bool = False
    seed: int = 0

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.id or self.path or "toy reranker (random weights)"


class Reading(NamedTuple):
    """How a pair is put before a model that answers in words.

    Args:
        prompt: with {query} and {document}.
        positive: the vocabulary entry or word whose logit is the score.
        negative: the one that is subtracted from it; None takes the logit of `positive` alone.
    """

    prompt: str = ""
    positive: str = ""
    negative: str | None = None


class Scorer(Protocol):
    """A loaded model."""

    def score(self, pairs: Sequence[Pair], batch_size: int, max_length: int | None) -> np.ndarray:
        """Relevance of every (query, document), float32 [pair], higher is better."""
        ...

    @property
    def fingerprint(self) -> str:
        """sha256 over weights and reading, made once for one loaded model."""
        ...


@lru_cache(maxsize=1)
def load_scorer(weights: Weights, reading: Reading) -> Scorer:
    """Load a model once for all that use it.

    Raises:
        UserError: it is not there, is of another kind, or lacks the words it should answer with.
    """
    from toolsavvy.models.loading import quiet_transformers

    with quiet_transformers():
        if weights.kind == "cross_encoder":
            return CrossEncoderScorer(_toy_cross_encoder(weights) if weights.source == "toy" else _open(weights))
        model, tokenizer = _open(weights)
        return WordScorer(model, tokenizer, reading, seq2seq=weights.kind == "seq2seq")


def check_weights(weights: Weights) -> None:
    """Kind and source must be known and complete; nothing is loaded yet.

    Raises:
        UserError: one is not.
    """
    for key, value, options in (
        ("kind", weights.kind, KINDS), ("source", weights.source, SOURCES), ("dtype", weights.dtype, DTYPES),
    ):  # fmt: skip
        if value not in options:
            raise UserError(
                f"{value!r} is no valid value", where=f"reranker.{key}", expected=f"one of {', '.join(options)}",
                fix=did_you_mean(value, options),
            )  # fmt: skip
    needed = {"hub": "id", "path": "path", "toy": ""}[weights.source]
    if needed and not getattr(weights, needed):
        raise UserError("has no value", where=f"reranker.{needed}", expected=f"a value, as source is {weights.source}")
    if weights.source == "toy" and weights.kind != "cross_encoder":
        raise UserError("there is no toy of this kind", where="reranker.kind", expected="cross_encoder")


def _open(weights: Weights) -> Any:
    """A cross-encoder, or (model, tokenizer) of the other kinds, from the hub or a folder."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    from toolsavvy.models.loading import UNREADABLE, load_fault

    where = str(Path(weights.path or "").expanduser()) if weights.source == "path" else str(weights.id)
    code: dict[str, Any] = {"revision": weights.revision, "trust_remote_code": weights.trust_remote_code}
    dtype, device = getattr(torch, weights.dtype), weights.device
    if weights.source == "path" and not (Path(where) / "config.json").is_file():
        raise UserError("holds no model", where=f"reranker.path={where}", expected="a folder with config.json")
    try:
        if weights.kind == "cross_encoder":
            return CrossEncoder(where, device=device, model_kwargs={"dtype": dtype}, **code)
        maker = AutoModelForSeq2SeqLM if weights.kind == "seq2seq" else AutoModelForCausalLM
        model = maker.from_pretrained(where, dtype=dtype, **code)
        place: Any = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return model.to(place).eval(), AutoTokenizer.from_pretrained(where, **code)
    except (OSError, ValueError, KeyError, *UNREADABLE) as error:
        first = load_fault(error)
        asks_for_code = "trust_remote_code" in str(error)
        raise UserError(
            f"the reranker can't be loaded ({first})", where=f"reranker {where}", expected=f"a {weights.kind} model",
            fix="read the model's code, then set reranker.trust_remote_code=true" if asks_for_code
            else "check the name and the network, or use a local copy with reranker.source=path",
        ) from error  # fmt: skip


class CrossEncoderScorer:
    """A classification head over query and document, its raw logit without a squashing that would make ties.

    Args:
        model: sentence-transformers' `CrossEncoder` with one label, or two (irrelevant, relevant).

    Raises:
        UserError: another number of labels.
    """

    def __init__(self, model: Any) -> None:
        self.model, self._hash = model, ""
        if model.num_labels not in (1, 2):
            what = f"the model has {model.num_labels} labels, which give no one relevance"
            raise UserError(what, where="reranker", expected="1 label, or 2 (irrelevant, relevant)")

    def score(self, pairs: Sequence[Pair], batch_size: int, max_length: int | None) -> np.ndarray:
        """As `Scorer.score`; the longer side of a pair that is too long is cut."""
        import torch

        own = self.model.max_seq_length
        self.model.max_seq_length = min(own, max_length) if own and max_length else max_length or own
        try:
            logits = self.model.predict(
                list(pairs), batch_size=batch_size, activation_fn=torch.nn.Identity(), show_progress_bar=False
            )
        finally:
            self.model.max_seq_length = own
        logits = np.asarray(logits, dtype=np.float32)
        return logits[:, 1] - logits[:, 0] if logits.ndim == 2 and logits.shape[1] == 2 else logits.reshape(-1)

    @property
    def fingerprint(self) -> str:
        """As `Scorer.fingerprint`."""
        self._hash = self._hash or _digest(self.model, repr(self.model))
        return self._hash


class WordScorer:
    """A model that answers a prompt with one word: the logit of a positive one, less that of a negative one.

    Encoder-decoders are read at the first decoder step (monoT5, Nogueira et al. 2020), causal models at the last token
    of the prompt (BGE's LLM rerankers). Too long a pair loses the end of its document, never the prompt's (the released
    monoT5 code cuts the prompt), and no text becomes a special token. A pair is never longer than the positions that
    the model has.

    Args:
        model: transformers' model.
        tokenizer: its fast tokenizer.
        reading: the prompt and the words.
        seq2seq: an encoder-decoder.

    Raises:
        UserError: a word that is no single entry of the vocabulary.
    """

    def __init__(self, model: Any, tokenizer: Any, reading: Reading, *, seq2seq: bool) -> None:
        from toolsavvy.models.text import TextEncoder

        self.model, self.reading, self.seq2seq = model, reading, seq2seq
        self._text, self._pad = TextEncoder(tokenizer), tokenizer.pad_token_id or 0
        self._start = [] if seq2seq or tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        self._end = [tokenizer.eos_token_id] if seq2seq else []
        self._hash = ""
        self._limit = int(getattr(model.config, "max_position_embeddings", None) or 2**31)
        head, rest = reading.prompt.split("{query}", 1)
        # Encoder-decoders of the T5 family put a space before every piece by themselves.
        pieces = [p.replace("{{", "{").replace("}}", "}") for p in (head, *rest.split("{document}", 1))]
        self._frame = [self._text.encode(p.strip() if seq2seq else p) for p in pieces]
        self.words = [
            single_token(tokenizer, w, self._text) for w in (reading.positive, reading.negative) if w is not None
        ]

    def prompt(self, pair: Pair, max_length: int | None) -> list[int]:
        """Token ids; the query gets at most half the room, the document what is left.

        Raises:
            UserError: the prompt leaves no room, so that all pairs would be the same.
        """
        before, between, after = self._frame
        limit = min(max_length or self._limit, self._limit)
        fixed = len(self._start) + len(self._end) + sum(map(len, self._frame))
        if (room := limit - fixed) < 2:
            raise UserError(
                f"the prompt takes {fixed} of {limit} tokens, which leaves none for query and document",
                where="reranker.max_length", expected=f"at least {fixed + 2}, and better some hundreds",
            )  # fmt: skip
        query = self._text.encode(pair[0], min(room // 2, 100_000))
        document = self._text.encode(pair[1], min(room - len(query), 100_000))
        return [*self._start, *before, *query, *between, *document, *after, *self._end]

    def score(self, pairs: Sequence[Pair], batch_size: int, max_length: int | None) -> np.ndarray:
        """As `Scorer.score`."""
        import torch

        scores = np.zeros(len(pairs), dtype=np.float32)
        prompts = [self.prompt(pair, max_length) for pair in pairs]
        with torch.inference_mode():
            for rows in by_length(prompts, batch_size):
                ids, mask = right_padded([prompts[i] for i in rows], self._pad, self.model.device)
                logits = self._logits(ids, mask)[:, self.words]
                values = logits[:, 0] - logits[:, 1] if len(self.words) == 2 else logits[:, 0]
                scores[rows] = values.float().cpu().numpy()
        return scores

    def _logits(self, ids: Any, mask: Any) -> Any:
        """Logits of the answer's first token [pair, vocabulary]."""
        import torch

        from toolsavvy.models.forward import logits, states

        if not self.seq2seq:
            rows = torch.arange(len(ids), device=ids.device)
            return logits(self.model, states(self.model, ids, mask)[rows, mask.sum(1) - 1])
        start = torch.full((len(ids), 1), self.model.config.decoder_start_token_id, device=ids.device)
        return self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=start).logits[:, 0]

    @property
    def fingerprint(self) -> str:
        """As `Scorer.fingerprint`."""
        self._hash = self._hash or _digest(self.model, f"{type(self.model)} {self.reading}")
        return self._hash


def single_token(tokenizer: Any, word: str, text: Any) -> int:
    """Vocabulary id of a word that is one token, written as the vocabulary writes it or as text.

    Raises:
        UserError: it is none.
    """
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary[word]] if word in vocabulary else text.encode(word)
    if len(ids) != 1:
        raise UserError(f"{word!r} is not one token of the model", where="reranker", expected="one vocabulary entry")
    return int(ids[0])


def by_length(prompts: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Indices of prompts in batches of nearly equal lengths, the longest first: what does not fit fails at once."""
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def right_padded(prompts: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[Any, Any]:
    """Token ids and mask, int64 [prompt, time]; under causal attention padding at the end changes nothing."""
    import torch

    width = max(len(ids) for ids in prompts)
    ids = torch.tensor([[*p, *[pad] * (width - len(p))] for p in prompts], dtype=torch.int64)
    mask = torch.tensor([[1] * len(p) + [0] * (width - len(p)) for p in prompts], dtype=torch.int64)
    return ids.to(device), mask.to(device)


def _digest(model: Any, settings: str) -> str:
    import torch

    digest = hashlib.sha256(settings.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _toy_cross_encoder(weights: Weights) -> Any:
    """A two-layer BERT classifier with random weights and characters for tokens: for tests and dry runs."""
    import tempfile

    import torch
    from sentence_transformers import CrossEncoder
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    letters = [chr(code) for code in range(33, 127)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=256, initializer_range=0.2,
    )  # fmt: skip
    config.num_labels = 1
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        torch.manual_seed(weights.seed)
        Path(folder, "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
        BertTokenizer(vocab=str(Path(folder, "vocab.txt")), model_max_length=256).save_pretrained(folder)
        BertForSequenceClassification(config).save_pretrained(folder)
        return CrossEncoder(folder, device=weights.device)
