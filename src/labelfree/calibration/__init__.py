"""Making confidence honest on the source: temperature and vector scaling, ECE and NLL."""

from labelfree.calibration.fit import (
    CALIBRATIONS,
    Calibration,
    Identity,
    check_calibration,
    fit_calibration,
    log_scores,
    softmax,
    zero_floor,
)
from labelfree.calibration.metrics import ece, mean_nll
from labelfree.calibration.offsets import BiasCorrected, bias_corrected
from labelfree.calibration.temperature import Temperature, fit_temperature
from labelfree.calibration.vector import Vector, fit_vector

__all__ = [
    "CALIBRATIONS",
    "BiasCorrected",
    "Calibration",
    "Identity",
    "Temperature",
    "Vector",
    "bias_corrected",
    "check_calibration",
    "ece",
    "fit_calibration",
    "fit_temperature",
    "fit_vector",
    "log_scores",
    "mean_nll",
    "softmax",
    "zero_floor",
]
