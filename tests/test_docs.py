"""The docs: blocks run, links lead somewhere, tables and reference tell all there is, the site needs no network."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from browser import chromium
from fairlead.policies.interface import rules
from fairlead.scenarios.loader import available, available_tasks
from fairlead.sim.tasks.policy_catalog import task_policies
from snippets import ROOT, run_page

PAGES = sorted(p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# ---- pages


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty folder that is the current one; what was imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [n for n, m in sys.modules.items() if (getattr(m, "__file__", None) or "").startswith(str(tmp_path))]:
        del sys.modules[name]


#: They train agents or compare and draw a lot; `make test-slow` runs them.
SLOW = {f"docs/{page}.md" for page in ("guides/reports", "guides/trace", "guides/training", "results/ecsrl")}


def runs_of(page: Path) -> Any:
    marks = [pytest.mark.slow] if name_of(page) in SLOW else []
    return pytest.param(page, id=name_of(page), marks=marks)


@pytest.mark.parametrize("page", map(runs_of, PAGES))
def test_the_blocks_of_a_page_run(page: Path, folder: Path) -> None:
    if page.is_relative_to(ROOT / "examples"):
        shutil.copytree(page.parent, folder, dirs_exist_ok=True)
    run_page(page.read_text(), folder)


ESCAPES = {
    "a block without a language": "```\nfairlead scenarios\n```\n",
    "an unknown language": "```rust\nfn main() {}\n```\n",
    "a block made by indentation": "Do this:\n\n    fairlead scenarios\n",
    "a block without an end": "```python\n1\n",
    "Python that fails, in a list": "1. so\n\n    ```python\n    1 / 0\n    ```\n",
    "Python that uses another block's names": "```python\nx = 1\n```\n\n```python\nx\n```\n",
    "a command that fails": "```bash\nfairlead show nowhere\n```\n",
    "a command that is not known": "~~~bash\nmake up\nteleport home\n~~~\n",
    "a target that make does not have": "```bash\nmake hay\n```\n",
    "a scenario that does not load": "```yaml\nextends: ecsrl\nrules: {dispatc: request}\n```\n",
    "TOML that does not parse": "```toml\n[a\n```\n",
}


@pytest.mark.parametrize("what", ESCAPES)
def test_nothing_escapes(what: str, folder: Path) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the block raises
        run_page(ESCAPES[what], folder)


def test_blocks_share_files_and_where_they_say_so_names(folder: Path) -> None:
    page = """
```csv title="a.csv"
1
```

```python
x = open("a.csv").read()
```

