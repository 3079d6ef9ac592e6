"""PyTorch: run any module over any loader and keep its scores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.adapters._sinks import ScoreSink, open_sink
from shiftgauge.adapters.scores import CollectedScores, check_kind
from shiftgauge.errors import InputError, optional

#: A batch taken apart: what the model is called with, and labels or None.
Unpacked = tuple[Any, Any]
LABEL_KEYS = ("labels", "label")


def collect(
    model: Any,
    loader: Iterable[Any],
    *,
    device: str = "auto",
    kind: str = "logits",
    precision: str | None = None,
    classes: Sequence[Hashable] | None = None,
    second: Any = None,
    unpack: Callable[[Any], Unpacked] | None = None,
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> CollectedScores:
    """Score every batch of a loader with a module; `.source()` and `.target()` of the result go on from there.

    The module runs in eval mode without gradients; the mode of every submodule and the module's device are
    restored afterwards, also after an error. Scores are kept as float32 on the host, or written row by row
    to `out`, so that memory stays bounded by one batch.

    Args:
        model: a `torch.nn.Module` that returns (batch, K) scores, or an object or dictionary with `logits`.
        loader: yields inputs; or (inputs, labels) with integer labels; or dictionaries, whose `labels` or
            `label` are taken out and the rest passed by name. Anything else: say so with `unpack`.
        device: `"auto"` (where the model is, or a GPU if it is on the CPU and there is one), or a name.
        kind: what the model returns, `"logits"` or `"probs"`.
        precision: None as the model is; `"float16"` or `"bfloat16"` run under autocast.
        classes: K names.
        second: a second, independently trained module run on the same batches, for GDE.
        unpack: batch -> (inputs, labels or None). Inputs in a tuple are passed by place, in a dictionary by name.
        out: a `.npy` file to hold the scores instead of memory.
        progress: called with each batch's number; by default a bar on stderr, where that is a terminal.
    """
    torch = import_torch()
    _check(torch, model, kind)
    models = [model] if second is None else [model, second]
    place = _device(torch, model, device)
    labels: list[npt.NDArray[Any]] = []
    others: list[npt.NDArray[np.intp]] = []
    with _evaluating(models, place), open_sink(out, _row_bound(loader)) as rows:
        for inputs, truth in _batches(loader, unpack or _unpack, progress):
            inputs = _moved(inputs, place)
            with torch.inference_mode(), _autocast(torch, place, precision):
                found = [_scores(torch, _apply(m, inputs)) for m in models]
            rows.add(found[0])
            if truth is not None:
                labels.append(_labels(truth, len(found[0])))
            if second is not None:
                others.append(found[1].argmax(axis=1))
        _check_labels(labels, rows)
    scores = rows.array()
    return CollectedScores(
        scores=scores,
        kind=kind,
        labels=np.concatenate(labels) if labels else None,
        second=np.concatenate(others) if others else None,
        classes=validation.check_classes(classes, scores.shape[1], "collect"),
    )


def _check(torch: Any, model: Any, kind: str) -> None:
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"collect: arrived a {type(model).__name__}; wanted a torch.nn.Module")
    check_kind(kind, "collect")


def import_torch() -> Any:
    """The torch module, or one line on how to get it."""
    return optional("torch", extra="torch", purpose="collect")


def _device(torch: Any, model: Any, asked: str) -> Any:
    first = next(iter(model.parameters()), None)
    if asked != "auto":
        try:
            return torch.device(asked)
        except RuntimeError as problem:
            raise InputError(
                f"collect: device {asked!r} is not known ({str(problem).splitlines()[0][:80]})"
            ) from None
    if first is not None and first.device.type != "cpu":
        return first.device
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@contextlib.contextmanager
def _evaluating(models: list[Any], device: Any) -> Iterator[None]:
    """Eval mode on the device; every submodule's mode and every model's device restored afterwards."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    devices = [{p.device for p in model.parameters()} for model in models]
    try:
        for model, placed in zip(models, devices, strict=True):
            model.eval()
            if len(placed) == 1 and placed != {device}:  # a model spread over devices stays where it is
                model.to(device)
        yield
    finally:
        for module, training in modes:
            module.training = training
        for model, placed in zip(models, devices, strict=True):
            if len(placed) == 1 and placed != {device}:
                model.to(next(iter(placed)))


