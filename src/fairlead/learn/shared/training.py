"""What both agents' trainings share: validation, the curve, checkpoints, resuming, stopping, and the bundle at the end.

    DIR/model.onnx, manifest.json, curve.csv    the bundle: the best agent so far by its gap to the best rules
    DIR/checkpoint                              one file, replaced whole
    DIR/logs                                    for TensorBoard

A checkpoint is written after each validation and when training is stopped. Resuming restores networks, optimiser,
replay buffer, the states of all random generators, the number of steps (and so the schedules), the curve, the best
agent and what was seen of observations. Episodes under way are not restored, nor workloads drawn ahead: others begin.

Nothing here prints: progress goes to the caller through `Tell`.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from fairlead import __version__
from fairlead.experiments.workers import noted_interrupts
from fairlead.learn.shared.checkpoint import array_like, broken_checkpoint, read_checkpoint, write_checkpoint
from fairlead.learn.shared.environments import PartsEnv
from fairlead.learn.shared.export import write_bundle
from fairlead.learn.shared.learner import Learner
from fairlead.learn.shared.learning_curve import CurvePoint, as_csv, figures_at
from fairlead.learn.shared.observed_ranges import ObservedRanges
from fairlead.learn.shared.training_folder import alone, check_same
from fairlead.learn.shared.validation import Choose, Stopped, Validation, Verdict

_LOGS: Final = 200  # how often TensorBoard gets figures
_COUNTERS: Final = (
    "num_timesteps", "_episode_num", "_n_updates", "_n_calls", "_current_progress_remaining", "exploration_rate",
)  # fmt: skip
_REPLAY: Final = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class Tell(Protocol):
    """Receives the progress of a training."""

    def doing(self, what: str) -> None:
        """What is under way."""

    def step(self, done: int, total: int) -> None:
        """So many steps are done."""

    def validated(self, point: CurvePoint, best: bool) -> None:
        """There is a new point of the curve."""


@dataclass(frozen=True)
class Question:
    """What is to be trained, by whom and where to."""

    learner: Learner
    steps: int
    out: Path
    reproduce: str  # the command

    def identity(self) -> dict[str, Any]:
        """All that the result depends on; a checkpoint of another is refused."""
        places = {p.label: p.hash for p in self.learner.places}, {p.label: p.hash for p in self.learner.judged}
        plain = {"kind": self.learner.kind, "steps": self.steps, "seed": self.learner.seed}
        return plain | {"scenarios": places, "rules": self.learner.rules} | asdict(self.learner.settings)


@dataclass
class Answer:
    """What has come of it."""

    points: list[CurvePoint] = field(default_factory=list)
    best: int = -1  # the best of the points; -1 when there is none
    best_rule: str = ""  # over all places
    steps: int = 0
    finished: bool = False


def train(question: Question, tell: Tell, resume: bool = False) -> Answer:
    """Train to the end, or until Ctrl-C or SIGTERM; what is there then is kept, and is a bundle if it was validated."""
    torch.set_num_threads(1)  # the networks are small, and the worlds need the cores
    with alone(question.out, resume), noted_interrupts() as stop:
        training = _Training(question, tell, stop)
        try:
            if resume:
                training.restore()
            training.run()
            training.answer.finished = True
        except Stopped:
            pass
        if training.started:
            training.close()
        return training.answer


class _Training:
    """One training: the parts that a checkpoint saves, and what happens between steps."""

    def __init__(self, question: Question, tell: Tell, stop: threading.Event) -> None:
        self.question, self.tell, self.stop = question, tell, stop
        self.learner, self.file = question.learner, question.out / "checkpoint"
        self.validation = Validation(self.learner, stop)
        self.answer, self.seen, self.seconds = Answer(), ObservedRanges(), 0.0
        self.best: dict[str, Any] = {}  # parameters of the best agent
        self.env: PartsEnv | None = None
        self.model: Any = None
        self._saved: dict[str, Any] | None = None

    @property
    def started(self) -> bool:
        """Whether there is anything to keep."""
        return self.model is not None

    def restore(self) -> None:
        """Read the checkpoint; `run` then goes on from there."""
        self._saved = read_checkpoint(self.file, "fairlead train")
        check_same(self.file, self._saved, self.question.identity())

    def run(self) -> None:
        """Train."""
        began = time.monotonic()
        if self._saved is None:
            self.tell.doing("playing the rules on the validation workloads")
            self.validation.play_rules()
        else:
            self._restore_validations(self._saved)
        best_rule = self.validation.best_rule()
        self.answer.best_rule = self.learner.rules[best_rule]
        self.env = self.learner.environment(best_rule)
        self.model = self._model(self.env)
        began -= self.seconds
        self.model.set_logger(configure(str(self.question.out / "logs"), ["tensorboard"]))
        self.tell.doing("training")
        left = self.question.steps - self.model.num_timesteps
        watch = _Watch(self, began)
        try:
            if left > 0:
                self.model.learn(left, watch, log_interval=None, reset_num_timesteps=self._saved is None)
            watch.validate()
        finally:
            self.seconds, self.answer.steps = time.monotonic() - began, self.model.num_timesteps
            self.env.close()

    def _restore_validations(self, saved: dict[str, Any]) -> None:
        """Take what was found out so far: figures of the rules, the curve, the best agent, what was seen."""
        shape = len(self.learner.judged), len(self.learner.rules), self.learner.settings.validation_workloads, 3
        figures = np.empty(shape)
        try:
            self.validation.rule_figures = array_like(saved["rule_figures"], figures)
            points = [_point(one, figures[:, 0]) for one in saved["points"]]
            if not -1 <= (best := int(saved["best"])) < len(points):
                raise ValueError("the best validation is missing")
            self.answer.points, self.answer.best, self.best = points, best, dict(saved["best_parameters"])
            self.seconds = float(saved["seconds"])
        except Exception as error:
            raise broken_checkpoint(self.file, error) from None

    def _model(self, env: PartsEnv) -> Any:
        model, saved = self.learner.model(env), self._saved
        if saved is None:
            return model
        try:
            model.set_parameters(saved["parameters"], exact_match=True, device="cpu")
            _restore_counters(model, saved["counters"])
            env.restore(saved["env"])
            if saved["replay"] is not None:
                _restore_replay(model.replay_buffer, saved["replay"])
            self.seen = ObservedRanges.restored(saved["seen"], model.observation_space.shape[0])
            _restore_random(model, saved["random"])
        except Exception as error:  # of the libraries, each in its own way
            raise broken_checkpoint(self.file, error) from None
        return model

    def choose(self) -> Choose:
        """The agent as it is now, without exploration."""
        network = self.learner.network(self.model)

        def choose(observations: Any, masks: Any) -> Any:
            with torch.no_grad():
                values = network(torch.as_tensor(observations)).numpy()
            return np.where(masks != 0, values, -np.inf).argmax(axis=1)

        return choose

    def add(self, point: CurvePoint) -> bool:
        """Take in a validation. True when it is the best so far."""
        points = self.answer.points
        points.append(point)
        if self.answer.best >= 0 and points[self.answer.best].verdict.gap.mean >= point.verdict.gap.mean:
            return False
        self.answer.best = len(points) - 1
        self.best = {name: value.clone() for name, value in self.model.policy.state_dict().items()}
        return True

    def save(self, seconds: float) -> None:
        """Write the checkpoint."""
        assert self.env is not None
        model, replay = self.model, getattr(self.model, "replay_buffer", None)
        state = {
            "identity": self.question.identity(),
            "fairlead": __version__,
            "steps": model.num_timesteps,
            "seconds": seconds,
            "parameters": model.get_parameters(),
            "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
            "replay": replay and {name: getattr(replay, name) for name in (*_REPLAY, "pos", "full")},
            "env": self.env.state(),
            "random": {
                "python": random.getstate(),
                "actions": model.action_space.np_random.bit_generator.state,
                "numpy": np.random.get_state(),  # noqa: NPY002
                "torch": torch.get_rng_state(),
            },
            "points": [{"step": p.step, "seconds": p.seconds} | vars(p.verdict) for p in self.answer.points],
            "best": self.answer.best,
            "best_parameters": self.best,
            "rule_figures": self.validation.rule_figures,
            "seen": self.seen.state(),
        }
        write_checkpoint(self.file, state)

    def close(self) -> None:
        """Keep everything, and make the bundle of the best."""
        self.save(self.seconds)
        if self.answer.best < 0:
            return
        self.model.policy.load_state_dict(self.best)
        network, rows = self.learner.network(self.model), self.seen.rows()
        write_bundle(self.question.out, network, rows, self._manifest(), as_csv(self.learner, self.answer.points))

    def _manifest(self) -> dict[str, Any]:
        learner, out, best = self.learner, self.question.out, self.answer.points[self.answer.best]
        low, high, typical = self.seen.ranges()
        common = {"kind": learner.kind, "name": out.resolve().name, "features": learner.features}
        return (
            common
            | learner.manifest()
            | {
                "low": low,
                "high": high,
                "typical": typical,
                "fallback": self.answer.best_rule,
                "budget_us": learner.settings.budget_us,
                "seed": learner.seed,
                "steps": best.step,
                "scenarios": [{"name": p.scenario, "overrides": list(p.overrides)} for p in learner.places],
                "settings": asdict(learner.settings) | {"steps": self.question.steps},
                "fairlead": __version__,
                "reproduce": self.question.reproduce,
                "validation": self._figures(best),
            }
        )

    def _figures(self, point: CurvePoint) -> dict[str, Any]:
        gap, rules = point.verdict.gap, self.validation.best_rules()
        figures: dict[str, Any] = {"workloads": gap.n, "gap": gap.mean, "ci95": gap.ci95, "places": {}}
        for p, place in enumerate(self.learner.judged):
            here = point.verdict.gap_at(p)
            figures["places"][place.label] = {"best_rule": self.learner.rules[rules[p]], **figures_at(point, p)} | {
                "gap": here.mean,
                "ci95": here.ci95,
            }
        return figures


class _Watch(BaseCallback):
    """What happens between the steps of Stable-Baselines3."""

    def __init__(self, training: _Training, began: float) -> None:
        super().__init__()
        self._training, self._began = training, began
        self._steps, self._logged = training.question.steps, 0

    def _on_training_start(self) -> None:
        self._training.seen.add(self.model._last_obs)  # the start of an episode, which may be the only one

    def _on_step(self) -> bool:
        begun = self.locals["new_obs"]
        cut = [info["terminal_observation"] for info in self.locals["infos"] if info.get("TimeLimit.truncated")]
        self._training.seen.add(np.stack(cut) if cut else begun, begun)  # not what ends: a dispatcher is shown zeros
        self._training.tell.step(self.num_timesteps, self._steps)
        return True

    def _on_rollout_end(self) -> None:
        assert self._training.env is not None
        self._training.learner.rolled_out(self._training.model, self._training.env)

    def _on_rollout_start(self) -> None:
        """Between two roll-outs nothing is half done: a checkpoint is whole, and so is what stopping leaves."""
        training = self._training
        if training.stop.is_set():
            raise Stopped
        points = training.answer.points
        last = points[-1].step if points else 0
        if self.num_timesteps - last >= self._steps / training.learner.settings.validations:
            self.validate()
        if self.num_timesteps * _LOGS // self._steps > self._logged * _LOGS // self._steps:
            self._log()

    def _log(self) -> None:
        env = self._training.env
        assert env is not None
        if env.finished:
            self.logger.record("rollout/success", float(np.mean(env.finished)))
            env.finished.clear()
        self.logger.dump(self.num_timesteps)
        self._logged = self.num_timesteps

    def validate(self) -> None:
        """Judge the agent, note it in the curve and the logs, and write a checkpoint."""
        training, model = self._training, self._training.model
        points = training.answer.points
        if points and points[-1].step == model.num_timesteps:
            return
        training.tell.doing("validating")
        model.policy.set_training_mode(False)
        verdict = training.validation.judge(training.choose())
        point = CurvePoint(model.num_timesteps, time.monotonic() - self._began, verdict)
        best = training.add(point)
        for p, place in enumerate(training.learner.judged):
            model.logger.record(f"validation/gap {place.label}", verdict.gap_at(p).mean)
        model.logger.record("validation/gap", verdict.gap.mean)
        model.logger.dump(model.num_timesteps)
        training.save(point.seconds)
        training.tell.validated(point, best)
        training.tell.doing("training")


# ---- what a checkpoint has of Stable-Baselines3, whose own files run what is in them


def _point(saved: dict[str, Any], figures: Any) -> CurvePoint:
    """A validation; `figures` are of the shape (places, workloads, 3)."""
    scores = figures[..., 0]
    like = {"figures": figures, "scores": scores, "gaps": scores}
    verdict = Verdict(**{name: array_like(saved[name], one) for name, one in like.items()})
    return CurvePoint(int(saved["step"]), float(saved["seconds"]), verdict)


def _restore_counters(model: Any, saved: dict[str, Any]) -> None:
    for name in _COUNTERS:
        if hasattr(model, name):
            setattr(model, name, type(getattr(model, name))(saved[name]))


def _restore_replay(buffer: Any, saved: dict[str, Any]) -> None:
    for name in _REPLAY:
        array = getattr(buffer, name)
        array[...] = array_like(saved[name], array)
    buffer.pos, buffer.full = int(saved["pos"]), bool(saved["full"])
    if not 0 <= buffer.pos < buffer.buffer_size:
        raise ValueError("the replay buffer's place is out of range")


def _restore_random(model: Any, saved: dict[str, Any]) -> None:
    random.setstate(saved["python"])
    generator, key, *rest = saved["numpy"]
    np.random.set_state((generator, key.numpy(), *rest))  # noqa: NPY002  Stable-Baselines3 draws from it
    torch.set_rng_state(saved["torch"])
    model.action_space.np_random.bit_generator.state = saved["actions"]
