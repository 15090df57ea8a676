"""Environments to learn in, on the exact engine of the serving world. See docs/guides/gym.md.

The native batches (`dispatch`, `window`) and saved worlds (`worlds`) need NumPy and Numba alone. Where Gymnasium is
installed, importing this package registers fairlead/Dispatch-v1 and fairlead/Window-v1 with it.
"""

from importlib.util import find_spec

if find_spec("gymnasium"):
    from fairlead.sim.gym.registration import register_all

    register_all()
