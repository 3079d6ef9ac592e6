"""The backtest: on labelled rows of your own, under shifts made from them, how far would each method have missed?"""

from shiftgauge.inference.backtests.record import Backtest, NotTried, Trial
from shiftgauge.inference.backtests.trials import METHODS, backtest

__all__ = ["METHODS", "Backtest", "NotTried", "Trial", "backtest"]
