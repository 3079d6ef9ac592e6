"""Whatever holds numbers, as a numpy array: lists, arrays, frames, and the tensors of every framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError

#: Formats coarser than float32, and how far a row of probabilities rounded to them may sum from 1.
COARSE = {"float16": 1e-2, "bfloat16": 1e-2, "float8_e4m3": 0.0625, "float8_e5m2": 0.125}


def as_array(values: Any, what: str) -> npt.NDArray[Any]:
    """Turn an array, a tensor or nested lists into a numpy array, without copying where that is possible."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # a torch tensor, on any device
        values = _from_torch(values, what)
    elif hasattr(values, "tocsr") and hasattr(values, "toarray"):  # scipy's sparse matrices
        values = values.toarray()
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise InputError(f"{what}: {int(values.mask.sum())} values are masked; drop or fill those rows first")
    try:
        array = np.asarray(values)
    except ValueError:  # ragged lists
        raise InputError(
            f"{what}: the rows have different lengths; wanted one number per class in every row"
        ) from None
    except (TypeError, RuntimeError) as problem:
        raise _unreadable(values, what, problem) from None
    if array.dtype.kind == "V" and _coarse(array.dtype) is not None:  # numpy knows them by name alone
        return array.astype(np.float32)
    return array.astype(object) if array.dtype.kind == "T" else array


def coarseness(values: Any) -> float | None:
    """How far probabilities may sum from 1 where their format is coarser than float32; else None.

    >>> coarseness(np.zeros(3, "f2"))
    0.01
    """
    if getattr(values, "is_quantized", False) is True and hasattr(values, "q_scale"):
        return float(0.5 * values.q_scale() * values.shape[-1])  # half a step for every class
    return _coarse(getattr(values, "dtype", None))


def _coarse(dtype: Any) -> float | None:
    name = str(dtype).removeprefix("torch.")
    return next((COARSE[known] for known in COARSE if name.startswith(known)), None)


def _from_torch(tensor: Any, what: str) -> Any:
    """A tensor's numbers on the host, dense and in a format that numpy has."""
    try:
        dense = tensor.detach()
        dense = dense.dequantize() if dense.is_quantized else dense
        dense = dense if str(dense.layout) == "torch.strided" else dense.to_dense()
        dense = dense.cpu().resolve_conj().resolve_neg()
        lacking = _coarse(dense.dtype) is not None and str(dense.dtype) != "torch.float16"
        return (dense.float() if lacking else dense).numpy()
    except (RuntimeError, TypeError, NotImplementedError) as problem:
        raise _unreadable(tensor, what, problem) from None


def _unreadable(values: Any, what: str, problem: Exception) -> InputError:
    why = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:100].rstrip(".")
    return InputError(
        f"{what}: a {type(values).__name__} cannot be read as an array ({why}); wanted numbers, rows x classes"
    )
