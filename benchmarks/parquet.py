"""Reading scores from a Parquet folder: time and peak memory, against reading the table with pyarrow.

    python benchmarks/parquet.py [--quick] [--gb 5] [--keep FOLDER]

Writes a folder of Parquet files (ten float32 score columns, a label, and columns that nobody asked for: an
embedding and a text), then reads the scores in fresh processes, once by `shiftgauge.io.read_target`, once by
`pyarrow.parquet.read_table` of the same columns and `numpy.column_stack`, once by reading the whole table first,
as a person in a hurry would. Peak memory is the process's high-water mark beyond what it held before reading.
"""

import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from _options import parser_of
from pyarrow import parquet

K, WIDTH, ROWS = 10, 48, 250_000
READ = {
    "shiftgauge": "from shiftgauge.io import read_target; scores = read_target(path).scores",
    "pyarrow, score columns": (
        "from pyarrow import parquet; import numpy as np; "
        "table = parquet.read_table(path, columns=['logit_%d' % j for j in range(10)]); "
        "scores = np.column_stack([c.to_numpy() for c in table.columns])"
    ),
    "pyarrow, whole table": (
        "from pyarrow import parquet; import numpy as np; table = parquet.read_table(path); "
        "scores = np.column_stack([table.column('logit_%d' % j).to_numpy() for j in range(10)])"
    ),
}
CHILD = """
import json, sys, time
import numpy, pyarrow.parquet, shiftgauge.io
path = sys.argv[1]
def high():
    with open("/proc/self/status") as file:
        held = dict(line.split(":", 1) for line in file)
    return int(held["VmHWM"].split()[0]) / 1024, int(held["VmRSS"].split()[0]) / 1024
_, before = high()
begun = time.perf_counter()
{code}
spent = time.perf_counter() - begun
print(json.dumps({{"seconds": spent, "peak": high()[0] - before, "scores": scores.nbytes / 2**20}}))
"""


def write(folder, gigabytes):
    """One file of `ROWS` rows, copied until the folder is large enough."""
    rng = np.random.default_rng(0)
    columns = {f"logit_{j}": rng.normal(size=ROWS).astype(np.float32) for j in range(K)}
    columns["label"] = rng.integers(0, K, ROWS).astype(str)
    columns |= {f"embedding_{j}": rng.normal(size=ROWS).astype(np.float32) for j in range(WIDTH)}
    columns["text"] = np.array([f"row {i}, some text that takes room" for i in range(ROWS)])
    first = folder / "0000.parquet"
    parquet.write_table(pa.table(columns), first, compression="none")
    files = math.ceil(gigabytes * 2**30 / first.stat().st_size)
    for number in range(1, files):
        shutil.copy(first, folder / f"{number:04}.parquet")
    return files


def measure(folder, code):
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(code=code), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()[-200:]}


def main():
    arguments = parser_of(__doc__, "a folder of 0.2 GB", numbers=False)
    arguments.add_argument("--gb", type=float, default=5.0)
    arguments.add_argument("--keep", type=Path, help="write here, and leave it")
    asked = arguments.parse_args()
    folder = asked.keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        files = write(folder, 0.2 if asked.quick else asked.gb)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**30
        print(
            f"{size:.2f} GB of Parquet in {files} files, {files * ROWS:,} rows, {K} of {K + WIDTH + 2} columns wanted"
        )
        print(
            "\n| reader | seconds | scores, MB | peak memory, MB | beyond the scores, MB |\n|---|---:|---:|---:|---:|"
        )
        for name, code in READ.items():
            found = measure(folder, code)
            if "failed" in found:
                print(f"| {name} | failed: {found['failed'].splitlines()[-1]} | | | |")
                continue
            beyond = found["peak"] - found["scores"]
            print(
                f"| {name} | {found['seconds']:.1f} | {found['scores']:.0f} | {found['peak']:.0f} | {beyond:.0f} |"
            )
    finally:
        if asked.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
