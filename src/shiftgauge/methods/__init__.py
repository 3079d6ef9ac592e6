"""The methods, one file each, behind one contract and one registry."""

from shiftgauge.methods.ac import AC
from shiftgauge.methods.agreement import aline
from shiftgauge.methods.atc import ATCMC, ATCNE
from shiftgauge.methods.auto import Auto
from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.cbpe import CBPE
from shiftgauge.methods.cot import COT
from shiftgauge.methods.cott import COTT
from shiftgauge.methods.doc import DoC
from shiftgauge.methods.entropy import Entropy
from shiftgauge.methods.gde import GDE
from shiftgauge.methods.im import IM
from shiftgauge.methods.label_shift import LabelShift
from shiftgauge.methods.mano import MaNo
from shiftgauge.methods.nuclear_norm import NuclearNorm
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.registry import DEFAULT, METHODS, load, make
from shiftgauge.methods.scot import SCOT
from shiftgauge.methods.unchanged import Unchanged

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
