"""Every origin gives the same rows as an array does: sums by `Rows.fold` against numpy over the whole."""

import duckdb
import numpy as np
import polars as pl
import pyarrow.dataset as ds
import pytest
from engines.samples import CLASSES, cuts, fold, folded, labelled, rows, same_source, wanted
from pyarrow import feather, ipc, parquet

import shiftgauge as sg


def sites(block):
    return np.array([(block.columns["site"] == f"s{j}").sum() for j in range(4)])


def parquet_folder(table, folder, rng):
    for i, (a, b) in enumerate(cuts(len(table), rng)):
        parquet.write_table(table.slice(a, b - a), folder / f"part-{i:03}.parquet", row_group_size=300)
    return folder


def parquet_file(table, folder, rng):
    parquet.write_table(table, folder / "all.parquet", row_group_size=777)
    return folder / "all.parquet"


def parquet_glob(table, folder, rng):
    (folder / "a" / "b").mkdir(parents=True)
    parquet_folder(table, folder / "a" / "b", rng)
    return f"{folder}/**/*.parquet"


def arrow_file(table, folder, rng):
    with ipc.new_file(folder / "all.arrow", table.schema) as file:
        for a, b in cuts(len(table), rng):
            file.write_table(table.slice(a, b - a))
    return folder / "all.arrow"


def arrow_stream(table, folder, rng):
    with ipc.new_stream(folder / "all.arrow", table.schema) as file:
        for a, b in cuts(len(table), rng):
            file.write_table(table.slice(a, b - a))
    return folder / "all.arrow"


def feather_folder(table, folder, rng):
    for i, (a, b) in enumerate(cuts(len(table), rng)):
        feather.write_feather(table.slice(a, b - a), folder / f"{i}.feather", compression="zstd")
    return folder


def dataset(table, folder, rng):
    return ds.dataset(parquet_folder(table, folder, rng))


def filtered_dataset(table, folder, rng):
    return ds.dataset(parquet_folder(table, folder, rng)).filter(ds.field("row") >= 0)


def memory_dataset(table, folder, rng):
    return ds.dataset(table)


def arrow_table(table, folder, rng):
    return table


def pandas_frame(table, folder, rng):
    return table.to_pandas()


def polars_frame(table, folder, rng):
    return pl.from_arrow(table)


def polars_lazy(table, folder, rng):
    return pl.scan_parquet(parquet_file(table, folder, rng))


def duckdb_relation(table, folder, rng):
    return duckdb.read_parquet(str(parquet_file(table, folder, rng)))


def function(table, folder, rng):
    pieces = [table.slice(a, b - a) for a, b in cuts(len(table), rng)]
    return lambda: (batch for piece in pieces for batch in piece.to_batches(rng.integers(50, 900)))


ORIGINS = [
    parquet_folder,
    parquet_file,
    parquet_glob,
    arrow_file,
    arrow_stream,
    feather_folder,
    dataset,
    filtered_dataset,
    memory_dataset,
    arrow_table,
    pandas_frame,
    polars_frame,
    polars_lazy,
    duckdb_relation,
    function,
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("origin", ORIGINS, ids=lambda f: f.__name__)
def test_every_origin_gives_the_rows_of_an_array(origin, dtype, tmp_path, small_parts):
    scores, decisions, table = rows(dtype=dtype)
    scan = sg.scan(origin(table, tmp_path, np.random.default_rng(1)), weight="w", id="row")
    assert (scan.kind, scan.k, scan.classes, scan.n) == ("logits", 3, CLASSES, len(scores))
    sums = folded()
    first = fold(scan, sums)
    np.testing.assert_allclose(first, wanted(scores, decisions, table), rtol=1e-12)
    assert np.array_equal(first, fold(scan, sums))
    assert fold(scan, sites, ["site"]).tolist() == [
        table["site"].to_pylist().count(f"s{j}") for j in range(4)
    ]
    assert next(scan.parts[0].read()).scores.dtype == dtype
    assert next(scan.parts[0].read()).scores.flags.c_contiguous
    assert scan.passes == 3


@pytest.mark.parametrize("origin", ORIGINS, ids=lambda f: f.__name__)
def test_every_origin_gives_the_source_that_is_read_whole(origin, tmp_path, small_parts):
    table = labelled(dtype=np.float64 if origin is parquet_file else np.float32)
    parquet.write_table(table, tmp_path / "whole.pq")
    whole = sg.read_source(tmp_path / "whole.pq", weight="w", id="row")
    (tmp_path / "whole.pq").unlink()
    scan = sg.scan(origin(table, tmp_path, np.random.default_rng(1)), weight="w", id="row")
    same_source(scan.source(), whole)
    assert scan.source().scores.dtype == table.schema.field("logit_cat").type.to_pandas_dtype()
    assert scan.passes == 1
    assert scan.source() is scan.source()
    assert scan.source().kept is None
