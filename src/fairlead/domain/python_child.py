"""The command that starts a module of this package as a program in a Python of its own.

Called wherever a model or a task gets a process of its own. Starts nothing itself.
"""

from __future__ import annotations

import sys


def python_child(module: str) -> list[str]:
    """The command for `module`, which the child finds where packages are installed or in PYTHONPATH.

    With -m alone Python looks in the working directory first (docs.python.org/3.11/using/cmdline.html#cmdoption-P),
    and would run an `onnxruntime.py` that anybody has left there.
    """
    return [sys.executable, "-P", "-m", module]
