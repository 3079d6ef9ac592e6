"""The doctor: every reason not to believe the number, looked for and named."""

from shiftgauge.inference.diagnosis.checks import CHECKS, RANGE, Check
from shiftgauge.inference.diagnosis.diagnosis import Diagnosis, doctor, examined, shown
from shiftgauge.methods.span import CAUTION, OK, STOP

__all__ = ["CAUTION", "CHECKS", "OK", "RANGE", "STOP", "Check", "Diagnosis", "doctor", "examined", "shown"]
