"""The world of tasks, slow and readable: the oracle of `fairlead.sim.tasks`, with which it shares only the draws.

It has the same calls (`start`, `resize`, `preempt`, `advance`) and shows what can be seen: `free`, and for each cluster
the tasks in its pending set and its queue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from fairlead.domain.tasks import TaskCluster, TaskScenario, TaskType
from fairlead.policies.randomness import TASK_GAP, TASK_NOISE, TASK_REACH, TASK_TYPE, exponential, uniform
from fairlead.scenarios.gavel_throughputs import read_throughputs
from fairlead.scenarios.resource_order import ordered_resources

Amounts = dict[str, int]


@dataclass
class Task:
    number: int
    type: TaskType
    arrival: int
    progress: float = 0.0
    amounts: Amounts = field(default_factory=dict)
    cluster: str | None = None
    started: int | None = None
    executed: int = 0
    restarts: int = 0
    service: float = 0.0
    switched: bool = False
    finished: int | None = None


class ReferenceTasks:
    def __init__(self, scenario: TaskScenario, seed: int) -> None:
        self.scenario, self.seed, self.now = scenario, seed, 0
        self.resources = ordered_resources(scenario)
        self.free = {c.name: {r: c.amounts.get(r, 0) for r in scenario.resources} for c in scenario.clusters.values()}
        self.future = self._draw_tasks()
        self.waiting: list[Task] = []
        self.running: list[Task] = []
        self.done: list[Task] = []
        self.pending: dict[str, list[Task]] = {}
        self._arrivals_and_pending()

    # ---- what is drawn

    def _draw_tasks(self) -> list[Task]:
        tasks, time, types = [], 0.0, list(self.scenario.types.values())
        for i in range(self.scenario.workload.tasks):
            time += exponential(self.seed, TASK_GAP, i, 0) / self.scenario.workload.rate_per_step
            u, total, task_type = uniform(self.seed, TASK_TYPE, i, 0), 0.0, types[-1]
            for candidate in types:
                total += candidate.share
                if u < total:
                    task_type = candidate
                    break
            tasks.append(Task(i, task_type, int(time)))
        return tasks

    def reach(self, task: Task) -> set[str]:
        allowed = [c for c in self.scenario.clusters.values() if task.type.allowed(c)]
        found = self._by_links(task, allowed) if self.scenario.workload.reach.draw == "links" else self._subset(task)
        return {name for name in found if self._link(name)[2]}

    def _subset(self, task: Task) -> set[str]:
        allowed = [n for n, c in enumerate(self.scenario.clusters.values()) if task.type.allowed(c)]
        wanted = 1 + int(uniform(self.seed, TASK_REACH, task.number, 0) * len(allowed))
        chosen = set()
        for position, n in enumerate(allowed):
            if uniform(self.seed, TASK_REACH, task.number, 1 + n) * (len(allowed) - position) < wanted:
                wanted -= 1
                chosen.add(list(self.scenario.clusters)[n])
        return chosen

    def _by_links(self, task: Task, allowed: list[TaskCluster]) -> set[str]:
        rules, names = self.scenario.workload.reach, list(self.scenario.clusters)
        drawn = {}
        for cluster in allowed:
            n = names.index(cluster.name)
            share, delay = (uniform(self.seed, TASK_REACH, task.number, 2 * n + i) for i in (0, 1))
            low, high = rules.bandwidth_mbps
            near, far = rules.latency_ms
            drawn[cluster.name] = low + (high - low) * share, near + (far - near) * delay

        def good(bandwidth: float, latency: float) -> bool:
            return bandwidth >= rules.least_bandwidth_mbps and latency <= rules.most_latency_ms

        found = {n for n, (w, d) in drawn.items() if good(w * self._link(n)[0], d * self._link(n)[1])}
        if not any(good(*link) for link in drawn.values()):
            found.add(max(drawn, key=lambda n: drawn[n][0]))
        return found

    def _link(self, name: str) -> tuple[float, float, bool]:
        """Factors of bandwidth and latency, and whether the cluster can be reached at all."""
        bandwidth, latency, up = 1.0, 1.0, True
        for change in sorted(self.scenario.link_changes, key=lambda change: change.at_step):
            if change.at_step <= self.now and fnmatchcase(name, change.cluster):
                bandwidth = bandwidth if change.bandwidth is None else change.bandwidth
                latency = latency if change.latency is None else change.latency
                up = up if change.up is None else change.up
        return bandwidth, latency, up

    # ---- what can be done

    def start(self, number: int, cluster: str, amounts: Amounts) -> bool:
        task = next((t for t in self.pending[cluster] if t.number == number), None)
        if task is None or not self._may_have(task, amounts, self.free[cluster]):
            return False
        self._take(cluster, amounts)
        task.amounts, task.cluster, task.switched = dict(amounts), cluster, task.executed > 0
        task.started = self.now if task.started is None else task.started
        self.waiting.remove(task)
        self.running.append(task)
        for tasks in self.pending.values():
            if task in tasks:
                tasks.remove(task)
        return True

    def resize(self, number: int, amounts: Amounts) -> bool:
        task = next((t for t in self.running if t.number == number), None)
        if task is None or task.cluster is None:
            return False
        available = {r: self.free[task.cluster][r] + task.amounts[r] for r in self.scenario.resources}
        if not self._may_have(task, amounts, available):
            return False
        self._take(task.cluster, {r: amounts[r] - task.amounts[r] for r in amounts})
        task.switched = task.switched or (amounts != task.amounts and task.executed > 0)
        task.amounts = dict(amounts)
        return True

    def preempt(self, number: int) -> bool:
        task = next((t for t in self.running if t.number == number), None)
        if task is None or task.cluster is None:
            return False
        self._take(task.cluster, {r: -amount for r, amount in task.amounts.items()})
        task.cluster, task.amounts = None, {}
        self.running.remove(task)
        self.waiting.append(task)
        self.waiting.sort(key=lambda t: t.number)
        return True

    def _take(self, cluster: str, amounts: Amounts) -> None:
        for resource, amount in amounts.items():
            self.free[cluster][resource] -= amount

    def _may_have(self, task: Task, amounts: Amounts, available: Amounts) -> bool:
        most = self.scenario.most_per_task()
        for name, resource in self.scenario.resources.items():
            least = task.type.minimum.get(name, 0)
            highest = most[name] if resource.elastic and name in self._needed() else least
            if not (least <= amounts[name] <= highest and amounts[name] <= available[name]):
                return False
        return True

    def _needed(self) -> list[str]:
        """Resources that tasks need; tasks get none of the others."""
        return list(self.resources.names[: self.resources.needed])

    def _counted(self) -> list[str]:
        """Resources by which service is counted: elastic accelerators; without any elastic processors, and so on."""
        needed = [self.scenario.resources[name] for name in self._needed()]
        some = [r for r in needed if r.elastic] or needed
        for role in ("accelerator", "processor", "memory", "other"):
            if found := [r.name for r in some if r.role == role]:
                return found
        return []

    # ---- time

    def advance(self) -> None:
        for task in list(self.running):
            self._run(task)
        self.now += 1
        self._arrivals_and_pending()

    def _run(self, task: Task) -> None:
        gain = self._gain(task)
        if task.switched:
            gain *= self.scenario.rules.switching
            task.switched = False
            task.restarts += 1
        if noise := self.scenario.rules.progress_noise:
            gain += (uniform(self.seed, TASK_NOISE, task.number, task.executed) - 0.5) * noise
        task.progress += max(gain, 0.0)
        task.executed += 1
        task.service += sum(task.amounts[name] for name in self._counted())
        if task.progress >= 1.0 - 1e-9 and task.cluster is not None:
            self._take(task.cluster, {r: -amount for r, amount in task.amounts.items()})
            task.finished = self.now + 1
            self.running.remove(task)
            self.done.append(task)

    def _gain(self, task: Task) -> float:
        speed = task.type.speed
        if speed.form == "constant":
            return 1.0 / (speed.steps or math.inf)
        if speed.form == "trace":
            return self._gain_on_curve(task)
        if speed.form == "gavel":
            return self._gain_by_throughput(task)
        rate = math.tanh(task.amounts[speed.resource or ""] / speed.scale)
        return rate * math.sqrt(1.2 - task.progress) if speed.form == "released" else rate

    def _gain_by_throughput(self, task: Task) -> float:
        speed, found = task.type.speed, read_throughputs(task.type)
        has, steps_per_s = task.amounts[speed.resource or ""], dict(zip(found.gpus, found.steps_per_s, strict=True))
        below = max(n for n in steps_per_s if n <= has)
        above = min((n for n in steps_per_s if n > has), default=below)
        rise = (steps_per_s[above] - steps_per_s[below]) / max(1, above - below)
        throughput = steps_per_s[below] + rise * (has - below)
        return throughput * self.scenario.rules.interval_s / (speed.total_steps or math.inf)

    def _gain_on_curve(self, task: Task) -> float:
        curve, distance = self._curve(task.type, task.amounts)
        place = self._place(curve, task.progress) + 1.0 / distance
        whole = min(int(place), len(curve) - 2)
        return curve[whole] + (place - whole) * (curve[whole + 1] - curve[whole]) - task.progress

    def _curve(self, task_type: TaskType, amounts: Amounts) -> tuple[list[float], float]:
        """Progress at even distances, always rising, and that distance in steps."""
        points, distance = self.resources.curves[task_type.name].at(amounts)
        highest, curve = 0.0, []
        for i, point in enumerate(points):
            highest = max(highest, point)
            curve.append(highest + 1e-9 * i)
        return curve, distance

    def _place(self, curve: list[float], progress: float) -> float:
        """The point of a curve, with its fraction, at which it has this progress."""
        here = max(i for i in range(len(curve) - 1) if curve[i] <= progress or i == 0)
        return here + (progress - curve[here]) / (curve[here + 1] - curve[here])

    def left(self, task: Task) -> float:
        """The share of its time that a task would still take at steady amounts; for curves, at its minimum."""
        form = task.type.speed.form
        if form == "released":  # dp / dt = v sqrt(1.2 - p): v t = 2 (sqrt(1.2) - sqrt(1.2 - p))
            passed, whole = (2 * (math.sqrt(1.2) - math.sqrt(1.2 - p)) for p in (task.progress, 1.0))
            return 1 - passed / whole
        if form == "trace":
            least = {r: task.type.minimum.get(r, 0) for r in self.scenario.resources}
            curve, _ = self._curve(task.type, least)
            return 1 - self._place(curve, task.progress) / (len(curve) - 1)
        return 1 - task.progress

    def _arrivals_and_pending(self) -> None:
        while self.future and self.future[0].arrival <= self.now:
            self.waiting.append(self.future.pop(0))
        for name in self.scenario.clusters:
            self.pending[name] = self.queue(name)[: self.scenario.rules.pending]

    def queue(self, cluster: str) -> list[Task]:
        """The tasks that wait for a cluster, by arrival."""
        return [task for task in self.waiting if cluster in self.reach(task)]