<!-- continues -->
```python
assert x == "1\\n"
```
"""
    run_page(page, folder)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_maker_fills_is_not_empty(page: Path) -> None:
    assert re.findall(r"<!-- ([^>]*) -->\s*<!-- end -->", page.read_text()) == []


def first_column(page: str, heading: str) -> list[str]:
    table = (ROOT / page).read_text().split(heading)[1].split("\n\n")[0]
    return [name for row in table.splitlines()[1:] for name in re.findall(r"[`[]([\w-]+)[`\]]", row.split("|")[1])]


def test_the_tables_list_what_ships() -> None:
    ours = [p.name for p in rules().values() if p.package == "fairlead"]
    assert sorted(first_column("docs/guides/policies.md", "| policy | chooses | from |\n")) == sorted(ours)
    assert sorted(first_column("docs/guides/scenarios.md", "| scenario | what it is for |\n")) == sorted(available())
    guide = "docs/guides/task-world.md"
    assert sorted(first_column(guide, "| scenario of tasks | what it is for |\n")) == sorted(available_tasks())
    listed = first_column(guide, "| task policy | how it places | knows | touches running tasks |\n")
    assert sorted(listed) == sorted(task_policies())
    examples = sorted(p.parent.name for p in ROOT.glob("examples/*/README.md"))
    assert first_column("examples/README.md", "| example | shows |\n") == examples


def test_the_readme_counts_what_ships() -> None:
    page = (ROOT / "README.md").read_text()
    ours = [p for p in rules().values() if p.package == "fairlead"]
    assert f"{len(available())} scenarios, {len(ours)} rules" in page
    assert f"{len(available_tasks())} scenarios, {len(task_policies())} rules" in page


# ---- the reference


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    sys.path.append(str(ROOT / "docs/reference"))  # where its other half is
    specification = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference/make.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_reference_pages_are_current(reference: ModuleType) -> None:
    for page, text in reference.pages().items():
        if page.name != "command-line.md" or sys.version_info < (3, 13):  # whose argparse lays out help otherwise
            assert page.read_text() == text, f"{name_of(page)} is not current: run `make reference`"


def test_every_field_of_a_scenario_file_has_a_meaning(reference: ModuleType) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \|$", reference.scenario_fields(), re.MULTILINE)
    assert {"source", "delay_ms", "from", "min_accuracy", "rho", "window_ms"} <= {row[0] for row in rows}
    assert [row for row in rows if not row[1] or not row[3]] == []


def test_the_command_line_page_is_the_help_of_every_command(
    reference: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    page = reference.command_line()
    for command in ([], ["compare"], ["degradation", "simulate"], ["train", "tapfinger"]):
        real = subprocess.run([sys.executable, "-m", "fairlead", *command, "--help"], capture_output=True, text=True)
        assert f"## {' '.join(['fairlead', *command])}\n\n```text\n{real.stdout}```" in page


def test_the_records_page_tells_the_fields(reference: ModuleType) -> None:
    page = reference.layouts()
    for row in ("| `suffered` | float64 | degradation", "| `latency_ms` | float64 |", "| `2` | `LATE` | delivered"):
        assert row in page


def test_the_pages_on_python_have_signatures_and_docstrings(reference: ModuleType) -> None:
    page = (ROOT / "docs/reference/policies.md").read_text()
    assert "### policy\n\n```text\ndef policy(\n    name: str,\n    *,\n" in page
    assert "-> Callable[[Callable[..., int]], Policy]\n```\n\nMake a function a policy." in page
    assert '\n    source: str = ""  # the system or paper that it comes from\n' in page
    assert "\n- `compiles -> bool`: Whether it is a rule" in page
    named = [name for shown in reference.OF_PYTHON for name in modules_of(f"docs/reference/{shown}.md")]
    assert len(named) == len(set(named)) > 30


def modules_of(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    assert re.findall(r"^:::", text, re.MULTILINE) == []
    return re.findall(r"^## (fairlead\.[\w.]+)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("docstring", "page"),
    [
        ("Say.\n\n    f(x)\n    g(x)\n\nMore.", "Say.\n\n```text\nf(x)\ng(x)\n```\n\nMore."),
        (">>> 1 + 1\n2", "```text\n>>> 1 + 1\n2\n```"),
        ("Below 2**32 and 2**31.", "Below 2\\*\\*32 and 2\\*\\*31."),
    ],
)
def test_docstrings_become_markdown(reference: ModuleType, docstring: str, page: str) -> None:
    assert sys.modules["python_pages"].markdown(docstring) == page


# ---- the site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it; strict, so that a warning is a failure."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_links_to_sources_lead_to_pages_that_show_them(site: Path) -> None:
    papers = (site / "papers.html").read_text()
    assert 'href="source/src/fairlead/policies/closest.py.html"' in papers
    assert "argmin" in (site / "source/src/fairlead/policies/closest.py.html").read_text()
    contributing = (site / "contributing.html").read_text()
    assert "House rules" in contributing
    assert "What exists" not in contributing  # which is the README, a file of the root as well


def test_no_page_of_the_site_names_an_asset_on_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        assert not re.findall(r'<(?:script|link|img|iframe|source)\b[^>]*"(?:https?:)?//[^>]*>', page.read_text()), page


def test_the_site_works_from_the_file_system_and_asks_the_network_for_nothing(site: Path) -> None:
    asked: list[str] = []
    said: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 360, "height": 740})
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        for name in ("index", "tour", "papers", "reference/scenario-fields", "reference/policies", "examples/index"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, f"{name} scrolls sideways on a phone"
        page.set_viewport_size({"width": 1300, "height": 900})
        page.goto((site / "index.html").as_uri())
        page.locator(".md-search__input").click()
        page.get_by_text("Type to start searching").wait_for()  # the index is loaded; it listens to keys from now on
        page.keyboard.type("degradation")
        page.locator(".md-search-result__link").first.click()  # waits for results
        page.wait_for_url(re.compile("h="))
    assert asked
    assert [url for url in asked if not url.startswith((site.as_uri(), "data:", "blob:"))] == []
    assert said == []
