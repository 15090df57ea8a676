"""What can become of a request, and why a candidate or a request is refused.

The reason bits are the vocabulary of feasibility (`fairlead.policies.feasibility`), of the decision log and of every
report. Bits are ordered by how hard they are to lift: capacity frees itself, a certificate does not.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum
from typing import Final

#: A time equal to a deadline meets it. Times are sums of others and so rounded: up to this far above counts as equal.
TOLERANCE_MS: Final = 1e-9


class Outcome(IntEnum):
    """How a request ended."""

    PENDING = 0  # not ended yet
    SUCCESS = 1  # in time and accurate enough
    LATE = 2  # delivered after its deadline
    INACCURATE = 3  # delivered in time, not accurate enough
    REJECTED = 4  # not admitted; see Reason


class Reason(IntFlag):
    """Why a candidate is excluded; 0 is feasible. The lowest bit is the easiest to lift."""

    FEASIBLE = 0
    NO_CAPACITY = 1  # the queue is full, or the bound load would pass 1
    NO_MEMORY = 2  # not enough memory, or infinite degradation
    TOO_LATE = 4  # the nominal end-to-end time is above the deadline
    TOO_INACCURATE = 8  # the variant is less accurate than required
    UNREACHABLE = 16  # the link or the node is down
    NOT_ALLOWED = 32  # wrong region, or a certificate is missing
    DECLINED = 64  # the policy rejected it, although a candidate was feasible
    QUEUED = 128  # a task that the cluster does not see yet: its pending set is full


class Fallback(StrEnum):
    """Why the fallback rule decided instead of a learned policy."""

    MISSING = "missing"  # the bundle, its model, or a rule that it names does not exist
    CORRUPT = "corrupt"  # manifest or model is not what it should be
    VERSION = "version"  # trained on observations of another version
    SIZE = "size"  # more nodes or candidates than it has inputs for
    RANGE = "range"  # inputs outside the range of the training
    OUTPUT = "output"  # the model failed, or answered with something that is not a number
    SLOW = "slow"  # it took longer than its time budget
    IDLE = "idle"  # tasks wait, nothing runs, and it would start nothing


#: What that is in a sentence for the user.
FALLBACK_WORDS: Final = {
    Fallback.MISSING: "the bundle, its model or a rule that it names is missing",
    Fallback.CORRUPT: "its manifest or model is damaged",
    Fallback.VERSION: "it was trained for another version",
    Fallback.SIZE: "more nodes or candidates than it has inputs for",
    Fallback.RANGE: "inputs outside its training range",
    Fallback.OUTPUT: "the model failed or answered with no number",
    Fallback.SLOW: "the model took too long",
    Fallback.IDLE: "it would have started nothing although tasks waited",
}


#: Words for reports of requests, in the order of the bits.
REASON_NAMES = {
    Reason.NO_CAPACITY: "no-capacity",
    Reason.NO_MEMORY: "no-memory",
    Reason.TOO_LATE: "too-late",
    Reason.TOO_INACCURATE: "too-inaccurate",
    Reason.UNREACHABLE: "unreachable",
    Reason.NOT_ALLOWED: "not-allowed",
    Reason.DECLINED: "declined",
}
