"""What a scenario of requests may say but hardly means, a line each. Called by comparisons and `fairlead show`."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Draw


def hints(scenario: Scenario) -> list[str]:
    """Deadlines shorter than the fastest variant takes, alone on its device: most likely they are in seconds."""
    return [line for model in scenario.models for line in _hints(scenario, model)]


def _hints(scenario: Scenario, model: str) -> Iterator[str]:
    variants = scenario.models[model].variants
    times_ms = [
        variant.latency[node.device].base_ms
        for _, variant, node in scenario.placements()
        if variant.name in variants and node.device in variant.latency
    ]
    for source in scenario.workload.sources.values():
        longest_ms = source.deadline_ms.most() if isinstance(source.deadline_ms, Draw) else source.deadline_ms
        own = source.arrivals.process != "trace"  # a trace has deadlines of its own
        if own and source.model == model and times_ms and longest_ms < min(times_ms):
            yield (
                f"{scenario.name}: workload.sources.{source.name}.deadline_ms is {longest_ms:g} ms, less than the "
                f"{min(times_ms):g} ms of the fastest variant of {model}: was {longest_ms:g} s meant "
                f"({1000 * longest_ms:g} ms)?"
            )
