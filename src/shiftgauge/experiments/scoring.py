"""Score examples with a network: device, precision, and logits in the order of the examples."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shiftgauge.errors import InputError
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.loading import SequentialBatches, batches
from shiftgauge.experiments.progress import Progress, silent

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Run:
    """How a network is trained and scored: device, precision, worker processes, checkpoint, progress.

    With ``precision="auto"`` training is in float16 with a gradient scaler on a GPU, as in the paper's code, and in
    float32 elsewhere; scoring is in float32. Any other precision is used for both. ``on_step`` is called with
    every training step and its loss.
    """

    checkpoint: Path | None = None
    device: str | None = None
    every_seconds: float = 60.0
    progress: Progress = silent
    precision: str = "auto"
    workers: int = 0
    data: str = ""
    """Digest of the training files; a checkpoint of other files is refused."""
    stop_after: int | None = None
    """Stop after this many steps in total, for tests and time limits."""
    on_step: Callable[[int, float], None] | None = None

    @property
    def torch_device(self) -> Any:
        """The device: as given, else a GPU if there is one; under torchrun each process has its own GPU."""
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type != "cuda":
            return device
        if device.index is None:
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError(
                f"--device is {self.device!r}, one GPU for all processes of torchrun; say cuda, or leave it out"
            )
        return device

    @property
    def training_dtype(self) -> str:
        """Name of the type of activations in training."""
        if self.precision not in PRECISIONS:
            raise InputError(f"precision is {self.precision!r}; it must be one of {', '.join(PRECISIONS)}")
        automatic = "float16" if self.torch_device.type == "cuda" else "float32"
        name = automatic if self.precision == "auto" else self.precision
        if name == "float16" and self.torch_device.type != "cuda":
            raise InputError("float16 needs a GPU; on a CPU choose float32 or bfloat16")
        return name

    @property
    def scoring_dtype(self) -> str:
        """Name of the type of activations in scoring: float32 unless another one is given."""
        return "float32" if self.precision == "auto" else self.training_dtype

    def autocast(self, name: str) -> Any:
        """Mixed precision of the type called ``name``; none for float32."""
        return torch.autocast(self.torch_device.type, dtype=getattr(torch, name), enabled=name != "float32")


def to_inputs(network: Any, batch: Any, device: Any) -> Any:
    """Convert a batch to the network's input: images to floats in [0, 1], texts through its own ``encode``.

    batch: bytes (n, H, W, 3), as a tensor or an array, or a list of texts.
    """
    if isinstance(batch, list):
        return network.encode(batch, device)
    pixels = torch.from_numpy(batch) if isinstance(batch, np.ndarray) else batch
    # (n, H, W, 3) seen as (n, 3, H, W) is already channels-last in memory.
    return pixels.to(device, non_blocking=True).permute(0, 3, 1, 2).float().div_(255)


@torch.no_grad()  # type: ignore[untyped-decorator]
def score(
    network: Any,
    examples: Examples,
    batch: int = 500,
    run: Run | None = None,
    stage: str = "scoring",
    hasher: Any = None,
) -> NDArray[np.float32]:
    """Logits (n, classes) of every example, in order; ``hasher`` is updated with the inputs themselves."""
    run = run or Run()
    if not len(examples):
        raise InputError("there are no examples to score")
    device = run.torch_device
    network = network.to(device, memory_format=torch.channels_last).eval()
    parts, plan = [], SequentialBatches(len(examples), batch)
    for step, inputs, _ in batches(examples, plan, 0, plan.steps, run.workers, device.type == "cuda"):
        if hasher is not None:
            hasher.update(
                "\0".join(inputs).encode() if isinstance(inputs, list) else inputs.numpy().tobytes()
            )
        with run.autocast(run.scoring_dtype):
            parts.append(network(to_inputs(network, inputs, device)).float().cpu().numpy())
        run.progress(stage, min((step + 1) * batch, len(examples)), len(examples), "rows")
    return np.concatenate(parts)
