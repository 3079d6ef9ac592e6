"""What cannot be scanned is refused in one line that names the file and the row in it."""

import glob
import os
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from engines.samples import fold
from pyarrow import parquet
from pyarrow.dataset import dataset

import shiftgauge as sg
from shiftgauge.errors import FileError, InputError
from shiftgauge.io.parts import rows_per_part


def write(folder, name, table, **how):
    parquet.write_table(table, folder / name, **how)
    return folder / name


def table(n=100, classes="ab", prefix="logit_", **more):
    scores = np.random.default_rng(0).normal(size=(n, len(classes)))
    return pa.table({**{f"{prefix}{c}": scores[:, j] for j, c in enumerate(classes)}, **more})


def count(block):
    return len(block)


def total(block):
    return block.scores.sum(0)


def test_columns_in_another_order_are_read_by_name(tmp_path):
    write(tmp_path, "a.parquet", table())
    write(tmp_path, "b.parquet", table().select(["logit_b", "logit_a"]))
    np.testing.assert_allclose(
        fold(sg.scan(tmp_path), total), 2 * fold(sg.scan(tmp_path / "a.parquet"), total)
    )


def test_a_class_that_is_missing_or_new_in_a_later_file(tmp_path):
    write(tmp_path, "a.parquet", table())
    later = write(tmp_path, "b.parquet", table(classes="ac"))
    with pytest.raises(FileError, match=r"b\.parquet: no column 'logit_b'"):
        sg.scan(tmp_path)
    later.unlink()
    write(tmp_path, "b.parquet", table(classes="abc"))
    with pytest.raises(FileError, match=r"b\.parquet: has a column 'logit_c'"):
        sg.scan(tmp_path)


def test_a_data_set_whose_files_differ_in_their_classes(tmp_path):
    """Columns of the folders' names stand in no file, and are missed in none."""
    for month in ("01", "02"):
        (tmp_path / f"month={month}").mkdir()
        write(tmp_path, f"month={month}/a.parquet", table())
    assert fold(sg.scan(dataset(tmp_path, partitioning="hive")), count) == 200
    write(tmp_path, "month=02/a.parquet", table(classes="abc"))
    with pytest.raises(FileError, match=r"a\.parquet: has a column 'logit_c'"):
        sg.scan(dataset(tmp_path, partitioning="hive"))
    write(tmp_path, "month=02/a.parquet", table(classes="a"))
    with pytest.raises(FileError, match=r"a\.parquet: no column 'logit_b'"):
        sg.scan(dataset(tmp_path, partitioning="hive"))


@pytest.mark.parametrize("turned", [False, True])
def test_the_form_of_a_folder_is_that_of_its_first_name(tmp_path, monkeypatch, turned):
    """Whatever order the system lists it in, the same file is said to be of another form."""
    write(tmp_path, "b.parquet", table())
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as out, pa.ipc.new_file(out, table().schema) as writer:
        writer.write_table(table(70))
    found = list(glob.iglob(str(tmp_path / "*")))
    monkeypatch.setattr(glob, "iglob", lambda *_, **__: iter(sorted(found, reverse=turned)))
    with pytest.raises(FileError, match=r"also matches b\.parquet; of several files wanted only \.arrow"):
        sg.scan(tmp_path / "*")


def test_zeros_that_come_late_cost_no_second_pass(small_parts):
    p = np.random.default_rng(0).dirichlet(np.ones(3), 4000)
    p[3999] = [0.0, 0.5, 0.5]
    p[3998] = [1e-200, 0.5, 0.5]
    scan = sg.scan(pa.table({f"prob_{c}": p[:, j] for j, c in enumerate("abc")}))
    assert fold(scan, count) == 4000
    assert scan.passes == 1


def test_functions_may_give_tables_batches_and_whatever_hands_out_arrow():
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table(10).__arrow_c_stream__(requested_schema)

    given = [table(30), *table(20).to_batches(), Stream()]
    assert fold(sg.scan(lambda: iter(given)), count) == 60
    with pytest.raises(FileError, match="gave a int; wanted Arrow record batches"):
        sg.scan(lambda: iter([1]))


def test_a_bad_row_is_named_with_its_file_and_its_number_there(tmp_path, small_parts):
    write(tmp_path, "a.parquet", table(2000), row_group_size=300)
    spoilt = table(2000).to_pandas()
    spoilt.loc[1234, "logit_b"] = np.inf
    write(tmp_path, "b.parquet", pa.Table.from_pandas(spoilt), row_group_size=300)
    with pytest.raises(FileError, match=r"b\.parquet: .*row 1234, column 1"):
        fold(sg.scan(tmp_path), count)
    spoilt.loc[1234, "logit_b"] = None
    write(tmp_path, "b.parquet", pa.Table.from_pandas(spoilt), row_group_size=300)
    with pytest.raises(FileError, match=r"b\.parquet: column 'logit_b', row 1234 is empty"):
        fold(sg.scan(tmp_path), count)


