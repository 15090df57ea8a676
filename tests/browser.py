"""The Chromium that tests of pages drive: found on the machine, never downloaded.

Without one such tests skip in one line, except where FAIRLEAD_REQUIRE_ALL=1 says that nothing may be skipped (CI).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def find_chromium() -> str | None:
    names = ("chromium", "google-chrome", "chromium-browser")
    return os.environ.get("FAIRLEAD_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser; skips (or, where all is required, fails) when there is none."""
    path = find_chromium()
    if path is None:
        missing = "no Chromium: apt install chromium, or set FAIRLEAD_CHROMIUM to one"
        pytest.fail(missing) if os.environ.get("FAIRLEAD_REQUIRE_ALL") == "1" else pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_QUIET))
        yield browser
        browser.close()
