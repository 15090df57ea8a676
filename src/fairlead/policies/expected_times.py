"""Nominal times of a candidate, and whether a time is within a deadline. Shared by feasibility, policies and engine."""

from __future__ import annotations

from typing import Any

from fairlead.domain.outcomes import TOLERANCE_MS
from fairlead.policies.jit import kernel


@kernel
def end_to_end_ms(candidate: Any) -> float:
    """2 (d + 2 sigma) + transfer + D: round trip with margin, and processing alone on the node (ASET; load-blind)."""
    return 2.0 * (candidate.net_ms + 2.0 * candidate.net_sd_ms) + candidate.transfer_ms + candidate.proc_ms


@kernel
def completion_ms(candidate: Any) -> float:
    """Expected end-to-end time in the present state: mean round trip, transfer, wait, processing slowed by others."""
    return 2.0 * candidate.net_ms + candidate.transfer_ms + candidate.queue_ms + candidate.proc_ms * candidate.suffered


@kernel
def in_time(ms: float, deadline_ms: float) -> bool:
    """Whether a latency meets a deadline: equal is in time, and rounding makes no request late."""
    return ms <= deadline_ms + TOLERANCE_MS
