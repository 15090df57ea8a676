"""Counter-based randomness: a draw is a hash of (seed, purpose, id, k), never of the order of events.

So two policies see the same workload, a request keeps its draws whatever happened before it, and a policy's own
draws disturb nothing. The mixer is splitmix64's finaliser (Steele, Lea, Flood 2014), applied once per word.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fairlead.policies.jit import kernel

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


@kernel
def inverse_normal(p: float) -> float:
    """The standard normal quantile: Wichura's algorithm AS 241 (PPND16), about 1e-16 relative."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = 3.3871328727963666080 + r * (
            133.14166789178437745 + r * (1971.5909503065514427 + r * (13731.693765509461125 + r * (
                45921.953931549871457 + r * (67265.770927008700853 + r * (
                    33430.575583588128105 + r * 2509.0809287301226727))))))
        bottom = 1.0 + r * (
            42.313330701600911252 + r * (687.18700749205790830 + r * (5394.1960214247511077 + r * (
                21213.794301586595867 + r * (39307.895800092710610 + r * (
                    28729.085735721942674 + r * 5226.4952788528545610))))))
        return q * top / bottom
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = 1.42343711074968357734 + r * (
            4.63033784615654529590 + r * (5.76949722146069140550 + r * (3.64784832476320460504 + r * (
                1.27045825245236838258 + r * (0.241780725177450611770 + r * (
                    0.0227238449892691845833 + r * 0.000774545014278341407640))))))
        bottom = 1.0 + r * (
            2.05319162663775882187 + r * (1.67638483018380384940 + r * (0.689767334985100004550 + r * (
                0.148103976427480074590 + r * (0.0151986665636164571966 + r * (
                    0.000547593808499534494600 + r * 0.00000000105075007164441684324))))))
    else:
        r -= 5.0
        top = 6.65790464350110377720 + r * (
            5.46378491116411436990 + r * (1.78482653991729133580 + r * (0.296560571828504891230 + r * (
                0.0265321895265761230930 + r * (0.00124266094738807843860 + r * (
                    0.0000271155556874348757815 + r * 0.000000201033439929228813265))))))
        bottom = 1.0 + r * (
            0.599832206555887937690 + r * (0.136929880922735805310 + r * (0.0148753612908506148525 + r * (
                0.000786869131145613259100 + r * (0.0000184631831751005468180 + r * (
                    0.000000142151175831644588870 + r * 0.00000000000000204426310338993978564))))))
    return -top / bottom if q < 0.0 else top / bottom
