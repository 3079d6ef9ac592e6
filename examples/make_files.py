"""Write the demo's predictions as files to try the command on: python examples/make_files.py [FOLDER]

val.npz, val.csv: 5,000 labelled validation rows. new.npz, new.csv, new.parquet: 4,000 unlabelled rows whose
images were blurred by motion. days/: the same rows as a folder of Parquet files, one a day, with a column `day`.
checked.npz: the same rows with their labels, for --check. history.parquet: 800 of them with labels and times.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

import shiftgauge as sg

DAYS = ("mon", "tue", "wed", "thu")


def table(scores, classes, **columns):
    """One column per class, and whatever else there is."""
    return pa.table({**{f"logit_{c}": scores[:, j] for j, c in enumerate(classes)}, **columns})


def main(folder):
    """Write every file."""
    demo = sg.demo_data()
    source, target = demo.source, demo.targets["motion_blur"]
    classes = list(source.classes)
    labels = np.array(classes)[source.labels]
    val, new = (np.asarray(one.scores, np.float32) for one in (source, target))

    np.savez(folder / "val.npz", logits=val, labels=labels, classes=classes)
    np.savez(folder / "new.npz", logits=new, classes=classes)
    np.savez(folder / "checked.npz", logits=new, classes=classes, labels=demo.labels)
    csv.write_csv(table(val, classes, label=labels), folder / "val.csv")
    days = np.repeat(DAYS, len(new) // len(DAYS))
    whole = table(new, classes, day=days)
    csv.write_csv(whole, folder / "new.csv")
    parquet.write_table(whole, folder / "new.parquet")
    hours = np.datetime64("2026-03-02T00:00:00") + np.arange(800) * np.timedelta64(432, "s")  # four days
    times = pa.array(hours).cast(pa.timestamp("s", tz="UTC"))
    parquet.write_table(
        table(new[:800], classes, label=demo.labels[:800], time=times), folder / "history.parquet"
    )
    (folder / "days").mkdir(exist_ok=True)
    for number, day in enumerate(DAYS):
        parquet.write_table(whole.filter(pa.array(days == day)), folder / "days" / f"{number}-{day}.parquet")
    sys.stdout.write(f"written to {folder.resolve()}\n")


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    where.mkdir(parents=True, exist_ok=True)
    main(where)
