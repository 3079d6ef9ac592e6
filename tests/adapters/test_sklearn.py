"""scikit-learn models become sources and targets, and our estimators are scikit-learn's kind of estimator."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.adapters import from_sklearn

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_breast_cancer  # noqa: E402
from sklearn.dummy import DummyRegressor  # noqa: E402
from sklearn.linear_model import LogisticRegression, RidgeClassifier  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.multioutput import MultiOutputClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import SVC, LinearSVC  # noqa: E402

NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 240)
    X = rng.normal(size=(240, 4)) + 1.5 * np.eye(3, 4)[y]
    return X, y


def test_a_pipeline_of_named_classes(data):
    X, y = data
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:120], NAMES[y[:120]])
    source = from_sklearn(model, X[120:], NAMES[y[120:]]).source()
    assert source.classes == ("ant", "bee", "cat")
    assert source.kind == "probs"
    assert source.error == pytest.approx(1 - model.score(X[120:], NAMES[y[120:]]))
    target = from_sklearn(
        model, X[:50] + 0.5, second=LogisticRegression().fit(X[:60], NAMES[y[:60]])
    ).target()
    assert isinstance(target, sg.Target)
    assert 0 <= sg.estimate(source, target, "scot").error <= 1
    assert sg.estimate(source, target, "gde").error > 0


def test_integer_classes_that_do_not_count_from_zero(data):
    X, y = data
    source = from_sklearn(LogisticRegression().fit(X, y + 7), X, y + 7).source()
    assert source.classes == (7, 8, 9)
    assert set(source.labels) == {0, 1, 2}


@pytest.mark.parametrize("model", [LinearSVC(), RidgeClassifier(), SVC()], ids=lambda m: type(m).__name__)
def test_decision_functions_become_logits(data, model):
    X, y = data
    for keep, k in ((y < 2, 2), (y < 3, 3)):
        fitted = clone(model).fit(X[keep], NAMES[y[keep]])
        source = from_sklearn(fitted, X[keep], NAMES[y[keep]]).source()
        assert (source.kind, source.k) == ("logits", k)
        assert source.error == pytest.approx(1 - fitted.score(X[keep], NAMES[y[keep]]))
        assert np.array_equal(source.predictions, np.argmax(source.scores, axis=1))


def test_a_tuned_threshold_is_the_deployed_decision(data):
    selection = pytest.importorskip("sklearn.model_selection")
    if not hasattr(selection, "FixedThresholdClassifier"):
        pytest.skip("scikit-learn before 1.5 has no tuned thresholds")
    X, y = data
    keep = y < 2
    model = selection.FixedThresholdClassifier(
        LogisticRegression(), threshold=0.9, response_method="predict_proba"
    )
    source = from_sklearn(model.fit(X[keep], y[keep]), X[keep], y[keep]).source()
    assert not np.array_equal(source.predictions, np.argmax(source.scores, axis=1))
    assert np.array_equal(source.predictions, model.predict(X[keep]))


def test_frames_of_rows_and_labels(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcd"))
    labels = pandas.Series(NAMES[y])
    model = LogisticRegression().fit(frame, labels)
    assert from_sklearn(model, frame, labels).source().error == pytest.approx(1 - model.score(frame, labels))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X, y: LogisticRegression(), "fit"),
        (lambda X, y: DummyRegressor().fit(X, y), "regression is not supported"),
        (lambda X, y: SVC(decision_function_shape="ovo").fit(X, y), "decision_function_shape='ovr'"),
        (
            lambda X, y: make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")).fit(X, y),
            "decision_function_shape='ovr'",
        ),
        (lambda X, y: GridSearchCV(LogisticRegression(), {"C": [1.0]}), "fit"),
        (lambda X, y: MultiOutputClassifier(LogisticRegression()).fit(X, np.c_[y, y]), "one label per row"),
    ],
)
def test_what_cannot_be_used_is_refused(data, make, words):
    with pytest.raises(sg.InputError, match=words.replace("(", r"\(")):
        from_sklearn(make(*data), data[0], data[1])


def test_a_label_the_model_does_not_know(data):
    X, y = data
    model = LogisticRegression().fit(X, NAMES[y])
    with pytest.raises(sg.InputError, match="'dog', which is not a class"):
        from_sklearn(model, X[:1], ["dog"]).source()


@pytest.mark.parametrize("name", sg.methods.METHODS)
def test_our_estimators_clone(name, source):
    estimator = sg.methods.METHODS[name](calibration="none").fit(source)
    twin = clone(estimator)
    assert twin.get_params() == estimator.get_params()
    assert not hasattr(twin, "calibration_")
    assert twin.set_params(calibration="temperature").calibration == "temperature"


def test_the_index_of_a_shuffled_frame_names_the_rows_that_labels_belong_to():
    """Twenty labels by the frame's index and by row number give the same answer."""
    pd = pytest.importorskip("pandas")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X.iloc[order], y.iloc[order]
    model = LogisticRegression(max_iter=5000).fit(X[:200], y[:200])
    source = sg.from_sklearn(model, X[200:380], y[200:380]).source()
    few = y[380:].iloc[5:25]
    by_index = sg.from_sklearn(model, X[380:]).target()
    by_number = sg.from_sklearn(model, X[380:].reset_index(drop=True)).target()
    assert by_number.ids is None
    wanted = sg.estimate(source, by_number, labels=dict(enumerate(few, start=5)))
    for labels in (few.to_dict(), few):
        found = sg.estimate(source, by_index, labels=labels)
        assert (found.error, found.labels.errors) == (wanted.error, wanted.labels.errors)
    with pytest.raises(sg.InputError, match="repeats a row"):
        sg.estimate(source, by_index, labels=pd.concat([few, few]))


def test_functions_take_scores_of_an_adapter_as_they_are(data):
    (X, y), model = data, LogisticRegression()
    model.fit(X[:80], y[:80])
    source, target = from_sklearn(model, X[80:160], y[80:160]), from_sklearn(model, X[160:])
    pair = (source.source(), target.target())
    assert sg.estimate(source, target).to_dict() == sg.estimate(*pair).to_dict()
    assert sg.compare(source, target, truth=y[160:]).true_error == sg.compare(*pair, truth=y[160:]).true_error
    assert (
        sg.timeline(source, target, every="40 rows").to_dict()
        == sg.timeline(*pair, every="40 rows").to_dict()
    )
    assert sg.report(source, target, replicates=0).summary["answer"]["error"] == sg.estimate(*pair).error
    assert sg.methods.SCOT().fit(source).estimate(target).error == sg.estimate(*pair, method="scot").error


def test_labels_that_came_with_a_target_are_not_ignored(data):
    (X, y), model = data, LogisticRegression()
    source = from_sklearn(model.fit(X[:80], y[:80]), X[80:160], y[80:160])
    with pytest.raises(
        sg.InputError, match=r"\.target\(\), which leaves them out, or \.target\(labels=\.\.\.\)"
    ):
        sg.estimate(source, from_sklearn(model, X[160:], y[160:]))
    with pytest.raises(sg.InputError, match="y= \\(from_sklearn\\)"):
        sg.estimate(from_sklearn(model, X[80:160]), source)
