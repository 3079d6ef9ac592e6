"""Spark for real, in local mode: the same sums as numpy; skipped where Java or pyspark is absent."""

import os
import shutil
import sys

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import FileError, InputError

from .samples import answers, fold, folded, labelled, rows, same_source, wanted

pytest.importorskip("pyspark", reason="pyspark is not installed")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_partitions_of_a_frame(spark, tmp_path, small_parts):
    from pyarrow import parquet

    scores, decisions, table = rows(n=3000)
    parquet.write_table(table, tmp_path / "a.parquet")
    frame = (
        spark.read.parquet(str(tmp_path / "a.parquet"))
        .repartitionByRange(3, "row")
        .sortWithinPartitions("row")
        .persist()
    )
    scan = sg.scan(frame, weight="w", id="row")
    assert (scan.n, scan.classes) == (3000, ("cat", "dog", "owl"))
    first = fold(scan, folded())
    np.testing.assert_allclose(first, wanted(scores, decisions, table), rtol=1e-12)
    assert fold(scan, folded()).tobytes() == first.tobytes()
    assert next(scan.parts[0].read()).scores.dtype == np.float32
    counted = fold(scan, lambda block: np.array([(block.columns["site"] == "s1").sum()]), ["site"])
    assert counted.tolist() == [table["site"].to_pylist().count("s1")]


def test_every_answer_is_that_of_files(spark, tmp_path):
    from pyarrow import parquet

    parquet.write_table(rows(n=3000)[2], tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path / "a.parquet")).persist()
    here = answers(sg.scan(tmp_path / "a.parquet", weight="w"))
    assert answers(sg.scan(frame, weight="w")) == pytest.approx(here, abs=1e-9)


def test_labels_by_id_improve_the_answer_as_they_do_in_memory(spark, tmp_path):
    from pyarrow import parquet

    table = rows(n=3000)[2]
    parquet.write_table(table, tmp_path / "a.parquet")
    known = dict.fromkeys(range(0, 3000, 60), "cat")
    source = sg.read_source(_labelled_file(tmp_path))
    frame = spark.read.parquet(str(tmp_path / "a.parquet")).repartition(3).persist()
    here = sg.estimate(source, sg.read_target(tmp_path / "a.parquet", id="row"), labels=known)
    there = sg.estimate(source, sg.scan(frame, id="row"), labels=known)
    assert there.labels.n == 50
    assert there.error == pytest.approx(here.error, abs=1e-9)
    assert there.range.high == pytest.approx(here.range.high, abs=1e-9)
    with pytest.raises(InputError, match=r"by row number.*Spark frame.*id="):
        sg.estimate(source, sg.scan(frame), labels=known)


def _labelled_file(folder):
    from pyarrow import parquet

    parquet.write_table(labelled(3000), folder / "source.parquet")
    return folder / "source.parquet"


def test_partitions_are_read_as_a_source(spark, tmp_path):
    from pyarrow import parquet

    parquet.write_table(labelled(3000), tmp_path / "a.parquet")
    scan = sg.scan(spark.read.parquet(str(tmp_path / "a.parquet")).persist(), weight="w", id="row")
    same_source(scan.source(), sg.read_source(tmp_path / "a.parquet", weight="w", id="row"))
    assert scan.source(most=300).n < 500


def test_a_bad_row_and_a_frame_that_changes(spark):
    frame = spark.createDataFrame(
        [(0.5, float("inf") if i == 7 else 0.5) for i in range(20)], "logit_a float, logit_b float"
    ).coalesce(1)
    with pytest.raises(FileError, match=r"partition 0: .*row 7, column 1"):
        fold(sg.scan(frame), lambda block: 0)
    good = spark.createDataFrame([(0.5, float(i)) for i in range(20)], "logit_a float, logit_b float")
    scan = sg.scan(good.coalesce(1))
    fold(scan, lambda block: 0)
    scan.engine.frame = good.limit(19).coalesce(1)
    with pytest.raises(FileError, match="other than 20 rows"):
        fold(scan, lambda block: 0)
    scan.engine.frame = good.repartition(4)
    with pytest.raises(InputError):
        fold(scan, lambda block: 0)
