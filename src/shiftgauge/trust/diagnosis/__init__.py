"""The doctor: every reason not to believe the number, looked for and named."""

from shiftgauge.estimators.span import CAUTION, OK, STOP
from shiftgauge.trust.diagnosis.checks import CHECKS, RANGE, Check
from shiftgauge.trust.diagnosis.diagnosis import Diagnosis, doctor, examined, shown

__all__ = ["CAUTION", "CHECKS", "OK", "RANGE", "STOP", "Check", "Diagnosis", "doctor", "examined", "shown"]
