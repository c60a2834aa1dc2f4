"""A real browser for the pages, and a small network that has something of everything to show."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.view_pages import page_of, small

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "small.html"
    path.write_text(page_of(small()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window; the test is skipped, with the reason, where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of the browsers {', '.join(BROWSERS)} is installed (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


AT_REST = """() => Boolean(window.autofusion)
    && autofusion.panes.every(p => !p.target && !p.pending && (p.element.hidden || p.size))"""


class Shown:
    """An open page, and everything that it complained about or asked the network for."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        self.settle()

    def settle(self) -> None:
        """Wait until the view has come to rest."""
        # Not wait_for_function: it evaluates strings in the page, which the page's own policy forbids.
        for _ in range(400):
            if self.page.evaluate(AT_REST):
                break
            self.page.wait_for_timeout(25)
        else:
            raise AssertionError(f"the page did not come to rest; it said {self.complaints}")
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def where(self, side: str, name: str) -> dict[str, float]:
        """Middle and size of a node on the screen."""
        found: dict[str, float] = self.page.evaluate(
            "([side, name]) => autofusion.where(autofusion.node(side, name))", [side, name]
        )
        return found

    def click(self, side: str, name: str, times: int = 1) -> None:
        """Click on a node of the drawing, as a reader would."""
        at = self.where(side, name)
        self.page.mouse.click(at["x"], at["y"], click_count=times)
        self.settle()

    @property
    def panel(self) -> str:
        """The text of the panel."""
        return str(self.page.inner_text("#panel"))

    def key(self, name: str) -> None:
        self.page.keyboard.press(name)
        self.settle()


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[[Path], Shown]]:
    """Open a page; afterwards it must not have complained, or asked for anything but itself."""
    opened: list[Shown] = []

    def opener(path: Path, width: int = 1600, height: int = 1000) -> Shown:
        page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
        opened.append(Shown(page, path))
        return opened[-1]

    yield opener
    for shown in opened:
        shown.page.close()
        assert shown.complaints == []
        assert [url for url in shown.requests if not url.startswith(("file:", "data:"))] == []
