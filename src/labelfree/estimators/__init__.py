"""The methods, one file each, behind one contract and one registry."""

from labelfree.estimators.ac import AC
from labelfree.estimators.agreement import aline
from labelfree.estimators.atc import ATCMC, ATCNE
from labelfree.estimators.auto import Auto
from labelfree.estimators.base import Estimator, Reading
from labelfree.estimators.cbpe import CBPE
from labelfree.estimators.cot import COT
from labelfree.estimators.cott import COTT
from labelfree.estimators.doc import DoC
from labelfree.estimators.entropy import Entropy
from labelfree.estimators.gde import GDE
from labelfree.estimators.im import IM
from labelfree.estimators.label_shift import LabelShift
from labelfree.estimators.mano import MaNo
from labelfree.estimators.nuclear_norm import NuclearNorm
from labelfree.estimators.pair import Pair
from labelfree.estimators.registry import DEFAULT, METHODS, load, make
from labelfree.estimators.scot import SCOT
from labelfree.estimators.unchanged import Unchanged

__all__ = [
    "AC",
    "ATCMC",
    "ATCNE",
    "CBPE",
    "COT",
    "COTT",
    "DEFAULT",
    "GDE",
    "IM",
    "METHODS",
    "SCOT",
    "Auto",
    "DoC",
    "Entropy",
    "Estimator",
    "LabelShift",
    "MaNo",
    "NuclearNorm",
    "Pair",
    "Reading",
    "Unchanged",
    "aline",
    "compare",
    "estimate",
    "load",
    "make",
]
