"""The methods, one file each, behind one contract and one registry."""

from shiftgauge.estimators.ac import AC
from shiftgauge.estimators.agreement import aline
from shiftgauge.estimators.atc import ATCMC, ATCNE
from shiftgauge.estimators.auto import Auto
from shiftgauge.estimators.base import Estimator, Reading
from shiftgauge.estimators.cbpe import CBPE
from shiftgauge.estimators.cot import COT
from shiftgauge.estimators.cott import COTT
from shiftgauge.estimators.doc import DoC
from shiftgauge.estimators.entropy import Entropy
from shiftgauge.estimators.gde import GDE
from shiftgauge.estimators.im import IM
from shiftgauge.estimators.label_shift import LabelShift
from shiftgauge.estimators.mano import MaNo
from shiftgauge.estimators.nuclear_norm import NuclearNorm
from shiftgauge.estimators.pair import Pair
from shiftgauge.estimators.registry import DEFAULT, METHODS, load, make
from shiftgauge.estimators.scot import SCOT
from shiftgauge.estimators.unchanged import Unchanged

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
    "load",
    "make",
]
