"""Calibration of confidence on the source: temperature and vector scaling, ECE and NLL."""

from shiftgauge.calibration.fit import (
    CALIBRATIONS,
    Calibration,
    Identity,
    check_calibration,
    fit_calibration,
    log_scores,
    softmax,
)
from shiftgauge.calibration.metrics import ece, mean_nll
from shiftgauge.calibration.offsets import BiasCorrected, bias_corrected
from shiftgauge.calibration.temperature import (
    Temperature,
    fit_temperature,
    loss_slopes,
    refit_temperature,
    tempered,
)
from shiftgauge.calibration.vector import Vector, fit_vector

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
    "loss_slopes",
    "mean_nll",
    "refit_temperature",
    "softmax",
    "tempered",
]
