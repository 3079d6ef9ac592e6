"""Logging from where predictions are made: scikit-learn, PyTorch, FastAPI; a line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shiftgauge.monitor.client.monitor import Monitor


class LoggedClassifier:
    """A scikit-learn classifier that logs what it predicts, and otherwise is what it was.

    `predict_proba` logs the probabilities; `predict` logs them with its decision. The ids are in `last_ids`.
    The monitor knows classes by their place in `classes_`.

    Args:
        estimator: fitted, with `predict_proba`.
    """

    def __init__(self, estimator: Any, monitor: Monitor) -> None:
        self._estimator, self._monitor = estimator, monitor
        self.last_ids: list[str] = []

    def predict_proba(self, X: Any, *, ids: Any = None, segments: Any = None) -> Any:
        """The probabilities, logged."""
        probs = self._estimator.predict_proba(X)
        self.last_ids = self._monitor.log(probs=probs, ids=ids, segments=segments)
        return probs

    def predict(self, X: Any, *, ids: Any = None, segments: Any = None) -> Any:
        """The decisions, logged with the probabilities behind them."""
        probs, decided = self._estimator.predict_proba(X), self._estimator.predict(X)
        place = {name: j for j, name in enumerate(self._estimator.classes_.tolist())}
        chosen = [place[name] for name in decided.tolist()]
        self.last_ids = self._monitor.log(probs=probs, predictions=chosen, ids=ids, segments=segments)
        return decided

    def __getattr__(self, name: str) -> Any:
        return getattr(self._estimator, name)


def log_torch(module: Any, monitor: Monitor) -> Any:
    """Log the logits that a module returns, outside of training; returns the hook's handle (`.remove()`).

    Args:
        module: a `torch.nn.Module` whose output is (n, K) logits, or has `.logits`.
    """

    def hook(module: Any, _: Any, output: Any) -> None:
        if not module.training:
            logits = getattr(output, "logits", output)
            monitor.log(logits=logits.detach().float().cpu().numpy())

    return module.register_forward_hook(hook)


def fastapi_logger(monitor: Monitor) -> Callable[..., Any]:
    """A dependency for FastAPI endpoints: a function like `monitor.log` that runs after the answer was sent.

    In an endpoint: `log: Annotated[Any, Depends(fastapi_logger(monitor))]`, then `log(probs=probs, ids=[request_id])`.
    """
    from fastapi import BackgroundTasks

    def dependency(background: BackgroundTasks) -> Callable[..., None]:
        return lambda **row: background.add_task(monitor.log, **row)

    dependency.__annotations__ = {"background": BackgroundTasks}
    return dependency
