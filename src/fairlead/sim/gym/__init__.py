"""Environments to learn in, on the exact engine of the serving world. See docs/guides/gym.md.

The native batches (`dispatch`, `window`) and saved worlds (`world_file`) need NumPy and Numba alone. Where Gymnasium is
installed, importing this package registers fairlead/Dispatch-v1 and fairlead/Window-v1 with it.
"""

from contextlib import suppress

with suppress(ImportError):  # Gymnasium is not there, or broken: the batches do without
    from fairlead.sim.gym.registration import register_all

    register_all()
