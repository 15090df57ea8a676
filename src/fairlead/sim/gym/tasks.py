"""The world of tasks for Gymnasium, one placement at a time, and for PettingZoo, every cluster an agent.

    env = gymnasium.make("fairlead.sim.gym:fairlead/Tasks-v1", scenario="tapfinger-3")
    env = TasksParallelEnv("tapfinger-3")

*Observation*: `observation`, a float32 vector, and `action_mask`, int8. Of an agent: its cluster and what it sees (for
each of its slots whether the task fits, and the task), then all clusters. Of the single environment: all agents' in a
row, without the second part; in single-task mode then a 1 for the cluster whose turn it is. *Action*: 0 is nothing; 1 +
slot * allocations + allocation starts the task in a slot with these amounts of the elastic resources (of several
clusters: their actions one after the other, without another 0). What is not possible counts as nothing. *Time* goes on
when no cluster has started anything (multi-task mode), or when every cluster has acted (single-task mode); a cluster
that lost its task to another chooses again. In the single environment in single-task mode clusters take turns, in their
order: only actions of the one whose turn it is are possible, clusters that can start nothing are passed over, and time
goes on when all have had their turn. Steps in which nothing could be done are skipped. *Reward*: minus the tasks alive,
summed over the steps of time that went by, for every agent the same. *End*: all tasks are done; cut after the
scenario's `most_steps`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import ParallelEnv

from fairlead.domain.errors import UserError
from fairlead.domain.tasks import TaskScenario
from fairlead.policies.tasks.allocations import all_allocations
from fairlead.sim.gym.world_file import workload_seed
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.plan import build_task_plan

_MOST = 1e3  # no feature is above


class _Game:
    """One world, its agents' views and actions."""

    def __init__(self, scenario: str | TaskScenario, overrides: Sequence[str], in_turn: bool = False) -> None:
        if isinstance(scenario, str):
            from fairlead.scenarios.loader import load_tasks

            scenario = load_tasks(scenario, overrides)
        elif overrides:
            raise UserError(f"overrides ({', '.join(overrides)}) need a scenario's name or file")
        self.scenario, self.plan = scenario, build_task_plan(scenario)
        self.turns = in_turn and scenario.rules.mode == "single"
        if self.turns:  # clusters that take turns start tasks without letting time go on, as in multi-task mode
            self.plan.rules["single"] = False
        self.names = list(scenario.clusters)
        self._seed, self._episode, self._workload = 0, 0, 0
        self.batch = TaskBatch(
            self.plan, 1, lambda b, episode: (self._workload, scenario.workload.rate_per_step), again=False
        )
        self._grid = all_allocations(self.plan.most, self.plan.elastic)  # (A, elastic)
        self.actions = 1 + self.batch.slots * len(self._grid)
        self.view_length = len(self.view(0))

    def begin(self, seed: int | None) -> None:
        """The first episode of a seed, or the next."""
        self._seed, self._episode = (self._seed, self._episode + 1) if seed is None else (operator.index(seed), 0)
        self._workload = workload_seed(self._seed, self._episode)
        self.batch.ended[:] = True
        self.batch._prepare()
        self.batch.begin()

    def view(self, n: int) -> Any:
        """What agent `n` sees of its own."""
        seen = self.batch.observations
        tasks = np.where((seen.slots[0, n] >= 0)[:, None], seen.pending[0, np.maximum(seen.slots[0, n], 0)], 0.0)
        return np.concatenate([seen.cluster[0, n], seen.fits[0, n], tasks.ravel()]).astype(np.float32)

    def everyone(self) -> Any:
        """What all agents see."""
        return self.batch.observations.cluster[0].ravel().copy()

    def mask(self, n: int) -> Any:
        """Which actions of agent `n` are possible, but for 0, which always is: int8 (slots * allocations,)."""
        seen, elastic = self.batch.observations, np.flatnonzero(self.plan.elastic)
        resources = seen.free.shape[2]
        possible = np.zeros((self.batch.slots, len(self._grid)), np.int8)
        inside = (self._grid <= seen.free[0, n][elastic]).all(axis=1)
        for slot in np.flatnonzero(seen.fits[0, n]):
            row = seen.pending[0, seen.slots[0, n, slot]]
            task_type = int(row[resources : resources + self.batch.types].argmax())
            possible[slot] = inside & (self._grid >= self.plan.minimum[task_type][elastic]).all(axis=1)
        return possible.ravel()

    def step(self, actions: Sequence[int]) -> float:
        """Carry out each agent's action; the reward."""
        given = np.array([self._read(action) for action in actions], np.int64)
        self.batch.step(given[None, :, 0].copy(), given[None, :, 1].copy(), np.ones((1, len(given))))
        return float(self.batch.rewards[0])

    def _read(self, action: int) -> tuple[int, int]:
        if not 0 < action < self.actions:
            return self.batch.slots, 0
        slot, allocation = divmod(action - 1, len(self._grid))
        return slot, allocation

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return bool(self.batch.ended[0])

    @property
    def cut(self) -> bool:
        """Whether it is over for time alone."""
        world = self.batch.worlds.world[0]
        return self.ended and bool(world["done"] < world["tasks"])

    @property
    def now(self) -> int:
        """Steps of time that have gone by."""
        return int(self.batch.worlds.world[0]["now"])

    def info(self) -> dict[str, Any]:
        """At the end the mean completion time; else nothing."""
        return {"completion_steps": float(self.batch.finished[0])} if self.ended else {}


