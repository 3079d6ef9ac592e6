"""`sg.scan`: a target that is read in parts, wherever it is, and never held whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftgauge.errors import InputError, ShiftgaugeError
from shiftgauge.scans import Engine, Part, Scan, Threads
from shiftgauge.validation import IDLE_INSIST

if TYPE_CHECKING:
    from shiftgauge.io.form import Form
    from shiftgauge.samples import Source
    from shiftgauge.scale.layout import Layout

#: Where data lives in this process: nobody else can read it.
HERE = "data of this process cannot be read by other workers; write it to files that they can read, and scan those"


def scan(
    data: Any,
    form: Form | None = None,
    *,
    second: str | None = None,
    zone: str | None = None,
    engine: Engine | None = None,
    threads: int | None = None,
    dask: Any = None,
    checkpoint: str | Path | None = None,
    **said: Any,
) -> Scan:
    """A target of any size, read in passes; with labels also a `Source`, read in one pass and kept (`Scan.source`).

    Args:
        data: a path, a folder or a glob (Parquet, Arrow, Feather, `.npy`; also CSV and JSON lines), a
            `pyarrow.dataset.Dataset`, a polars frame or LazyFrame, a DuckDB relation, a Dask or Spark DataFrame,
            an Arrow table, or a function that returns a fresh iterator of Arrow record batches each time.
        form: what the columns do not say by themselves; or its fields by name, such as `kind="probs"`,
            `weight="w"`, `label="truth"`: see `shiftgauge.io.Form`. Logits or probabilities are never guessed.
        second: the column of a second model's predictions, for GDE.
        zone: the time zone that binned times are counted in.
        engine, threads: who carries the work to the parts; by default threads of this process, one per processor.
        dask: a scheduler's address, or a `distributed.Client`, whose workers can read the files.
        checkpoint: a folder where finished passes are kept, so that a run that was killed goes on there.
        said: fields of `shiftgauge.io.Form`.

    >>> import pyarrow as pa
    >>> scan(pa.table({"prob_a": [0.9, 0.4], "prob_b": [0.1, 0.6]}))
    Scan(probs, 2 rows x 2 classes in 1 parts)
    """
    from shiftgauge.io.form import Form

    form = (form or Form()).but(**said)
    if sum(given is not None for given in (engine, threads, dask)) > 1:
        raise InputError("scan: more than one of engine=, threads= and dask= arrived; wanted one of them")
    layout, parts, own = _opened(data, form, second, zone, dask)
    if form.insist and layout.kind == "probs":
        raise InputError(IDLE_INSIST.format(who="scan"))
    carrier = _carrier(data, own, engine, threads, dask)
    return Scan(
        parts,
        layout.kind,
        layout.k,
        layout.classes,
        engine=carrier if checkpoint is None else _kept(carrier, checkpoint, data),
        weighted=layout.weight is not None,
        decisions=layout.prediction is not None or layout.threshold is not None,
        second=layout.second is not None,
        ids=layout.id is not None,
        columns=layout.names,
        label=form.label,
        labelled=layout.label is not None,
        drop=form.drop_unlabelled,
        tolerance=form.tolerance,
        insist=form.insist,
        by_place=isinstance(form.threshold, int | float),
        name=str(data) if isinstance(data, str | Path) else f"the {type(data).__name__}",
    )


def _carrier(data: Any, own: Engine | None, engine: Engine | None, threads: int | None, dask: Any) -> Engine:
    """Who carries the work: the data's own engine, the one given, or threads."""
    if own is not None and engine is not None:
        raise InputError(f"scan: a {type(data).__name__} has its own engine; leave engine= out")
    return own or engine or (Threads(threads) if dask is None else _dask(dask))


