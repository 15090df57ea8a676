"""The signals that stop a command: `main` has them raise KeyboardInterrupt, and each command says what it has kept.

Set explicitly, since what a process inherits differs: shells have programs that a script starts with `&` ignore SIGINT
(`nohup make test &`), and the Python interpreter leaves it so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STOPS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stops_raise() -> Iterator[None]:
    """Have the signals raise KeyboardInterrupt in here. Python can set handlers in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(number, signal.default_int_handler) for number in STOPS]
    try:
        yield
    finally:
        for number, handler in zip(STOPS, before, strict=True):
            signal.signal(number, handler)