def _space(length: int, actions: int) -> Dict:
    return Dict({"observation": Box(0.0, _MOST, (length,), np.float32), "action_mask": Box(0, 1, (actions,), np.int8)})


class TasksEnv(gymnasium.Env[Any, Any]):
    """One placement at a time, for all clusters, which take turns in single-task mode: see above.

    >>> import gymnasium
    >>> env = gymnasium.make("fairlead.sim.gym:fairlead/Tasks-v1", scenario="pointer-test")
    >>> seen, info = env.reset(seed=1)
    >>> seen, reward, terminated, truncated, info = env.step(env.action_space.sample(mask=seen["action_mask"]))
    >>> seen["action_mask"].item(0), reward <= 0
    (1, True)
    """

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own form

    def __init__(
        self,
        scenario: str | TaskScenario = "tapfinger-3",
        overrides: Sequence[str] = (),
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            raise UserError(f"render_mode {render_mode!r}: there is none")
        self.render_mode, self._game = None, _Game(scenario, overrides, in_turn=True)
        self._each, self._turn = self._game.actions - 1, 0
        clusters = len(self._game.names)
        length = clusters * (self._game.view_length + self._game.turns)
        self.action_space = Discrete(1 + clusters * self._each)
        self.observation_space = _space(length, 1 + clusters * self._each)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: the first of `seed`, or the next."""
        super().reset(seed=None if seed is None else operator.index(seed))
        self._game.begin(seed)
        if self._game.turns:
            self._turn = self._next_turn(0)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Start one task somewhere, or nothing."""
        game = self._game
        if game.ended:
            raise UserError("the episode has ended: reset first")
        cluster, inner = divmod(operator.index(action) - 1, self._each)
        actions = [0] * len(game.names)
        if 0 < operator.index(action) <= len(actions) * self._each:
            actions[cluster] = 1 + inner
        reward = self._take_turn(actions) if game.turns else game.step(actions)
        return self._observe(), reward, game.ended and not game.cut, game.cut, game.info()

    def _take_turn(self, actions: list[int]) -> float:
        """The action of the cluster whose turn it is; then it is the next one's, in this step of time or later."""
        game, now, reward = self._game, self._game.now, 0.0
        action = actions[self._turn]
        if action > 0 and game.mask(self._turn)[action - 1]:
            reward += game.step(actions)
        if game.now == now:
            self._turn = self._next_turn(self._turn + 1)
            if self._turn < len(actions):
                return reward
            reward += game.step([0] * len(actions))  # no cluster starts anything: time goes on
        self._turn = self._next_turn(0)
        return reward

    def _next_turn(self, first: int) -> int:
        """The next cluster from `first` on that can start something; their number if there is none."""
        clusters = len(self._game.names)
        return next((n for n in range(first, clusters) if self._game.mask(n).any()), clusters)

    def action_masks(self) -> Any:
        """Which actions are possible, as sb3-contrib's masked algorithms ask for it: bool (A,)."""
        return self._observe()["action_mask"].astype(np.bool_)

    def _observe(self) -> dict[str, Any]:
        game, agents = self._game, range(len(self._game.names))
        masks = [game.mask(n) * (not game.turns or n == self._turn) for n in agents]
        turn = [np.float32(n == self._turn) for n in agents] if game.turns else []
        return {
            "observation": np.concatenate([*(game.view(n) for n in agents), turn]).astype(np.float32),
            "action_mask": np.concatenate([[np.int8(1)], *masks]).astype(np.int8),
        }


class TasksParallelEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo is untyped
    """Every cluster is an agent; conflicts are resolved by TapFinger's rule with all scores alike: see above."""

    metadata = {"name": "fairlead/Tasks-v1", "render_modes": []}  # noqa: RUF012  PettingZoo's own form

    def __init__(self, scenario: str | TaskScenario = "tapfinger-3", overrides: Sequence[str] = ()) -> None:
        self._game = _Game(scenario, overrides)
        self.possible_agents, self.render_mode = list(self._game.names), None
        self.agents: list[str] = []
        length = self._game.view_length + len(self._game.everyone())
        self._action_space = {name: Discrete(self._game.actions) for name in self.possible_agents}
        self._observation_space = {name: _space(length, self._game.actions) for name in self.possible_agents}

    def observation_space(self, agent: str) -> Dict:
        """What an agent sees."""
        return self._observation_space[agent]

    def action_space(self, agent: str) -> Discrete[Any]:
        """What an agent can do."""
        return self._action_space[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode: the first of `seed`, or the next."""
        self._game.begin(seed)
        self.agents = list(self.possible_agents)
        return self._observe(), {name: {} for name in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Carry out all agents' actions at once."""
        if not self.agents:
            raise UserError("the episode has ended: reset first")
        reward, game = self._game.step([operator.index(actions[name]) for name in self.agents]), self._game
        told = {"terminated": game.ended and not game.cut, "truncated": game.cut}
        names = list(self.agents)
        observations = self._observe()
        if game.ended:
            self.agents = []
        return (
            observations,
            dict.fromkeys(names, reward),
            dict.fromkeys(names, told["terminated"]),
            dict.fromkeys(names, told["truncated"]),
            {name: game.info() for name in names},
        )

    def _observe(self) -> dict[str, Any]:
        everyone = self._game.everyone()
        return {
            name: {
                "observation": np.concatenate([self._game.view(n), everyone]),
                "action_mask": np.concatenate([[np.int8(1)], self._game.mask(n)]).astype(np.int8),
            }
            for n, name in enumerate(self.possible_agents)
        }
