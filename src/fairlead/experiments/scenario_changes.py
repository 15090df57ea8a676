"""When the workload or the links of a scenario of requests change, in words: for result files and reports."""

from __future__ import annotations

from typing import Any

from fairlead.domain.scenario import Scenario


def changes(scenario: Scenario) -> list[dict[str, Any]]:
    """When the workload or a link changes, and what, in words; in order of time."""
    found: dict[float, list[str]] = {}
    for source in scenario.workload.sources.values():
        for phase in source.phases:
            words = f"{source.name}: rate x {phase.rate:g}"
            if phase.sites is not None:
                words += f", from {', '.join(phase.sites)}"
            found.setdefault(phase.at_s, []).append(words)
    for change in scenario.link_changes:
        parts = [
            change.delay_ms is not None and f"delay {change.delay_ms:g} ms",
            change.delay_sd_ms is not None and f"deviation {change.delay_sd_ms:g} ms",
            change.bandwidth_mbps is not None and f"{change.bandwidth_mbps:g} Mbit/s",
            change.up is not None and ("up" if change.up else "down"),
        ]
        where = f"link to {change.to}" if change.from_ == "*" else f"link from {change.from_} to {change.to}"
        found.setdefault(change.at_s, []).append(f"{where}: {', '.join(p for p in parts if p)}")
    inside = (at_s for at_s in sorted(found) if 0.0 < at_s < scenario.workload.duration_s)
    return [{"at_s": at_s, "what": "; ".join(found[at_s])} for at_s in inside]
