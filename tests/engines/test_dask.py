"""Dask for real: two worker processes, the same bits, one of them killed; nobody at the address."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
from pyarrow import parquet

import shiftgauge as sg
from shiftgauge.errors import FileError, InputError

from .samples import answers, fold, folded, labelled, rows, same_source, wanted

distributed = pytest.importorskip("distributed", reason="dask and distributed are not installed")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp://"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def folder(tmp_path, small_parts):
    scores, decisions, table = rows(n=20_000)
    for i in range(4):
        parquet.write_table(table.slice(i * 5000, 5000), tmp_path / f"{i}.parquet", row_group_size=500)
    return tmp_path, wanted(scores, decisions, table)


def test_workers_read_files_and_the_answer_is_that_of_threads_to_the_last_bit(client, folder):
    path, truth = folder
    here = fold(sg.scan(path, weight="w", id="row"), folded())
    scan = sg.scan(path, weight="w", id="row", dask=client)
    there = fold(scan, folded())
    np.testing.assert_allclose(there, truth, rtol=1e-12)
    assert there.tobytes() == here.tobytes()
    (traffic,) = scan.engine.traffic
    assert 0 < traffic.received < 1000 * len(scan.parts)
    assert 0 < traffic.sent < 10_000 * len(scan.parts)


def test_every_answer_is_that_of_threads_to_the_last_bit(client, folder):
    path, _ = folder
    assert answers(sg.scan(path, weight="w", dask=client)) == answers(sg.scan(path, weight="w"))


def test_bytes_do_not_depend_on_the_rows_of_a_part(client, tmp_path, monkeypatch):
    traffic = []
    for n in (1000, 100_000):
        monkeypatch.setattr("shiftgauge.io.parts.PART_SCORES", 3 * n // 4)
        parquet.write_table(rows(n)[2], tmp_path / f"{n:06}.parquet", row_group_size=n // 4)
        scan = sg.scan(tmp_path / f"{n:06}.parquet", weight="w", id="row", dask=client)
        assert len(scan.parts) == 4
        fold(scan, folded())
        traffic.append(scan.engine.traffic[0])
    assert traffic[1].sent <= traffic[0].sent + 100
    assert traffic[1].received <= traffic[0].received + 100


def test_a_worker_killed_in_the_middle_of_a_pass(client, folder):
    path, _ = folder
    sums = folded()

    def slowly(block):
        import time

        time.sleep(0.01)
        return sums(block)

    here = fold(sg.scan(path, weight="w", id="row"), sums)
    before = client.run(os.getpid)
    victim = next(iter(before.values()))
    scan = sg.scan(path, weight="w", id="row", dask=client)
    killed = threading.Event()

    def progress(done, total):
        if not killed.is_set():
            killed.set()
            os.kill(victim, signal.SIGKILL)

    scan.progress = progress
    there = fold(scan, slowly)
    assert killed.is_set()
    assert there.tobytes() == here.tobytes()


def test_a_dask_frame_is_worked_on_where_its_partitions_are(client, folder):
    dd = pytest.importorskip("dask.dataframe")
    path, truth = folder
    frame = dd.read_parquet(path)
    alone = sg.scan(frame, weight="w", id="row")
    spread = sg.scan(frame, weight="w", id="row", dask=client)
    assert [part.rows for part in alone.parts] == [part.rows for part in spread.parts]
    first = fold(alone, folded())
    np.testing.assert_allclose(first, truth, rtol=1e-12)
    assert first.tobytes() == fold(spread, folded()).tobytes()
    assert len(next(alone.parts[0].read())) > 0


def test_workers_read_a_source(client, tmp_path, small_parts):
    """The rows that are read whole, from files and from a frame; and the same ones are drawn."""
    dd = pytest.importorskip("dask.dataframe")
    table = labelled(4000)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    whole = sg.read_source(tmp_path / "a.parquet", weight="w", id="row")
    for data in (tmp_path / "a.parquet", dd.read_parquet(tmp_path / "a.parquet")):
        scan = sg.scan(data, weight="w", id="row", dask=client)
        same_source(scan.source(), whole)
        here = sg.scan(tmp_path / "a.parquet", weight="w", id="row").source(most=500, seed=3)
        same_source(scan.source(most=500, seed=3), here)


def test_an_error_of_a_worker_is_raised_as_it_is(client, tmp_path, small_parts):
    table = rows(2000)[2].to_pandas()
    table.loc[1500, "logit_dog"] = np.inf
    table.to_parquet(tmp_path / "a.parquet", row_group_size=400)
    with pytest.raises(FileError, match=r"a\.parquet: .*row 1500, column 1"):
        fold(sg.scan(tmp_path / "a.parquet", dask=client), lambda block: 0)


def test_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr("shiftgauge.engines.dask.TIMEOUT_SECONDS", 1)
    parquet.write_table(rows(10)[2], tmp_path / "a.parquet")
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"no scheduler answers at tcp://127\.0\.0\.1:1 "):
        sg.scan(tmp_path / "a.parquet", dask="tcp://127.0.0.1:1")
    assert time.monotonic() - begun < 60
    with contextlib.suppress(OSError), pytest.raises(InputError, match="no scheduler answers at nonsense"):
        sg.scan(tmp_path / "a.parquet", dask="nonsense")


def test_memory_is_kept_while_a_task_runs_and_malloc_is_reset_afterwards(monkeypatch):
    """Dask's workers hand memory back at once; a pass would get every block's pages anew."""
    from shiftgauge.engines import serialization as module

    told = []

    class Library:
        @staticmethod
        def mallopt(option, value):
            told.append((option, value))

    monkeypatch.setattr(module.ctypes, "CDLL", lambda name: Library)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    with module.memory_kept():
        kept = module.KEPT_BYTES
        assert told == [(module.TRIM_THRESHOLD, kept), (module.MMAP_THRESHOLD, kept)]
    assert told[-1] == (module.TRIM_THRESHOLD, 65536)
    told.clear()
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    with module.memory_kept():
        pass
    assert told == []  # nobody told malloc anything: neither do we
