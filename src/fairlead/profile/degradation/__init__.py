"""Measuring how models slow each other down on this machine, with real processes."""
