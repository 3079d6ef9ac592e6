"""What every method must satisfy. The test suite applies `CHECKS` to all that are registered.

A method of your own can be held to the same list:

    for check in shiftgauge.methods.checks.CHECKS:
        check(MyMethod)
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.methods.base import Estimator
from shiftgauge.results import Estimate
from shiftgauge.rows import Rows
from shiftgauge.samples import Source, Target

Method = type[Estimator]
N, K = 240, 4


def _data(seed: int = 0) -> dict[str, Any]:
    """Scores of an overconfident model, labels, and a shifted target with a second model's predictions."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(K, N, p=[0.4, 0.3, 0.2, 0.1])
    logits = 2.0 * rng.normal(size=(N, K)) + 2.5 * np.eye(K)[labels]
    shifted = 2.0 * rng.normal(size=(N, K)) + 1.5 * np.eye(K)[rng.permutation(labels)] + [0.8, 0, 0, -0.5]
    second = np.argmax(shifted + rng.normal(size=(N, K)), axis=1)
    return {"logits": logits, "labels": labels, "shifted": shifted, "second": second}


def _run(method: Method, data: dict[str, Any], **extra: Any) -> Estimate:
    source = Source(logits=data["logits"], labels=data["labels"], weights=extra.get("source_weights"))
    target = Target(logits=data["shifted"], second=data["second"], weights=extra.get("target_weights"))
    return method().fit(source).estimate(target)


def _value(estimate: Estimate) -> float:
    value = estimate.score if estimate.error is None else estimate.error
    assert value is not None
    return value


def _same(a: Estimate, b: Estimate, tolerance: float = 1e-9) -> None:
    """Equal, up to the mass that ties alone could move."""
    ties = max(e.details.get("tie_mass", 0.0) for e in (a, b))
    assert abs(_value(a) - _value(b)) <= tolerance + ties, (a, b)


def _take(data: dict[str, Any], rows: npt.NDArray[np.intp]) -> dict[str, Any]:
    return {name: values[rows] for name, values in data.items()}


def check_answer_is_sane(method: Method) -> None:
    """An error in [0, 1], or a finite score; never both, never NaN."""
    estimate = _run(method, _data())
    assert np.isfinite(_value(estimate))
    assert (estimate.error is None) != (estimate.score is None)
    assert estimate.error is None or 0.0 <= estimate.error <= 1.0
    assert (estimate.n_source, estimate.n_target) == (N, N)
    assert estimate.method == method.name


def check_permuting_rows(method: Method) -> None:
    """The order of rows does not matter."""
    data = _data()
    mixed = _take(data, np.random.default_rng(1).permutation(N))
    _same(_run(method, data), _run(method, mixed))


def check_relabelling_classes(method: Method) -> None:
    """The order of classes does not matter."""
    data = _data()
    order = np.array([2, 0, 3, 1])
    place = np.argsort(order)
    turned = {
        "logits": data["logits"][:, order],
        "labels": place[data["labels"]],
        "shifted": data["shifted"][:, order],
        "second": place[data["second"]],
    }
    _same(_run(method, data), _run(method, turned))


def check_duplicating_rows(method: Method) -> None:
    """Every row twice is the same evidence, but to a method that tests a hypothesis."""
    if method.counts_rows:
        return
    data = _data()
    _same(_run(method, data), _run(method, _take(data, np.repeat(np.arange(N), 2))))


def check_weights_are_repeats(method: Method) -> None:
    """An integer weight means that many equal rows, but to a method that counts rows."""
    if method.counts_rows:
        return
    data = _data()
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 3, N)
    counts[0] = 1
    repeated = _take(data, np.repeat(np.arange(N), counts))
    _same(
        _run(method, data, source_weights=counts, target_weights=counts.astype(float)),
        _run(method, repeated),
    )


def check_precision(method: Method) -> None:
    """float32 scores give what float64 scores give, up to a row at a threshold."""
    data = _data()
    single = {**data, "logits": data["logits"].astype("f4"), "shifted": data["shifted"].astype("f4")}
    _same(_run(method, data), _run(method, single), tolerance=1e-5 + 2.0 / N)


def check_probs_are_logits(method: Method) -> None:
    """Probabilities are as good as the logits they came from."""
    data = _data()
    source = Source(probs=_softmax(data["logits"]), labels=data["labels"])
    target = Target(probs=_softmax(data["shifted"]), second=data["second"])
    _same(_run(method, data), method().fit(source).estimate(target), tolerance=1e-7 + 1.0 / N)


