"""Scans of Parquet: processor time against one read by DuckDB, passes, and memory that does not grow with rows.

    python benchmarks/scale.py [--quick] [--rows 3000000 10000000] [--methods ac,cot,cott,scot,auto] [--wide]
                               [--dask] [--npy | --array] [--folder FOLDER]

Writes folders of Parquet (ten float32 logits a row; snappy) and has each method estimate them in a fresh process, with
two threads, beside DuckDB's `avg(greatest(...))` of the same files with two threads. `--npy` scans a `.npy` file
instead of Parquet, `--array` gives them as an array in memory, which then counts, `--wide` has 1,000 classes instead
of ten. Memory is the most anonymous memory (RssAnon) beyond what
the process held after its imports. Times are the better of two runs; processor time is what to compare on a machine
that others use too. `--dask` has two worker processes of one thread each make the same passes afterwards, and prints
their time by the clock against the threads', and the bytes that went to and from the driver in a pass.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from _options import parser_of
from pyarrow import parquet

METHODS = "ac,cot,cott,scot,auto"
FILE_ROWS, SOURCE = 500_000, 20_000
#: Passes that the methods may make, for ten classes and for 1,000.
LIMITS = {10: {"cot": 5, "cott": 6, "scot": 6, "auto": 16}, 1000: {"cot": 12, "scot": 10}}
CHILD = """
import json, os, resource, sys, threading, time
import duckdb, numpy as np, pyarrow.parquet, scipy.optimize, shiftgauge as sg
import shiftgauge.engines, shiftgauge.methods, shiftgauge.transport
what, path, source, dask, array = sys.argv[1:6]
held = np.load(source)
names = None if path.endswith(".npy") else tuple(str(j) for j in range(held["logits"].shape[1]))
source = sg.Source(logits=held["logits"], labels=held["labels"], classes=names)

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

def clock():
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(s.ru_utime + s.ru_stime for s in spent)

def duck():
    columns = ",".join(f"logit_{j}" for j in range(held["logits"].shape[1]))
    with duckdb.connect() as base:
        base.execute("set threads = 2")
        base.execute(f"select avg(greatest({columns})) from '{path}/*.parquet'").fetchall()
    return {}

def method():
    if array == "yes":
        target = sg.Target(logits=np.load(path))
        return {"error": sg.estimate(source, target, what, interval=False).error}
    more = {"dask": client} if client is not None else {"threads": 2}
    scan = sg.scan(path, kind="logits", **more)
    answer = sg.estimate(source, scan, what, interval=False)
    traffic = [seen.sent + seen.received for seen in getattr(scan.engine, "traffic", ())]
    return {"error": answer.error, "passes": scan.passes, "parts": len(scan.parts), "traffic": traffic}

def watch():
    while not over:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.01)

if __name__ == "__main__":
    client = None
    if dask == "yes":
        from distributed import Client, LocalCluster
        client = Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
    runs, peak, over, before = [], [0], False, anonymous()
    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(2):
        wall, spent = time.perf_counter(), clock()
        found = duck() if what == "duckdb" else method()
        runs.append((time.perf_counter() - wall, clock() - spent))
    over = True
    watcher.join()
    if client is not None:
        client.close()
    print(json.dumps({**found, "wall": min(r[0] for r in runs), "cpu": min(r[1] for r in runs),
                      "peak": (peak[0] - before) / 1024}))
"""


def rows_of(n, k, seed):
    """(n, k) float32 logits and their labels: a model that is right two times out of three, whatever k."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = 1.5 * rng.standard_normal((n, k), np.float32)
    logits[np.arange(n), labels] += np.float32(3.0 + (k > 10) * 3.0)
    return logits, labels


