"""Predicting what a model takes on a device: amounts of work, rates of devices, and how well that does."""
