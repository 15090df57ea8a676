"""Compares policies on scenarios over paired seeds: the same workload for every policy, so that differences are theirs.

A piece of work is one (scenario, seed): its workload is drawn once and every policy runs on it. Pieces go to local
processes; results are put together in the order of the question, so that they never depend on how many there were.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any

from fairlead.domain.errors import PolicyError, UserError, one_line
from fairlead.domain.scenario import Scenario
from fairlead.measure.statistics import Estimate, estimate, paired_difference

Figures = dict[str, float]
_STOPS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Piece:
    """One (scenario, seed) for all policies."""

    scenario: Scenario
    seed: int
    policies: tuple[str, ...]


@dataclass
class Comparison:
    """The runs that are finished. `runs[scenario][policy][seed]` are their figures."""

    scenarios: tuple[Scenario, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: dict[str, dict[str, dict[int, Figures]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # policy -> one line
    interrupted: str = ""  # why not all of it was run; empty when it was

    def done_seeds(self, scenario: str) -> list[int]:
        """Seeds for which every policy that did not fail has finished, in order."""
        runs = self.runs.get(scenario, {})
        alive = [p for p in self.policies if p not in self.failures]
        return [s for s in self.seeds if alive and all(s in runs.get(p, {}) for p in alive)]

    def values(self, scenario: str, policy: str, figure: str) -> list[float]:
        """The figure of each finished seed."""
        runs = self.runs[scenario][policy]
        return [runs[s][figure] for s in self.done_seeds(scenario)]

    def ranking(self, scenario: str) -> list[str]:
        """Policies by mean success, best first; of equals the first by name."""
        alive = [p for p in self.policies if p not in self.failures]
        if not self.done_seeds(scenario):
            return []
        return sorted(alive, key=lambda p: (-estimate(self.values(scenario, p, "success")).mean, p))

    def estimates(self, scenario: str, policy: str) -> dict[str, Estimate]:
        """Every figure with its interval."""
        first = self.runs[scenario][policy][self.done_seeds(scenario)[0]]
        return {name: estimate(self.values(scenario, policy, name)) for name in first}

    def behind_best(self, scenario: str, policy: str) -> Estimate:
        """Success minus that of the best policy, seed by seed."""
        best = self.values(scenario, self.ranking(scenario)[0], "success")
        return paired_difference(self.values(scenario, policy, "success"), best)


def run_piece(piece: Piece) -> tuple[str, int, dict[str, Figures], dict[str, str]]:
    """Run one piece: (scenario, seed, figures by policy, failures by policy)."""
    from fairlead.policies.interface import find
    from fairlead.sim.serving.host import run
    from fairlead.sim.serving.plan import build_plan
    from fairlead.sim.serving.summary import summarise
    from fairlead.sim.serving.workload import make_workload
    from fairlead.sim.serving.world import new_world, reset

    plan, workload = build_plan(piece.scenario), make_workload(piece.scenario, piece.seed)
    world = new_world(plan, workload)
    figures: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    for name in piece.policies:
        reset(plan, world, workload)
        try:
            run(plan, world, find(name))
        except PolicyError as error:
            failures[name] = f"{error} (scenario {piece.scenario.name}, seed {piece.seed})"
            continue
        figures[name] = summarise(piece.scenario, plan, world)
    return piece.scenario.name, piece.seed, figures, failures


def compare(
    scenarios: Sequence[Scenario],
    policies: Sequence[str],
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Run every policy on every scenario and seed. What is finished when Ctrl-C or a dead worker stops it is kept."""
    result = Comparison(tuple(scenarios), tuple(policies), tuple(seeds))
    pieces = [Piece(s, seed, tuple(policies)) for s in scenarios for seed in seeds]
    progress(0, len(pieces))
    try:
        for done, (name, seed, figures, failures) in enumerate(_results(pieces, jobs), start=1):
            for policy, values in figures.items():
                result.runs.setdefault(name, {}).setdefault(policy, {})[seed] = values
            for policy, line in sorted(failures.items()):
                result.failures[policy] = min(line, result.failures.get(policy, line))
            progress(done, len(pieces))
    except KeyboardInterrupt:
        result.interrupted = "interrupted"
    except BrokenProcessPool:
        result.interrupted = "a worker process was killed (out of memory? try fewer --jobs)"
    except (MemoryError, OSError, UserError) as error:
        result.interrupted = f"stopped by {one_line(error)}"
    return result


def _results(pieces: Sequence[Piece], jobs: int) -> Iterator[Any]:
    """The pieces' results as they finish. An interrupt starts no more, and is raised when those begun are done."""
    with _noted_interrupts() as interrupted:
        for piece in pieces if jobs <= 1 else pieces[:1]:  # the first here: what it compiles is then in the cache
            yield run_piece(piece)
            if interrupted.is_set():
                raise KeyboardInterrupt
        if jobs > 1 and len(pieces) > 1:
            yield from _pooled(pieces[1:], jobs, interrupted)


def _pooled(pieces: Sequence[Piece], jobs: int, interrupted: threading.Event) -> Iterator[Any]:
    """The same on `jobs` processes, a few pieces ahead of them."""
    left = iter(pieces)
    with ProcessPoolExecutor(min(jobs, len(pieces)), mp_context=multiprocessing.get_context("spawn")) as pool:
        with _deaf_children():
            waiting: set[Future[Any]] = {pool.submit(run_piece, p) for p in islice(left, 2 * jobs)}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                if interrupted.is_set():
                    waiting = {f for f in waiting if not f.cancel()}
                else:
                    waiting |= {pool.submit(run_piece, p) for p in islice(left, len(done))}
                for future in done:
                    yield future.result()
        except (KeyboardInterrupt, BrokenProcessPool):
            # The second Ctrl-C: what is under way is dropped. Or a worker has died: the others may wait for a lock that
            # it held, and are deaf to the pool's own SIGTERM.
            for worker in multiprocessing.active_children():
                worker.kill()
            raise
    if interrupted.is_set():
        raise KeyboardInterrupt


@contextmanager
def _noted_interrupts() -> Iterator[threading.Event]:
    """Notes the first Ctrl-C (or SIGTERM) instead of raising it amid locks and compiled code; a second one raises."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {number: signal.getsignal(number) for number in _STOPS}

    def note(number: int, frame: FrameType | None) -> None:
        noted.set()
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        print("\nfinishing what is under way; Ctrl-C again drops it", file=sys.stderr)

    for number in _STOPS:
        signal.signal(number, note)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started in here never see a Ctrl-C: it reaches the whole group, and only the parent acts on it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
