"""What `fairlead degradation measure` measured, as a scenario: this machine as a shared device.

Measured: times alone, memory, degradation. All else a scenario needs (power, clients, network) is assumed, and says so.
Pure text; the cli writes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from fairlead.domain.errors import UserError
from fairlead.measure.degradation_matrix import Matrix
from fairlead.measure.write_files import safe_names
from fairlead.profile.degradation.measurement import Measured

_LOAD = 0.4  # requests on their way or at work for each core, on average: busy, and not drowned
_DELAY_MS = 1.0  # of the link
_DEADLINE, _WAY_MS = 4.0, 10.0  # times the time alone, and for the way
_HEAD = """\
# Made by `fairlead degradation measure` on {processor} with {cores} cores.
# Measured: base_ms, memory_mb, run_mb, degradation. Everything else is assumed: put in your own network, clients,
# power and prices. Cells below 1 are noise, and were raised to 1.
"""


def scenario_text(measured: Measured, accuracy: Mapping[str, float]) -> str:
    """The file. `accuracy`: of the models for which it is known."""
    names = list(dict.fromkeys(m.arriving for m in measured.matrices))
    if len(names) > 2:
        raise UserError("--scenario takes one or two models, because the matrix of a device has two axes")
    variants = dict(zip(names, safe_names(names), strict=True))
    source = f"measured by fairlead degradation measure on {measured.machine.processor}"
    device = re.sub(r"[^a-z0-9]+", "-", measured.machine.processor.lower()).strip("-") or "this-machine"
    alone_ms = {m.arriving: m.alone_ms for m in measured.matrices}
    document = {
        "title": f"{' and '.join(names)} on {measured.machine.processor}, as measured",
        "devices": {device: _device(measured, variants, source)},
        "models": {
            f"{variants[name]}-task": {
                "variants": {variants[name]: _variant(measured, i, name, device, source, accuracy)}
            }
            for i, name in enumerate(names)
        },
        "nodes": {"edge": {"device": device, "serving": "shared", "assumed": True}},
        "links": [{"from": "*", "to": "edge", "delay_ms": _DELAY_MS, "delay_sd_ms": 0.2, "assumed": True}],
        "deployments": [{"variant": variants[name], "nodes": ["edge"], "assumed": True} for name in names],
        "workload": _workload(measured.machine.cores, {variants[name]: alone_ms[name] for name in names}),
        "rules": {"dispatch": "request", "assumed": True},
    }
    head = _HEAD.format(processor=measured.machine.processor, cores=measured.machine.cores)
    return head + yaml.dump(document, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


def _device(measured: Measured, variants: Mapping[str, str], source: str) -> dict[str, Any]:
    total = measured.machine.memory_mb
    return {
        "compute_tops": 0.1,
        "memory_mb": round(total) if math.isfinite(total) else 4096,
        "power_idle_w": 5,
        "power_busy_w": 15,
        "price_per_h": 0.01,
        "source": source,
        "assumed": ["compute_tops", "power_idle_w", "power_busy_w", "price_per_h"],
        "degradation": _degradation(measured.matrices, variants) | {"source": source},
    }


def _degradation(matrices: Sequence[Matrix], variants: Mapping[str, str]) -> dict[str, Any]:
    """A curve for one model, a table for each of two; the last level of a curve is beside one less."""
    if len(matrices[0].axes) == 1:
        return {"curve": {variants[matrices[0].arriving]: [_cut(row[0]) for row in matrices[0].cells]}}
    tables = {variants[m.arriving]: [[_cut(cell) for cell in row] for row in m.cells] for m in matrices}
    return {"axes": [variants[axis] for axis in matrices[0].axes], "matrix": tables}


def _cut(cell: float) -> float:
    return round(max(1.0, cell), 3)


def _variant(
    measured: Measured, index: int, name: str, device: str, source: str, accuracy: Mapping[str, float]
) -> dict[str, Any]:
    memory = measured.memory[index]
    alone_ms = next(m.alone_ms for m in measured.matrices if m.arriving == name)
    return {
        "accuracy": accuracy.get(name, 0.75),
        "memory_mb": round(max(memory.model_mb, 0.1), 1),
        "run_mb": round(memory.run_mb, 1),
        "source": source,
        **({} if name in accuracy else {"assumed": ["accuracy"]}),
        "latency": {device: {"base_ms": round(alone_ms, 3), "source": source}},
    }


def _workload(cores: int, alone_ms: Mapping[str, float]) -> dict[str, Any]:
    """As many requests of each model."""
    mean_ms = sum(alone_ms.values()) / len(alone_ms) + _DELAY_MS
    return {
        "rate_per_min": round(_LOAD * cores * 60_000 / mean_ms, 1),
        "duration_s": 60,
        "assumed": True,
        "sites": ["here"],
        "sources": {
            f"{name}-users": {
                "model": f"{name}-task",
                "tenant": "anyone",
                "sla": "silver",
                "share": round(1 / len(alone_ms), 3),
                "deadline_ms": round(_DEADLINE * ms + _WAY_MS, 1),
                "min_accuracy": 0.0,
                "assumed": True,
            }
            for name, ms in alone_ms.items()
        },
    }
