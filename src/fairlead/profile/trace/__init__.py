"""Measuring tasks over CPUs and GPUs, and the families of task types that come of it."""
