"""The backtest: on labelled rows of your own, under shifts made from them, how far would each method have missed?"""

from shiftgauge.trust.backtests.record import Backtest, NotTried, Trial
from shiftgauge.trust.backtests.trials import METHODS, backtest

__all__ = ["METHODS", "Backtest", "NotTried", "Trial", "backtest"]
