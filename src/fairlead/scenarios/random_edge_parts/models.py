"""The models of a random edge and their variants: the more accurate, the slower. Called by `random_edges`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fairlead.domain.models import Latency, Model, Variant
from fairlead.scenarios.random_edge_parts.draws import Draws, rounded
from fairlead.scenarios.random_edge_parts.fleet import DeviceType

_MOST_ACCURATE: Final = 0.98


def draw_models(draws: Draws, types: Mapping[str, DeviceType], sizes_kb: list[float]) -> dict[str, Model]:
    """A model for each typical size of an input."""
    return {f"model-{i}": _model(draws, f"model-{i}", types, size_kb) for i, size_kb in enumerate(sizes_kb, 1)}


def _model(draws: Draws, name: str, types: Mapping[str, DeviceType], size_kb: float) -> Model:
    """Times are for speed 1. A model suits some devices better than others, and so do all of its variants."""
    suits = {device: draws.log_uniform(0.8, 1.25) for device in types}
    accuracy, time_ms = draws.uniform(0.4, 0.75), draws.log_uniform(20.0, 250.0)
    memory_mb = draws.log_uniform(60.0, 300.0)
    run_mb = draws.log_uniform(50.0, 300.0) if draws.chance(0.5) else 0.0
    accuracy_sd = draws.uniform(0.01, 0.06) if draws.chance(0.5) else 0.0
    by_size = draws.uniform(0.05, 0.3) if draws.chance(0.6) else 0.0  # this part of the time, at the typical size
    variants = {}
    for i in range(1, 1 + draws.whole(1, 4)):
        variant = f"{name}-v{i}"
        alone_ms = {device: time_ms * suits[device] / t.speed for device, t in types.items()}
        latency = {
            device: Latency(
                base_ms=rounded(ms * (1.0 - by_size)), per_kb_ms=rounded(ms * by_size / size_kb), assumed=True
            )
            for device, ms in alone_ms.items()
        }
        variants[variant] = Variant(
            name=variant,
            accuracy=rounded(accuracy),
            accuracy_sd=accuracy_sd,
            memory_mb=rounded(memory_mb),
            run_mb=rounded(run_mb),
            latency=latency,
            assumed=True,
        )
        accuracy += (_MOST_ACCURATE - accuracy) * draws.uniform(0.1, 0.4)
        growth = draws.uniform(1.25, 2.2)
        time_ms, memory_mb, run_mb = time_ms * growth, memory_mb * growth, run_mb * growth**0.5
    return Model(name=name, variants=variants)


def only(models: Mapping[str, Model], deployed: set[str]) -> dict[str, Model]:
    """The models without the variants that run nowhere."""
    return {
        name: replace(model, variants={v: variant for v, variant in model.variants.items() if v in deployed})
        for name, model in models.items()
    }


def slowed(models: Mapping[str, Model], factor: float) -> dict[str, Model]:
    """The models with all times multiplied by a factor."""

    def slower(variant: Variant) -> Variant:
        latency = {
            device: replace(t, base_ms=rounded(t.base_ms * factor), per_kb_ms=rounded(t.per_kb_ms * factor))
            for device, t in variant.latency.items()
        }
        return replace(variant, latency=latency)

    return {
        name: replace(model, variants={v: slower(variant) for v, variant in model.variants.items()})
        for name, model in models.items()
    }
