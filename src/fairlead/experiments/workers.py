"""Where trials run: here, and on processes of this machine. `compare` takes their results as they finish.

An interrupt (Ctrl-C, SIGTERM, SIGHUP) starts no more trials and raises KeyboardInterrupt when those under way are done.
`ray_workers` is the same on a cluster.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import wait as wait_for
from types import FrameType

from fairlead.experiments.trial import Trial, TrialResult, run_trial
from fairlead.measure.interrupts import STOPS, on_stop

_SAFE_PATH = "PYTHONSAFEPATH"  # any text stands for Python's option -P

Results = Generator[TrialResult, None, None]  # as they finish; closed when the caller stops taking them
Workers = Callable[[Sequence[Trial]], Results]


class WorkersLost(Exception):
    """Workers died and the rest can't be run; its text says so to the user."""


def local(trials: Sequence[Trial], jobs: int = 1) -> Results:
    """Run the trials on `jobs` processes of this machine."""
    with noted_interrupts() as interrupted:
        for trial in trials if jobs <= 1 else trials[:1]:  # the first here: what it compiles is then in the cache
            yield run_trial(trial)
            if interrupted.is_set():
                raise KeyboardInterrupt
        if jobs > 1 and len(trials) > 1:
            yield from _pooled(trials[1:], jobs, interrupted)


def _pooled(trials: Sequence[Trial], jobs: int, interrupted: threading.Event) -> Results:
    """The same on a pool of processes, a few trials ahead of them."""
    left, context = iter(trials), multiprocessing.get_context("spawn")
    with starting_workers():  # its locks have a process that looks after them
        pool = ProcessPoolExecutor(min(jobs, len(trials)), mp_context=context, initializer=end_with_parent)
    with pool:
        with starting_workers():
            waiting: set[Future[TrialResult]] = {pool.submit(run_trial, p) for p in islice(left, 2 * jobs)}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                if interrupted.is_set():
                    waiting = {f for f in waiting if not f.cancel()}
                else:
                    with starting_workers():  # the pool starts them when it needs them
                        waiting |= {pool.submit(run_trial, p) for p in islice(left, len(done))}
                for future in sorted(done, key=lambda f: f.exception() is not None):  # what is good first
                    yield future.result()
        except (KeyboardInterrupt, GeneratorExit, BrokenProcessPool) as error:
            # The second Ctrl-C, or the caller stops: running trials are dropped. Or a worker has died:
            # the others may wait for a lock that it held, and are deaf to the pool's own SIGTERM.
            for worker in multiprocessing.active_children():
                worker.kill()
            if not isinstance(error, BrokenProcessPool):
                raise
            raise WorkersLost("a worker process was killed (out of memory? try fewer --jobs)") from None
    if interrupted.is_set():
        raise KeyboardInterrupt


def end_with_parent() -> None:
    """Runs in each worker, which would otherwise outlive a parent that is killed outright."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Notes the first Ctrl-C (or what means the same) instead of raising it amid locks and compiled code.

    A second Ctrl-C raises.
    """
    noted, ctrl_c = threading.Event(), signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        if not noted.is_set():
            noted.set()
            signal.signal(signal.SIGINT, ctrl_c)
            with suppress(OSError):  # the terminal has gone; print may be amid a line of its own
                os.write(2, b"\nfinishing what is under way; Ctrl-C again drops it\n")

    with on_stop(note):
        yield noted


@contextmanager
def starting_workers() -> Iterator[None]:
    """Processes started in here never see a Ctrl-C: it reaches the whole group, and only the parent acts on it.

    Nor do they look into the working directory: multiprocessing starts them with -c, which puts it first on the path
    until they have the parent's, and a `pickle.py` that lay there would be run.
    """
    mask, safe_path = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS), os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH)
        if safe_path is not None:
            os.environ[_SAFE_PATH] = safe_path
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
