"""The doctor: every reason not to believe the number, looked for and named."""

from labelfree.trust.diagnosis.checks import CAUTION, CHECKS, OK, RANGE, STOP, Check
from labelfree.trust.diagnosis.diagnosis import Diagnosis, doctor, examined, shown

__all__ = ["CAUTION", "CHECKS", "OK", "RANGE", "STOP", "Check", "Diagnosis", "doctor", "examined", "shown"]
