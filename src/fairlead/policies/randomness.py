"""Counter-based randomness: a draw is a hash of (seed, purpose, id, k), never of the order of events.

So two policies see the same workload, a request keeps its draws whatever happened before it, and a policy's own
draws disturb nothing. The mixer is splitmix64's finaliser (Steele, Lea, Flood 2014), applied once per word.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fairlead.policies.jit import inlined, kernel

# Purposes: one stream of draws each.
ARRIVAL: Final = 1  # times between arrivals
THIN: Final = 2  # acceptance of an arrival when the rate varies
MODULATE: Final = 3  # sojourns of a bursty source
STREAM: Final = 4  # what a stream asks for; k names the field
SPACING: Final = 5  # times between a stream's requests
WORK: Final = 6  # processing time of a request
QUALITY: Final = 7  # how hard a request is
NETWORK: Final = 8  # delay of a request on a link; k names the leg of its journey
POLICY: Final = 9  # the policy's own draw
TASK_GAP: Final = 10  # time between a task and the one before
TASK_TYPE: Final = 11
TASK_REACH: Final = 12  # which clusters a task reaches; k counts the draws
TASK_NOISE: Final = 13  # what a step's progress is off by; k is how many steps the task has run

# Legs of a request's journey: the k of its NETWORK draws. A leg is travelled once, so the draw needs no node.
UP: Final = 0
DOWN: Final = 1
SECOND_UP: Final = 2
SECOND_DOWN: Final = 3

CENTRAL: Final = 0.425  # how far from 0.5 the normal quantile has its simple form

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def uniform(seed: int, purpose: int, id_: int, k: int) -> float:
    """A number in the open interval (0, 1)."""
    x = _mix(np.uint64(seed) * _GOLDEN + np.uint64(purpose))
    x = _mix(x ^ (np.uint64(id_) * _GOLDEN))
    x = _mix(x + np.uint64(k) * _GOLDEN)
    return (float(x >> np.uint64(12)) + 0.5) * (1.0 / 4503599627370496.0)  # 2**52 cells, their middles


@kernel
def exponential(seed: int, purpose: int, id_: int, k: int) -> float:
    """An exponential number of mean 1."""
    return -math.log(uniform(seed, purpose, id_, k))


@kernel
def normal(seed: int, purpose: int, id_: int, k: int) -> float:
    """A standard normal number, by inversion."""
    return inverse_normal(uniform(seed, purpose, id_, k))


@inlined
def _horner(r: float, c0: float, c1: float, c2: float, c3: float, c4: float, c5: float, c6: float, c7: float) -> float:
    return ((((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + c2) * r + c1) * r + c0


# fmt: off
@inlined
def central_normal(q: float) -> float:
    """The standard normal quantile of 0.5 + q, right where abs(q) <= CENTRAL; without branches, for long loops."""
    r = 0.180625 - q * q
    return q * _horner(
        r, 3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
        45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727,
    ) / _horner(
        r, 1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
        21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610,
    )


@kernel
def inverse_normal(p: float) -> float:
    """The standard normal quantile: Wichura's algorithm AS 241 (PPND16), about 1e-16 relative."""
    q = p - 0.5
    if abs(q) <= CENTRAL:
        return central_normal(q)
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        value = _horner(
            r, 1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
            1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4,
        ) / _horner(
            r, 1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
            0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
        )
    else:
        r -= 5.0
        value = _horner(
            r, 6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
            0.0265321895265761230930, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
        ) / _horner(
            r, 1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
            7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
        )
    return -value if q < 0.0 else value
# fmt: on
