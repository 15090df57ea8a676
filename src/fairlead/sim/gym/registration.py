"""Names the environments to Gymnasium. Called once, when `fairlead.sim.gym` is imported."""

from __future__ import annotations

import gymnasium


def register_all() -> None:
    """Register fairlead/Dispatch-v1 and fairlead/Window-v1, single and vectorised, and fairlead/Tasks-v1."""
    for name in ("Dispatch", "Window"):
        gymnasium.register(
            id=f"fairlead/{name}-v1",
            entry_point=f"fairlead.sim.gym.envs:{name}Env",
            vector_entry_point=f"fairlead.sim.gym.vector:{name}VectorEnv",
        )
    gymnasium.register(id="fairlead/Tasks-v1", entry_point="fairlead.sim.gym.tasks:TasksEnv")
