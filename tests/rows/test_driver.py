"""The driver: coroutines side by side, one pass for all their requests, one traceback, and no pass too many."""

import subprocess
import sys
import traceback

import numpy as np
import pytest
from engines import samples

import shiftgauge as sg
from shiftgauge.errors import ShiftgaugeError
from shiftgauge.rows import RowBuffer, Rows, Totals, gather, run


def arrays(n=600, k=3, seed=0):
    rng = np.random.default_rng(seed)
    return {"scores": rng.dirichlet(np.ones(k), n), "weights": rng.uniform(0.5, 2.0, n)}


def in_parts(cuts=(100, 350), size=70, **how):
    return Rows(samples.parts_of(arrays(), list(cuts), size), "probs", 3, weighted=True, **how)


def top(block):
    return block.scores.max(axis=1)


def count(block):
    return len(block)


def test_a_coroutine_is_driven_to_its_end():
    async def answer():
        return 42

    assert run(answer()) == 42


def test_requests_of_one_round_share_a_pass():
    rows = in_parts()

    async def two_rounds():
        mean = await rows.mean(top)
        return await rows.mean(lambda block: np.abs(top(block) - mean))

    async def one_round():
        return await rows.fold(count)

    async def everything():
        return await gather(two_rounds(), one_round(), one_round(), rows.fold(count))

    spread, *counts = run(everything())
    held = arrays()
    values, w = held["scores"].max(axis=1), held["weights"]
    mean = np.average(values, weights=w)
    assert spread == pytest.approx(np.average(np.abs(values - mean), weights=w), abs=1e-12)
    assert counts == [600, 600, 600]
    assert rows.passes == 2


def test_gather_keeps_the_order_and_may_be_nested_or_empty():
    rows = in_parts()

    async def nested():
        return await gather(gather(rows.fold(count), rows.fold(lambda block: 0)), gather())

    assert run(nested()) == [[600, 0], []]


def test_what_is_computed_once_is_computed_once():
    rows, calls = in_parts(), []

    async def compute(scale):
        calls.append(scale)
        return scale * await rows.fold(count)

    async def asked():
        return await gather(*(rows.once(("count", scale), compute, scale) for scale in (1, 2, 1, 1)))

    assert run(asked()) == [600, 1200, 600, 600]
    assert calls == [1, 2]
    assert rows.passes == 1
    assert run(rows.once(("count", 2), compute, 2)) == 1200
    assert calls == [1, 2]


def test_what_failed_is_computed_again():
    rows, calls = in_parts(), []

    async def compute():
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("the first time")
        return await rows.fold(count)

    with pytest.raises(ValueError, match="the first time"):
        run(rows.once("key", compute))
    assert run(rows.once("key", compute)) == 600


def test_an_error_in_a_step_has_one_traceback_that_names_the_step():
    rows = in_parts()

    def broken_step(block):
        return 1 // (0 * len(block))

    async def method():
        return await rows.fold(broken_step)

    async def other():
        return await rows.fold(count)

    async def both():
        return await gather(other(), method())

    with pytest.raises(ZeroDivisionError) as caught:
        run(both())
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert any(frame.name == "broken_step" for frame in traceback.extract_tb(caught.value.__traceback__))
    assert run(other()) == 600  # the rows can be read again


def test_an_error_between_two_passes_reaches_the_caller():
    rows = in_parts()

    async def method():
        if await rows.fold(count) == 600:
            raise ValueError("no such method")

    with pytest.raises(ValueError, match="no such method"):
        run(gather(method(), rows.fold(count)))


def test_coroutines_that_wait_for_each_other_are_refused():
    rows = in_parts()

    async def first():
        return await rows.once("second", second)

    async def second():
        return await rows.once("first", first)

    with pytest.raises(ShiftgaugeError, match="wait for each other"):
        run(rows.once("first", first))
    assert rows.passes == 0


def test_only_requests_can_be_awaited():
    class Strange:
        def __await__(self):
            yield 3

    async def method():
        await Strange()

    with pytest.raises(ShiftgaugeError, match="a method awaited a int; wanted a request of its rows"):
        run(method())


def test_small_rows_go_first_so_that_one_pass_over_the_large_serves_all():
    small, large = Rows.of(sg.Target(probs=arrays(20)["scores"])), in_parts()

    async def through_both():
        return await small.fold(count) + await large.fold(count)

    async def large_alone():
        return await large.fold(count)

    assert run(gather(through_both(), large_alone())) == [620, 600]
    assert large.passes == 1


def test_progress_counts_the_rows_of_every_pass():
    rows, seen = in_parts(), []
    rows.progress = lambda done, total: seen.append((done, total))
    run(rows.fold(count))
    run(rows.fold(count))
    assert seen == 2 * [(100, 600), (350, 600), (600, 600)]


@pytest.mark.parametrize("seed", range(8))
def test_folds_do_not_depend_on_how_rows_are_cut(seed):
    """Counts and collected rows exactly, sums to rounding; cuts may be anywhere, also two at one place."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 601, 5)
    rows = in_parts([*ends, ends[0]], int(rng.integers(1, 700)))

    def step(block):
        kept = block.scores[:, 0] > 0.5
        return Totals((len(block), block.mass @ block.scores, RowBuffer.of(block.numbers[kept])))

    total, sums, buffer = run(rows.fold(step))
    held = arrays()
    assert total == 600
    np.testing.assert_allclose(sums, held["weights"] @ held["scores"], rtol=1e-12)
    assert buffer.joined()[0].tolist() == np.flatnonzero(held["scores"][:, 0] > 0.5).tolist()


INTERRUPTED = """
import os, signal, sys, time
import numpy as np
import shiftgauge as sg
from shiftgauge.rows import Rows, gather, run

rows = Rows.of(sg.Target(probs=np.full((4000, 2), 0.5)), block_rows=10)

def slow(block):
    if block.start == 50:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)
    return len(block)

async def method():
    return await rows.fold(slow)

begun = time.monotonic()
try:
    run(gather(method(), method()))
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun)
print(run(rows.fold(len)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_pass_and_the_rows_can_be_read_again():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    said, seconds, again = done.stdout.split()
    assert said == "interrupted"
    assert float(seconds) < 2.0  # 400 blocks of two steps would take 4 seconds by two threads
    assert again == "4000"