def _autocast(torch: Any, device: Any, precision: str | None) -> Any:
    if precision is None:
        return contextlib.nullcontext()
    known = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    if precision not in known:
        raise InputError(
            f"collect: precision {precision!r} is not known; wanted None, 'float16' or 'bfloat16'"
        )
    return torch.autocast(device.type, dtype=known[precision])


def _batches(
    loader: Iterable[Any], unpack: Callable[[Any], Unpacked], progress: Callable[[str], None] | None
) -> Iterator[Unpacked]:
    import sys

    size = _length(loader)
    batches: Iterable[Any] = loader
    if progress is None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        batches = track(loader, "scoring", total=size, console=Console(stderr=True))
    for number, batch in enumerate(batches, 1):
        if progress is not None:
            progress(f"scoring, batch {number}" + ("" if size is None else f" of {size}"))
        unpacked = unpack(batch)
        if not isinstance(unpacked, tuple) or len(unpacked) != 2:
            raise InputError("collect: unpack= must return (inputs, labels), or (inputs, None)")
        yield unpacked


def _unpack(batch: Any) -> Unpacked:
    if isinstance(batch, Mapping):
        key = next((k for k in LABEL_KEYS if k in batch), None)
        return {k: v for k, v in batch.items() if k != key}, None if key is None else batch[key]
    if not isinstance(batch, list | tuple):
        return batch, None
    if len(batch) == 1:
        return batch[0], None
    if len(batch) == 2 and _like_labels(batch[1]):
        return batch[0], batch[1]
    raise InputError(
        f"collect: a batch of {len(batch)} parts that are not (inputs, integer labels) arrived; say what is what, "
        "e.g. unpack=lambda batch: (batch[0], batch[1]), or (batch[0], None) without labels"
    )


def _like_labels(part: Any) -> bool:
    dtype = str(getattr(part, "dtype", ""))
    return getattr(part, "ndim", 0) == 1 and "int" in dtype


def _moved(inputs: Any, device: Any) -> Any:
    if hasattr(inputs, "to"):
        return inputs.to(device)
    if isinstance(inputs, Mapping):
        return {name: _moved(value, device) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return tuple(_moved(value, device) for value in inputs)
    return inputs


def _apply(model: Any, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def _scores(torch: Any, output: Any) -> npt.NDArray[np.float32]:
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    elif hasattr(output, "logits"):
        output = output.logits
    if not isinstance(output, torch.Tensor):
        raise InputError(
            f"collect: the model returned a {type(output).__name__}; wanted a (batch, K) tensor or an object "
            "with logits; wrap the model in a module that picks its scores"
        )
    if output.ndim != 2 or output.shape[1] == 1:
        raise InputError(
            f"collect: the model returned shape {tuple(output.shape)}; wanted (batch, K), one column per class; "
            "a single logit z of two classes becomes torch.stack([torch.zeros_like(z), z], dim=1)"
        )
    return np.asarray(output.float().cpu().numpy())


def _labels(truth: Any, n: int) -> npt.NDArray[Any]:
    array = validation.as_array(truth, "collect: labels")
    if array.ndim == 0 or len(array) != n:
        raise InputError(f"collect: labels of shape {array.shape} for {n} rows of scores; wanted one per row")
    return np.array(array)  # a loader may reuse its memory for the next batch


def _check_labels(labels: list[npt.NDArray[Any]], rows: ScoreSink) -> None:
    if rows.count == 0:
        raise InputError("collect: the loader gave no batches; wanted at least one row")
    held = sum(len(part) for part in labels)
    if held not in (0, rows.count):
        raise InputError(
            f"collect: {held} labels for {rows.count} rows; some batches had labels and some had none"
        )


def _row_bound(loader: Any) -> int | None:
    """At most how many rows are to come, where the loader can say."""
    size, length = getattr(loader, "batch_size", None), _length(loader)
    return None if length is None or not size else length * size


def _length(loader: Any) -> int | None:
    """How many batches are to come; None of a stream, even of one whose `__len__` only says that it has none."""
    try:
        return len(loader)
    except TypeError:
        return None
