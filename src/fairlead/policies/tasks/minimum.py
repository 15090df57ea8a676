"""Min: any pending task that fits, on any cluster that sees it, with its minimum amounts.

One of TapFinger's two plain baselines (section 5.1); it is work-conserving: it places as long as something fits.
"""

from __future__ import annotations

from typing import Any

from fairlead.domain.task_records import Placements, Snapshot
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.random_placement import place_anything


@task_policy("min", source="TapFinger")
def minimum(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    return place_anything(snapshot, u, out, False)
