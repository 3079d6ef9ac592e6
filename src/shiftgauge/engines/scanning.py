"""`shiftgauge.scan`: rows of any number, read in passes wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shiftgauge.engines import dask as dask_engine
from shiftgauge.engines import spark as spark_engine
from shiftgauge.engines.checkpoint import checkpointed
from shiftgauge.errors import InputError
from shiftgauge.io import ReadOptions, Threshold, make_rows, open_rows
from shiftgauge.rows import Engine, Rows, Threads


def scan(
    data: Any,
    *,
    kind: str | None = None,
    logit_prefix: str = "logit_",
    prob_prefix: str = "prob_",
    label: str = "label",
    weight: str | None = None,
    prediction: str | None = "prediction",
    positive: str | None = None,
    negative: str | None = None,
    tolerance: float | None = None,
    id: str | None = None,
    threshold: Threshold | None = None,
    insist: bool = False,
    drop_unlabelled: bool = False,
    second: str | None = None,
    zone: str | None = None,
    engine: Engine | None = None,
    threads: int | None = None,
    dask: Any = None,
    checkpoint: str | Path | None = None,
) -> Rows:
    """Rows of any number, read in passes; with labels also a `Source`, read in one pass and kept (`Rows.source`).

    Args:
        data: a path, a folder or a glob (Parquet, Arrow, Feather, `.npy`; also CSV and JSON lines), a
            `pyarrow.dataset.Dataset`, a Dask or Spark DataFrame, a polars LazyFrame, a DuckDB relation, any frame with
            `__arrow_c_stream__`, or a function that returns a fresh stream or iterator of Arrow record batches each
            time.
        kind, logit_prefix, prob_prefix, label, weight, prediction, positive, negative: as for `read_source`.
        tolerance, id, threshold, insist, drop_unlabelled: as for `read_source`.
        second: the column of a second model's predictions, for GDE.
        zone: the time zone of bins of times.
        engine, threads: who applies steps to the parts; by default threads of this process, one per processor.
        dask: a scheduler's address, or a `distributed.Client`, whose workers can read the files.
        checkpoint: a folder where finished passes are saved, so that a run that was killed continues there.

    >>> import pyarrow as pa
    >>> scan(pa.table({"prob_a": [0.9, 0.4], "prob_b": [0.1, 0.6]}))
    Rows(probs, 2 rows x 2 classes in 1 parts)
    """
    options = ReadOptions(
        kind, logit_prefix, prob_prefix, label, weight, prediction, positive, negative, tolerance, id, threshold,
        insist, drop_unlabelled,
    )  # fmt: skip
    if sum(given is not None for given in (engine, threads, dask)) > 1:
        raise InputError("scan: more than one of engine=, threads= and dask= arrived; wanted one of them")
    rows = _cluster_rows(data, options, second, zone, engine, dask)
    if rows is None:
        rows = open_rows(data, options, second=second, zone=zone)
        rows.engine = engine or (Threads(threads) if dask is None else dask_engine.Dask(dask))
    if checkpoint is not None:
        rows.engine = checkpointed(rows.engine, checkpoint, data)
    return rows


def _cluster_rows(
    data: Any, options: ReadOptions, second: str | None, zone: str | None, engine: Engine | None, dask: Any
) -> Rows | None:
    """The rows of a DataFrame that has an engine of its own; None for all other data."""
    name, package = type(data).__name__, type(data).__module__.split(".")[0]
    is_dask = package in ("dask", "dask_expr") and hasattr(data, "map_partitions")
    shared = (
        is_dask or isinstance(data, str | Path) or (package == "pyarrow" and hasattr(data, "get_fragments"))
    )
    if dask is not None and not shared:
        raise InputError(
            f"scan: a {name} arrived with dask=; data of this process cannot be read by other workers; write it to "
            "files that they can read, and scan those"
        )
    if not is_dask and package != "pyspark":
        return None
    if engine is not None:
        raise InputError(f"scan: a {name} has its own engine; leave engine= out")
    layout, parts, own = (
        dask_engine.frame_parts(data, options, second, zone, dask)
        if is_dask
        else spark_engine.frame_parts(data, options, second, zone)
    )
    return make_rows(layout, parts, options, f"the {name}", own)
