"""From the frameworks people keep their models in to `Source` and `Target`.

None of the frameworks is imported before it is used, and none is a dependency of shiftgauge itself.
"""

from shiftgauge.adapters.frames import from_dataframe
from shiftgauge.adapters.huggingface import collect_texts, from_trainer
from shiftgauge.adapters.pytorch import collect
from shiftgauge.adapters.scikit_learn import from_sklearn
from shiftgauge.adapters.scores import CollectedScores
from shiftgauge.adapters.tracking import log_mlflow

__all__ = [
    "CollectedScores",
    "collect",
    "collect_texts",
    "from_dataframe",
    "from_sklearn",
    "from_trainer",
    "log_mlflow",
]
