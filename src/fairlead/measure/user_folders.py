"""Where files go that no option names: caches and data of the user, as the XDG Base Directory Specification has it.

And where they go when the user has no such folder, or it can't be written: into a temporary one.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def user_cache() -> Path | None:
    """`$XDG_CACHE_HOME/fairlead`, else `~/.cache/fairlead`; None where there is no home."""
    return _folder("XDG_CACHE_HOME", ".cache")


def user_data() -> Path | None:
    """`$XDG_DATA_HOME/fairlead`, else `~/.local/share/fairlead`; None where there is no home."""
    return _folder("XDG_DATA_HOME", ".local/share")


def _folder(variable: str, usual: str) -> Path | None:
    given = os.environ.get(variable, "")
    if not os.path.isabs(given):  # "All paths must be absolute"; the specification says to ignore others
        home = os.environ.get("HOME", os.path.expanduser("~"))  # an empty one would be the root for expanduser
        if not os.path.isabs(home):  # HOME is empty or relative, or unset and the system knows no user of our number
            return None
        given = os.path.join(home, usual)
    return Path(given) / "fairlead"


def temporary_folder() -> Path:
    """A folder that no other user can read or write, removed when this process ends."""
    folder, maker = Path(tempfile.mkdtemp(prefix="fairlead-")), os.getpid()

    def remove() -> None:
        if os.getpid() == maker:  # and no fork of it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
