"""What a node has: probes over its files, the catalog of devices (data), labels. Light: no NumPy, no Numba."""
