"""From the frameworks people keep their models in to `Source` and `Target`.

None of the frameworks is imported before it is used, and none is a dependency of labelfree itself.
"""

from labelfree.adapters.collected import Collected
from labelfree.adapters.frames import from_dataframe
from labelfree.adapters.huggingface import collect_texts, from_trainer
from labelfree.adapters.pytorch import collect
from labelfree.adapters.scikit_learn import from_sklearn

__all__ = ["Collected", "collect", "collect_texts", "from_dataframe", "from_sklearn", "from_trainer"]
