"""Exact transport against POT, OR-tools and the time of one read of the matrix.

    python benchmarks/transport.py [--quick] [--only 10000x10] [--json FILE] [--npz FILE --key LOGITS --labels LABELS]

Everything is measured in one run, so ratios mean something on a noisy machine. The scores are those of an
overconfident network under shift, made up here, or real logits resampled with a little noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.calibration import fit_calibration
from shiftgauge.rows import Rows, run
from shiftgauge.samples import Source, Target
from shiftgauge.transport import Problem, Solution, exact_transport, soft_transport, solve

Record = dict[str, Any]
#: Ours is measured several times and the best taken, more often if it is quick; opponents once if slow.
REPEATS, QUICK = 3, 0.5
#: Opponents are left out beyond so many rows, where they take minutes: POT's time grows with the square of n.
MOST_ROWS = {"POT": 30_000, "OR-tools": 100_000}


def network(n: int, k: int, dtype: type = np.float64, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a sharp linear network whose classes are biased by a shift, and the source's label counts."""
    rng = np.random.default_rng(seed)
    dim = 16 if k <= 100 else 64
    prototypes = rng.normal(0, 1, (dim, k)) / np.sqrt(dim)
    bias = rng.normal(0, 1.5 if k <= 100 else 1.0, k)
    out = np.empty((n, k), dtype)
    step = max(1, (1 << 22) // k)
    for lo in range(0, n, step):
        labels = rng.integers(0, k, len(out[lo : lo + step]))
        features = 4 * prototypes[:, labels].T + rng.normal(0, 1, (len(labels), dim))
        logits = 3 * features @ prototypes + bias
        out[lo : lo + step] = softmax(logits)
    return out, whole_counts(np.ones(k), n)


def resampled(
    path: str, key: str, labels: str, n: int, dtype: type = np.float64
) -> tuple[np.ndarray, np.ndarray]:
    """Real logits, resampled to n rows with noise of 0.05, and the label counts of the source."""
    file = np.load(path)
    logits, counts = file[key].astype(np.float64), np.bincount(file[labels], minlength=file[key].shape[1])
    rng = np.random.default_rng(0)
    out = np.empty((n, logits.shape[1]), dtype)
    for lo in range(0, n, 1 << 18):
        rows = logits[rng.integers(0, len(logits), len(out[lo : lo + (1 << 18)]))]
        out[lo : lo + (1 << 18)] = softmax(rows + rng.normal(0, 0.05, rows.shape))
    return out, whole_counts(counts, n)


def softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def whole_counts(masses: np.ndarray, n: int) -> np.ndarray:
    """Whole numbers of rows in these proportions: OR-tools needs integers."""
    exact = masses / masses.sum() * n
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact)[: n - counts.sum()]] += 1
    return counts


