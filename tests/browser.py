"""The Chromium that tests of pages drive: found on the machine, never downloaded; and a page that it has opened.

Without one such tests skip in one line, except where FAIRLEAD_REQUIRE_ALL=1 says that nothing may be skipped (CI).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


@dataclass
class Opened:
    """A page as it is drawn, with all that it said and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def settled(self) -> Page:
        self.page.wait_for_selector("main[aria-busy=false]")
        return self.page

    def marks(self, plot: str) -> int:
        return self.settled().locator(f"figure[data-plot={plot}] .plot :is(path, line, text):visible").count()

    def lines(self, plot: str) -> list[str]:
        """Where the lines of a plot run."""
        shapes = self.settled().locator(f"figure[data-plot={plot}] .mark-line.role-mark path")
        return [d for d in shapes.evaluate_all("all => all.map(one => one.getAttribute('d'))") if d]

    def scrolls_sideways(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


Open = Callable[..., Opened]  # of a document or a page: the fixture `open_page`