def check_predictions(method: Method) -> None:
    """The source error is by the deployed decisions, and a target with decisions of its own has an answer.

    A method whose formula cannot follow them (`needs_argmax`) refuses both with an `InputError`.
    """
    data = _data()
    decided = np.roll(data["logits"].argmax(axis=1), 1)
    source = Source(data["logits"], data["labels"], predictions=decided)
    target = Target(data["shifted"], second=data["second"], predictions=np.zeros(N, dtype=int))
    if method.needs_argmax:
        plain = method(calibration="none").fit(Source(data["logits"], data["labels"]))
        for refused in (lambda: method().fit(source), lambda: plain.estimate(target)):
            try:
                refused()
            except InputError:
                continue
            raise AssertionError(f"{method.name} took decisions that are not the largest score")
        return
    estimator = method(calibration="none").fit(source)
    assert abs(estimator.source_error_ - np.mean(decided != data["labels"])) < 1e-12
    assert np.isfinite(_value(estimator.estimate(target)))


def check_blocks(method: Method) -> None:
    """The same rows in one block, in seven, and read in passes give the same answer: the method works at any size."""
    data = _data()
    source = Source(data["logits"], data["labels"])
    target = Target(data["shifted"], second=data["second"])
    estimator = method().fit(source)
    whole = estimator.estimate(target)
    _same(whole, estimator.estimate(Rows.of(target, block_rows=-(-N // 7))))
    _same(whole, estimator.estimate(Rows.of(target, block_rows=N // 3).in_passes()))


def check_purity(method: Method) -> None:
    """Estimating twice gives the same, changes nothing learned, and fit returns its estimator."""
    data = _data()
    source, target = Source(data["logits"], data["labels"]), Target(data["shifted"], second=data["second"])
    estimator = method()
    assert estimator.fit(source) is estimator
    before = _state(estimator)
    first, second = estimator.estimate(target), estimator.estimate(target)
    assert first.to_json() == second.to_json()
    assert _state(estimator) == before


def check_pickling(method: Method) -> None:
    """A fitted estimator survives pickling."""
    data = _data()
    target = Target(data["shifted"], second=data["second"])
    estimator = method().fit(Source(data["logits"], data["labels"]))
    twin = pickle.loads(pickle.dumps(estimator))
    assert twin.estimate(target).to_json() == estimator.estimate(target).to_json()


def check_saving(method: Method) -> None:
    """A fitted estimator comes back from its JSON file with the same answer, to the last bit."""
    data = _data()
    target = Target(data["shifted"], second=data["second"])
    estimator = method().fit(Source(data["logits"], data["labels"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fitted.json"
        estimator.save(path)
        twin = method.load(path)
    assert twin.get_params() == estimator.get_params()
    assert twin.estimate(target).to_json() == estimator.estimate(target).to_json()


def check_parameters(method: Method) -> None:
    """The constructor's arguments can be read, and make the same estimator again."""
    estimator = method(calibration="none")
    assert estimator.get_params()["calibration"] == "none"
    assert method(**estimator.get_params()).get_params() == estimator.get_params()
    assert estimator.set_params(calibration="temperature").get_params() == method().get_params()


def check_json(method: Method) -> None:
    """The result is plain JSON without NaN."""
    document = json.loads(_run(method, _data()).to_json())
    assert document["schema"] == 1
    assert set(document) >= {"method", "error", "accuracy", "range", "details", "warnings"}


def check_edges(method: Method) -> None:
    """One class, one row, equal rows, saturated rows and a flawless source all have a finite answer."""
    one = np.ones((3, 1))
    _finite(method, Source(probs=one, labels=[0, 0, 0]), Target(probs=one, second=[0, 0, 0]))
    data = _data()
    source = Source(data["logits"], data["labels"])
    _finite(method, source, Target(data["shifted"][:1], second=data["second"][:1]))
    equal = np.tile([0.5, 0.2, 0.2, 0.1], (N, 1))
    _finite(method, Source(probs=equal, labels=data["labels"]), Target(probs=equal, second=data["second"]))
    hard = np.eye(K)[data["second"]]
    _finite(method, Source(probs=hard, labels=data["labels"]), Target(probs=hard, second=data["second"]))
    flawless = Source(data["logits"], data["logits"].argmax(axis=1))
    _finite(method, flawless, Target(data["shifted"], second=data["second"]))


def _finite(method: Method, source: Source, target: Target) -> None:
    for calibration in ("temperature", "none"):
        estimate = method(calibration=calibration).fit(source).estimate(target)
        assert np.isfinite(_value(estimate)), (source, target)
        assert estimate.error is None or 0.0 <= estimate.error <= 1.0


def _state(estimator: Estimator) -> str:
    return repr(
        {name: getattr(value, "tolist", lambda v=value: v)() for name, value in vars(estimator).items()}
    )


def _softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


CHECKS: tuple[Callable[[Method], None], ...] = (
    check_answer_is_sane,
    check_permuting_rows,
    check_relabelling_classes,
    check_duplicating_rows,
    check_weights_are_repeats,
    check_precision,
    check_probs_are_logits,
    check_predictions,
    check_blocks,
    check_purity,
    check_pickling,
    check_saving,
    check_parameters,
    check_json,
    check_edges,
)
