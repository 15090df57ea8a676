"""The same trials on a Ray cluster that exists: `run_trial` as a task, results as they finish.

Ray runs a task again when its worker or node dies. Every worker first checks that it has the code of the driver, since
results must be the same bytes wherever they are made. Ray itself runs in a process of its own, the driver: it floods
the terminal, takes signals over and, when the cluster's head is lost, ends its process; ours outlives that.
"""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
import os
import pickle
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from fairlead.domain.errors import UserError, one_line
from fairlead.experiments.fingerprint import Ingredients, ingredients
from fairlead.experiments.trial import Trial, TrialResult
from fairlead.experiments.workers import Results, WorkersLost, end_with_parent, noted_interrupts, starting_workers

_ADDRESS = re.compile(r"auto|(?:ray://)?\[?(?P<host>[^\s/]+?)\]?:(?P<port>\d{1,5})")
_AHEAD = 2  # trials submitted beyond the cluster's CPUs, so that none waits for the next
_RETRIES = 3  # of a trial whose worker or node died
_PATIENCE_S = 20  # for a cluster's head that does not answer


def on_ray(trials: Sequence[Trial], address: str) -> Results:
    """Connect to the cluster at `address` (host:port, `auto` or ray://host:port) and run the trials there."""
    check_address(address)
    wanted = {label: ingredients(trial) for label, trial in {p.label: p for p in trials}.items()}
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    driver = context.Process(target=_drive, args=(its, trials, wanted, address), daemon=True)
    with starting_workers():
        driver.start()
    its.close()
    try:
        if not ours.poll(2 * _PATIENCE_S):
            raise WorkersLost(_no_answer(address))
        _received(ours, _no_answer(address))
    except BaseException as error:
        driver.kill()
        raise UserError(str(error)) if isinstance(error, WorkersLost) else error from None
    return _results(driver, ours, address)


def _results(driver: Any, pipe: Connection, address: str) -> Results:
    told = False
    try:
        with noted_interrupts() as interrupted:
            while True:
                if interrupted.is_set() and not told:
                    with suppress(OSError):  # it is gone, which is reported below
                        pipe.send("stop")
                    told = True
                if pipe.poll(0.5):
                    if (result := _received(pipe, f"the Ray cluster at {address} was lost")) is None:
                        break
                    yield result
        driver.join(5)  # it leaves the cluster
        if told:
            raise KeyboardInterrupt
    finally:
        driver.kill()


def _received(pipe: Connection, when_lost: str) -> TrialResult | None:
    """What the driver sends: results, the error that ended it, or None when it is connected and when all is done."""
    try:
        message = pipe.recv()
    except (EOFError, ConnectionError):
        raise WorkersLost(when_lost) from None
    if isinstance(message, Exception):
        raise message
    return message


def check_address(address: str) -> None:
    """Find the plain mistakes at once; Ray takes its time."""
    match = _ADDRESS.fullmatch(address)
    if not match:
        raise UserError(f"--ray {address}: expected host:port, auto or ray://host:port")
    if importlib.util.find_spec("ray") is None:
        raise UserError("--ray needs Ray: pip install ray")
    if match["port"]:
        try:
            socket.create_connection((match["host"], int(match["port"])), timeout=5).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise UserError(f"{_no_answer(address)} ({error})") from None


def _no_answer(address: str) -> str:
    return f"--ray {address}: no Ray cluster answers there"


# ---- in the driver


def _drive(pipe: Connection, trials: Sequence[Trial], wanted: dict[str, Ingredients], address: str) -> None:
    end_with_parent()
    os.setsid()  # a Ctrl-C reaches the whole group; Ray would not leave it blocked
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.environ["RAY_gcs_rpc_server_reconnect_timeout_s"] = str(_PATIENCE_S)  # noqa: SIM112 (so Ray spells it)
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        pipe.send(None)
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        pipe.send(UserError(f"--ray {address}: {first}"))
        return
    try:
        for reference in _finished(ray, pipe, trials, wanted, address):
            pipe.send(_result(ray, reference))
        pipe.send(None)
    except Exception as error:
        try:
            pipe.send(error)
        except Exception:  # it can't travel, its words can
            pipe.send(WorkersLost(one_line(error)))


def _finished(
    ray: Any, pipe: Connection, trials: Sequence[Trial], wanted: dict[str, Ingredients], address: str
) -> Iterator[Any]:
    """Submit trials, a few ahead of the cluster, until the last or a request to stop; yields those that are done."""
    task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_task())
    left = iter(trials)
    waiting: list[Any] = []
    while True:
        if pipe.poll():
            left = iter(())
        room = _cpus(ray, address) + _AHEAD - len(waiting)
        waiting += [task.remote(pickle.dumps(p), wanted[p.label]) for p in islice(left, max(room, 0))]
        if not waiting:
            return
        done, waiting = ray.wait(waiting, timeout=0.5)
        yield from done


def _task() -> Callable[[bytes, Ingredients], TrialResult | str]:
    """What a worker runs. Defined in here, it travels by value: a worker without Fairlead can say that it has none."""

    def run(trial: bytes, wanted: Ingredients) -> TrialResult | str:
        import pickle
        import socket

        host = socket.gethostname()
        try:
            from fairlead.experiments.fingerprint import difference
            from fairlead.experiments.trial import run_trial
        except ImportError as error:
            return f"{host} has no fairlead {wanted['fairlead']}: {error}"
        other = difference(wanted)
        return f"{host} would not give the same results: {other}" if other else run_trial(pickle.loads(trial))

    return run


def _result(ray: Any, reference: Any) -> TrialResult:
    try:
        result: TrialResult | str = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise WorkersLost(f"the cluster lost a trial {_RETRIES + 1} times ({type(error).__name__})") from None
    if isinstance(result, str):
        raise UserError(f"the Ray worker on {result}")
    return result


def _cpus(ray: Any, address: str) -> int:
    """All CPUs of the cluster now: nodes come and go."""
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if not cpus:
        raise UserError(f"--ray {address}: the cluster has no CPUs; start a worker with `ray start --address ...`")
    return cpus
