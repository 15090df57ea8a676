"""Becomes the program that is traced: a program of its own, which `run` starts on the CPUs that are given.

It takes the parent's process id, the CPUs and the command, ties itself to these CPUs and to the parent's life, says
that it has started, so that its own time does not count, and is replaced by the command. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; it outlives the exec


def main(parent: str, cpus: str, *command: str) -> None:
    """Start the program; never returns."""
    os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it has gone before it could be noticed
        sys.exit(1)
    os.write(1, b'{"started": true}\n')
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"can't start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
