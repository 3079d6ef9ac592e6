"""MLLS of an array."""

from shiftgauge.labelshift import mlls
from shiftgauge.rows import Block, Rows, run


def label_shares(probs, prior, mass=None, **options):
    """`mlls` of (n, K) probabilities, and (n,) row masses, equal by default."""
    return run(mlls(Rows.of_block(Block(probs, weights=mass)), prior, **options))
