"""How far to trust the number: intervals, diagnosis, backtests, slices, label budget."""
