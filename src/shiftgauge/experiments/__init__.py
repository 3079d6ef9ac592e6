"""The paper's experiments: data sets, shifts, networks, training, protocol, tables and figures.

Nothing here is imported by the estimators. Modules that need torch, pillow or OpenCV import them
themselves, so ``import shiftgauge.experiments`` works without any of them.
"""