def write(folder, rows, k, npy):
    """The target in files, the source beside it; returns what is scanned."""
    folder.mkdir(parents=True)
    logits, labels = rows_of(SOURCE if k <= 10 else SOURCE // 10, k, 10**6)
    np.savez(folder / "source.npz", logits=logits, labels=labels)
    if npy:
        held = np.lib.format.open_memmap(folder / "target.npy", "w+", np.float32, (rows, k))
        for begin in range(0, rows, 50_000):
            held[begin : begin + 50_000] = rows_of(min(50_000, rows - begin), k, begin)[0]
        held.flush()
        return folder / "target.npy"
    inside = folder / "target"
    inside.mkdir()
    for number, begin in enumerate(range(0, rows, FILE_ROWS)):
        part = rows_of(min(FILE_ROWS, rows - begin), k, number)[0]
        table = pa.table({f"logit_{j}": part[:, j] for j in range(k)})
        parquet.write_table(
            table,
            inside / f"{number:05}.parquet",
            use_dictionary=False,
            row_group_size=max(8_192, 1_310_720 // k),
        )
    return inside


def run(folder, what, target, dask="no", array="no"):
    """What a fresh process measured."""
    script = folder / "child.py"
    script.write_text(CHILD)
    command = [sys.executable, str(script), what, str(target), str(folder / "source.npz"), dask, array]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(made.stdout.splitlines()[-1])


def measured(rows, k, methods, options, root):
    """Print one line per method; returns them."""
    folder = root / f"{rows}"
    npy = options.npy or options.array
    target = write(folder, rows, k, npy)
    size = sum(f.stat().st_size for f in ([target] if npy else target.iterdir())) / 2**20
    print(f"\n{rows:,} rows x {k} classes, {size:,.0f} MiB")
    print(f"{'':8} {'wall s':>8} {'cpu s':>8} {'passes':>7} {'cpu/pass':>9} {'x DuckDB':>9} {'peak MiB':>9}")
    read, lines = None, {}
    for what in ([] if npy else ["duckdb"]) + methods:
        found = run(folder, what, target, array="yes" if options.array else "no")
        read = found["cpu"] if what == "duckdb" else read
        passes = found.get("passes", 1)
        each = found["cpu"] / passes
        ratio = "" if read is None else f"{each / read:9.2f}"
        print(
            f"{what:8} {found['wall']:8.2f} {found['cpu']:8.2f} {passes:7} {each:9.2f} {ratio:>9} {found['peak']:9.0f}",
            flush=True,
        )
        lines[what] = found
        if options.array:
            print(f"{'':8} {found['peak'] / size:.2f} times the input, which is part of it", flush=True)
        if passes > LIMITS[k].get(what, passes):
            sys.exit(f"{what}: {passes} passes, more than {LIMITS[k][what]}")
        if options.dask and what != "duckdb":
            by_dask = run(folder, what, target, "yes")
            if by_dask["error"] != found["error"]:
                sys.exit(f"{what}: {by_dask['error']!r} by Dask, {found['error']!r} by threads")
            seen = by_dask["traffic"][-passes:]
            print(
                f"  by Dask{by_dask['wall']:8.2f} s, {by_dask['wall'] / found['wall']:.2f} times the threads; "
                f"{by_dask['parts']} parts, KiB a pass: {', '.join(f'{b / 1024:,.0f}' for b in seen)}",
                flush=True,
            )
    shutil.rmtree(folder)
    return lines


def main():
    """Measure."""
    parser = parser_of(__doc__, "1,000,000 rows and two methods", numbers=False)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--wide", action="store_true", help="1,000 classes")
    parser.add_argument("--npy", action="store_true", help="a .npy file instead of Parquet")
    parser.add_argument("--array", action="store_true", help="an array in memory instead of Parquet")
    parser.add_argument("--dask", action="store_true", help="two worker processes make the passes")
    parser.add_argument("--folder", help="where files are written meanwhile")
    options = parser.parse_args()
    rows = [1_000_000] if options.quick else options.rows
    methods = ["ac", "scot"] if options.quick else options.methods.split(",")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for count in rows:
            measured(count, 1_000 if options.wide else 10, methods, options, Path(folder))


if __name__ == "__main__":
    main()
