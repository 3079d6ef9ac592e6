"""Run one tool's script three times in fresh processes, and record what it took.

    python benchmarks/peers/measure.py TOOL FOLDER      with TOOL one of nannyml, evidently, shiftgauge

FOLDER holds the two files that the tutorial writes, val.parquet and month.parquet. Run it with the Python of an
environment in which only that tool, pandas and what they need are installed. The record goes to measured.json.
"""

import json
import platform
import resource
import subprocess
import sys
from datetime import date
from importlib.metadata import distributions, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNS = 3


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(tool: str, folder: Path) -> None:
    script, seconds = HERE / f"with_{tool}.py", []
    for _ in range(RUNS):
        before = cpu_seconds()
        done = subprocess.run(
            [sys.executable, script], cwd=folder, check=True, capture_output=True, text=True
        )
        seconds.append(round(cpu_seconds() - before, 2))
    record = {
        "version": version(tool),
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "lines": sum(bool(line.strip()) for line in script.read_text(encoding="utf-8").splitlines()),
        "cpu_seconds": seconds,
        "page_bytes": (folder / f"{tool}.html").stat().st_size,
        "packages": len({one.name for one in distributions()}),
        "printed": done.stdout,
    }
    path = HERE / "measured.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    known[tool] = {**known.get(tool, {}), **record}
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
