"""Hugging Face: a sequence classifier over texts, and what `Trainer.predict` returns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge import validation
from shiftgauge.adapters.pytorch import collect, import_torch
from shiftgauge.adapters.scores import CollectedScores
from shiftgauge.errors import InputError


def collect_texts(
    model: Any,
    tokenizer: Any,
    texts: Any,
    labels: Any = None,
    *,
    column: str = "text",
    label_column: str | None = None,
    batch_size: int = 32,
    max_length: int | None = None,
    classes: Sequence[Hashable] | None = None,
    device: str = "auto",
    precision: str | None = None,
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> CollectedScores:
    """Score texts with a `transformers` sequence classifier, batch by batch.

    Args:
        model: a model whose output has `logits` of shape (batch, K).
        tokenizer: its tokenizer; texts are cut to what the model can take.
        texts: a list of texts, or a `datasets.Dataset` with the column named `column`.
        labels: (n,) class indices; None where there are none.
        column, label_column: where a data set holds texts and labels (labels are read only if named).
        batch_size: texts a batch.
        max_length: tokens a text; by default the tokenizer's own limit.
        classes: K names; by default the model's own `config.id2label`, unless it was never filled in.
        device, precision, out, progress: as for `collect`.
    """
    if not isinstance(texts, list | tuple) and hasattr(texts, "column_names"):
        known = list(texts.column_names)
        for wanted in [column] + ([label_column] if label_column else []):
            if wanted not in known:
                raise InputError(
                    f"the data set has no column {wanted!r} (found {', '.join(known[:8])}); name it with column="
                )
        labels = texts[label_column][:] if label_column else labels
        texts = texts[column]
    elif isinstance(texts, str):
        raise InputError("collect_texts: one text arrived; wanted a list of texts")
    n = len(texts)
    if labels is not None and len(labels) != n:
        raise InputError(f"collect_texts: {len(labels)} labels for {n} texts; wanted one label per text")
    batches = _Texts(tokenizer, texts, labels, batch_size, max_length)
    found = classes if classes is not None else _classes(model)
    return collect(
        model, batches, device=device, precision=precision, classes=found, out=out, progress=progress
    )


def from_trainer(output: Any, *, classes: Sequence[Hashable] | None = None) -> CollectedScores:
    """What `Trainer.predict` returned (`predictions`, `label_ids`), ready to be a source or a target.

    >>> from types import SimpleNamespace
    >>> output = SimpleNamespace(predictions=np.array([[2.0, 0.0], [0.5, 1.0]]), label_ids=np.array([0, 0]))
    >>> from_trainer(output).source().error
    0.5
    """
    scores = getattr(output, "predictions", None)
    if isinstance(scores, tuple):
        shapes = ", ".join(str(np.shape(part)) for part in scores[:4])
        raise InputError(
            f"from_trainer: predictions are several arrays ({shapes}); wanted the logits alone: "
            "replace them, e.g. output._replace(predictions=output.predictions[0])"
        )
    if scores is None or np.ndim(scores) != 2:
        raise InputError(
            "from_trainer: wanted what Trainer.predict returns, with predictions of shape (rows, classes)"
        )
    array = np.asarray(scores, dtype=np.float32)
    labels = getattr(output, "label_ids", None)
    return CollectedScores(
        scores=array,
        labels=None if labels is None else np.asarray(labels),
        classes=validation.check_classes(classes, array.shape[1], "from_trainer"),
    )


class _Texts:
    """A loader that tokenises a batch when it is asked for."""

    def __init__(
        self, tokenizer: Any, texts: Any, labels: Any, batch_size: int, max_length: int | None
    ) -> None:
        import_torch()
        self.tokenizer, self.texts, self.labels = tokenizer, texts, labels
        self.batch_size, self.max_length = batch_size, max_length

    def __len__(self) -> int:
        return -(-len(self.texts) // self.batch_size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self.texts), self.batch_size):
            rows = slice(start, start + self.batch_size)
            part = dict(
                self.tokenizer(
                    list(self.texts[rows]),
                    padding=True,
                    truncation=True,
                    max_length=self.max_length,
                    return_tensors="pt",
                )
            )
            if self.labels is not None:
                part["labels"] = np.asarray(self.labels[rows])
            yield part


def _classes(model: Any) -> tuple[str, ...] | None:
    names = getattr(getattr(model, "config", None), "id2label", None)
    if not names or all(str(name) == f"LABEL_{j}" for j, name in names.items()):
        return None
    return tuple(str(names[j]) for j in sorted(names))
