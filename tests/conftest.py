"""Fixtures of several files: a browser, and reports opened in it; folders for calibrations and for architectures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import Open, Opened, chromium
from fairlead.measure.report.comparison_page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# Commands of tests write as into a file. Worker processes of pytest-xdist have the width of their parent's terminal.
os.environ.pop("COLUMNS", None)


@pytest.fixture(autouse=True)
def own_calibrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither see nor leave the user's calibrations."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def architectures(request: pytest.FixtureRequest) -> Path:
    """Where ONNX files of architectures are kept from one test run to the next."""
    assert request.config.cache is not None
    return request.config.cache.mkdir(f"architectures-{version('torchvision')}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    contexts = []

    def opened(made: dict[str, Any] | Path, width: int = 1280, quiet: bool = True, **options: Any) -> Opened:
        path = made if isinstance(made, Path) else tmp_path / "report.html"
        if not isinstance(made, Path):
            write_report(made, path)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(path.as_uri())
        found.settled()
        assert found.requests == [path.as_uri()]
        assert found.complaints == [] or not quiet
        return found

    yield opened
    for context in contexts:
        context.close()
