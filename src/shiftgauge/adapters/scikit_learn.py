"""scikit-learn: any classifier with `predict_proba` or `decision_function`, alone or in a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.adapters.scores import CollectedScores, index_ids
from shiftgauge.errors import InputError


def from_sklearn(
    model: Any, X: Any, y: Any = None, *, weights: Any = None, second: Any = None
) -> CollectedScores:
    """Score X with a fitted classifier; functions take the result as a source if it has labels, else as a target.

    Probabilities come from `predict_proba`; a model without it gives logits by `decision_function` (one
    column d of a two-class model becomes the logits 0 and d). The deployed decisions are the model's own
    `predict`, which a tuned threshold may set apart from the argmax. Class names are the model's `classes_`.
    Nothing of scikit-learn is imported: whatever speaks its language will do.

    Args:
        model: a fitted classifier, pipeline or search.
        X: the rows, in whatever form the model takes. The index of a pandas frame becomes the row ids, unless it
            numbers the rows from 0.
        y: (n,) true labels in the model's own names; a target needs none.
        weights: (n,) row weights.
        second: for a target, a second fitted classifier of the same classes (for GDE).

    >>> class Model:  # anything with this face
    ...     classes_ = np.array(["no", "yes"])
    ...     def predict_proba(self, X): return np.column_stack([1 - X[:, 0], X[:, 0]])
    ...     def predict(self, X): return self.classes_[(X[:, 0] > 0.5).astype(int)]
    >>> from_sklearn(Model(), np.array([[0.2], [0.9]]), ["no", "no"]).source().error
    0.5
    >>> from_sklearn(Model(), np.array([[0.2], [0.9]])).target()
    Target(probs, 2 rows x 2 classes, classes=['no', 'yes'])
    """
    classes = _classes(model)
    kind, scores = _scores(model, X, len(classes))
    return CollectedScores(
        scores=scores,
        kind=kind,
        labels=None if y is None else validation.as_array(y, "from_sklearn: y"),
        second=None if second is None else np.asarray(_call(second, "predict", X)),
        classes=validation.check_classes(classes, len(classes), "from_sklearn"),
        predictions=np.asarray(_call(model, "predict", X)),
        weights=None if weights is None else validation.as_array(weights, "from_sklearn: weights"),
        ids=index_ids(X, len(scores)),
        indexed=False,
    )


def _classes(model: Any) -> list[Any]:
    name = type(model).__name__
    try:
        classes = model.classes_
    except AttributeError:
        if (
            hasattr(model, "predict_proba")
            or hasattr(model, "decision_function")
            or not _has(model, "predict")
        ):
            raise InputError(
                f"from_sklearn: {name} has no classes_; wanted a fitted classifier: call fit first"
            ) from None
        raise InputError(
            f"from_sklearn: {name} is not a classifier that is fitted (no classes_); wanted one with predict_proba "
            "or decision_function; regression is not supported"
        ) from None
    if isinstance(classes, list) and any(np.ndim(c) for c in classes):
        raise InputError(f"from_sklearn: {name} predicts several outputs at once; wanted one label per row")
    return list(np.asarray(classes).tolist())


def _has(model: Any, method: str) -> bool:
    return callable(getattr(model, method, None))


def _scores(model: Any, X: Any, k: int) -> tuple[str, npt.NDArray[Any]]:
    name = type(model).__name__
    if _has(model, "predict_proba"):
        probs = _call(model, "predict_proba", X)
        if isinstance(probs, list) or np.ndim(probs) != 2 or np.shape(probs)[1] != k:
            raise InputError(
                f"from_sklearn: {name}'s predict_proba gave no (rows, {k}) matrix; multi-label is not supported"
            )
        return "probs", np.asarray(probs)
    if not _has(model, "decision_function"):
        raise InputError(
            f"from_sklearn: {name} has neither predict_proba nor decision_function; "
            "wrap it in sklearn.calibration.CalibratedClassifierCV"
        )
    if k > 2 and _setting(model, "decision_function_shape") == "ovo":
        raise InputError(
            f"from_sklearn: {name}'s decision_function compares classes in pairs; "
            "set decision_function_shape='ovr', or probability=True"
        )
    found = np.asarray(_call(model, "decision_function", X))
    if found.ndim == 1 and k == 2:
        return "logits", np.column_stack([np.zeros(len(found), found.dtype), found])
    if found.ndim != 2 or found.shape[1] != k:
        raise InputError(
            f"from_sklearn: {name}'s decision_function gave shape {found.shape}; wanted (rows, {k})"
        )
    return "logits", found


def _setting(model: Any, name: str) -> Any:
    """A setting of the last step, through pipelines and searches."""
    for inner in ("best_estimator_", "estimator_"):
        if hasattr(model, inner):
            return _setting(getattr(model, inner), name)
    if hasattr(model, "steps"):
        return _setting(model.steps[-1][1], name)
    return getattr(model, name, None)


def _call(model: Any, method: str, X: Any) -> Any:
    try:
        return getattr(model, method)(X)
    except Exception as problem:
        if type(problem).__name__ == "NotFittedError":
            raise InputError(
                f"from_sklearn: {type(model).__name__} is not fitted; call fit before scoring with it"
            ) from None
        raise
