"""Random: any pending task that fits, on any cluster that sees it, with any amounts that are free.

One of TapFinger's two plain baselines (section 5.1); it is work-conserving: it places as long as something fits.
"""

from __future__ import annotations

from typing import Any

from fairlead.domain.task_records import Placements, Snapshot
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.random_placement import place_anything


@task_policy("random", source="TapFinger")
def random(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    return place_anything(snapshot, u, out, True)
