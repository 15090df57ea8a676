"""What both agents' trainings share: validation, the curve, checkpoints, resuming, stopping, and the bundle at the end.

    DIR/model.onnx, manifest.json, curve.csv    the bundle: the best agent so far by its gap to the best rules
    DIR/checkpoint                              one file, replaced whole
    DIR/logs                                    for TensorBoard

A checkpoint is written after each validation and when training is stopped. Resuming restores networks, optimiser,
replay buffer, the states of all random generators, the number of steps (and so the schedules), the curve, the best
agent and what was seen of observations. Episodes under way are not restored, nor workloads drawn ahead: others begin.

Nothing here prints: the caller is told through `Tell`.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from fairlead import __version__
from fairlead.domain.errors import UserError, one_line
from fairlead.experiments.workers import noted_interrupts
from fairlead.learn.shared.environments import PartsEnv
from fairlead.learn.shared.export import write_bundle
from fairlead.learn.shared.learner import Learner
from fairlead.learn.shared.learning_curve import Point, as_csv, figures_at
from fairlead.learn.shared.observed_ranges import Seen
from fairlead.learn.shared.training_folder import alone, check_same
from fairlead.learn.shared.validation import Choose, Stopped, Validation
from fairlead.measure.files import write_whole

_LOGS: Final = 200  # how often TensorBoard gets figures


class Tell(Protocol):
    """Who is told how training goes."""

    def doing(self, what: str) -> None:
        """What is under way."""

    def step(self, done: int, total: int) -> None:
        """So many steps are done."""

    def validated(self, point: Point, best: bool) -> None:
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

    points: list[Point] = field(default_factory=list)
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
        self.answer, self.seen, self.seconds = Answer(), Seen(), 0.0
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
        self._saved = _read(self.file, self.question)

    def run(self) -> None:
        """Train."""
        began = time.monotonic() - (self._saved["seconds"] if self._saved else 0.0)
        if self._saved is None:
            self.tell.doing("playing the rules on the validation workloads")
            self.validation.play_rules()
        else:
            self.validation.rule_figures = self._saved["rule_figures"]
        best_rule = self.validation.best_rule()
        self.answer.best_rule = self.learner.rules[best_rule]
        self.env = self.learner.environment(best_rule)
        self.model = self._model(self.env)
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

    def _model(self, env: PartsEnv) -> Any:
        if self._saved is None:
            return self.learner.model(env)
        saved = self._saved
        model = self.learner.algorithm.load(BytesIO(saved["model"]), env, device="cpu")
        env.restore(saved["env"])
        if (replay := saved["replay"]) is not None:
            model.replay_buffer = replay
        self.answer.points, self.answer.best, self.best = saved["points"], saved["best"], saved["best_parameters"]
        self.seen = saved["seen"]
        random.setstate(saved["random"]["python"])
        np.random.set_state(saved["random"]["numpy"])  # noqa: NPY002  Stable-Baselines3 draws from it
        torch.set_rng_state(saved["random"]["torch"])
        model.action_space.np_random.bit_generator.state = saved["random"]["actions"]
        return model

    def choose(self) -> Choose:
        """The agent as it is now, without exploration."""
        network = self.learner.network(self.model)

        def choose(observations: Any, masks: Any) -> Any:
            with torch.no_grad():
                values = network(torch.as_tensor(observations)).numpy()
            return np.where(masks != 0, values, -np.inf).argmax(axis=1)

        return choose

    def add(self, point: Point) -> bool:
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
        content = BytesIO()
        self.model.save(content)
        assert self.env is not None
        state = {
            "identity": self.question.identity(),
            "fairlead": __version__,
            "steps": self.model.num_timesteps,
            "seconds": seconds,
            "model": content.getvalue(),
            "replay": getattr(self.model, "replay_buffer", None),
            "env": self.env.state(),
            "random": {
                "python": random.getstate(),
                "actions": self.model.action_space.np_random.bit_generator.state,
                "numpy": np.random.get_state(),  # noqa: NPY002
                "torch": torch.get_rng_state(),
            },
            "points": self.answer.points,
            "best": self.answer.best,
            "best_parameters": self.best,
            "rule_figures": self.validation.rule_figures,
            "seen": self.seen,
        }
        file = BytesIO()
        torch.save(state, file)
        write_whole(self.file, file.getvalue())

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

    def _figures(self, point: Point) -> dict[str, Any]:
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
        point = Point(model.num_timesteps, time.monotonic() - self._began, verdict)
        best = training.add(point)
        for p, place in enumerate(training.learner.judged):
            model.logger.record(f"validation/gap {place.label}", verdict.gap_at(p).mean)
        model.logger.record("validation/gap", verdict.gap.mean)
        model.logger.dump(model.num_timesteps)
        training.save(point.seconds)
        training.tell.validated(point, best)
        training.tell.doing("training")


def _read(file: Path, question: Question) -> dict[str, Any]:
    """The checkpoint, if it is of this question."""
    try:
        saved: dict[str, Any] = torch.load(file, weights_only=False)
        _ = saved["identity"], saved["fairlead"]
    except Exception as error:  # of unpickling, which has many ways to say no
        raise UserError(f"{file}: not a checkpoint of fairlead train ({one_line(error)})") from None
    check_same(file, saved, question.identity())
    return saved
