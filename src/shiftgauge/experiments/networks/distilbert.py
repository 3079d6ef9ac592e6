"""DistilBERT for sequence classification, through ``transformers``.

The weights and the tokenizer come from a directory the user names (``from_pretrained`` layout:
``config.json``, ``vocab.txt``, ``model.safetensors`` ...) or from the hub name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from shiftgauge.errors import FileError, optional

PUBLIC_NAME = "distilbert-base-uncased"


class TextNetwork(nn.Module):  # type: ignore[misc]
    """A transformers classifier with its tokenizer: texts are encoded by ``encode``, logits come from ``forward``."""

    def __init__(self, model: Any, tokenizer: Any, max_tokens: int) -> None:
        super().__init__()
        self.model, self.max_tokens = model, max_tokens
        self._tokenizer = tokenizer

    def encode(self, texts: list[str], device: Any) -> dict[str, Any]:
        """Token numbers and attention mask, padded to the longest text of the batch."""
        tokens = self._tokenizer(
            texts, truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        return {key: tokens[key].to(device) for key in ("input_ids", "attention_mask")}

    def forward(self, tokens: dict[str, Any]) -> Any:
        """Logits (n, classes)."""
        return self.model(**tokens).logits


def distilbert(classes: int, weights: Path | str = PUBLIC_NAME, max_tokens: int = 512) -> Any:
    """DistilBERT with a fresh head; ``weights`` is a local directory or a hub name."""
    hub = optional("transformers", extra="experiments", purpose="DistilBERT")
    try:
        tokenizer = hub.AutoTokenizer.from_pretrained(str(weights))
        model = hub.AutoModelForSequenceClassification.from_pretrained(
            str(weights), num_labels=classes
        ).float()
    except (OSError, ValueError) as error:
        raise FileError(f"no DistilBERT at {weights}: {str(error).splitlines()[0]}") from None
    return TextNetwork(model, tokenizer, max_tokens)