def test_a_decision_that_is_no_class(tmp_path, small_parts):
    decisions = ["a"] * 700 + ["zebra"] + ["b"] * 299
    file = write(tmp_path, "a.parquet", table(1000, prediction=decisions))
    with pytest.raises(FileError, match=r"a\.parquet: .*row 700 is 'zebra', which is not a class"):
        fold(sg.scan(file), count)
    assert fold(sg.scan(file, prediction=None), count) == 1000


def test_damaged_files_are_named(tmp_path):
    whole = write(tmp_path, "a.parquet", table(5000)).read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=r"b\.parquet: cannot be read as \.parquet"):
        sg.scan(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(FileError, match=r"b\.parquet: is empty"):
        sg.scan(tmp_path)
    (tmp_path / "b.parquet").write_bytes(
        whole[:200] + bytes(len(whole) // 2 - 200) + whole[len(whole) // 2 :]
    )
    with pytest.raises(FileError, match=r"b\.parquet: "):
        fold(sg.scan(tmp_path), count)


def test_files_without_rows_are_passed_over_unless_all_are(tmp_path):
    write(tmp_path, "a.parquet", table().slice(0, 0))
    with pytest.raises(InputError, match="no rows"):
        sg.scan(tmp_path)
    write(tmp_path, "b.parquet", table())
    assert fold(sg.scan(tmp_path), count) == 100


def test_weights_are_on_any_scale():
    """A sum far below one is a sum; only nothing is refused, and what is negative."""
    light = table(weight=np.full(100, 1e-6))
    assert sg.scan(light, weight="weight").mass == pytest.approx(1e-4)
    assert sg.scan(light, weight="weight").n_effective == pytest.approx(100)
    with pytest.raises(InputError, match="target weights: they sum to zero"):
        sg.scan(table(weight=np.zeros(100)), weight="weight").mass  # noqa: B018
    with pytest.raises(FileError, match="target weights: row 3 is -1"):
        sg.scan(table(weight=np.where(np.arange(100) == 3, -1.0, 1.0)), weight="weight").mass  # noqa: B018


def test_rounded_probabilities_are_noted_as_when_they_are_read_whole(small_parts):
    p = np.random.default_rng(0).dirichlet(np.ones(3), 2000).round(3)
    whole = sg.Target(probs=p)
    scan = sg.scan(pa.table({f"prob_{c}": p[:, j] for j, c in enumerate("abc")}))
    assert "rounded to 3 decimals" in " ".join(whole.notes)
    assert scan.notes == whole.notes
    assert scan.correction == pytest.approx(whole.correction)


def test_parts_are_of_one_size_until_they_are_too_many():
    assert rows_per_part(1000, 10) == rows_per_part(10**8, 10) == 419_430
    assert rows_per_part(10**9, 10) == 3_906_250  # 256 of them
    assert rows_per_part(10, 10**8) == 1


def test_a_file_that_changes_between_two_passes_is_refused(tmp_path):
    file = write(tmp_path, "a.parquet", table(100))
    scan = sg.scan(file)
    fold(scan, count)
    os.utime(write(tmp_path, "a.parquet", table(101)))
    with pytest.raises(FileError, match=r"a\.parquet: changed between two passes"):
        fold(scan, count)


def test_a_function_whose_rows_change_is_refused():
    held = [table()]
    scan = sg.scan(lambda: iter(held[0].to_batches()))
    fold(scan, count)
    held[0] = pa.table({name: np.asarray(column) + 1 for name, column in zip("ab", held[0], strict=True)})
    held[0] = held[0].rename_columns(["logit_a", "logit_b"])
    with pytest.raises(FileError, match="changed between two passes"):
        fold(scan, count)
    held[0] = held[0].slice(1)
    with pytest.raises(FileError, match="other than 100 rows"):
        fold(scan, count)


def test_what_can_be_read_only_once_is_refused():
    reader = table().to_reader()
    with pytest.raises(InputError, match=r"RecordBatchReader can be read only once.*a function"):
        sg.scan(reader)
    with pytest.raises(InputError, match=r"can be read only once"):
        sg.scan(iter(table().to_batches()))
    with pytest.raises(InputError, match="same iterator twice"):
        sg.scan(lambda: reader)


def test_logits_or_probabilities_are_never_guessed(tmp_path):
    both = table(prob_a=np.zeros(100), prob_b=np.ones(100))
    with pytest.raises(FileError, match="holds both logits and probs"):
        sg.scan(both)
    assert sg.scan(both, kind="probs").kind == "probs"
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    with pytest.raises(FileError, match="does not say what it holds"):
        sg.scan(tmp_path / "a.npy")
    with pytest.raises(InputError, match="kind 'prob' is not known"):
        sg.scan(both, kind="prob")


def test_two_classes_from_one_column(small_parts):
    p = np.random.default_rng(0).uniform(size=1000).astype("f4")
    scan = sg.scan(pa.table({"prob": p}), positive="yes", negative="no", threshold=0.8)
    assert scan.classes == ("no", "yes")
    assert fold(scan, lambda block: int(block.decisions.sum())) == (p >= 0.8).sum()
    p[700] = 1.5
    with pytest.raises(FileError, match=r"row 700 is 1\.5"):
        fold(sg.scan(pa.table({"prob": p}), positive="yes", negative="no"), count)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_in_row_ranges(dtype, order, tmp_path, small_parts):
    scores = np.asarray(np.random.default_rng(0).normal(size=(4000, 3)) * 10, dtype, order=order)
    np.save(tmp_path / "a.npy", np.asarray(scores[:3000], order=order))
    np.save(tmp_path / "b.npy", np.asarray(scores[3000:], order=order))
    assert (b"'fortran_order': True" in (tmp_path / "a.npy").read_bytes()[:200]) == (order == "F")
    scan = sg.scan(tmp_path, kind="logits")
    assert (scan.n, scan.k, scan.classes) == (4000, 3, None)
    assert len(scan.parts) > 4
    np.testing.assert_array_equal(
        np.concatenate([c.scores for part in scan.parts for c in part.read()]), scores
    )
    assert next(scan.parts[0].read()).scores.dtype == (
        np.dtype("f8") if dtype == "i4" else np.dtype(dtype[-2:])
    )


def test_decisions_at_a_threshold_of_npy_files(tmp_path):
    p = np.random.default_rng(0).uniform(size=1000)
    np.save(tmp_path / "a.npy", np.column_stack([1 - p, p]))
    scan = sg.scan(tmp_path / "a.npy", kind="probs", threshold=0.8)
    assert fold(scan, lambda block: int(block.decisions.sum())) == (p >= 0.8).sum()


def test_a_npy_file_cut_short(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1000, 2)))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:5000])
    with pytest.raises(FileError, match="cut short"):
        sg.scan(tmp_path / "a.npy", kind="logits")


