"""Fairlead decides where machine-learning work runs at the edge."""

__version__ = "0.1.0"