def _kept(carrier: Engine, folder: str | Path, data: Any) -> Engine:
    from shiftgauge.scale.checkpoint import Checkpoint

    if isinstance(data, str | Path) and Path(data).is_dir():
        within, place = Path(data).resolve(), Path(folder).resolve()
        # Hidden folders are passed over by whoever reads the data.
        if place.is_relative_to(within) and not any(p[0] in "._" for p in place.relative_to(within).parts):
            raise InputError(
                f"checkpoint {folder}: lies in {data}, where every file is read as rows; wanted a folder elsewhere"
            )
    return Checkpoint(carrier, folder)


def _dask(cluster: Any) -> Engine:
    from shiftgauge.scale.dask import Dask

    return Dask(cluster)


Opened = tuple["Layout", list[Part], "Engine | None"]


def _opened(data: Any, form: Form, second: str | None, zone: str | None, dask: Any) -> Opened:
    """The layout and the parts of whatever arrived, and the engine that it brings along, if any."""
    room = type(data).__module__.split(".")[0]
    if isinstance(data, str | Path):
        return (*_files(data, form, second, zone), None)
    if room in ("dask", "dask_expr") and hasattr(data, "map_partitions"):
        from shiftgauge.scale.dask import frame_parts

        return frame_parts(data, form, second, zone, dask)
    from shiftgauge.scale import frames

    if room == "pyarrow" and hasattr(data, "get_fragments"):
        return (*frames.dataset_parts(data, form, second, zone), None)
    if dask is not None:
        raise InputError(f"scan: a {type(data).__name__} arrived with dask=; {HERE}")
    if room == "pyspark":
        from shiftgauge.scale import spark

        return spark.frame_parts(data, form, second, zone)
    if room == "polars" and hasattr(data, "collect"):
        return (*frames.polars_parts(data, form, second, zone), None)
    if room in ("duckdb", "_duckdb"):
        return (*frames.duckdb_parts(data, form, second, zone), None)
    if isinstance(data, Iterator) or type(data).__name__ in ("RecordBatchReader", "Scanner"):
        raise frames.only_once(data)
    if isinstance(data, Callable):  # type: ignore[arg-type]
        return (*frames.function_parts(data, form, second, zone), None)
    from shiftgauge.adapters.frames import WHERE, as_table

    return (*frames.table_parts(as_table(data), form, second, zone, WHERE), None)


def _files(path: str | Path, form: Form, second: str | None, zone: str | None) -> tuple[Layout, list[Part]]:
    from shiftgauge.io.parquet import is_glob
    from shiftgauge.io.read import real_path
    from shiftgauge.scale.arrays import npy_parts
    from shiftgauge.scale.files import file_parts, files_behind

    file = Path(path)
    if not (file.is_dir() or is_glob(file)):
        file = real_path(path)
    files = files_behind(file)
    if all(each.suffix.lower() == ".npy" for each in files):
        return npy_parts(files, form)
    return file_parts(file, form, second, zone)


def scan_if_large(path: str | Path, form: Form, **options: Any) -> Scan | None:
    """A scan of a path whose rows are too many to be kept in memory, by what its footers say; else None.

    Only forms whose rows are counted without reading them are looked at: Parquet, Arrow files and `.npy`. What
    cannot be opened is left to whoever reads it whole, and says so in the same words.
    """
    from shiftgauge.io.parquet import is_parquet
    from shiftgauge.transport.streamed import sample_step

    file = Path(path)
    try:
        if not (is_parquet(file) or file.suffix.lower() in (".npy", ".arrow", ".feather")):
            return None
        found = scan(path, form, **options)
    except (ShiftgaugeError, OSError):
        return None
    return None if sample_step(found.n, found.k) == 1 else found


def source_if_large(
    path: str | Path,
    form: Form,
    labels: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Source | None:
    """The labelled rows of a path that `scan_if_large` would scan, with labels of their own file if there is one."""
    from shiftgauge.io import read_labels

    found = scan_if_large(path, form)
    if found is None:
        return None
    found.progress = progress
    return found.source(None if labels is None else read_labels(labels, form, found.classes))