def test_binned_times_and_columns_to_the_letter(tmp_path):
    times = ["2026-03-01T23:30", "2026-03-02", None] * 10
    codes = ["01", "1", None] * 10
    scan = sg.scan(table(30, time=times, code=codes))

    def step(block):
        days, found = block.columns["time:1d"].tolist(), block.columns["code"].tolist()
        return np.array(
            [days.count("2026-03-01"), days.count("(missing)"), found.count("01"), found.count(None)]
        )

    assert fold(scan, step, ["time:1d", "code"]).tolist() == [10, 10, 10, 10]
    with pytest.raises(InputError, match="no column 'cod'"):
        fold(scan, count, ["cod"])


def test_csv_and_json_lines_are_scanned_from_their_start(tmp_path):
    (tmp_path / "a.csv").write_text("prob_a,prob_b,prediction\n0.25,0.75,a\n0.5,0.5,b\n")
    scan = sg.scan(tmp_path / "a.csv")
    assert fold(scan, lambda block: block.scores.sum(0)).tolist() == [0.75, 1.25]


def test_sums_are_in_the_order_of_the_parts_whoever_is_first(small_parts):
    scan = sg.scan(table(4000), threads=4)
    assert len(scan.parts) > 4

    class Seen(list):
        def __add__(self, other):
            return Seen([*self, *other])

    def step(block):
        if threading.get_ident() % 2:
            time.sleep(0.002)
        return Seen([block.start])

    starts = fold(scan, step)
    assert starts == sorted(starts)


def test_engines_that_do_not_go_together():
    with pytest.raises(InputError, match="more than one of engine="):
        sg.scan(table(), threads=2, dask="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="a Table arrived with dask="):
        sg.scan(table(), dask="tcp://127.0.0.1:1")


def test_many_small_files_are_few_parts(tmp_path):
    for i in range(40):
        write(tmp_path, f"{i:02}.parquet", table(10))
    scan = sg.scan(tmp_path)
    assert len(scan.parts) == 1
    assert fold(scan, count) == 400
