"""The first call in a fresh environment: `shiftgauge estimate` with an empty cache of machine code.

    python benchmarks/cold.py [--quick] [--json FILE]

Processor seconds of the whole process, by method: with an empty cache (cold), with the cache that the cold run
left behind (again), and of the imports alone, the opponent: `import shiftgauge, numba, scipy.optimize` and the
command's own modules. What counts is cold beyond imports: at most 3 s for SCOT, 8 s for COTT. Processor time, since
a busy machine stretches the clock; a busy machine also makes processor time longer, by its shared caches.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _options import parser_of, save

#: Seconds of processor time beyond imports that a cold start may take.
LIMITS = {"scot": 3.0, "cott": 8.0, "auto": None}
IMPORTS = (
    "import shiftgauge.cli.app, shiftgauge.inference, shiftgauge.io, numba, "
    "scipy.optimize, scipy.stats, rich.table"
)


def samples(folder: Path) -> tuple[Path, Path]:
    """A source and a target of 2,000 rows and ten classes."""
    rng = np.random.default_rng(0)
    paths = folder / "source.npz", folder / "target.npz"
    for path, offset in zip(paths, (0.0, 0.5), strict=True):
        z = 2.0 * rng.normal(size=(2_000, 10))
        z[:, 0] += offset
        labels = (z + rng.gumbel(size=z.shape)).argmax(1)
        np.savez(path, logits=1.5 * z, **({"labels": labels} if offset == 0.0 else {}))
    return paths


def seconds(command: list[str], cache: Path) -> float:
    """The processor time that a process takes, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(method: str, folder: Path, imports: float) -> dict[str, object]:
    """Cold and warm seconds of one method."""
    source, target = samples(folder)
    cache = folder / f"cache-{method}"
    command = [sys.executable, "-c", "from shiftgauge.cli.app import main; main()"]
    command += ["estimate", str(source), str(target), "-m", method]
    cold = seconds(command, cache)
    warm = seconds(command, cache)
    limit = LIMITS[method]
    beyond = cold - imports
    print(
        f"{method}: cold {cold:.1f} s, warm {warm:.1f} s, imports {imports:.1f} s; cold beyond imports {beyond:.1f} s"
        + ("" if limit is None else f" (limit {limit:g}: {'kept' if beyond <= limit else 'MISSED'})"),
        flush=True,
    )
    return {
        "method": method,
        "cold": cold,
        "warm": warm,
        "imports": imports,
        "beyond": beyond,
        "limit": limit,
    }


def main() -> None:
    parser = parser_of(__doc__, "SCOT and COTT only")
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds([sys.executable, "-c", IMPORTS], folder)  # byte code
        imports = seconds([sys.executable, "-c", IMPORTS], folder)
        methods = ["scot", "cott"] if given.quick else list(LIMITS)
        results = [measure(method, folder, imports) for method in methods]
    save(given, results)


if __name__ == "__main__":
    main()
