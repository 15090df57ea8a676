"""What an agent must say of itself to be trained: what it sees, where it learns, how it is judged.

`aset` and `ecsrl` are the two that there are; `training` and `validation` call them and know no more of them than this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import nn

from fairlead.domain.errors import UserError
from fairlead.learn.shared.environments import PartsEnv, Place, View
from fairlead.measure.statistics import Estimate
from fairlead.policies.interface import registry
from fairlead.sim.gym.world_file import Worlds


def compiled_rules() -> tuple[str, ...]:
    """Every rule that ships, which the engine can play by itself."""
    return tuple(p.name for p in registry()[0].values() if p.compiles and p.package == "fairlead")


def falling(first: float, last: float) -> Callable[[float], float]:
    """A rate of learning that falls with the share of training that is left, as Stable-Baselines3 wants it.

    It never falls below the last: a whole roll-out can be more than the steps that were asked for.
    """
    return lambda left: last + max(0.0, left) * (first - last)


class Learner(ABC):
    """An agent that can be trained: what it sees, where it learns and how it is judged."""

    kind: ClassVar[str]
    features: ClassVar[str]
    together: ClassVar[int]  # workloads that validation plays at once, by the memory that they take

    def __init__(
        self, places: Sequence[Place], judged: Sequence[Place], rules: tuple[str, ...], settings: Any, seed: int
    ) -> None:
        self.places = tuple(places)
        self.judged = tuple(judged) or self.places  # where it is validated
        self.rules, self.settings, self.seed = rules, settings, seed
        for name in ("batch", "validation_workloads"):  # of one alone there is no variance
            if (value := getattr(settings, name)) < 2:
                raise UserError(f"{name}={value}: expected a whole number from 2 on")

    @abstractmethod
    def make(self, worlds: Worlds, size: int) -> View:
        """Worlds that show what the agent sees."""

    def begin(self, view: View, workloads: Sequence[int]) -> None:  # noqa: B027  most have nothing to do
        """Validation is about to play these of its workloads there."""

    def rolled_out(self, model: Any, env: PartsEnv) -> None:  # noqa: B027
        """A roll-out is over, and is about to be learnt from."""

    @abstractmethod
    def score(self, figures: Any) -> Any:
        """What is to be high, of figures (..., workloads, 3): successes, joules and degradation a request."""

    @abstractmethod
    def environment(self, best_rule: int) -> PartsEnv:
        """Where it learns; `best_rule` is the best of `rules` over all places where it is judged."""

    @abstractmethod
    def model(self, env: PartsEnv) -> Any:
        """An untrained algorithm of Stable-Baselines3."""

    @abstractmethod
    def network(self, model: Any) -> nn.Module:
        """Of a model, from observations (B, F) to values (B, A): the highest possible one is the choice."""

    def gap_words(self, gap: Estimate) -> str:
        """A gap of scores as the user reads it."""
        return f"{100 * gap.mean:+z.2f} ±{100 * gap.ci95:.2f} points"

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """What the manifest says of this kind of agent alone."""
