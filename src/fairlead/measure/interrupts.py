"""Signals that ask a process to stop: Ctrl-C, SIGTERM, and the SIGHUP of a terminal that is closed. All mean the same.

Called by the command and by what runs on processes; see `fairlead.experiments.workers` for what is finished first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def on_stop(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `handler` take these signals, but for a SIGHUP that we are started to ignore, as by `nohup`.

    SIGINT is taken even then: shells have programs that a script starts with `&` ignore it, and Python leaves it so.

    Only the main thread can take signals; in another this does nothing.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in STOPS}
        if before[signal.SIGHUP] == signal.SIG_IGN:
            del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
