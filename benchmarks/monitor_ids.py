"""Ids that a monitor has seen: the hash table in memory against a table of the database.

    python benchmarks/monitor_ids.py [--quick]

Batches of 1,000 random 64-bit keys, a tenth of them seen before, are looked up and added: by `IdIndex`, and by SQLite
(`INSERT OR IGNORE` into a table without row ids, with write-ahead log, one commit a batch, not synchronised). Prints
processor time per million ids at several sizes, the bytes per id, and the ratio.
"""

import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np
from _options import parser_of

from shiftgauge.monitor.db.ids import IdIndex

BATCH = 1000


def batches(rng, count, seen):
    """Keys of which a tenth were among those seen."""
    for _ in range(count):
        fresh = rng.integers(2, 1 << 62, BATCH, dtype=np.uint64)
        fresh[: BATCH // 10] = rng.choice(seen, BATCH // 10)
        yield fresh


def in_memory(sizes, measured):
    """(seconds per million ids, bytes per id) at each size."""
    index, rng, filled = IdIndex({"content": np.uint32, "version": np.int32, "slot": np.int32}), None, 0
    for size in sizes:
        rng = np.random.default_rng(size)
        fill = rng.integers(2, 1 << 62, size - filled, dtype=np.uint64)
        index.put(fill, content=0, version=1, slot=2)
        start = time.process_time()
        for keys in batches(rng, measured, fill):
            new = keys[index.find(keys) < 0]
            index.put(new, content=0, version=1, slot=2)
        seconds = time.process_time() - start
        filled = size + measured * BATCH
        held = index.table.nbytes + sum(values.nbytes for values in index.columns.values())
        yield seconds / (measured * BATCH) * 1e6, held / index.count


def in_database(sizes, measured, folder):
    """The same in SQLite."""
    path = Path(folder) / "ids.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = OFF")
    database.execute(
        "CREATE TABLE ids (key INTEGER PRIMARY KEY, content INTEGER, version INTEGER, slot INTEGER) WITHOUT ROWID"
    )
    add, filled = "INSERT OR IGNORE INTO ids VALUES (?, 0, 1, 2)", 0
    for size in sizes:
        rng = np.random.default_rng(size)
        fill = rng.integers(2, 1 << 62, size - filled, dtype=np.uint64)
        database.execute("BEGIN")
        database.executemany(add, ((int(key),) for key in np.sort(fill)))
        database.execute("COMMIT")
        start = time.process_time()
        for keys in batches(rng, measured, fill):
            database.execute("BEGIN")
            database.executemany(add, [(key,) for key in keys.tolist()])
            database.execute("COMMIT")
        seconds = time.process_time() - start
        filled = size + measured * BATCH
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield seconds / (measured * BATCH) * 1e6, path.stat().st_size / filled
    database.close()


def main():
    parser = parser_of(__doc__, "100,000 ids", numbers=False)
    quick = parser.parse_args().quick
    sizes, measured = ([100_000], 20) if quick else ([100_000, 2_000_000, 10_000_000], 200)
    with tempfile.TemporaryDirectory() as folder:
        pairs = zip(sizes, in_memory(sizes, measured), in_database(sizes, measured, folder), strict=True)
        for size, ours, theirs in pairs:
            print(
                f"{size:>10,} ids: in memory {ours[0]:.2f} s per million, {ours[1]:.0f} bytes per id; "
                f"SQLite {theirs[0]:.2f} s per million, {theirs[1]:.0f} bytes; ratio {theirs[0] / ours[0]:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
