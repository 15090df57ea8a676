"""Makes one site of docs/, the root's Markdown, the examples' READMEs, and the sources that these link to.

MkDocs calls `on_files` and `on_page_markdown` (named in mkdocs.yml). Links are written as a code host follows them,
relative to the file in the repository; here each is led to the page that shows its target. A target that does not
exist is left alone, so that the strict build names it.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_ROOT_FILES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(?<=\]\()[^)#:\s]+")
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".sh": "bash", ".json": "json"}
_HIDDEN = "---\nhide: [navigation, toc]\nsearch: {exclude: true}\n---\n"  # a source page is reached by links only


def shown_at(path: str) -> str:
    """The page (or asset) of the site that shows this file or folder of the repository."""
    if path in _ROOT_FILES:
        return _ROOT_FILES[path]
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    folder = path.removesuffix("/README.md")
    if (ROOT / folder / "README.md").is_file():  # the examples, and each of them
        return f"{folder}/index.md" if "/" not in folder else f"{folder}.md"
    return f"source/{path}/index.md" if (ROOT / path).is_dir() else f"source/{path}.md"


def targets(markdown: str, origin: str) -> dict[str, str]:
    """The links of a page that lead to something in the repository: as written -> path in the repository."""
    found = {
        link: posixpath.normpath(posixpath.join(posixpath.dirname(origin), link)) for link in _LINK.findall(markdown)
    }
    return {link: path for link, path in found.items() if not path.startswith("..") and (ROOT / path).exists()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that have no file of their own in docs/."""
    apart = ["CONTRIBUTING.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("examples/**/README.md"))]
    for path in apart:
        files.append(File.generated(config, shown_at(path), abs_src_path=str(ROOT / path)))
    origins = [*apart, *(f"docs/{f.src_uri}" for f in files.documentation_pages() if not f.generated_by)]
    linked = {path for origin in origins for path in targets((ROOT / origin).read_text(), origin).values()}
    for path in sorted(linked):
        _add_source(path, files, config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the page's links to the pages that show their targets."""
    if page.file.src_uri.startswith("source/"):
        return markdown
    generated = page.file.generated_by is not None
    origin = str(Path(page.file.abs_src_path).relative_to(ROOT)) if generated else f"docs/{page.file.src_uri}"
    here = posixpath.dirname(page.file.src_uri) or "."
    led = {link: posixpath.relpath(shown_at(path), here) for link, path in targets(markdown, origin).items()}
    return _LINK.sub(lambda match: led.get(match[0], match[0]), markdown)


def _add_source(path: str, files: Files, config: MkDocsConfig) -> None:
    """Add a page that shows a file, or a folder with its files, unless some page shows it already."""
    place = shown_at(path)
    if not place.startswith("source/") or files.get_file_from_path(place):
        return
    folder = (ROOT / path).is_dir()
    inside = sorted(p for p in (ROOT / path).iterdir() if p.suffix in _LANGUAGES and p.stat().st_size) if folder else []
    if inside:
        rows = [f"| [`{p.name}`]({p.name}.md) | {_first_line(p)} |" for p in inside]
        content = "\n".join([f"{_HIDDEN}# {path}/\n", "| file | what it is |", "|---|---|", *rows, ""])
    else:
        language = _LANGUAGES.get(Path(path).suffix, "text")
        content = f"{_HIDDEN}# {path}\n\n````{language}\n{(ROOT / path).read_text()}````\n"
    files.append(File.generated(config, place, content=content))
    for p in inside:
        _add_source(str(p.relative_to(ROOT)), files, config)


def _first_line(path: Path) -> str:
    """What a file says of itself: the first line of its docstring, or of the comment that it opens with."""
    text = path.read_text()
    said = ast.get_docstring(ast.parse(text)) if path.suffix == ".py" else text.lstrip("# ") if text[:1] == "#" else ""
    return (said or "").split("\n")[0].replace("|", "\\|")