def timed(task: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    best, answer, spent, count = np.inf, None, 0.0, 0
    while count < repeats or (spent < QUICK and count < 20):
        begun = time.process_time()
        answer = task()
        best = min(best, time.process_time() - begun)
        spent, count = spent + time.process_time() - begun, count + 1
    return best, answer


def one_pass(p: np.ndarray) -> float:
    return timed(lambda: p.max(1).mean(), 7)[0]


def ours(p: np.ndarray, q: np.ndarray, repeats: int = REPEATS, **options: Any) -> tuple[float, Solution]:
    """The time includes checking the input."""
    return timed(lambda: solve(Problem(p, q), **options), repeats)


def pot(p: np.ndarray, q: np.ndarray) -> float:
    import ot

    n = len(p)
    return float(ot.emd2(np.full(n, 1 / n), q / q.sum(), 1 - p, numItermax=10**9))


def ortools(p: np.ndarray, q: np.ndarray) -> float:
    """Costs rounded to multiples of 1e-9, as integers."""
    from ortools.graph.python import min_cost_flow

    n, k = p.shape
    flow = min_cost_flow.SimpleMinCostFlow()
    tails, heads = np.repeat(np.arange(n), k), np.tile(np.arange(n, n + k), n)
    costs = np.rint((1 - p.ravel()) * 1e9).astype(np.int64)
    flow.add_arcs_with_capacity_and_unit_cost(tails, heads, np.ones(n * k, np.int64), costs)
    flow.set_nodes_supplies(np.arange(n + k), np.concatenate([np.ones(n, np.int64), -q]))
    assert flow.solve() == flow.OPTIMAL
    return flow.optimal_cost() / 1e9 / n


OPPONENTS = {"POT": pot, "OR-tools": ortools}


def available(n: int) -> dict[str, Callable[[np.ndarray, np.ndarray], float]]:
    """The opponents that are installed, imported, and quick enough at n rows."""
    found = {}
    for name, opponent in OPPONENTS.items():
        if n > MOST_ROWS[name]:
            print(f"  {name} is left out at {n:,} rows: it takes minutes there")
            continue
        try:
            opponent(np.eye(2), np.ones(2, np.int64))  # imports
            found[name] = opponent
        except ImportError:
            print(f"  {name} is not installed: pip install {'POT' if name == 'POT' else 'ortools'}")
    return found


def versus(make: Callable[..., tuple[np.ndarray, np.ndarray]], n: int, k: int, wanted: float) -> list[Record]:
    """Ours against each opponent on the same n x K problem."""
    p, q = make(n, k)
    seconds, solution = ours(p, q)
    records, fastest = [], np.inf
    for name, opponent in available(n).items():
        theirs, value = timed(partial(opponent, p, q))
        fastest = min(fastest, theirs)
        records.append(
            {"what": f"{n:,} x {k:,} {name}", "seconds": theirs, "difference": value - solution.value}
        )
    ratio = fastest / seconds if records else None
    return [*records, line(f"{n:,} x {k:,} shiftgauge", seconds, solution, ratio=ratio, wanted=wanted)]


def line(what: str, seconds: float, solution: Solution, **more: Any) -> Record:
    return {"what": what, "seconds": seconds, "gap": solution.certificate.gap, **more}


def passes(p: np.ndarray, q: np.ndarray, wanted: float, repeats: int = REPEATS) -> list[Record]:
    """Ours in units of one read of the matrix, with its memory and a warm start."""
    n, k = p.shape
    name = f"{n:,} x {k:,} {p.dtype}"
    one = one_pass(p)
    seconds, solution = ours(p, q, repeats)
    records = [{"what": f"{name} one pass", "seconds": one}]
    records.append(line(name, seconds, solution, passes=seconds / one, wanted=wanted))
    single, _ = ours(p, q, repeats, threads=1)
    records.append(line(f"{name} one thread", single, solution, passes=single / one))
    weights = np.random.default_rng(1).multinomial(n, np.full(n, 1 / n)).astype(float)
    again, boot = timed(lambda: solve(Problem(p, q, weights), prices=solution.prices), repeats)
    records.append(
        line(f"{name} bootstrap, warm", again, boot, passes=again / one, share_of_cold=again / seconds)
    )
    problem = Problem(p, q)
    tracemalloc.start()
    solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    allowed = 64 * n + 32 * k * k
    records.append({"what": f"{name} memory", "bytes": peak, "allowed": allowed, "share": peak / allowed})
    return records


#: Passes of numpy that AC, COT and SCOT may take of rows in memory; and the largest ratio of two times per row.
LIMITS, CLIFF = {"AC": 1.3, "COT": 3.5, "SCOT": 9.0}, 1.5


def curve(sizes: list[int]) -> list[Record]:
    """AC, COT and SCOT of rows in memory at K = 10, POT and OR-tools, as multiples of one pass of numpy."""
    labelled, _ = network(20_000, 10)
    source = Source(probs=labelled, labels=labelled.argmax(1))
    none, q = fit_calibration("none", source), np.full(10, 0.1)

    async def ac(rows: Rows) -> float:
        return float(await rows.mean(lambda block: 1.0 - block.confidence))

    async def cot(rows: Rows) -> float:
        return (await exact_transport(rows, q)).value

    async def scot(rows: Rows) -> float:
        return 1.0 - (await soft_transport(rows, q)).kept

    records = []
    for n in sizes:
        p, _ = network(n, 10)
        target = Target(probs=p)
        one = one_pass(p)
        for name, task in {"AC": ac, "COT": cot, "SCOT": scot}.items():
            seconds, _ = timed(lambda task=task, t=target: run(task(Rows.of(t).calibrated(none))), REPEATS)
            record = {"what": f"{n:,} x 10 {name}", "seconds": seconds, "passes": seconds / one}
            records.append({**record, "ns_per_row": 1e9 * seconds / n, "limit": LIMITS[name]})
            print_line(records[-1])
        for name, opponent in available(n).items():
            seconds, _ = timed(partial(opponent, p, whole_counts(q, n)))
            records.append({"what": f"{n:,} x 10 {name}", "seconds": seconds, "passes": seconds / one})
            print_line(records[-1])
    for name in LIMITS:
        times = [r["ns_per_row"] for r in records if r["what"].endswith(f" {name}")]
        print(f"  {name}: largest ratio of times per row {max(times) / min(times):.2f} (limit {CLIFF})")
    return records


def growth(make: Callable[..., tuple[np.ndarray, np.ndarray]], sizes: list[int]) -> list[Record]:
    """Time against n at K = 10, float32 from a memory map."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            p, q = make(n, 10, np.float32)
            np.save(f"{folder}/p.npy", p)
            del p
            mapped = np.load(f"{folder}/p.npy", mmap_mode="r")
            one = one_pass(mapped)
            seconds, solution = ours(mapped, q, 2)
            name = f"{n:,} x 10 float32 memory map"
            records.append(line(name, seconds, solution, passes=seconds / one, per_million=seconds / n * 1e6))
    return records


def hard_cases(quick: bool) -> list[Record]:
    """Cases made to hurt: ties, extremes, odd shapes."""
    rng = np.random.default_rng(0)
    scale = 20 if quick else 1
    n = 200_000 // scale
    p, _ = network(n, 10)
    skew = np.full(10, 0.03 / 9)
    skew[3] = 0.97
    zero = np.ones(10)
    zero[4] = 0
    few, _ = network(50, 1000)
    parts, _ = network(5_000 // scale, 1000)
    cases = {
        "saturated 0/1 rows": (np.eye(10)[rng.integers(0, 10, n) // 2], np.ones(10)),
        "all rows equal": (np.tile(p[:1], (n, 1)), np.ones(10)),
        "one class holds 97 %": (p, skew),
        "a class of zero mass": (p, zero),
        "two classes": (network(n, 2)[0], [0.3, 0.7]),
        "n < K": (few, np.ones(1000)),
        "masses that are no whole rows": (p, rng.dirichlet(np.full(10, 5.0))),
        "the same, many classes": (parts, rng.dirichlet(np.full(1000, 50.0))),
        "near ties, 1e-12 apart": (
            0.1 + 1e-12 * rng.integers(0, 9, (n, 10)),
            rng.dirichlet(np.full(10, 5.0)),
        ),
        "ties, many classes": (rng.integers(0, 3, (5_000 // scale, 500)) / 2, np.ones(500)),
        "K = 10,000": (network(20_000 // scale, 10_000 // scale, np.float32)[0], np.ones(10_000 // scale)),
    }
    records = []
    for name, (scores, q) in cases.items():
        one = one_pass(scores)
        seconds, solution = ours(scores, np.asarray(q, float), 1)
        shape = f"{len(scores):,} x {scores.shape[1]:,}"
        records.append(line(f"{shape} {name}", seconds, solution, passes=seconds / one))
        print_line(records[-1])
    return records


def compiling() -> list[Record]:
    """The first call in a fresh environment, and in the next process."""
    code = (
        "import time, numpy as np; from shiftgauge.transport import Problem, solve; t = time.perf_counter();"
        "solve(Problem(np.eye(3, dtype=np.float32), np.ones(3))); print(time.perf_counter() - t)"
    )
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for what in ("first call, compiling", "first call of a later process"):
            env = os.environ | {"NUMBA_CACHE_DIR": folder}
            run = subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
            )
            records.append({"what": what, "seconds": float(run.stdout)})
    return records


def chosen(sizes: list[tuple[int, int, int]], only: str | None) -> list[tuple[int, int, int]]:
    """The sizes (n, K, goal) that were asked for."""
    return [size for size in sizes if only in (None, f"{size[0]}x{size[1]}")]


def print_line(record: Record) -> None:
    numbers = ", ".join(
        f"{key} {value:.3g}" for key, value in record.items() if key != "what" and value is not None
    )
    print(f"  {record['what']:<52} {numbers}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument(
        "--only", help="just this size of those compared with opponents or passes, as 10000x10"
    )
    parser.add_argument("--json", type=Path, help="write the records here as well")
    parser.add_argument("--npz", help="real logits for K = 10 instead of made-up ones")
    parser.add_argument("--key", default="logits")
    parser.add_argument("--labels", default="labels")
    given = parser.parse_args()

    def make(n: int, k: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
        if given.npz and k == 10:
            return resampled(given.npz, given.key, given.labels, n, dtype)
        return network(n, k, dtype)

    quick = given.quick
    for dtype in (np.float64, np.float32):  # compile or load
        solve(Problem(np.eye(3, dtype=dtype), np.ones(3)))
    records: list[Record] = []

    def section(title: str, found: list[Record], printed: bool = False) -> None:
        if not printed:
            print(title)
            for record in found:
                print_line(record)
        records.extend(found)

    compared = (
        [(10_000, 10, 10), (1_000, 200, 10)]
        if quick
        else [(10_000, 10, 10), (100_000, 10, 20), (5_000, 1000, 10)]
    )
    for n, k, wanted in chosen(compared, given.only):
        section("against the faster opponent (ratio: times faster)", versus(make, n, k, wanted))
    large = [(100_000, 10, 30)] if quick else [(1_000_000, 10, 30), (50_000, 1000, 150)]
    for n, k, most in chosen(large, given.only):
        section("in units of one read of the matrix, p.max(1).mean()", passes(*make(n, k), most))
    if not given.only:
        print("rows in memory, in units of one pass of numpy")
        sizes = [100_000] if quick else [100_000, 400_000, 450_000, 1_000_000, 3_000_000]
        section("", curve(sizes), printed=True)
        section("growth", growth(make, [10**4, 10**5] if quick else [10**4, 10**5, 10**6, 10**7]))
        print("hard cases")
        section("", hard_cases(quick), printed=True)
        if not quick:
            section("compiling", compiling())
    worst = max(abs(record.get("gap", 0.0)) for record in records)
    print(f"worst |primal - dual|: {worst:.2g}")
    assert worst <= 1e-9
    text = json.dumps({"schema": 1, "benchmark": "transport", "records": records})
    print(text)
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
